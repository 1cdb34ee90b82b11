"""Search attributes: by which Temporal's own lists find a run and tell how it stands.

Each change of them is an event, so they follow what a person looks for: the status, what a run waits for, and the money
spent, by tenths of the budget and exactly at the end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from longshift.admission import WaitsFor
from longshift.limits import MICRO_USD_PER_CENT
from longshift.state import RunState
from longshift.status import Status

AGENT = "LongshiftAgent"
MODEL = "LongshiftModel"
STATUS = "LongshiftStatus"
WAITS_FOR = "LongshiftWaitsFor"
SPENT_CENTS = "LongshiftSpentCents"

AttributeType = Literal["Keyword", "Int"]
TYPES: Mapping[str, AttributeType] = {
    AGENT: "Keyword",
    MODEL: "Keyword",
    STATUS: "Keyword",
    WAITS_FOR: "Keyword",
    SPENT_CENTS: "Int",
}
"""Their types, by Temporal's names. A server takes them only once they are registered with it."""

TENTHS = 10


@dataclass(frozen=True)
class Standing:
    """How a run stands, as far as its search attributes tell."""

    status: str
    """RUNNING, WAITING, or how it ended."""
    waits_for: WaitsFor | None
    tenths: int
    """How many tenths of its budget are used."""
    spent_cents: int
    """US cents that its model calls may have cost; one that is begun counts."""

    def differs(self, shown: "Standing | None") -> bool:
        """Whether this is worth an event, where `shown` is what stands in the attributes."""
        if shown is None:
            return True
        return (self.status, self.waits_for) != (shown.status, shown.waits_for) or self.tenths > shown.tenths


def standing(state: RunState, waits_for: WaitsFor | None, end: Status | None) -> Standing:
    """How a run stands.

    Args:
        waits_for: what it waits for, if it does.
        end: how it ended, if it has.
    """
    status = end.value if end else "WAITING" if waits_for else "RUNNING"
    budget = state.limits.budget
    tenths = min(TENTHS, state.exposure * TENTHS // budget) if budget else 0
    return Standing(status, None if end else waits_for, tenths, -(-state.exposure // MICRO_USD_PER_CENT))
