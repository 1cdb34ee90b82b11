"""The activity `call_model`: one admitted request to an endpoint."""

import time
from collections.abc import Sequence

from temporalio import activity

from activities import failures
from activities.heartbeat import heartbeating
from activities.recorder import Recorder, milliseconds, sender
from endpoints.base import Reply, Request
from endpoints.config import highest_cost
from longshift import contracts, jsontext
from longshift.contracts import CalledModel, CallModel, RunSpec
from longshift.funds import most
from longshift.messages import ToolCall
from longshift.recording import record
from longshift.tools import ArgumentsRefused
from longshift.turns import CallFailed, ModelFailure, Turn
from store.calls import Answered, Failed, Lost
from store.errors import FundRefused, JournalMismatch, JournalUnavailable
from store.funds import Draw

MARK_DIGITS = 6
"""Hex digits of the run's digest in a call id of ours, so that it differs from those of a transcript gone on from."""


class _Unread(CallFailed):
    """The transcript could not be read, so nothing was sent."""


class ModelCalls(Recorder):
    """Calls of models. Nothing here decides whether a call may be made, or is made again."""

    @activity.defn(name=contracts.CALL_MODEL)
    async def call_model(self, request: CallModel) -> CalledModel:
        """Send one admitted model call, unless the journal knows that it was sent before."""
        with heartbeating():
            try:
                spec = await self._journal.spec(request.run_id)
                draw = self._draw(request, spec)
                begun = await self._journal.begin_model_call(request, sender(), time.time(), draw)
                if isinstance(begun, Answered):
                    return await self._called(request, spec, begun.turn, begun.turn.message.calls)
                if isinstance(begun, Failed | Lost):
                    raise failures.model_failed(begun.failure)
            except FundRefused as error:
                failure = ModelFailure(kind="fund", message=str(error), transient=False)
                raise failures.model_failed(failure) from None
            except JournalMismatch as error:
                failure = ModelFailure(kind="journal", message=str(error), transient=False)
                raise failures.model_failed(failure) from None
            except JournalUnavailable as error:
                failure = ModelFailure(kind="journal", message=str(error), transient=True)
                raise failures.model_failed(failure) from None
            began = time.monotonic()
            try:
                reply = await self._send(request, spec, draw)
            except CallFailed as failed:
                failure = failed.failure.model_copy(update={"milliseconds": milliseconds(began)})
                unread = isinstance(failed, _Unread)
                await self._settle(
                    lambda: self._journal.fail_model_call(request, failure, time.time(), never_sent=unread)
                )
                activity.logger.warning("model call %d failed: %s", request.number, failure.message)
                raise failures.model_failed(failure) from None
            turn = Turn(
                reply=record(reply.message),
                stop_reason=reply.stop_reason,
                usage=reply.usage,
                cost=reply.cost,
                milliseconds=milliseconds(began),
            )
            if not await self._settle(
                lambda: self._journal.settle_model_call(request, reply.message, turn, time.time())
            ):
                text = f"model call {request.number} was given up before its reply came; the reply is not used"
                raise failures.model_failed(ModelFailure(kind="lost", message=text, transient=True))
            return await self._called(request, spec, turn, reply.message.calls)

    async def _called(self, request: CallModel, spec: RunSpec, turn: Turn, calls: Sequence[ToolCall]) -> CalledModel:
        """A turn, with what the journal remembers of its calls, and which of them nobody need be asked about."""
        recalled = None
        if request.resets is not None and calls:
            recalled = await self._settle(lambda: self._journal.recall(request, calls))
        return CalledModel(turn=turn, recalled=recalled or None, refused=await self._refused(spec, calls))

    async def _refused(self, spec: RunSpec, calls: Sequence[ToolCall]) -> dict[int, str]:
        """Why arguments do not fit, by position, of the effects that may need a person's approval."""
        asking = {tool.name: tool for tool in spec.agent.tools if tool.needs_approval}
        refused: dict[int, str] = {}
        for position, call in enumerate(calls):
            if call.name not in asking or call.malformed is not None or call.arguments_sha256 is not None:
                continue
            try:
                (await self._toolbox.tool(spec.agent.name, asking[call.name])).validate(call.arguments)
            except ArgumentsRefused as error:
                refused[position] = str(error)
            except Exception as error:  # whatever else is wrong with the tool is told when the call is made
                activity.logger.info("the arguments of %s could not be checked: %s", call.name, type(error).__name__)
        return refused

    def _draw(self, request: CallModel, spec: RunSpec) -> Draw | None:
        """What the call takes from the run's fund, if it has one, until its cost is known."""
        config = self._endpoint_configs.get(spec.endpoint.name)
        if spec.fund is None or config is None:  # nothing can be sent to an endpoint that this worker does not know
            return None
        # A workflow of a version that knew no fund tells no context: then its limit bounds it.
        context = request.context_bytes or spec.agent.limits.context_bytes
        highest = highest_cost(config.price, context_bytes=context, allowed=request.output_tokens)
        return Draw(spec.fund, most(request.estimate, highest))

    async def _send(self, request: CallModel, spec: RunSpec, draw: Draw | None) -> Reply:
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
                    messages=lambda: self._journal.transcript(request.run_id, request.head, request.excerpt),
                    own_id=lambda position: f"ls-{mark}-{request.number}-{position}",
                    estimate=(draw.amount if draw is not None else None) or request.estimate,
                    observe_malformed=spec.agent.malformed_calls == "observe",
                )
            )
        except JournalMismatch as error:
            raise _Unread(ModelFailure(kind="internal", message=str(error), transient=False)) from None
        except JournalUnavailable as error:
            raise _Unread(ModelFailure(kind="internal", message=str(error), transient=True)) from None
        except CallFailed:
            raise
        except Exception as error:  # a bug in an endpoint must not cost the run its retry posture
            activity.logger.exception("endpoint %s failed unexpectedly", name)
            text = f"the endpoint {name} failed with {type(error).__name__}; the worker's log has more"
            raise CallFailed(ModelFailure(kind="internal", message=text, transient=False)) from None
