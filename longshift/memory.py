"""What a run remembers of its calls, so that a call id is never used twice and a repetition is noticed.

The latest stand in the run's state. Older ones are handed to the journal with the next model call, and whatever of
them a turn asks for again comes back with that turn: nothing is forgotten, and what is carried on does not grow.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, TypeAdapter

from longshift import jsontext
from longshift.messages import Payload, usual

KEPT = 256
"""Call ids, and exact calls, in the state, the latest ones. Each takes about 60 bytes of what is carried on."""
MAX_HANDED = 64
"""Of each, handed to the journal at once."""
MAX_ID_CHARACTERS = 40
"""Characters of a call id that is remembered as it is; providers' ids have 9 to 36."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """How often one exact call was made. A run holds hundreds, and a worker hundreds of runs: as a pydantic model one
    would take six times as much."""

    count: Annotated[int, Field(exclude_if=usual(1))] = 1
    at: tuple[int, int]
    """Model call and position of the latest one that ran."""
    read: Annotated[bool, Field(exclude_if=usual(True))] = True
    told: Annotated[bool, Field(exclude_if=usual(False))] = False
    """The run was told that it repeats this call."""


SEEN = TypeAdapter(Seen)
"""Reads and writes the JSON of one."""


class Memory(Payload):
    """Some of what is remembered."""

    ids: tuple[str, ...] = ()
    """Call ids that were used, as `id_key` gives them."""
    seen: dict[str, Seen] = Field(default_factory=dict)
    """Calls that were made, by their key."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return bool(self.ids or self.seen)


def id_key(call_id: str) -> str:
    """A long id is remembered by its digest: ids come from outside and may not grow what is carried on."""
    return call_id if len(call_id) <= MAX_ID_CHARACTERS else jsontext.sha256(call_id)[:MAX_ID_CHARACTERS]
