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
    exposure: int
    """Micro-USD that its model calls may have cost; one that is begun counts."""
    budget: int
    """Micro-USD that it may reach."""

    @property
    def spent_cents(self) -> int:
        """The exposure in US cents, rounded up."""
        return -(-self.exposure // MICRO_USD_PER_CENT)

    def differs(self, before: "Standing | None") -> bool:
        """Whether this is worth an event, where `before` is how the run stood at the last one."""
        if before is None or (self.status, self.waits_for) != (before.status, before.waits_for):
            return True
        return self._tenths(self.exposure) > self._tenths(before.exposure)

    def _tenths(self, exposure: int) -> int:
        """How many tenths of the budget as it is now an exposure is."""
        return min(TENTHS, exposure * TENTHS // self.budget) if self.budget else 0


def standing(state: RunState, waits_for: WaitsFor | None, end: Status | None) -> Standing:
    """How a run stands.

    Args:
        waits_for: what it waits for, if it does.
        end: how it ended, if it has.
    """
    status = end.value if end else "WAITING" if waits_for else "RUNNING"
    return Standing(status, None if end else waits_for, state.exposure, state.limits.budget)
