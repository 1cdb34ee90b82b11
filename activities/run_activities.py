"""The activities of a run, one I/O step each, as methods of an object that holds their clients."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities import failures
from activities.heartbeat import heartbeating, say
from activities.opening import opening, resolve
from endpoints.base import Endpoint, Reply, Request
from endpoints.config import EndpointConfig
from longshift import contracts, jsontext, observations
from longshift.agent import Agent
from longshift.batches import told_again
from longshift.contracts import (
    CalledModel,
    CallModel,
    CloseRun,
    InputRefused,
    OpenedRun,
    OpenRun,
    RanTool,
    RunSpec,
    RunTool,
)
from longshift.messages import ToolMessage
from longshift.recording import record
from longshift.tools import Kind, Tool, ToolContext
from longshift.turns import CallFailed, ModelFailure, Turn
from store.calls import Answered, Failed, Lost, Observed
from store.errors import JournalMismatch, JournalUnavailable
from store.journal import Journal

Settled = TypeVar("Settled")

MARK_DIGITS = 6
"""Hex digits of the run's digest in a call id of ours, so that it differs from those of a transcript gone on from."""
SETTLE_PAUSE_SECONDS = 1.0
"""Seconds between attempts to record a reply that was paid for while the journal is away."""


class Activities:
    """All activities of the worker. Nothing here decides whether a step may happen or what ends a run."""

    def __init__(
        self,
        journal: Journal,
        agents: Mapping[str, Agent],
        endpoints: Mapping[str, Endpoint],
        endpoint_configs: Mapping[str, EndpointConfig],
        heartbeat_seconds: float,
        in_thread: observations.InThread = asyncio.to_thread,
    ) -> None:
        self._journal = journal
        self._agents = agents
        self._endpoints = endpoints
        self._endpoint_configs = endpoint_configs
        self._heartbeat_seconds = heartbeat_seconds
        self._in_thread = in_thread

    def all(self) -> list[Callable[..., Any]]:
        """The activities to register with a worker."""
        return [self.open_run, self.call_model, self.run_tool, self.close_run]

    @activity.defn(name=contracts.OPEN_RUN)
    async def open_run(self, request: OpenRun) -> OpenedRun:
        """Resolve the agent and begin the journal. Harmless when repeated."""
        with heartbeating():
            try:
                spec = resolve(request.given, self._agents, self._endpoint_configs, self._heartbeat_seconds)
                messages = opening(request.given, spec)
            except InputRefused as refused:
                raise failures.input_refused(refused) from None
            try:
                await self._journal.open_run(request.run_id, spec, messages, request.started_at)
                spec = await self._journal.spec(request.run_id)  # the one that was entered first stands
            except JournalMismatch as error:
                raise failures.input_refused(InputRefused({"run_id": str(error)})) from None
            except JournalUnavailable as error:
                raise failures.journal_away(str(error)) from None
            return OpenedRun(spec=spec, opening=tuple(record(message) for message in messages))

    @activity.defn(name=contracts.CALL_MODEL)
    async def call_model(self, request: CallModel) -> CalledModel:
        """Send one admitted model call, unless the journal knows that it was sent before."""
        with heartbeating():
            try:
                begun = await self._journal.begin_model_call(request, _sender(), time.time())
                if isinstance(begun, Answered):
                    return CalledModel(turn=begun.turn)
                if isinstance(begun, Failed | Lost):
                    raise failures.model_failed(begun.failure)
                spec = await self._journal.spec(request.run_id)
            except JournalMismatch as error:
                failure = ModelFailure(kind="journal", message=str(error), transient=False)
                raise failures.model_failed(failure) from None
            except JournalUnavailable as error:
                failure = ModelFailure(kind="journal", message=str(error), transient=True)
                raise failures.model_failed(failure) from None
            began = time.monotonic()
            try:
                reply = await self._send(request, spec)
            except CallFailed as failed:
                failure = failed.failure.model_copy(update={"milliseconds": _milliseconds(began)})
                await self._settle(lambda: self._journal.fail_model_call(request, failure, time.time()))
                activity.logger.warning("model call %d failed: %s", request.number, failure.message)
                raise failures.model_failed(failure) from None
            turn = Turn(
                reply=record(reply.message),
                stop_reason=reply.stop_reason,
                usage=reply.usage,
                cost=reply.cost,
                milliseconds=_milliseconds(began),
            )
            if not await self._settle(
                lambda: self._journal.settle_model_call(request, reply.message, turn, time.time())
            ):
                text = f"model call {request.number} was given up before its reply came; the reply is not used"
                raise failures.model_failed(ModelFailure(kind="lost", message=text, transient=True))
            return CalledModel(turn=turn)

    @activity.defn(name=contracts.RUN_TOOL)
    async def run_tool(self, request: RunTool) -> RanTool:
        """Run one admitted tool call and put its observation into the journal."""
        with heartbeating():
            try:
                return await self._run_tool(request)
            except JournalMismatch as error:
                raise failures.journal_differs(str(error)) from None
            except JournalUnavailable as error:
                raise failures.journal_away(str(error)) from None
            except ApplicationError:
                raise
            except Exception as error:
                activity.logger.exception("running the tool %s failed unexpectedly", request.call.name)
                text = f"the worker could not run it ({type(error).__name__}); its log has more"
                raise failures.tool_broke(text) from None

    @activity.defn(name=contracts.CLOSE_RUN)
    async def close_run(self, request: CloseRun) -> None:
        """Record the end of a run. Harmless when repeated."""
        with heartbeating():
            try:
                await self._journal.close_run(request, time.time())
            except JournalMismatch as error:
                raise failures.journal_differs(str(error)) from None
            except JournalUnavailable as error:
                raise failures.journal_away(str(error)) from None

    async def _send(self, request: CallModel, spec: RunSpec) -> Reply:
        name = spec.endpoint.name
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            text = f"this worker knows no endpoint {name}; name it in its configuration"
            raise CallFailed(ModelFailure(kind="internal", message=text, transient=False))
        mark = jsontext.sha256(request.run_id)[:MARK_DIGITS]
        try:
            return await endpoint.send(
                Request(
                    reply=request.reply,
                    output_tokens=request.output_tokens,
                    tools=spec.agent.tools if request.tools else (),
                    messages=lambda: self._journal.transcript(request.run_id, request.head),
                    own_id=lambda position: f"ls-{mark}-{request.number}-{position}",
                    estimate=request.estimate,
                    observe_malformed=spec.agent.malformed_calls == "observe",
                )
            )
        except JournalMismatch as error:
            raise CallFailed(ModelFailure(kind="internal", message=str(error), transient=False)) from None
        except JournalUnavailable as error:
            raise CallFailed(ModelFailure(kind="internal", message=str(error), transient=True)) from None
        except CallFailed:
            raise
        except Exception as error:  # a bug in an endpoint must not cost the run its retry posture
            activity.logger.exception("endpoint %s failed unexpectedly", name)
            text = f"the endpoint {name} failed with {type(error).__name__}; the worker's log has more"
            raise CallFailed(ModelFailure(kind="internal", message=text, transient=False)) from None

    async def _settle(self, write: Callable[[], Awaitable[Settled]]) -> Settled:
        """Record what came of a call. It may have been paid for or have changed the world, so a journal that is away
        is waited for, as long as the platform lets this attempt live."""
        while True:
            try:
                settled = await write()
            except JournalUnavailable as error:
                activity.logger.warning("the journal is away, a result waits for it: %s", error)
                say(f"the journal is away, a result waits for it: {error}")
                await asyncio.sleep(SETTLE_PAUSE_SECONDS)
            else:
                say()
                return settled

    async def _run_tool(self, request: RunTool) -> RanTool:
        tool = self._tool((await self._journal.spec(request.run_id)).agent.name, request.call.name)
        if request.repeat_of is not None:
            return await self._tell_again(request, request.repeat_of, tool.spec.max_bytes)
        effect = tool.spec.kind == "effect"
        again = activity.info().attempt > 1
        if effect and (again or not await self._journal.begin_tool_call(request, "effect", _sender(), time.time())):
            return await self._dispatched_before(request)
        if again and (stored := await self._journal.stored_observation(request)):
            return _ran(stored)
        arguments = request.call.arguments
        if request.call.arguments_sha256 is not None:
            call = await self._journal.tool_call(request.run_id, request.model_call, request.position)
            arguments = call.arguments
        context = ToolContext(
            run_id=request.run_id,
            call_id=request.call.id,
            operation_id=f"{request.run_id}/{request.model_call}/{request.position}/{request.call.id}",
        )
        started, began = time.time(), time.monotonic()
        try:
            async with asyncio.timeout(tool.spec.timeout_seconds):
                seen = await observations.observe(tool, arguments, context, self._in_thread)
            content, whole, kind = seen.content, seen.whole, seen.kind
        except TimeoutError:
            text = f"{tool.spec.name} took longer than its {tool.spec.timeout_seconds:g} seconds"
            if effect:
                raise failures.outcome_unknown(text) from None
            content, kind = observations.error("timeout", text), "timeout"
            whole = content
        if kind == "transient" and not effect and _may_try_again(tool.spec.timeout_seconds):
            raise failures.read_failed(f"{tool.spec.name} failed for now and is tried again")
        uncut = None if whole == content else whole
        observed = Observed(_message(request, content), _milliseconds(began), fatal=kind == "fatal", whole=uncut)
        return await self._observed(request, tool.spec.kind, observed, started)

    async def _observed(self, request: RunTool, kind: Kind, observed: Observed, started: float) -> RanTool:
        """Put an observation into the journal; the first one that stood there is the one that counts."""
        return _ran(
            await self._settle(
                lambda: self._journal.settle_tool_call(request, kind, _sender(), observed, started, time.time())
            )
        )

    async def _tell_again(self, request: RunTool, earlier: tuple[int, int], max_bytes: int) -> RanTool:
        """The observation of a call that is repeated: what the earlier one returned, and no second run."""
        stored = await self._journal.observation(request.run_id, *earlier)
        returned = stored.observation.content if stored else "an observation that stands above"
        whole = observations.error("repeated", told_again(returned))
        content = observations.cut(whole, max_bytes)
        uncut = None if whole == content else whole
        observed = Observed(_message(request, content), 0, fatal=False, whole=uncut)
        return await self._observed(request, "read", observed, time.time())

    async def _dispatched_before(self, request: RunTool) -> RanTool:
        """An effect that was dispatched before: what is known of it, and never a second run."""
        stored = await self._journal.stored_observation(request)
        if stored is None:
            raise failures.outcome_unknown(f"{request.call.name} was begun before and its outcome was not recorded")
        return _ran(stored)

    def _tool(self, agent: str, name: str) -> Tool[..., Any]:
        known = self._agents.get(agent)
        for tool in known.tools if known else ():
            if tool.spec.name == name:
                return tool
        raise failures.tool_missing(f"this worker has no tool {name} for agent {agent}, which the run started with")


def _message(request: RunTool, content: str) -> ToolMessage:
    return ToolMessage(call_id=request.call.id, name=request.call.name, content=content)


def _ran(observed: Observed) -> RanTool:
    return RanTool(observation=record(observed.observation), milliseconds=observed.milliseconds, fatal=observed.fatal)


def _may_try_again(seconds: float) -> bool:
    """Whether a read that failed for now is left to the platform's retries: within the tool's own time-out."""
    info = activity.info()
    policy = info.retry_policy
    attempts = policy.maximum_attempts if policy else 1
    return info.attempt < attempts and time.time() - info.scheduled_time.timestamp() < seconds


def _sender() -> str:
    """This attempt, as the journal names it."""
    info = activity.info()
    return f"{info.workflow_run_id}/{info.activity_id}"


def _milliseconds(began: float) -> int:
    return int((time.monotonic() - began) * 1000)
