"""Spans and metrics of real runs: what they say, how they hang together, and what they never hold."""

import gc
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any
from urllib.request import urlopen

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Interceptor, Replayer, Worker

from activities.run_activities import Activities
from client.shifts import Shifts
from endpoints.base import Endpoint, Reply, Request
from endpoints.config import OpenAIConfig, Price
from longshift import Agent, ToolOutcomeUnknown, tool
from longshift.messages import ToolCall
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.turns import ModelFailure, Usage
from store.journal import Journal
from tests.workflows.running import HEARTBEAT_SECONDS, Script, call
from toolsets.mcp.secrets import Secrets
from worker.plugin import longshift_plugin
from worker.settings import load_settings
from worker.telemetry.metrics import LoopMetrics, serving
from worker.telemetry.spans import CONTENT, ToolSpans, TracedEndpoint
from worker.telemetry.tracing import Cleaned, Tracing
from workflows.agent_run import AgentRun

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEY = "sk-planted-0123456789abcdefghijklmnop"
WORDS = "the-word-of-a-stranger"
"""What models, tools and people write here."""
MODEL = OpenAIConfig(
    url="http://models.example:8080/v1",
    model="m1",
    seed=7,
    price=Price(input_cents_per_million=100, output_cents_per_million=300),
)


@tool(kind="read")
def count(sku: str) -> dict[str, str]:
    """Count what is in stock."""
    return {"sku": sku, "key": KEY, "said": WORDS}


@tool(timeout_seconds=30)
def order(sku: str) -> str:
    """Order one, and never learn what came of it."""
    raise ToolOutcomeUnknown(f"the connection broke: {WORDS} {sku} {KEY}")


KEEPER = Agent(
    name="keeper", system=f"Keep. {WORDS}", endpoint="scripted", tools=(count, order), unknown_outcome="tell"
)
STOCK = (call("c1", "count", sku=WORDS),)
ORDER = (call("c2", "order", sku=WORDS),)
BROKEN = ModelFailure(kind="status", message=f"HTTP 500 {WORDS}", transient=False, usage=Usage(output_tokens=2), cost=5)


class Reading(Script):
    """A script that reads what it would send, as an endpoint behind HTTP does, and reports what it cost."""

    async def send(self, request: Request) -> Reply:
        await request.messages()
        reply = await super().send(request)
        return Reply(reply.message, reply.stop_reason, Usage(output_tokens=7, input_tokens=11), cost=32)


class Exported:
    """What a process exports, with and without content."""

    def __init__(self) -> None:
        self._whole, self._bare = InMemorySpanExporter(), InMemorySpanExporter()
        self.tracing = Tracing(Secrets([KEY]), content=True, exporter=self._whole)
        bare = Cleaned(self._bare, Secrets([KEY]), content=False)
        self.tracing._provider.add_span_processor(SimpleSpanProcessor(bare))

    def of(self, run_id: str, *, bare: bool = False) -> Sequence[ReadableSpan]:
        """The spans of a run."""
        self.tracing.flush()
        found = (self._bare if bare else self._whole).get_finished_spans()
        about = ("temporalWorkflowID", "gen_ai.conversation.id")
        return [span for span in found if run_id in {(span.attributes or {}).get(name) for name in about}]

    def names(self) -> list[str]:
        """Names of all spans."""
        self.tracing.flush()
        return [span.name for span in self._whole.get_finished_spans()]


@pytest.fixture(scope="module")
def exported() -> Iterator[Exported]:
    """OpenTelemetry takes one tracer a process."""
    made = Exported()
    yield made
    made.tracing._provider.shutdown()


class Bench:
    """A worker as the worker process has it, without the sandbox, and a client of it."""

    def __init__(self, shifts: Shifts, client: Client) -> None:
        self._shifts, self._client = shifts, client

    async def run(self, run_id: str, **given: Any) -> tuple[Status, WorkflowHandle[Any, Any]]:
        """A run of the agent to its end: its status, and the workflow."""
        await self.start(run_id, **given)
        return await self.result(run_id), self._client.get_workflow_handle(run_id)

    async def start(self, run_id: str, **given: Any) -> None:
        """Begin a run of the agent."""
        await self._shifts.start(RunInput(agent="keeper", task=f"Count. {WORDS}", **given), run_id=run_id)

    async def result(self, run_id: str) -> Status:
        """How it ended."""
        return (await self._shifts.result(run_id)).status

    async def state(self, run_id: str) -> None:
        """Query a run."""
        await self._shifts.state(run_id)


@asynccontextmanager
async def bench(
    client: Client,
    queue: str,
    journal: Journal,
    endpoint: Endpoint,
    interceptors: Sequence[Interceptor],
    cached: int = 1000,
) -> AsyncIterator[Bench]:
    """The worker, up while the body runs."""
    activities = Activities(journal, {"keeper": KEEPER}, {"scripted": endpoint}, {"scripted": MODEL}, HEARTBEAT_SECONDS)
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[AgentRun],
        activities=activities.all(),
        interceptors=interceptors,
        max_cached_workflows=cached,
        graceful_shutdown_timeout=timedelta(seconds=0),
    )
    async with worker:
        yield Bench(Shifts(client, queue, journal._database.shown), client)


async def connected(client: Client, **options: Any) -> Client:
    """A client as a worker process has it."""
    address = client.service_client.config.target_host
    return await Client.connect(address, plugins=[longshift_plugin()], **options)


@asynccontextmanager
async def traced(
    client: Client,
    queue: str,
    journal_url: str,
    exported: Exported,
    model: Script,
    *,
    content: bool,
    cached: int = 1000,
) -> AsyncIterator[Bench]:
    """The same with traces."""
    journal = await Journal.open(journal_url)

    async def agent_of(run_id: str) -> str:
        return (await journal.spec(run_id)).agent.name

    endpoint = TracedEndpoint(model, MODEL, agent_of, content=content)
    interceptors = [exported.tracing.interceptor, ToolSpans(agent_of, content=content)]
    try:
        async with bench(await connected(client), queue, journal, endpoint, interceptors, cached) as up:
            yield up
    finally:
        await journal.close()


def one(spans: Sequence[ReadableSpan], name: str, place: int = 0) -> ReadableSpan:
    """The span of this name, or the one at a place among them."""
    return [span for span in spans if span.name == name][place]


def told(span: ReadableSpan) -> dict[str, Any]:
    """What a span says, but for the run."""
    return {name: value for name, value in (span.attributes or {}).items() if name != "gen_ai.conversation.id"}


async def test_a_run_is_one_trace_of_temporals_spans_and_those_of_model_calls_and_tools(
    client: Client, queue: str, journal_url: str, exported: Exported
) -> None:
    async with traced(client, queue, journal_url, exported, Reading(STOCK, "Done."), content=True) as up:
        status, workflow = await up.run(queue)
        await up.state(queue)
        history = await workflow.fetch_history()
    spans = exported.of(queue)
    count_of_spans = len(exported.names())

    assert status is Status.COMPLETED
    by_id = {context.span_id: span for span in spans if (context := span.get_span_context())}
    traces = {context.trace_id for span in spans if (context := span.get_span_context())}
    assert len(traces) == 1

    def path(span: ReadableSpan) -> list[str]:
        above = by_id[span.parent.span_id] if span.parent else None
        return [*(path(above) if above else []), span.name]

    run = "RunWorkflow:agent_run"
    call_path = [run, "StartActivity:call_model", "RunActivity:call_model", "chat m1"]
    assert [path(span) for span in spans if span.name == "chat m1"] == [call_path, call_path]
    tool_path = [run, "StartActivity:run_tool", "RunActivity:run_tool", "execute_tool count"]
    assert path(one(spans, "execute_tool count")) == tool_path
    of_call = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.name": "keeper",
        "gen_ai.request.model": "m1",
        "gen_ai.request.max_tokens": 1024,
        "gen_ai.request.seed": 7,
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "longshift.cost_micro_usd": 32,
        "server.address": "models.example",
        "server.port": 8080,
    }
    of_tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.agent.name": "keeper",
        "gen_ai.tool.name": "count",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "longshift.model_call": 1,
    }
    second, ran = told(one(spans, "chat m1", 1)), told(one(spans, "execute_tool count"))
    assert {name: value for name, value in second.items() if name not in CONTENT} == of_call
    assert {name: value for name, value in ran.items() if name not in CONTENT} == of_tool

    def content(name: str) -> Any:
        return json.loads((second | ran)[name])

    observation = json.dumps({"ok": True, "value": {"key": "***", "said": WORDS, "sku": WORDS}}, separators=(",", ":"))
    asked = {"type": "tool_call", "id": "c1", "name": "count", "arguments": {"sku": WORDS}}
    assert content("gen_ai.system_instructions") == [{"type": "text", "content": f"Keep. {WORDS}"}]
    assert content("gen_ai.input.messages") == [
        {"role": "user", "parts": [{"type": "text", "content": f"Count. {WORDS}"}]},
        {"role": "assistant", "parts": [asked]},
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": observation}]},
    ]
    answer = {"role": "assistant", "parts": [{"type": "text", "content": "Done."}], "finish_reason": "stop"}
    assert content("gen_ai.output.messages") == [answer]
    assert content("gen_ai.tool.call.arguments") == {"sku": WORDS}
    assert content("gen_ai.tool.call.result") == json.loads(observation)
    assert KEY not in "".join(span.to_json() for span in spans)
    assert not [name for name in exported.names() if name.startswith("HandleQuery")]

    replayer = Replayer(workflows=[AgentRun], plugins=[longshift_plugin()], interceptors=[exported.tracing.interceptor])
    await replayer.replay_workflow(history)
    assert len(exported.names()) == count_of_spans


async def test_a_run_is_one_trace_across_two_workers_and_a_chain_of_histories(
    rolling_server: WorkflowEnvironment, queue: str, journal_url: str, exported: Exported
) -> None:
    counts = [(call(f"c{number}", "count", sku=str(number)),) for number in range(6)]
    model = Reading(*counts, "Done.", held=[2])
    client = rolling_server.client
    async with traced(client, queue, journal_url, exported, model, content=False) as up:
        await up.start(queue)
        await model.asked(2)
    model.let_go(2)
    gc.collect()  # what the first worker had of the run
    # Without a cache each step is replayed from the beginning.
    async with traced(client, queue, journal_url, exported, model, content=False, cached=0) as up:
        status = await up.result(queue)

    spans = exported.of(queue)
    runs = [span for span in spans if span.name == "RunWorkflow:agent_run"]
    attributes = [dict(span.attributes or {}) for span in runs]
    contexts = [span.get_span_context() for span in spans]
    assert status is Status.COMPLETED
    assert len({context.trace_id for context in contexts if context}) == 1
    assert len({context.span_id for context in contexts if context}) == len(spans)
    assert len(model.requests) == 8
    assert len(runs) == len({told["temporalRunID"] for told in attributes}) > 1


async def test_without_content_no_span_holds_what_a_model_a_tool_or_a_person_wrote(
    client: Client, queue: str, journal_url: str, exported: Exported
) -> None:
    async with traced(client, queue, journal_url, exported, Reading(STOCK, ORDER, BROKEN), content=False) as up:
        status, _ = await up.run(queue)
    spans = exported.of(queue, bare=True)

    assert status is Status.MODEL_FAILED
    failed, ordered = one(spans, "chat m1", 2), one(spans, "execute_tool order")
    assert failed.status.status_code is ordered.status.status_code is StatusCode.ERROR
    assert (told(failed)["error.type"], told(failed)["gen_ai.usage.output_tokens"]) == ("status", 2)
    assert told(ordered)["error.type"] == "OutcomeUnknown"
    ended = one(spans, "RunWorkflow:agent_run")
    assert [dict(event.attributes or {})["exception.type"] for event in ended.events] == [
        "temporalio.exceptions.ApplicationError"
    ]
    assert ended.status.status_code is StatusCode.ERROR
    exact = "".join(span.to_json() for span in spans)
    assert all(word not in exact for word in (WORDS, KEY, "exception.message", *CONTENT))
    whole = one(exported.of(queue), "RunWorkflow:agent_run")
    assert WORDS in whole.to_json()  # where content is on, why a run failed may be read


async def test_a_repeated_call_that_runs_nothing_has_no_span(
    client: Client, queue: str, journal_url: str, exported: Exported
) -> None:
    again = [(call(f"c{number}", "count", sku="a"),) for number in range(3)]
    async with traced(client, queue, journal_url, exported, Reading(*again, "Done."), content=False) as up:
        status, _ = await up.run(queue)

    names = [span.name for span in exported.of(queue)]
    assert (status, names.count("RunActivity:run_tool")) == (Status.COMPLETED, 3)
    assert names.count("execute_tool count") == 2


Sample = tuple[str, frozenset[tuple[str, str]]]


def scraped(address: str) -> tuple[str, dict[Sample, float]]:
    """The page, and what it says."""
    with urlopen(f"http://{address}/metrics", timeout=10) as answer:
        page = answer.read().decode()
    found: dict[Sample, float] = {}
    for line in page.splitlines():
        if not line.startswith("#") and line:
            name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()  # type: ignore[union-attr]
            found[name, frozenset(re.findall(r'(\w+)="([^"]*)"', labels or ""))] = float(value)
    return page, found


async def test_what_runs_do_is_counted_on_the_page_of_temporals_own_metrics(
    client: Client, queue: str, journal_url: str
) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    runtime = serving(load_settings(environ={"LONGSHIFT_TELEMETRY__PROMETHEUS": address}))
    journal = await Journal.open(journal_url)
    metered = await connected(client, runtime=runtime)
    plays: dict[str, Sequence[str | Sequence[ToolCall] | ModelFailure]] = {
        "answered": (STOCK, "Done."),
        "limited": (STOCK, (call("c3", "count", sku="b"),)),
        "unknown": (ORDER, BROKEN),
    }
    for name, turns in plays.items():
        model = Reading(*turns)
        interceptors = [LoopMetrics(runtime.metric_meter, journal)]
        async with bench(metered, f"{queue}-{name}", journal, model, interceptors) as up:
            await up.run(f"{queue}-{name}", limits={"model_calls": 2, "estimated_call_cents": 1})
    await journal.close()
    page, found = scraped(address)

    def counted(name: str, **labels: str) -> float | None:
        return found.get((f"longshift_{name}", frozenset({"agent": "keeper", **labels}.items())))

    assert counted("runs_opened_total") == 3
    assert counted("runs_ended_total", status="COMPLETED") == 1
    assert counted("runs_ended_total", status="MODEL_CALL_LIMIT") == 1
    assert counted("runs_ended_total", status="MODEL_FAILED") == 1
    assert counted("admissions_refused_total", reason="MODEL_CALL_LIMIT") == 1
    assert counted("model_calls_total", endpoint="scripted", outcome="turn") == 5
    assert counted("model_calls_total", endpoint="scripted", outcome="status") == 1
    assert counted("tokens_total", endpoint="scripted", direction="input") == 5 * 11
    assert counted("tokens_total", endpoint="scripted", direction="output") == 5 * 7 + 2
    assert counted("exposure_micro_usd_total", endpoint="scripted") == 5 * 32 + 5
    assert counted("tool_calls_total", tool="count", outcome="ok") == 3
    assert counted("tool_calls_total", tool="order", outcome="OutcomeUnknown") == 1
    assert counted("effects_unknown_total", tool="order") == 1
    assert counted("model_call_duration_seconds_count", endpoint="scripted") == 5
    assert ("longshift_model_call_duration_seconds_bucket", "120") in {
        (name, dict(labels).get("le")) for name, labels in found
    }
    of_temporal = {name for name, _ in found if name.startswith("temporal_")}
    assert {"temporal_worker_task_slots_available", "temporal_workflow_completed_total"} <= of_temporal
    ours = "".join(line for line in page.splitlines() if line.startswith("longshift_"))
    assert all(word not in ours for word in (queue, WORDS, KEY))
