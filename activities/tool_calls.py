"""The activities `run_tool`, one admitted tool call, and `settle_effect`, what came of one that brought nothing."""

import asyncio
import time
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities import failures
from activities.beginning import Beginning
from activities.heartbeat import heartbeating, say
from activities.recorder import Recorder, milliseconds, sender
from longshift import contracts, observations
from longshift.batches import told_again
from longshift.contracts import RanTool, RunSpec, RunTool, SettledEffect, SettleEffect
from longshift.messages import ToolMessage
from longshift.observations import InThread, Observation
from longshift.recording import record
from longshift.tools import Kind, Tool, ToolContext, ToolSpec
from store.errors import JournalMismatch, JournalUnavailable, PlaceTaken
from store.ledger import Begun, Fenced
from store.tool_calls import Observed

LOOK_SECONDS = 1.0
"""Seconds between looks at an effect whose handler may still be at work."""


class ToolCalls(Recorder):
    """Tool calls. Nothing here decides whether a call may begin or what an outcome that is not known means."""

    @activity.defn(name=contracts.RUN_TOOL)
    async def run_tool(self, request: RunTool) -> RanTool:
        """Run one admitted tool call and put its observation into the journal."""
        with heartbeating(), _known_failures(request.call.name):
            return await self._run_tool(request)

    @activity.defn(name=contracts.SETTLE_EFFECT)
    async def settle_effect(self, request: SettleEffect) -> SettledEffect:
        """Find out what came of an effect whose dispatch brought nothing. Harmless when repeated."""
        with heartbeating(), _known_failures(request.call.call.name):
            return await self._standing(request)

    async def _run_tool(self, request: RunTool) -> RanTool:
        spec = await self._journal.spec(request.run_id)
        recorded = _recorded(spec, request.call.name)
        try:
            known = await self._toolbox.tool(spec.agent.name, recorded)
        except ApplicationError as missing:
            if recorded.kind == "read":
                raise
            return await self._made_elsewhere(request, missing)
        if recorded.kind == "read" and known.spec.kind == "effect":
            raise failures.tool_missing(f"{recorded.name} was a read when the run started and is an effect now")
        tool = replace(known, spec=recorded)  # what the run was told of the tool stands
        if request.repeat_of is not None:
            return await self._tell_again(request, request.repeat_of, recorded.max_bytes)
        arguments = request.call.arguments
        if request.call.arguments_sha256 is not None:
            whole = await self._journal.tool_call(request.run_id, request.model_call, request.position)
            arguments = whole.arguments
        if recorded.kind == "read":
            return await self._read(request, tool, arguments)
        return await self._left_to_finish(self._effect(request, tool, arguments))

    async def _read(self, request: RunTool, tool: Tool[..., Any], arguments: Mapping[str, Any]) -> RanTool:
        """Run a read, which may have been run before."""
        before = activity.info().attempt > 1 or request.dispatch > 0
        if before and (stored := await self._journal.stored_observation(request)):
            return _ran(stored)
        started, began = time.time(), time.monotonic()
        seen = await self._handled(request, tool, arguments, tool.spec.timeout_seconds, self._in_thread)
        if seen is None:
            content = observations.error("timeout", _too_long(tool))
            seen = Observation(content, content, "timeout")
        if seen.kind == "transient" and _may_try_again(tool.spec.timeout_seconds):
            raise failures.read_failed(f"{tool.spec.name} failed for now and is tried again")
        return await self._observed(request, "read", _observed(request, seen, began), started)

    async def _left_to_finish(self, work: Coroutine[Any, Any, RanTool]) -> RanTool:
        """Let an effect finish, whatever the platform says meanwhile: a cancellation, a time-out or a pause would not
        undo it, and its outcome is worth having. Only a worker that ends past its grace breaks it off."""
        effect = asyncio.create_task(work)
        # Temporal cancels an activity once, and may have done so long before its worker ends.
        ending = asyncio.create_task(self._worker_ended())
        broken_off = False
        try:
            while not effect.done():
                waited = [effect] if broken_off else [effect, ending]
                with suppress(asyncio.CancelledError):
                    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
                if ending.done() and not broken_off:
                    broken_off = effect.cancel()
        finally:
            ending.cancel()
        if effect.cancelled():
            who = "its worker was ended" if broken_off else "it cancelled itself"
            raise failures.outcome_unknown(f"{who} while it was at work")
        return effect.result()

    async def _worker_ended(self) -> None:
        """Return once this worker was told to end and its grace is over."""
        await activity.wait_for_worker_shutdown()
        await asyncio.sleep(self._grace_seconds)

    async def _effect(self, request: RunTool, tool: Tool[..., Any], arguments: Mapping[str, Any]) -> RanTool:
        """Make an effect, once `started` is committed; never where it may have been made before."""
        again = tool.spec.idempotent and request.dispatch > 0
        beginning = Beginning(tool.spec.timeout_seconds)
        started = beginning.at
        if activity.info().attempt > 1 or not await self._journal.begin_effect(request, sender(), started, again=again):
            return await self._dispatched_before(request)
        beginning.missed = beginning.over()  # by now, where the worker or the journal stood still
        seen = None
        if not beginning.missed:
            # A thread cannot be told to stop: what a sync handler does past its time is waited for, and settled late.
            seconds = beginning.left() if tool.is_async else None
            in_thread = partial(beginning.in_thread, self._in_thread)
            seen = await self._handled(request, tool, arguments, seconds, in_thread)
        if beginning.missed:
            await self._settle(lambda: self._journal.withdraw_effect(request))
            raise failures.outcome_unknown(f"{request.call.name} was not begun in time")
        if seen is None or seen.kind == "outcome_unknown":
            why = _too_long(tool) if seen is None else observations.message_of(seen.content)
            await self._settle(lambda: self._journal.leave_unknown(request, time.time(), why))
            raise failures.outcome_unknown(why)
        return await self._observed(request, "effect", _observed(request, seen, beginning.began), started)

    async def _handled(
        self,
        request: RunTool,
        tool: Tool[..., Any],
        arguments: Mapping[str, Any],
        seconds: float | None,
        in_thread: InThread,
    ) -> Observation | None:
        """What the tool's handler brought; None where its time ran out, if it has one."""
        context = ToolContext(run_id=request.run_id, call_id=request.call.id, operation_id=request.operation_id)
        try:
            async with asyncio.timeout(seconds):
                return await observations.observe(tool, arguments, context, in_thread)
        except TimeoutError:
            return None

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

    async def _made_elsewhere(self, request: RunTool, missing: ApplicationError) -> RanTool:
        """What came of an effect that this worker has no tool for: one that had it may have made it, before the run was
        reset or its tools changed."""
        standing = await self._journal.effect(request)
        if isinstance(standing, Observed):
            return _ran(standing)
        if isinstance(standing, Begun):
            raise failures.outcome_unknown(f"{missing.message}; it was begun before") from None
        raise missing from None

    async def _standing(self, request: SettleEffect) -> SettledEffect:
        """What the ledger holds of an effect, once its handler can no longer be at work."""
        call = request.call
        recorded = _recorded(await self._journal.spec(call.run_id), call.call.name)
        if request.resolution is not None:
            content = observations.cut(request.resolution, recorded.max_bytes)
            whole = None if content == request.resolution else request.resolution
            word = Observed(_message(call, content), 0, fatal=False, whole=whole)
            return SettledEffect(ran=_ran(await self._journal.resolve_effect(call, word, time.time())))
        at_work = recorded.timeout_seconds + contracts.TOOL_MARGIN
        over: float | None = None
        while True:
            standing = await self._journal.settle_effect(call, time.time())
            if isinstance(standing, Observed):
                return SettledEffect(ran=_ran(standing))
            if isinstance(standing, Fenced):
                return SettledEffect(fence=standing.dispatch)
            if over is None:
                # Two workers' clocks may differ: no longer than a handler may take from now on, whatever they say, and
                # long enough for a worker to record what it has, since the journal may have come back just now.
                left = at_work + min(0.0, standing.started_at - time.time())
                over = time.monotonic() + max(left, contracts.TOOL_MARGIN)
            left = over - time.monotonic()
            if standing.over or left <= 0 or not request.patient:
                why = standing.why or "it was begun, and its outcome was not recorded"
                return SettledEffect(fence=standing.dispatch, unknown=why)
            say(f"{call.call.name} may still be at work, for {left:.0f} s")
            await asyncio.sleep(min(left, LOOK_SECONDS))


@contextmanager
def _known_failures(tool: str) -> Iterator[None]:
    """Make of whatever is raised a failure whose type says what it means for the run."""
    try:
        yield
    except PlaceTaken as error:
        raise failures.place_taken(str(error)) from None
    except JournalMismatch as error:
        raise failures.journal_differs(str(error)) from None
    except JournalUnavailable as error:
        raise failures.journal_away(str(error)) from None
    except ApplicationError:
        raise
    except Exception as error:
        activity.logger.exception("running the tool %s failed unexpectedly", tool)
        raise failures.tool_broke(f"the worker could not run it ({type(error).__name__}); its log has more") from None


def _recorded(spec: RunSpec, name: str) -> ToolSpec:
    """A tool as the run recorded it at its start."""
    for tool in spec.agent.tools:
        if tool.name == name:
            return tool
    raise failures.tool_missing(f"the run started without a tool {name}")


def _too_long(tool: Tool[..., Any]) -> str:
    return f"{tool.spec.name} took longer than its {tool.spec.timeout_seconds:g} seconds"


def _observed(request: RunTool, seen: Observation, began: float) -> Observed:
    uncut = None if seen.whole == seen.content else seen.whole
    return Observed(_message(request, seen.content), milliseconds(began), fatal=seen.kind == "fatal", whole=uncut)


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
