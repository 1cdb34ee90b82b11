"""The activity `run_tool`: one admitted tool call."""

import asyncio
import time
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities import failures
from activities.heartbeat import heartbeating
from activities.recorder import Recorder, milliseconds, sender
from longshift import contracts, observations
from longshift.batches import told_again
from longshift.contracts import RanTool, RunTool
from longshift.messages import ToolMessage
from longshift.recording import record
from longshift.tools import Kind, Tool, ToolContext
from store.calls import Observed
from store.errors import JournalMismatch, JournalUnavailable


class ToolCalls(Recorder):
    """Tool calls. Nothing here decides whether a call may begin or what an outcome that is not known means."""

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

    async def _run_tool(self, request: RunTool) -> RanTool:
        tool = self._tool((await self._journal.spec(request.run_id)).agent.name, request.call.name)
        if request.repeat_of is not None:
            return await self._tell_again(request, request.repeat_of, tool.spec.max_bytes)
        effect = tool.spec.kind == "effect"
        again = activity.info().attempt > 1
        if effect and (again or not await self._journal.begin_tool_call(request, "effect", sender(), time.time())):
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
        observed = Observed(_message(request, content), milliseconds(began), fatal=kind == "fatal", whole=uncut)
        return await self._observed(request, tool.spec.kind, observed, started)

    async def _observed(self, request: RunTool, kind: Kind, observed: Observed, started: float) -> RanTool:
        """Put an observation into the journal; the first one that stood there is the one that counts."""
        return _ran(
            await self._settle(
                lambda: self._journal.settle_tool_call(request, kind, sender(), observed, started, time.time())
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
