"""What the journal remembers of a run's calls in its workflow's place. Functions of one transaction.

A row stands under the model call it was handed over with, so that a reset, which walks the run again, is told what
stood there at that point and nothing of the way not gone.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from longshift.contracts import CallModel
from longshift.memory import SEEN, Memory, Seen, id_key
from longshift.messages import ToolCall
from longshift.repeats import key_of
from store.tables import REMEMBERED, stored

_REMEMBER = {
    "sqlite": sqlite.insert(REMEMBERED).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(REMEMBERED).on_conflict_do_nothing(),
}
_RECALL = (
    select(REMEMBERED)
    .where(
        REMEMBERED.c.run_id == bindparam("run"),
        REMEMBERED.c.key.in_(bindparam("keys", expanding=True)),
        REMEMBERED.c.handed_with <= bindparam("number"),
    )
    .order_by(REMEMBERED.c.handed_with)
)
_ID, _CALL = "id ", "call "
"""Begin the keys of call ids and of calls."""


def remember(connection: Connection, request: CallModel) -> None:
    """Enter what a run's state keeps no longer."""
    if request.forgotten is None:
        return
    base = {"run_id": request.run_id, "handed_with": request.number, "resets": request.resets or 0, "seen": None}
    rows = [base | {"key": _ID + stored(call_id)} for call_id in request.forgotten.ids]
    rows += [
        base | {"key": _CALL + key, "seen": SEEN.dump_json(seen).decode()}
        for key, seen in request.forgotten.seen.items()
    ]
    connection.execute(_REMEMBER[connection.dialect.name], rows)


def recall(connection: Connection, request: CallModel, calls: Sequence[ToolCall]) -> Memory:
    """What is remembered of these calls, as it stood when `request` was made."""
    ids = {_ID + stored(id_key(call.id)): id_key(call.id) for call in calls}
    keys = {_CALL + key_of(call): key_of(call) for call in calls}
    found = {"run": request.run_id, "keys": [*ids, *keys], "number": request.number}
    used: dict[str, None] = {}
    seen: dict[str, Seen] = {}
    for row in connection.execute(_RECALL, found):
        if row.seen is None:
            used[ids[row.key]] = None
            continue
        latest = SEEN.validate_json(row.seen)
        seen.pop(keys[row.key], None)
        if not latest.read or row.resets == request.resets:  # an effect resets the counts of reads
            seen[keys[row.key]] = latest
    return Memory(ids=tuple(used), seen=seen)


def forget(connection: Connection, run_id: str, model_call: int) -> None:
    """Remove what was handed over with a model call or a later one."""
    connection.execute(delete(REMEMBERED).where(REMEMBERED.c.run_id == run_id, REMEMBERED.c.handed_with >= model_call))
