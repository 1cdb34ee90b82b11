"""The loop's figures, counted as its activities end, on the page that Temporal's own metrics stand on.

They are counted outside of the workflow: what is replayed is not counted again. No label holds what a model, a tool or
a person wrote, and none holds a run's id: their values are names of the configuration, statuses, and kinds of ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from temporalio.common import MetricMeter
from temporalio.exceptions import ApplicationError
from temporalio.runtime import PrometheusConfig, Runtime
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from longshift import contracts
from longshift.contracts import (
    CalledModel,
    CallModel,
    CloseRun,
    Decision,
    OpenRun,
    RanTool,
    RunSpec,
    RunTool,
    SettledEffect,
    SettleEffect,
)
from longshift.status import WAITABLE, Status
from longshift.turns import ModelFailure, Usage
from store.journal import Journal
from worker.connection import new_runtime
from worker.problems import SettingsRefused
from worker.settings import Settings
from worker.telemetry import kind_of, spec_of

MODEL_CALL_DURATION = "longshift_model_call_duration"
TOOL_CALL_DURATION = "longshift_tool_call_duration"
BUCKETS: Mapping[str, Sequence[float]] = dict.fromkeys(
    (MODEL_CALL_DURATION, TOOL_CALL_DURATION), (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
)
"""Seconds: models and tools take longer than what Temporal's own buckets are made for."""
LIMITS = WAITABLE | {Status.TIME_LIMIT}
"""Ends that say that a step was not admitted."""


def serving(settings: Settings) -> Runtime:
    """A runtime of Temporal's core that serves its metrics and ours where the configuration says.

    Raises SettingsRefused where nobody can listen there.
    """
    address = settings.telemetry.prometheus or ""
    try:
        return new_runtime(
            PrometheusConfig(
                bind_address=address,
                counters_total_suffix=True,
                unit_suffix=True,
                durations_as_seconds=True,
                histogram_bucket_overrides=BUCKETS,
            )
        )
    except ValueError as error:
        why = str(error).rpartition(": ")[2]
        text = f"{address} cannot be listened on: {why}; each worker of a machine needs a port of its own"
        raise SettingsRefused([settings.sources.line(("telemetry", "prometheus"), text)]) from None


class LoopMetrics(Interceptor):
    """Counts what the activities of a worker did."""

    def __init__(self, meter: MetricMeter, journal: Journal) -> None:
        """Describe the metrics.

        Args:
            meter: where they are kept.
            journal: knows each run's agent and endpoint.
        """
        self._journal = journal
        self.runs_opened = meter.create_counter("longshift_runs_opened", "Runs that began here")
        self.runs_ended = meter.create_counter("longshift_runs_ended", "Runs whose end was recorded here, by status")
        self.refused = meter.create_counter(
            "longshift_admissions_refused", "Steps that were not admitted, by the limit or by what the run waits for"
        )
        self.model_calls = meter.create_counter(
            "longshift_model_calls", "Admitted model calls, by outcome: a turn, or the kind of the failure"
        )
        self.tokens = meter.create_counter("longshift_tokens", "Tokens that endpoints reported, by direction")
        self.exposure = meter.create_counter(
            "longshift_exposure_micro_usd",
            "What admitted model calls may have cost, in millionths of a US dollar: the price, else the estimate",
        )
        self.tool_calls = meter.create_counter(
            "longshift_tool_calls", "Tool calls that were dispatched, by outcome: ok, or the kind of the error"
        )
        self.unknown = meter.create_counter(
            "longshift_effects_unknown", "Effects of which nobody could tell whether they happened"
        )
        self.model_seconds = meter.create_histogram_timedelta(MODEL_CALL_DURATION, "Model calls that brought a turn")
        self.tool_seconds = meter.create_histogram_timedelta(TOOL_CALL_DURATION, "Tool calls with an observation")

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        """See temporalio.worker.Interceptor."""
        return _Counting(next, self)

    async def spec(self, run_id: str) -> RunSpec | None:
        """What a run works with; None where the journal cannot tell."""
        return await spec_of(self._journal, run_id)


class _Counting(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, metrics: LoopMetrics) -> None:
        super().__init__(next)
        self._metrics = metrics

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        request = input.args[0] if input.args else None
        try:
            result = await super().execute_activity(input)
        except ApplicationError as error:
            await self._count(request, error)
            raise
        await self._count(request, result)
        return result

    async def _count(self, request: object, outcome: object) -> None:
        match request, outcome:
            case CallModel(), CalledModel() | ApplicationError():
                await self._called(request, outcome)
            case RunTool(repeat_of=None), RanTool() | ApplicationError():
                await self._ran(request, outcome)
            case SettleEffect(), SettledEffect(unknown=str()):
                of_tool = await self._of_tool(request.call)
                self._metrics.unknown.add(1, of_tool)
            case OpenRun(), _ if not isinstance(outcome, ApplicationError):
                self._metrics.runs_opened.add(1, {"agent": request.given.agent})
            case CloseRun(), _ if not isinstance(outcome, ApplicationError):
                spec = await self._metrics.spec(request.run_id)
                agent = {"agent": spec.agent.name if spec else ""}
                self._refusals(request.decisions, agent)
                self._metrics.runs_ended.add(1, {**agent, "status": request.result.status.value})

    async def _called(self, request: CallModel, outcome: CalledModel | ApplicationError) -> None:
        failed = _failure(outcome) if isinstance(outcome, ApplicationError) else None
        if isinstance(outcome, ApplicationError) and failed is None:
            return  # the workflow hears of nothing, and hands the same call out again
        if failed is not None and (failed.kind == "fund" or (failed.kind == "journal" and failed.transient)):
            return  # never sent: the same call comes again, or was never admitted
        spec = await self._metrics.spec(request.run_id)
        labels = {"agent": spec.agent.name if spec else "", "endpoint": spec.endpoint.name if spec else ""}
        self._refusals(request.decisions, {"agent": labels["agent"]})
        if isinstance(outcome, CalledModel):
            turn = outcome.turn
            self._metrics.model_seconds.record(timedelta(milliseconds=turn.milliseconds), labels)
            self._spent("turn", turn.usage, turn.cost, request.estimate, labels)
        elif failed is not None:
            self._spent(failed.kind, failed.usage, failed.cost, request.estimate, labels)

    def _spent(
        self, outcome: str, usage: Usage | None, cost: int | None, estimate: int, labels: dict[str, str]
    ) -> None:
        """Count a call that may have been billed; what it costs is judged as longshift.state does."""
        self._metrics.model_calls.add(1, {**labels, "outcome": outcome})
        if usage is not None:
            for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if tokens:
                    self._metrics.tokens.add(tokens, {**labels, "direction": direction})
        if exposure := estimate if cost is None else cost:
            self._metrics.exposure.add(exposure, labels)

    async def _ran(self, request: RunTool, outcome: RanTool | ApplicationError) -> None:
        labels = await self._of_tool(request)
        if isinstance(outcome, ApplicationError):
            self._metrics.tool_calls.add(1, {**labels, "outcome": outcome.type or "internal"})
            return
        self._metrics.tool_calls.add(1, {**labels, "outcome": kind_of(outcome)})
        self._metrics.tool_seconds.record(timedelta(milliseconds=outcome.milliseconds), labels)

    async def _of_tool(self, request: RunTool) -> dict[str, str]:
        """The labels of a tool call. Only a tool that the run recorded gives its name."""
        spec = await self._metrics.spec(request.run_id)
        known = spec is not None and any(tool.name == request.call.name for tool in spec.agent.tools)
        return {"agent": spec.agent.name if spec else "", "tool": request.call.name if known else ""}

    def _refusals(self, decisions: Iterable[Decision], labels: Mapping[str, str]) -> None:
        """Count the refusals among what was decided since the last step; they travel with the next one."""
        for decision in decisions:
            if reason := refusal(decision):
                self._metrics.refused.add(1, {**labels, "reason": reason})


def refusal(decision: Decision) -> str | None:
    """Why a step was not admitted, if the decision says that: a limit's status, `paused`, `fund`, or `question`."""
    match decision.kind:
        case "unfunded":
            return "fund"
        case "ended":
            status = decision.detail.get("status")
            return str(status) if status in LIMITS else None
        case "held":
            reason = str(decision.detail.get("reason", ""))
            limit = reason.partition(":")[0]
            return limit if limit in LIMITS else "paused" if reason == "paused" else "question"
        case _:
            return None


def _failure(error: ApplicationError) -> ModelFailure | None:
    """The failure that `call_model` reports."""
    found = error.details[0] if error.type == contracts.MODEL_FAILURE and error.details else None
    return found if isinstance(found, ModelFailure) else None
