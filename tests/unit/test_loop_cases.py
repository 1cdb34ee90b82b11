"""The kept cases through the pure loop, without a server: they come out the same as through the workflow."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from activities.opening import opening
from client.cases import Case, Sending, read_case
from endpoints.answers import refused
from endpoints.base import Request
from endpoints.config import ReplayTurn
from endpoints.reading import RawCall, RawTurn, judged, read_usage
from examples.shop.agent import agent as shop
from examples.shop.evidence import check_drafts
from longshift import Agent
from longshift.contracts import EndpointFacts, RunSpec
from longshift.inbox import MessageRefused
from longshift.messages import Message
from longshift.recording import record
from longshift.turns import CallFailed, ModelFailure, Turn
from tests.unit.loop_driver import Driver, Hook, Moment, checked, handlers_of

CASES = Path(__file__).parents[1] / "cases"
NAMES = sorted(file.stem for file in CASES.glob("*.json"))


def replies(case: Case) -> Sequence[Turn | ModelFailure]:
    """The turns of a case as an endpoint would give them."""
    return [_reply(authored) for authored in case.turns]


def _reply(authored: ReplayTurn) -> Turn | ModelFailure:
    if authored.error is not None:
        return refused("authored", authored.error.status, wait=authored.error.retry_after)
    calls = [RawCall(made.id, made.name, made.arguments) for made in authored.calls]
    raw = RawTurn(content=authored.content, calls=calls, stop_reason="tool_calls" if calls else "stop")
    request = Request(1, 1024, (), _unread, own_id=lambda position: f"own-{position}")
    usage = read_usage(authored.output_tokens, authored.input_tokens)
    try:
        reply = judged("authored", lambda: raw, usage, request)
    except CallFailed as failed:
        return failed.failure
    return Turn(reply=record(reply.message), usage=usage, milliseconds=authored.delay_ms)


async def _unread() -> Sequence[Message]:
    raise AssertionError("an authored turn does not look at the transcript")


def sends(case: Case) -> Hook:
    """The messages of a case, at the moments it names."""

    def hook(driver: Driver, moment: Moment) -> None:
        if moment not in ("start", "model"):
            return
        for message in case.send:
            due = message.at_start if moment == "start" else message.during_model_call == driver.state.model_calls
            if due:
                _send(driver, message)

    return hook


def _send(driver: Driver, message: Sending) -> None:
    named = message.signal or message.update
    if named in ("pause", "resume"):
        driver.pause(named == "pause")
        return
    handlers: dict[str | None, Callable[..., None]] = {
        "stop": driver.stop,
        "set_limits": driver.set_limits,
        "tell": driver.tell,
    }
    try:
        handlers[named](*message.arguments)
        assert not message.refused
    except MessageRefused:
        assert message.refused or message.signal


def driven(case: Case, declared: Agent, *, carry: bool) -> Driver:
    """The run of a case."""
    spec = declared.spec()
    spec = spec.model_copy(update={"limits": spec.limits.changed(case.given.limits)})
    facts = EndpointFacts(name="authored", kind="replay", model="replay", timeout_seconds=60)
    begun = opening(case.given, RunSpec(agent=spec, endpoint=facts, heartbeat_seconds=5))
    return Driver(spec, replies(case), handlers_of(declared), begun, sends(case), carry=carry)


@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_a_kept_case_comes_out_as_it_says(name: str, carry: bool) -> None:
    case = read_case(CASES / f"{name}.json", ["shop"])
    driver = driven(case, shop, carry=carry)
    result = checked(driver)
    evidence = check_drafts(driver.transcript)
    came = result.document() | {"drafts_cents": evidence.total_cents, "evidence": evidence.verdict}
    for key, expected in case.expect.items():
        assert str(expected) in str(came[key]) if key == "detail" else came[key] == expected, key
