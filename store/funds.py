"""Funds: what is held of one while a model call is out, and what the call cost. Functions of one transaction.

Whoever holds a fund's row locks nothing after it. So a run's row, then its calls', then the fund's is the order of all
locks, and the runs of a fund never wait for each other in a ring.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, bindparam, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert

from longshift.funds import MAX_BUDGET, UNCOUNTED, AmountRefused, Fund, refusal, unknown
from longshift.limits import MAX_CENTS, cents
from store.errors import FundRefused
from store.tables import FUNDS, Amount

RAISES_KEPT = 50
"""Request ids of a fund's latest raises that its row keeps: one that is sent again comes within seconds."""


@dataclass(frozen=True)
class Draw:
    """What a model call takes from a fund before it is sent."""

    fund: str
    amount: int | None
    """Micro-USD, the most that it may cost; None where nobody can say."""


_COLUMNS: tuple[ColumnElement[Any], ...] = (FUNDS.c.name, FUNDS.c.budget, FUNDS.c.spent, FUNDS.c.reserved)
_FUND = select(*_COLUMNS).where(FUNDS.c.name == bindparam("fund"))
_RESERVE = (
    update(FUNDS)
    .where(
        FUNDS.c.name == bindparam("fund"),
        FUNDS.c.budget - FUNDS.c.spent - FUNDS.c.reserved >= bindparam("amount", type_=Amount),
    )
    .values(reserved=FUNDS.c.reserved + bindparam("amount", type_=Amount))
    .returning(FUNDS.c.name)
)
_SETTLE = (
    update(FUNDS)
    .where(FUNDS.c.name == bindparam("fund"))
    .values(
        reserved=FUNDS.c.reserved - bindparam("held", type_=Amount),
        spent=FUNDS.c.spent + bindparam("charged", type_=Amount),
    )
)


def _set(insert: sqlite.Insert | postgresql.Insert) -> ReturningInsert[Any]:
    fresh = insert.values(spent=0, reserved=0)
    return fresh.on_conflict_do_update(
        index_elements=[FUNDS.c.name], set_={"budget": insert.excluded.budget}
    ).returning(*_COLUMNS)


_SET: Mapping[str, ReturningInsert[Any]] = {
    "sqlite": _set(sqlite.insert(FUNDS)),
    "postgresql": _set(postgresql.insert(FUNDS)),
}


def reserve(connection: Connection, draw: Draw) -> None:
    """Hold `draw.amount`, so that spent and reserved together stay within the budget.

    Raises FundRefused where too little is left, nobody can say how much it takes, or there is no such fund.
    """
    if draw.amount is None:
        raise FundRefused(f"fund {draw.fund}: {UNCOUNTED}")
    if connection.execute(_RESERVE, {"fund": draw.fund, "amount": draw.amount}).one_or_none() is None:
        fund = read_fund(connection, draw.fund)
        known = [one.name for one in read_funds(connection)] if fund is None else []
        raise FundRefused(unknown(draw.fund, known) if fund is None else refusal(fund, draw.amount))


def settle(connection: Connection, fund: str, held: int, cost: int) -> None:
    """Put what a call cost in the place of what was held for it, also where it cost more."""
    # A nonsense bill is recorded with the call; here it is cut, so that the sum stays one that the database holds.
    connection.execute(_SETTLE, {"fund": fund, "held": held, "charged": min(cost, MAX_BUDGET)})


def read_fund(connection: Connection, name: str) -> Fund | None:
    """One fund."""
    row = connection.execute(_FUND, {"fund": name}).one_or_none()
    return None if row is None else _fund(row)


def read_funds(connection: Connection) -> list[Fund]:
    """All funds, by name."""
    return [_fund(row) for row in connection.execute(select(*_COLUMNS).order_by(FUNDS.c.name))]


def set_fund(connection: Connection, name: str, budget: int) -> Fund:
    """Give a fund a budget, and make it where there is none."""
    return _fund(connection.execute(_SET[connection.dialect.name], {"name": name, "budget": budget}).one())


def raise_fund(connection: Connection, name: str, amount: int, request_id: str) -> Fund:
    """Add to a fund's budget, once for each request id, as far back as RAISES_KEPT raises.

    Raises FundRefused where there is no such fund, AmountRefused where the budget would be too large to hold.
    """
    row = connection.execute(select(FUNDS).where(FUNDS.c.name == name).with_for_update()).one_or_none()
    if row is None:
        raise FundRefused(unknown(name, [one.name for one in read_funds(connection)]))
    known = _raises(row.latest_raise)
    if request_id in known:
        return _fund(row)
    if row.budget + amount > MAX_BUDGET:
        most = cents(MAX_BUDGET - row.budget)
        raise AmountRefused(f"adds at most {most} cents here: a fund's budget is at most {MAX_CENTS} cents")
    raised = update(FUNDS).where(FUNDS.c.name == name).returning(*_COLUMNS)
    kept = json.dumps([*known, request_id][-RAISES_KEPT:])  # all ASCII, so that each id is held as it is
    return _fund(connection.execute(raised, {"budget": row.budget + amount, "latest_raise": kept}).one())


def _raises(held: str | None) -> list[str]:
    """The request ids that a fund's row holds, the latest last."""
    if held is None:
        return []
    with suppress(ValueError):
        ids = json.loads(held)
        if isinstance(ids, list):
            return ids
    return [held]  # an earlier version wrote the id of the latest raise alone


def _fund(row: Row[Any]) -> Fund:
    return Fund(name=row.name, budget=row.budget, spent=row.spent, reserved=row.reserved)
