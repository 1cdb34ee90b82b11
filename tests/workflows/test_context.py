"""Runs whose transcript outgrows the model, through the real workflow, journal and endpoints."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from client import recorded
from client.recorded import SentCall
from client.shifts import Shifts
from endpoints import anthropic, openai
from endpoints.anthropic import AnthropicEndpoint
from endpoints.config import AnthropicConfig, OpenAIConfig
from endpoints.openai import OpenAIEndpoint
from longshift import contracts, jsontext, validate_episode
from longshift.agent import Agent, ContextPolicy, schemas_bytes
from longshift.contracts import RunResult
from longshift.limits import Limits
from longshift.messages import Message, text_of
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.view import StateView
from store.journal import Journal
from tests.endpoints.raw_server import RawServer, completion, raw_server, reply
from tests.workflows.raw_runs import ended, started, until_waiting
from tests.workflows.running import Script, call, echo, shop_open, story

pytestmark = pytest.mark.asyncio(loop_scope="session")

STEPS = 18
LIMIT = 5000
"""Bytes of context: six or seven exchanges, of about six hundred bytes each."""
ROOM: Mapping[str, Any] = {
    "seconds": 600.0,
    "model_calls": 100,
    "tool_calls": 100,
    "total_output_tokens": 100_000,
    "context_bytes": LIMIT,
}


def keeper(policy: ContextPolicy) -> Agent:
    """An agent that repeats what it is told to, for long."""
    return Agent(
        name="keeper",
        system="Repeat.",
        endpoint="scripted",
        tools=(echo,),
        context=policy,
        limits=Limits().changed(dict(ROOM)),
    )


GIVEN = RunInput(agent="keeper", task="Say many things.")


def openai_turn(number: int | None, text: str) -> dict[str, Any]:
    """A chat completion: the call `number`, or a text."""
    if number is None:
        return completion(content=text)
    function = {"name": "echo", "arguments": json.dumps({"text": f"{number:03}".ljust(200, ".")})}
    return completion(content=None, tool_calls=[{"id": f"call-{number}", "type": "function", "function": function}])


def anthropic_turn(number: int | None, text: str) -> dict[str, Any]:
    """A message of Anthropic's: the call `number`, or a text."""
    block: dict[str, Any] = {"type": "text", "text": text}
    if number is not None:
        text = f"{number:03}".ljust(200, ".")
        block = {"type": "tool_use", "id": f"call-{number}", "name": "echo", "input": {"text": text}}
    reason = "end_turn" if number is None else "tool_use"
    usage = {"input_tokens": 9, "output_tokens": 3}
    return {"type": "message", "role": "assistant", "content": [block], "stop_reason": reason, "usage": usage}


@asynccontextmanager
async def model_server(turn: Callable[[int | None, str], dict[str, Any]]) -> AsyncIterator[RawServer]:
    """A model that makes STEPS calls, then answers; without tools it says that this is a summary."""
    made = 0

    async def answer(writer: asyncio.StreamWriter) -> None:
        nonlocal made
        if "tools" not in server.sent_json(-1):
            said = turn(None, f"Summary: {made} things were said.")
        elif made == STEPS:
            said = turn(None, "Done.")
        else:
            made += 1
            said = turn(made, "")
        await reply(json.dumps(said))(writer)

    async with raw_server(answer) as server:
        yield server


async def every_call(journal_url: str, run_id: str) -> tuple[list[SentCall], list[Message]]:
    """What each model call was sent, and the transcript; its chain is proved."""
    journal = await Journal.open(journal_url)
    count = len(await journal.model_calls(run_id))
    assert await journal.verify_chain(run_id) is None
    transcript = [stored.message for stored in await journal.messages(run_id)]
    await journal.close()
    return [await recorded.sent(journal_url, run_id, number) for number in range(1, count + 1)], transcript


def context_bytes(messages: list[Message]) -> int:
    """What `context_bytes` counts of these messages."""
    return jsontext.size(f"[{','.join(map(text_of, messages))}]") + schemas_bytes(keeper("window").spec().tools)


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["window", "summarize"])
@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_what_each_call_was_sent_is_shown_exactly_across_the_parts_of_a_run(
    rolling_shifts: Shifts, queue: str, journal_url: str, kind: str, policy: ContextPolicy
) -> None:
    client = rolling_shifts._client
    async with model_server(openai_turn if kind == "openai" else anthropic_turn) as server:
        config: Any
        build: Any
        if kind == "openai":
            config, build = OpenAIConfig(url=server.url, model="m"), openai.build_body
            endpoint: Any = OpenAIEndpoint("scripted", config)
        else:
            config, build = AnthropicConfig(url=server.url.removesuffix("/v1"), model="m"), anthropic.build_body
            endpoint = AnthropicEndpoint("scripted", config)
        async with shop_open(client, queue, journal_url, keeper(policy), endpoint):
            result = await ended(await started(client, queue, GIVEN))
        await endpoint.close()
    parts = [one.run_id async for one in client.list_workflows(f"WorkflowId = '{queue}'")]
    assert len(parts) > 2
    calls, transcript = await every_call(journal_url, queue)

    bodies = [server.sent_json(number) for number in range(len(server.requests))]
    assert bodies == [build(config, one.messages, one.tools, one.output_tokens) for one in calls]

    summaries = [one for one in calls if one.purpose == "summary"]
    assert bool(summaries) == (policy == "summarize")
    assert (result.status, result.model_calls) == (Status.COMPLETED, STEPS + 1 + len(summaries))
    assert result.output_tokens == 3 * result.model_calls, "a summary is paid for like any other call"
    assert len(transcript) == 2 + 2 * STEPS + 1 == result.messages
    assert validate_episode(transcript).complete
    assert context_bytes(transcript) > 2 * LIMIT
    for one in calls:
        sent = list(one.messages)
        report = validate_episode(sent)
        assert report.valid
        assert not report.unanswered
        assert sent[:2] == transcript[:2]
        assert context_bytes(sent) <= LIMIT
    last = list(calls[-1].messages)
    tail = last[3:]
    assert transcript[-1 - len(tail) : -1] == tail
    assert f"({len(transcript) - 3 - len(tail)} messages)" in last[2].content
    assert f"longshift transcript {queue}]" in last[2].content
    assert ("Summary: " in last[2].content) == (policy == "summarize")
    if kind == "anthropic":
        for body in bodies:
            roles = [turn["role"] for turn in body["messages"]]
            assert roles[0] == "user"
            assert all(one != other for one, other in pairwise(roles))


async def test_a_person_sees_that_the_window_moved_and_what_is_sent(
    shifts: Shifts, queue: str, journal_url: str
) -> None:
    client = shifts._client
    turns = [[call(f"c{n}", "echo", text=f"{n:03}".ljust(300, "."))] for n in range(10)]
    model = Script(*turns, "Done.", held=[10])
    async with shop_open(client, queue, journal_url, keeper("window"), model):
        handle = await started(client, queue, GIVEN)
        await model.asked(10)
        view = await handle.query(contracts.STATE, result_type=StateView)
        model.let_go(10)
        await ended(handle)
        told = await story(shifts, queue)
    sent = await shifts.sent(queue, 10)
    assert view.context_bytes == context_bytes(list(sent.messages)) <= LIMIT
    moved = [line for line in told if "left out" in line]
    assert moved
    assert moved[0].startswith("model call ")
    assert "earlier exchanges left out" in moved[0]
    again = [line for line in told if line.endswith(" began")]
    assert len(again) + len(moved) == 11, "only a move is told"


async def test_a_summary_is_a_call_of_its_own_in_story_and_history_and_the_replay_of_turns_counts_it(
    shifts: Shifts, queue: str, journal_url: str
) -> None:
    client = shifts._client
    turns = [[call(f"c{n}", "echo", text=f"{n:03}".ljust(300, "."))] for n in range(8)]
    model = Script(*turns[:7], "Seven were said.", turns[7], "Done.")
    async with shop_open(client, queue, journal_url, keeper("summarize"), model):
        result: RunResult = await ended(await started(client, queue, GIVEN))
        told = await story(shifts, queue)
    assert (result.status, result.answer, result.model_calls, result.tool_calls) == (Status.COMPLETED, "Done.", 10, 8)
    assert [bool(request.tools) for request in model.requests] == [True] * 7 + [False] + [True] * 2
    assert "model call 8 began, a summary of what is to leave the context" in told
    assert any(line.startswith("model call 8: summary, 7 tokens") and "Seven were said." in line for line in told)
    assert any(line.startswith("model call 9 began; ") and "summary of model call 8" in line for line in told)
    history = await client.get_workflow_handle(queue).fetch_history()
    named = [event.user_metadata.summary.data for event in history.events]
    assert any(summary.startswith(b'"#8 model call, summary after ') for summary in named)
    summary, after = await shifts.sent(queue, 8), await shifts.sent(queue, 9)
    assert (summary.purpose, summary.state, list(summary.tools)) == ("summary", "answered", [])
    assert after.purpose == "turn"
    assert after.messages[2].content.endswith("\n\nSeven were said.")


async def test_a_fund_pays_for_a_summary_and_a_call_that_it_does_not_pay_for_is_made_once_it_does(
    shifts: Shifts, queue: str, journal_url: str
) -> None:
    client = shifts._client
    journal = await Journal.open(journal_url)
    await journal.set_fund("kitty", 70_000)  # seven calls: the eighth is the summary
    turns = [[call(f"c{n}", "echo", text=f"{n:03}".ljust(300, "."))] for n in range(8)]
    model = Script(*turns[:7], "Seven were said.", turns[7], "Done.")
    limits: dict[str, Any] = {"estimated_call_cents": 1, "on_limit": "wait"}
    async with shop_open(client, queue, journal_url, keeper("summarize"), model):
        handle = await started(client, queue, GIVEN.model_copy(update={"fund": "kitty", "limits": limits}))
        await until_waiting(handle, "MODEL_COST_LIMIT")
        await journal.set_fund("kitty", 1_000_000)
        await handle.signal(contracts.RESUME)
        result = await ended(handle)
    (fund,) = await journal.funds()
    rows = await journal.model_calls(queue)
    await journal.close()
    assert (result.status, result.model_calls, result.exposure) == (Status.COMPLETED, 10, 100_000)
    assert fund.spent + fund.reserved == 100_000
    assert [row.number for row in rows if not row.tools] == [8 + result.withdrawn]
    assert result.withdrawn > 0


async def test_a_run_that_is_to_stop_at_its_context_still_does(shifts: Shifts, queue: str, journal_url: str) -> None:
    client = shifts._client
    turns = [[call(f"c{n}", "echo", text=f"{n:03}".ljust(300, "."))] for n in range(10)]
    async with shop_open(client, queue, journal_url, keeper("stop"), Script(*turns, "Done.")):
        result = await ended(await started(client, queue, GIVEN))
    assert result.status is Status.CONTEXT_LIMIT
