"""The journal's tables. Times are seconds since the epoch, money is micro-USD, bodies are canonical JSON text.

A body stands once: a turn in its `model_calls` row, an observation in its `tool_calls` row, any other message in its
`messages` row. `messages` is the chain that the workflow confirmed, in order, and refers to the other two.

There are no foreign keys: every writer locks or reads its run first, rows of effects outlive what they belonged to,
and on PostgreSQL a key check would make each tool call wait for its run's row. The primary keys serve every look-up.
"""

from typing import Literal, cast

from sqlalchemy import BigInteger, Dialect, Table, Text
from sqlalchemy.types import TypeDecorator
from sqlmodel import Field, SQLModel

LARGEST = 2**63 - 1
"""The largest integer that both databases hold."""

CallState = Literal["sent", "answered", "failed"]
"""Of a model call: `sent` until its outcome is written."""
ToolState = Literal["started", "settled", "fenced", "unknown"]
"""Of a tool call. All but `settled` are of effects only. `started` is written before the handler runs; `fenced`: it was
never run, and never will be under this dispatch or a lower one; `unknown`: the handler is over without being able to
say what came of it."""


def stored(text: str) -> str:
    """`text` as the database holds it. A NUL character, which PostgreSQL cannot hold and an endpoint may send in a
    call's id, becomes U+FFFD."""
    return text.replace("\0", "\ufffd") if "\0" in text else text


class Words(TypeDecorator[str]):
    """Text that may come from outside."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """What is written for `value`."""
        return None if value is None else stored(value)


class Amount(TypeDecorator[int]):
    """An integer of 0 or more from outside: a limit, a reported usage. What is too large to hold becomes LARGEST."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: int | None, dialect: Dialect) -> int | None:
        """What is written for `value`."""
        return None if value is None else min(value, LARGEST)


class RunRow(SQLModel, table=True):
    """One run."""

    __tablename__ = "runs"

    run_id: str = Field(primary_key=True, sa_type=Words)
    agent: str = Field(sa_type=Words)
    endpoint: str = Field(sa_type=Words)
    model: str = Field(sa_type=Words)
    opened_at: float
    spec: str = Field(sa_type=Words)
    """JSON of the longshift.contracts.RunSpec."""
    closed_at: float | None = None
    status: str | None = Field(default=None, sa_type=Words)
    detail: str | None = Field(default=None, sa_type=Words)
    result: str | None = Field(default=None, sa_type=Words)
    """JSON of the longshift.contracts.RunResult."""
    length: int
    """Confirmed messages."""
    digest: str = Field(sa_type=Words)
    """The latest confirmed link."""


class MessageRow(SQLModel, table=True):
    """One message that the workflow confirmed."""

    __tablename__ = "messages"

    run_id: str = Field(primary_key=True, sa_type=Words)
    number: int = Field(primary_key=True)
    """From 0, without a gap."""
    role: str = Field(sa_type=Words)
    body: str | None = Field(default=None, sa_type=Words)
    """The message, unless it is a turn or a stored observation."""
    turn: int | None = None
    """The model call whose turn it is."""
    call_model: int | None = None
    """With the next two: the tool call whose observation it is."""
    call_position: int | None = None
    call_id: str | None = Field(default=None, sa_type=Words)
    bytes: int = Field(sa_type=Amount)
    digest: str = Field(sa_type=Words)
    """The chain's link after this message."""


class ModelCallRow(SQLModel, table=True):
    """One admitted request to an endpoint."""

    __tablename__ = "model_calls"

    run_id: str = Field(primary_key=True, sa_type=Words)
    number: int = Field(primary_key=True)
    """From 1."""
    context_length: int
    """Messages sent, by reference: the chain up to here."""
    context_digest: str = Field(sa_type=Words)
    excerpt: str | None = Field(default=None, sa_type=Words)
    """JSON of the longshift.context.Excerpt that says what of them was sent; None: all of them."""
    tools: bool
    """Whether tools were offered."""
    allowed: int = Field(sa_type=Amount)
    """Output tokens allowed."""
    estimate: int = Field(sa_type=Amount)
    """Micro-USD reserved."""
    state: str = Field(sa_type=Words)
    """A CallState."""
    body: str | None = Field(default=None, sa_type=Words)
    """The assistant message, whole."""
    stop_reason: str | None = Field(default=None, sa_type=Words)
    output_tokens: int | None = Field(default=None, sa_type=Amount)
    input_tokens: int | None = Field(default=None, sa_type=Amount)
    usage: str | None = Field(default=None, sa_type=Words)
    """JSON of the longshift.turns.Usage of a turn."""
    cost: int | None = Field(default=None, sa_type=Amount)
    milliseconds: int | None = Field(default=None, sa_type=Amount)
    failure: str | None = Field(default=None, sa_type=Words)
    """JSON of the longshift.turns.ModelFailure."""
    sender: str = Field(sa_type=Words)
    """The execution of its activity that sent it, as longshift.executions names it."""
    started_at: float
    ended_at: float | None = None
    fund: str | None = Field(default=None, sa_type=Words)
    """Name of the fund that pays for it."""
    reserved: int | None = Field(default=None, sa_type=Amount)
    """Micro-USD that the fund holds for it until its cost is known, or for good where it never is; 0 once it is known
    that it reached no model."""


class FundRow(SQLModel, table=True):
    """A budget that many runs draw on. Its sums are those of the calls it paid for, also of those that a reset has
    removed since: money spent stays spent."""

    __tablename__ = "funds"

    name: str = Field(primary_key=True, sa_type=Words)
    budget: int = Field(sa_type=Amount)
    """Micro-USD, as the next two."""
    spent: int = Field(sa_type=Amount)
    """What calls cost whose cost is known."""
    reserved: int = Field(sa_type=Amount)
    """What is held for calls whose cost is not known."""
    latest_raise: str | None = Field(default=None, sa_type=Words)
    """JSON of the request ids of the latest raises, so that one that is sent again counts once; by an earlier version
    the latest id alone, as it is."""


class ToolCallRow(SQLModel, table=True):
    """One dispatched tool call, or all dispatches of one effect. The key has the call's id, so that an effect of before
    a reset, whose row is never deleted, does not stand in the place of another call."""

    __tablename__ = "tool_calls"

    run_id: str = Field(primary_key=True, sa_type=Words)
    model_call: int = Field(primary_key=True)
    position: int = Field(primary_key=True)
    call_id: str = Field(primary_key=True, sa_type=Words)
    name: str = Field(sa_type=Words)
    arguments_sha256: str = Field(sa_type=Words)
    kind: str = Field(sa_type=Words)
    """A longshift.tools.Kind."""
    state: str = Field(sa_type=Words)
    """A ToolState."""
    dispatch: int = 0
    """The fence of an effect: the highest number under which it was begun or given up. It never falls."""
    note: str | None = Field(default=None, sa_type=Words)
    """Why an outcome is, or was, unknown."""
    body: str | None = Field(default=None, sa_type=Words)
    """The observation as the model gets it."""
    whole: str | None = Field(default=None, sa_type=Words)
    """What the tool returned, where the observation's content was cut."""
    fatal: bool = False
    milliseconds: int | None = Field(default=None, sa_type=Amount)
    attempt: str = Field(sa_type=Words)
    """The execution of its activity that entered it, named as a sender is; empty where none did; `a person` where one
    said what came of it."""
    started_at: float
    """Also of a fence: when it was written."""
    settled_at: float | None = None
    """Or left unknown."""


class DecisionRow(SQLModel, table=True):
    """Something that was decided about a run."""

    __tablename__ = "decisions"

    run_id: str = Field(primary_key=True, sa_type=Words)
    number: int = Field(primary_key=True)
    """From 1, in the order of writing."""
    ordinal: int | None = None
    """The workflow's number of it; None: the journal's own."""
    at: float
    kind: str = Field(sa_type=Words)
    detail: str = Field(sa_type=Words)
    """A JSON object."""


class RememberedRow(SQLModel, table=True):
    """A call id that was used, or a call that was made, which a run's state keeps no longer. SQLite keeps the table
    without row ids."""

    __tablename__ = "remembered"

    run_id: str = Field(primary_key=True, sa_type=Words)
    key: str = Field(primary_key=True, sa_type=Words)
    """Which of the two, and the key of it."""
    handed_with: int = Field(primary_key=True)
    """The model call it was handed over with."""
    resets: int
    """How often an effect had reset the counts of reads by then."""
    seen: str | None = Field(default=None, sa_type=Words)
    """Of a call: JSON of the longshift.memory.Seen."""


def _table(row: type[SQLModel]) -> Table:
    return cast(Table, row.__table__)  # type: ignore[attr-defined]  # SQLModel sets it without declaring it


RUNS = _table(RunRow)
MESSAGES = _table(MessageRow)
MODEL_CALLS = _table(ModelCallRow)
TOOL_CALLS = _table(ToolCallRow)
FUNDS = _table(FundRow)
DECISIONS = _table(DecisionRow)
REMEMBERED = _table(RememberedRow)
