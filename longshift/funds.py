"""Funds: named budgets that many runs draw on. Their names, their amounts, and what is left of one.

A fund's money stands in the journal, and only there: store/funds.py moves it, in the transactions that enter a model
call and its outcome.
"""

import re
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, JsonValue

from longshift.limits import MAX_CENTS, MAX_SHOWN, MICRO_USD_PER_CENT, cents
from longshift.messages import Payload
from longshift.turns import FailureKind

FUND_NAME = re.compile(r"[a-z][a-z0-9-]{0,63}")
"""A fund's name stands in commands and in the configuration, as an agent's does."""
MAX_BUDGET = MAX_CENTS * MICRO_USD_PER_CENT
"""Micro-USD, the largest budget of a fund."""
NEVER_SENT: tuple[FailureKind, ...] = ("connect", "missing_key", "used_up")
"""Failures of calls that surely reached no model: a fund gets back what it held for one. A fund outlives its runs, and
an hour without a connection would else use it up."""

_CENTS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,4})?")


UNCOUNTED = (
    "what a call may cost is not known: the endpoint has no price and estimated_call_cents is 0; give the endpoint a "
    "price in the configuration, or set the limit estimated_call_cents"
)
"""Why a fund does not pay for a call, or for a run, and what to do."""


class AmountRefused(ValueError):
    """An amount of money is bad; the text is the rule it breaks."""


def usable_name(name: str) -> str:
    """The name itself.

    Raises ValueError, with the rule, for what is no fund's name.
    """
    if not FUND_NAME.fullmatch(name):
        raise ValueError("must be 1 to 64 lower-case letters, digits or -, and begin with a letter")
    return name


FundName = Annotated[str, AfterValidator(usable_name)]


def micro_usd(text: str) -> int:
    """US cents as people write them, as micro-USD: digits, at most four of them after a point.

    Raises AmountRefused for anything else: an amount of money is never guessed at and never rounded.
    """
    if not _CENTS.fullmatch(text) or Decimal(text) > MAX_CENTS:
        rule = f"must be US cents, 0 to {MAX_CENTS}, with at most four decimals, such as 5000 or 12.5"
        raise AmountRefused(f"{rule}, not {text[:MAX_SHOWN]!r}")
    return int(Decimal(text) * MICRO_USD_PER_CENT)


class Fund(Payload):
    """A fund as it stands. All amounts are micro-USD."""

    name: str
    budget: int
    spent: int = 0
    """What settled calls cost."""
    reserved: int = 0
    """What calls that are out may cost, and what those may have cost that brought no known outcome."""

    @property
    def left(self) -> int:
        """What further calls may reserve; negative where the budget was lowered below what is used, or a server billed
        more than the operator's price makes possible."""
        return self.budget - self.spent - self.reserved

    def document(self) -> dict[str, JsonValue]:
        """The fund as the command line prints it, in US cents."""
        amounts = {"budget": self.budget, "spent": self.spent, "reserved": self.reserved, "left": self.left}
        return {"fund": self.name, **{f"{name}_cents": cents(amount) for name, amount in amounts.items()}}


def refusal(fund: Fund, amount: int) -> str:
    """Why a call is not admitted that may cost `amount`, and what to do."""
    return (
        f"fund {fund.name}: this call may cost {cents(amount)} cents and {cents(max(0, fund.left))} of "
        f"{cents(fund.budget)} are left; raise it with: longshift funds raise {fund.name} AMOUNT"
    )


def unknown(name: str, known: list[str]) -> str:
    """That there is no such fund, which there are, and what to do."""
    there = ", ".join(known) or "none"
    return f"there is no fund {name[:64]!r}, the funds are: {there}; make it with: longshift funds set NAME AMOUNT"


def most(estimate: int, highest: int | None) -> int | None:
    """What to hold of a fund for a call, so that what it costs is not more.

    Args:
        estimate: the run's own estimate.
        highest: the most that it costs by its endpoint's price; None where there is no price.

    Returns: micro-USD; None where nobody can say, and a fund pays for no such call.
    """
    return max(estimate, highest) if highest is not None else estimate or None
