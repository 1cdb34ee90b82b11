"""Record the histories that are not kept yet: `python -m tests.histories.record`.

Each is of a real run: the real workflow, activities, journal and server; only the model is scripted. What is kept is
never recorded anew: a history that fails to replay is a run in the field that would get stuck.
"""

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment

from examples.shop.agent import agent as shop
from longshift import contracts
from longshift.agent import Agent
from longshift.messages import ToolCall
from longshift.run_input import RunInput
from longshift.tools import ToolContext, ToolOutcomeUnknown, tool
from longshift.turns import ModelFailure
from longshift.view import StateView
from store.journal import Journal
from tests.workflows.raw_runs import until_waiting
from tests.workflows.running import Script, call, echo, shop_open
from worker.plugin import longshift_plugin

HERE = Path(__file__).parent
SHORT_HISTORY = 20
"""Events after which a run here continues as new, where it is to."""

Handle = WorkflowHandle[Any, Any]
Steer = Callable[[Handle, Script], Awaitable[object]]
"""What is done to a run while it works."""


@tool
async def note(text: str) -> str:
    """Write a note."""
    if text == HELD:
        at_work.set()
        await go_on.wait()
    return f"noted {text}"


HELD = "held"
"""A note that waits, once it is begun, until the scene goes on."""
at_work, go_on = asyncio.Event(), asyncio.Event()


@tool(timeout_seconds=5)
def ring(text: str) -> str:
    """Ring somebody up, who does not always answer."""
    raise ToolOutcomeUnknown("nobody answered")


@tool(timeout_seconds=5, idempotent=True)
def post(text: str, context: ToolContext) -> str:
    """Post a letter; the first time, nobody sees whether it was taken."""
    posted.append(context.operation_id)
    if posted.count(context.operation_id) == 1:
        raise ToolOutcomeUnknown("nobody looked")
    return f"posted {text}"


@tool(needs_approval=True)
def buy(text: str) -> str:
    """Buy something."""
    return f"bought {text}"


posted: list[str] = []
"""The operation ids under which `post` ran."""

caller = Agent(name="caller", system="Call.", endpoint="scripted", tools=(ring, post, buy))
teller = Agent(name="teller", system="Call.", endpoint="scripted", tools=(ring,), unknown_outcome="tell")
parrot = Agent(name="parrot", system="Repeat.", endpoint="scripted", tools=(echo, note))

windower = Agent(name="windower", system="Repeat.", endpoint="scripted", tools=(echo,), context="window")
summarizer = windower.model_copy(update={"name": "summarizer", "context": "summarize"})

FUND = "kitty"
"""The fund of a run that one pays for."""
journal_at: ContextVar[str] = ContextVar("journal_at")
"""URL of the journal of the scene at hand."""

SMALL = {"context_bytes": 3500, "model_calls": 20}
"""Limits with which older exchanges leave the context."""

Turns = Sequence[str | Sequence[ToolCall] | ModelFailure]
BUSY = ModelFailure(kind="status", message="scripted: HTTP 503", transient=True, retry_after=0.1)
OPENING: Turns = (
    [call("c1", "list_stock")],
    [
        call("c2", "draft_order", sku="SKU-VANILLA", quantity=6),
        call("c3", "draft_order", sku="SKU-STRAWBERRY", quantity=4),
    ],
    "Drafts of 1500 and 1100 cents, 2600 in all.",
)
MANY: Turns = [[call(f"c{n}", "echo", text=f"{n}".ljust(300, "."))] for n in range(9)]
BATCH: Turns = ([call("c1", "echo", text="a"), call("c2", "note", text="b"), call("c3", "echo", text="c")], "Done.")
INSIDE: Turns = ([call("c1", "echo", text="a"), call("c2", "note", text=HELD), call("c3", "echo", text="c")], "Done.")


async def nothing(handle: Handle, model: Script) -> None:
    """Let the run be."""


async def stop(handle: Handle, model: Script) -> None:
    """Stop while the first model call is out."""
    await model.asked(1)
    await handle.signal(contracts.STOP, {"reason": "enough"})
    model.let_go(1)


async def stop_now(handle: Handle, model: Script) -> None:
    """Break the first model call off."""
    await model.asked(1)
    await handle.signal(contracts.STOP, {"mode": "now", "reason": "enough"})


async def stop_inside(handle: Handle, model: Script) -> None:
    """Stop while the effect in the middle of the batch is at work."""
    await at_work.wait()
    await handle.signal(contracts.STOP, {"mode": "now", "reason": "enough"})
    go_on.set()


async def cancel(handle: Handle, model: Script) -> None:
    """Cancel the workflow while the second model call is out."""
    await model.asked(2)
    await handle.cancel(reason="by the operator")


async def raise_limits(handle: Handle, model: Script) -> None:
    """Raise each limit that the run waits at, by update and by signal."""
    await until_waiting(handle, "TOOL_LIMIT")
    await handle.signal(contracts.SET_LIMITS, {"tool_calls": 9, "request_id": "r-1"})
    await until_waiting(handle, "MODEL_CALL_LIMIT")
    await handle.execute_update(contracts.SET_LIMITS, {"model_calls": 2, "request_id": "r-2"})


async def pause(handle: Handle, model: Script) -> None:
    """Pause and resume, and send what cannot be applied meanwhile."""
    await model.asked(1)
    await handle.signal(contracts.PAUSE)
    model.let_go(1)
    await until_waiting(handle, "paused")
    await handle.signal("no_such_signal", {"a": 1})
    await handle.signal(contracts.SET_LIMITS, {"model_calls": 1.5})
    await handle.signal(contracts.RESUME)


async def called(handle: Handle, model: Script) -> None:
    """Wait until the first model call is out."""
    await model.asked(1)


async def effect_begun(handle: Handle, model: Script) -> None:
    """Wait until the effect in the middle of the batch is at work."""
    await at_work.wait()


async def tell(handle: Handle, model: Script) -> None:
    """Say something before the answer comes."""
    await model.asked(1)
    await handle.execute_update(contracts.TELL, {"text": "And more?", "request_id": "t-1"})
    model.let_go(1)


async def resolve(handle: Handle, model: Script) -> None:
    """Say of each call that nobody answered that it happened, and of the last one that it did not."""
    await answered(handle, "c1", contracts.RESOLVE, outcome="happened", result={"said": "yes"}, reason="I was there")
    await answered(handle, "c2", contracts.RESOLVE, outcome="did_not_happen")


async def judge(handle: Handle, model: Script) -> None:
    """Approve one purchase and deny the other; a first answer is for another call and changes nothing."""
    await until_waiting(handle, "approval")
    await handle.signal(contracts.APPROVE, {"call_id": "c9", "arguments_sha256": "0" * 64})
    await answered(handle, "c1", contracts.APPROVE)
    await answered(handle, "c2", contracts.DENY, reason="too much")


async def pause_and_approve(handle: Handle, model: Script) -> None:
    """Pause a run that asks, answer it, and only then let it go on: what it waits for changes twice."""
    await until_waiting(handle, "approval")
    await handle.signal(contracts.PAUSE)
    await answered(handle, "paused", contracts.APPROVE)
    await handle.signal(contracts.RESUME)


async def answered(handle: Handle, waits_for: str, update: str, **fields: Any) -> None:
    """Answer the run's question, once what it waits for names this."""
    await until_waiting(handle, waits_for)
    question = (await handle.query(contracts.STATE, result_type=StateView)).question
    asked = {"call_id": question.call_id, "arguments_sha256": question.arguments_sha256}
    await handle.execute_update(update, {**asked, **fields})


async def raise_fund(handle: Handle, model: Script) -> None:
    """Let the run find its fund used up, raise it, and wake the run."""
    await until_waiting(handle, "MODEL_COST_LIMIT")
    await set_fund(journal_at.get(), 5_000_000)
    await handle.signal(contracts.RESUME)


@dataclass(frozen=True)
class Scene:
    """A run to record."""

    turns: Turns
    steer: Steer = nothing
    agent: Agent = parrot
    held: Sequence[int] = ()
    """Model calls that are answered only when `steer` says so."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    in_parts: bool = False
    """It continues as new every few steps; then there is one file for each part."""
    fund: int | None = None
    """Micro-USD in the fund that pays for it."""
    loses_its_worker: Steer | None = None
    """Its worker ends once this is over, and another takes over."""


SCENES: Mapping[str, Scene] = {
    "opening-shift": Scene(OPENING, agent=shop),
    "batch-of-reads-and-an-effect": Scene(BATCH),
    "stopped-before-its-batch": Scene(BATCH, stop, held=[1]),
    "stopped-now": Scene(BATCH, stop_now, held=[1]),
    "stopped-inside-its-batch": Scene(INSIDE, stop_inside),
    "retries-after-failures": Scene((BUSY, BUSY, "Done.")),
    "failed": Scene((BUSY,), limits={"model_retries": 1}),
    "cancelled": Scene(BATCH, cancel, held=[2]),
    "limits-raised-while-waiting": Scene(
        BATCH, raise_limits, limits={"on_limit": "wait", "model_calls": 1, "tool_calls": 1}
    ),
    "paused": Scene(BATCH, pause, held=[1]),
    "told": Scene(("Done.", "Done, and more."), tell, held=[1]),
    "refused": Scene((), limits={"seconds": -1}),
    "outcomes-resolved": Scene(
        ([call("c1", "ring", text="a"), call("c2", "ring", text="b")], "Done."), resolve, agent=caller
    ),
    "outcome-told": Scene(([call("c1", "ring", text="a")], "Done."), agent=teller),
    "idempotent-effect-again": Scene(([call("c1", "post", text="a")], "Done."), agent=caller),
    "approved-and-denied": Scene(
        ([call("c1", "buy", text="a"), call("c2", "buy", text="b")], "Done."), judge, agent=caller
    ),
    "approved-while-paused": Scene(([call("c1", "buy", text="a")], "Done."), pause_and_approve, agent=caller),
    "stopped-now-inside-an-effect": Scene(INSIDE, stop_inside),
    "fund-used-up": Scene(
        ([call("c1", "echo", text="a")], "Done."),
        raise_fund,
        limits={"on_limit": "wait", "estimated_call_cents": 1},
        fund=15_000,
    ),
    "worker-lost": Scene(("Done.",), held=[1], loses_its_worker=called),
    "effect-lost-and-ended": Scene(INSIDE, loses_its_worker=effect_begun),
    "windowed": Scene((*MANY[:7], "Done."), agent=windower, limits=SMALL),
    "summarized": Scene(
        (*MANY[:5], BUSY, "Five were said.", *MANY[5:7], "", MANY[7], "Done."), agent=summarizer, limits=SMALL
    ),
    "chain": Scene((*([call(f"c{n}", "echo", text=str(n))] for n in range(5)), "Done."), in_parts=True),
}
"""What is kept, by the name of the file."""


async def record(client: Client, name: str, scene: Scene, journal_url: str) -> None:
    """Play a scene and keep the history of each part of its chain."""
    model = Script(*scene.turns, held=scene.held)
    at_work.clear()
    go_on.clear()
    journal_at.set(journal_url)
    if scene.fund is not None:
        await set_fund(journal_url, scene.fund)
    paid_by = FUND if scene.fund is not None else None
    given = RunInput(agent=scene.agent.name, task="Begin.", limits=dict(scene.limits), fund=paid_by)
    handle = await client.start_workflow(contracts.WORKFLOW, given, id=name, task_queue=name)
    if scene.loses_its_worker:
        async with shop_open(client, name, journal_url, scene.agent, model):
            await scene.loses_its_worker(handle, model)
        for number in scene.held:
            model.let_go(number)
    async with shop_open(client, name, journal_url, scene.agent, model):
        await scene.steer(handle, model)
        await asyncio.gather(handle.result(), return_exceptions=True)
    parts = [execution.run_id async for execution in client.list_workflows(f"WorkflowId = '{name}'")]
    for number, run_id in enumerate(reversed(parts), start=1):
        history = await client.get_workflow_handle(name, run_id=run_id).fetch_history()
        file = HERE / (f"{name}-{number}.json" if scene.in_parts else f"{name}.json")
        document = _without_traces(json.loads(history.to_json()))
        file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


async def set_fund(journal_url: str, budget: int) -> None:
    """Give the fund so many micro-USD."""
    journal = await Journal.open(journal_url)
    await journal.set_fund(FUND, budget)
    await journal.close()


def _without_traces(value: Any) -> Any:
    """A history's JSON without what tells of the machine that recorded it; a replay looks at none of that."""
    if isinstance(value, dict):
        kept = {name: _without_traces(item) for name, item in value.items() if name != "stackTrace"}
        return kept | {"identity": "recorder"} if "identity" in kept else kept
    return [_without_traces(item) for item in value] if isinstance(value, list) else value


async def main() -> None:
    """Record the scenes that are not kept."""
    kept = {file.stem.removesuffix("-1") for file in HERE.glob("*.json")}
    missing = {name: scene for name, scene in SCENES.items() if name not in kept}
    with tempfile.TemporaryDirectory() as folder:
        for in_parts in (False, True):
            events = SHORT_HISTORY if in_parts else 4096
            server = await WorkflowEnvironment.start_local(
                plugins=[longshift_plugin(sandboxed=True)],
                dev_server_existing_path=str(Path(sys.executable).parent / "temporal"),
                dev_server_extra_args=["--dynamic-config-value", f"limit.historyCount.suggestContinueAsNew={events}"],
            )
            async with server:
                for name, scene in missing.items():
                    if scene.in_parts == in_parts:
                        await record(server.client, name, scene, f"sqlite:///{folder}/journal.db")


if __name__ == "__main__":
    asyncio.run(main())
