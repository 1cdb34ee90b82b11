"""The activities of a run, one I/O step each, as methods of an object that holds their clients."""

import time
from collections.abc import Callable
from typing import Any

from temporalio import activity
from temporalio.service import RPCError

from activities import failures
from activities.attributes import NO_ANSWER, lacking
from activities.heartbeat import heartbeating
from activities.model_calls import ModelCalls
from activities.opening import equip, opening, resolve
from activities.tool_calls import ToolCalls
from longshift import contracts
from longshift.contracts import CheckAttributes, CheckedAttributes, CloseRun, OpenedRun, OpenRun
from longshift.funds import unknown
from longshift.recording import record
from longshift.run_input import InputRefused
from store.errors import JournalMismatch, JournalUnavailable


class Activities(ModelCalls, ToolCalls):
    """All activities of the worker. Nothing here decides whether a step may happen or what ends a run."""

    def all(self) -> list[Callable[..., Any]]:
        """The activities to register with a worker."""
        return [
            self.open_run,
            self.call_model,
            self.run_tool,
            self.settle_effect,
            self.close_run,
            self.check_attributes,
        ]

    @activity.defn(name=contracts.OPEN_RUN)
    async def open_run(self, request: OpenRun) -> OpenedRun:
        """Resolve the agent and begin the journal. Harmless when repeated."""
        with heartbeating():
            try:
                spec = resolve(request.given, self._agents, self._endpoint_configs, self._heartbeat_seconds)
                messages = opening(request.given, spec)
            except InputRefused as refused:
                raise failures.input_refused(refused) from None
            if activity.info().attempt > 1 and time.time() >= request.started_at + spec.agent.limits.seconds:
                raise failures.too_late("its deadline passed before it could be opened")
            try:
                spec = await equip(spec, self._agents[request.given.agent], self._toolbox)
                await self._check_fund(spec.fund)
                await self._journal.open_run(request.run_id, spec, messages, request.started_at)
                spec = await self._journal.spec(request.run_id)  # the one that was entered first stands
            except InputRefused as refused:
                raise failures.input_refused(refused) from None
            except JournalMismatch as error:
                raise failures.input_refused(InputRefused({"run_id": str(error)})) from None
            except JournalUnavailable as error:
                raise failures.journal_away(str(error)) from None
            return OpenedRun(spec=spec, opening=tuple(record(message) for message in messages))

    async def _check_fund(self, name: str | None) -> None:
        """Raises InputRefused where a fund is named that the journal does not have."""
        known = [fund.name for fund in await self._journal.funds()] if name is not None else []
        if name is not None and name not in known:
            raise InputRefused({"fund": unknown(name, known)})

    @activity.defn(name=contracts.CHECK_ATTRIBUTES)
    async def check_attributes(self, request: CheckAttributes) -> CheckedAttributes:
        """Find out whether the server knows the search attributes. One that refuses to tell counts as one that does
        not: a run works as well without them."""
        try:
            return CheckedAttributes(known=not await lacking(activity.client()))
        except RPCError as error:
            return CheckedAttributes(known=False, told=error.status not in NO_ANSWER)

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
