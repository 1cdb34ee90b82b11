"""Effects: what becomes of one whose outcome is unknown, by its tool and the agent's policy, and by a person's word."""

from typing import Any

import pytest

from longshift import Status
from longshift.admission import End
from longshift.batches import Planned, plan
from longshift.effects import (
    MAX_AGAIN,
    MAX_HOW,
    Again,
    after_unknown,
    approval_question,
    denied,
    resolution,
    stopped_by_person,
)
from longshift.messages import ToolCall, ToolMessage
from longshift.observations import read
from longshift.questions import ApprovalRule, PersonsAnswer, Question, question
from longshift.repeats import Repetition
from longshift.tools import ToolSpec
from tests.unit.authored import agent, call

CALL = call("c1", "pay", None, cents=7)
HOW = "the bank hung up"
TEXT = f"pay (c1) may or may not have happened: {HOW}"


def planned(made: ToolCall = CALL, told: bool = False, **options: Any) -> Planned:
    """What is to be done for a call of `pay`, an effect with these options."""
    tools = (ToolSpec(name="pay", kind=options.pop("kind", "effect"), **options),)
    buyer = agent().model_copy(update={"tools": tools})
    return plan(buyer, [made], [Repetition(told=(1, 0) if told else None)])[0]


def answer(kind: Any, **fields: Any) -> PersonsAnswer:
    """What a person answered."""
    return PersonsAnswer(call_id="c1", kind=kind, **fields)


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize(("policy", "becomes"), [("ask", Question), ("tell", ToolMessage), ("stop", End)])
@pytest.mark.parametrize("again", [0, 1, MAX_AGAIN - 1, MAX_AGAIN, MAX_AGAIN + 1])
def test_an_idempotent_effect_is_dispatched_again_a_few_times_and_then_the_policy_decides(
    idempotent: bool, policy: str, becomes: type, again: int
) -> None:
    buyer = agent(unknown_outcome=policy)
    step = after_unknown(buyer, planned(idempotent=idempotent), HOW, again, 5.0)
    assert isinstance(step, Again if idempotent and again < MAX_AGAIN else becomes)


def test_each_policy_names_the_call_and_says_what_is_known() -> None:
    step = {
        policy: after_unknown(agent(unknown_outcome=policy), planned(), HOW, 0, 5.0)
        for policy in ("ask", "tell", "stop")
    }
    assert step["ask"] == question("outcome", CALL, TEXT, 5.0)
    assert step["stop"] == End(Status.OUTCOME_UNKNOWN, TEXT)
    told = step["tell"]
    assert isinstance(told, ToolMessage)
    assert (told.call_id, told.name) == ("c1", "pay")
    message = f"{TEXT}. Find out before you ask for it again."
    assert read(told.content)["error"] == {"kind": "outcome_unknown", "message": message}


@pytest.mark.parametrize("policy", ["ask", "tell", "stop"])
def test_what_is_known_is_kept_cut(policy: str) -> None:
    step = after_unknown(agent(unknown_outcome=policy), planned(), "x" * 100_000, 0, 5.0)
    said = step.why if isinstance(step, Question) else step.detail if isinstance(step, End) else ""
    if isinstance(step, ToolMessage):
        assert len(step.content) < MAX_HOW + 150
    else:
        assert len(said) == MAX_HOW


@pytest.mark.parametrize(
    ("made", "options", "asked"),
    [
        (CALL, {}, None),
        (CALL, {"needs_approval": True}, "pay always needs approval"),
        (CALL, {"needs_approval": ApprovalRule(argument="cents", above=7)}, None),
        (CALL, {"needs_approval": ApprovalRule(argument="cents", above=6)}, "cents is 7, above 6"),
        (CALL, {"needs_approval": True, "kind": "read"}, None),
        (CALL, {"needs_approval": True, "told": True}, None),
        (call("c1", "fly"), {"needs_approval": True}, None),
        (call("c1", "pay", "[7]"), {"needs_approval": True}, None),
    ],
)
def test_a_person_is_asked_before_an_effect_that_would_run_and_needs_approval(
    made: ToolCall, options: dict[str, Any], asked: str | None
) -> None:
    expected = None if asked is None else question("approval", made, asked, 5.0)
    assert approval_question(planned(made, **options), 5.0) == expected


def test_the_model_reads_why_a_call_was_not_approved() -> None:
    message = denied(planned(), answer("denied", reason="too dear \ud800"))
    assert (message.call_id, message.name) == ("c1", "pay")
    body = read(message.content)
    assert body["error"] == {"kind": "denied", "message": "a person did not approve this call: too dear \ufffd"}


@pytest.mark.parametrize(
    ("given", "body"),
    [
        (
            answer("happened", result={"order": 7}, reason="on the bill"),
            {
                "ok": True,
                "value": {"order": 7},
                "note": "its outcome was lost; a person found that it happened: on the bill",
            },
        ),
        (
            answer("happened"),
            {"ok": True, "value": None, "note": "its outcome was lost; a person found that it happened"},
        ),
        (
            answer("did_not_happen", reason="not on the bill"),
            {
                "ok": False,
                "error": {
                    "kind": "not_executed",
                    "message": "its outcome was lost; a person found that it did not happen: not on the bill. "
                    "Ask for it again if it is needed.",
                },
            },
        ),
    ],
)
def test_a_person_s_word_becomes_the_observation(given: PersonsAnswer, body: dict[str, Any]) -> None:
    content = resolution(given)
    assert content is not None
    assert read(content) == body


def test_a_person_who_stops_the_run_makes_no_observation_and_is_named_in_its_end() -> None:
    assert resolution(answer("stop")) is None
    text = "pay (c1) may or may not have happened, and a person stopped the run"
    assert stopped_by_person(planned(), answer("stop")) == End(Status.OUTCOME_UNKNOWN, text)
    because = stopped_by_person(planned(), answer("stop", reason="no one knows " + "x" * 600))
    assert because.detail.startswith(f"{text}: no one knows x")
    assert len(because.detail) == 500
