"""How a run keeps its search attributes, where the server has them."""

from typing import Any

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, SearchAttributeUpdate, TypedSearchAttributes
from temporalio.exceptions import ActivityError

from longshift import attributes
from longshift.admission import Hold, WaitsFor
from longshift.attributes import Standing, standing
from longshift.contracts import CheckAttributes, CheckedAttributes, RunResult, RunSpec
from longshift.limits import Limits
from workflows import calls
from workflows.mailbox import Mailbox

ATTRIBUTES = "search-attributes"
"""Runs from before this patch have none."""

AGENT = SearchAttributeKey.for_keyword(attributes.AGENT)
MODEL = SearchAttributeKey.for_keyword(attributes.MODEL)
STATUS = SearchAttributeKey.for_keyword(attributes.STATUS)
WAITS_FOR = SearchAttributeKey.for_keyword(attributes.WAITS_FOR)
SPENT_CENTS = SearchAttributeKey.for_int(attributes.SPENT_CENTS)
CHANGES = SearchAttributeKey.for_keyword_list("TemporalChangeVersion")
"""Temporal's own, which every run has that calls `workflow.patched`."""

MAX_CHARACTERS = 255
"""Characters of a value. A server takes 2,048 bytes, but one on a SQL database keeps keywords in columns of 255."""


class Attributes(Mailbox):
    """A run that shows how it stands in its search attributes.

    A server refuses an attribute that it does not know, and with it the whole workflow task, again and again. So each
    change first asks whether it knows them, by a local activity: question and change travel in one task, and where they
    are taken away in between, the task is refused, and the next attempt asks again.
    """

    _kept = False
    """Whether they are kept: not before the run is opened, nor once the server was found not to know them."""
    _asked: Standing | None = None
    """How the run stood when the server was last asked. Where it did not answer, the next change asks again."""
    _written = False
    """Whether anything stands in them."""
    _looked_at: tuple[Hold | None, RunResult | None, int, Limits] | None = None
    """What they follow from, where they need no change."""
    _away: tuple[WaitsFor, int, int] | None = None
    """Since when the journal or the fund is away, by what the run had then."""

    async def _keep_attributes(self) -> None:
        """Follow what changes, until the run ends. It works beside the loop; only the workflow task at hand waits for
        the server's answer."""
        await workflow.wait_condition(lambda: self._spec is not None)
        assert self._spec is not None
        if not workflow.patched(ATTRIBUTES):
            return
        self._kept = True
        try:
            while True:
                await workflow.wait_condition(self._attributes_due)
                checked = await _checked(self._state.run_id)
                if checked.told and not checked.known:
                    return
                self._asked = self._standing()
                if checked.known:
                    workflow.upsert_search_attributes(_changes(self._spec, self._asked, first=not self._written))
                    self._written = True
        finally:
            self._kept = False

    async def _attributes_followed(self) -> None:
        """Wait until the end stands in them."""
        await workflow.wait_condition(lambda: not (self._kept and self._attributes_due()))

    def _attributes_due(self) -> bool:
        """Whether what stands in them is worth a change. Asked several times a step, so what was looked at is known."""
        at = (self._waiting, self._result, self._state.exposure, self._state.limits)
        if at == self._looked_at and self._away is None:
            return False
        due = self._standing().differs(self._asked)
        self._looked_at = None if due else at
        return due

    def _is_away(self, what: WaitsFor) -> None:
        """The journal or the fund is away. It counts as away until the run gets on: each attempt in between is no
        change worth an event."""
        self._away = (what, self._state.replies, self._state.head.length)

    def _standing(self) -> Standing:
        state, waits_for = self._state, self._waiting.kind if self._waiting else None
        if waits_for is None and self._away and self._away[1:] == (state.replies, state.head.length):
            waits_for = self._away[0]
        return standing(state, waits_for, self._result.status if self._result else None)


def carried_over() -> TypedSearchAttributes | None:
    """What continue-as-new hands to the next run: all that are not ours, since one that was taken away meanwhile would
    keep the server from taking the task; the next run sets ours anew. None: all that there are."""
    found = workflow.info().typed_search_attributes
    if found.get(STATUS) is None:
        return None
    others = [pair for pair in found if pair.key.name not in (*attributes.TYPES, CHANGES.name)]
    return TypedSearchAttributes([*others, SearchAttributePair(CHANGES, [ATTRIBUTES])])  # with none, all are carried


async def _checked(run_id: str) -> CheckedAttributes:
    try:
        return await calls.check_attributes_now(CheckAttributes(run_id=run_id))
    except ActivityError:
        return CheckedAttributes(told=False)


def _changes(spec: RunSpec, now: Standing, *, first: bool) -> list[SearchAttributeUpdate[Any]]:
    waits = WAITS_FOR.value_unset() if now.waits_for is None else WAITS_FOR.value_set(now.waits_for)
    fixed = [AGENT.value_set(spec.agent.name), MODEL.value_set(spec.endpoint.model[:MAX_CHARACTERS])] if first else []
    return [*fixed, STATUS.value_set(now.status), waits, SPENT_CENTS.value_set(now.spent_cents)]
