"""Repetition: when an exact call was made so often that the run is told so, and when it counts as looping.

A call's key is a hash of its name and the canonical JSON of its arguments. The same name with other arguments is
another call. An effect resets the counts of reads, since looking again after a change is legitimate; nothing else
resets anything.
"""

from dataclasses import dataclass

from longshift import jsontext
from longshift.memory import Seen
from longshift.messages import ToolCall, arguments_digest

KEY_DIGITS = 16
"""Hex digits kept of a key: 64 bits, so that ten thousand calls collide with a chance of 3e-12."""


@dataclass(frozen=True)
class Repetition:
    """What repetition says of one call of a batch."""

    told: tuple[int, int] | None = None
    """The run is told that it repeats itself: model call and position of the earlier call."""
    loops: bool = False
    """It was told before: the run ends."""


def key_of(call: ToolCall) -> str:
    """The key by which identical calls are counted."""
    return jsontext.sha256(f"{call.name}\0{arguments_digest(call)}")[:KEY_DIGITS]


def count(
    seen: dict[str, Seen], calls: list[tuple[ToolCall, bool]], model_call: int, repeats: int
) -> tuple[list[Repetition], dict[str, Seen], bool]:
    """Count a batch.

    Args:
        seen: the counts so far; not changed.
        calls: the calls in order, each with whether it is a read.
        model_call: number of the model call that asks for them.
        repeats: the limit; 0 turns telling and looping off.

    Returns:
        What is said of each call, the counts after the batch, and whether an effect has reset those of reads.
    """
    counted, reset = dict(seen), False
    told_now: set[str] = set()
    said: list[Repetition] = []
    for position, (call, read) in enumerate(calls):
        key = key_of(call)
        before = counted.get(key)
        number = before.count + 1 if before else 1
        repetition = Repetition()
        if repeats and before and number >= repeats:
            # Calls of one batch were asked for before the model could read that it repeats itself.
            told_before = before.told and key not in told_now
            repetition = Repetition(loops=True) if told_before else Repetition(told=before.at)
            told_now.add(key)
        elif not read:
            counted, reset = {other: was for other, was in counted.items() if not was.read}, True
        told = repetition.told is not None
        # Of identical effects in one batch the first is sure to run.
        stays = before and (told or (not read and before.at[0] == model_call))
        at = before.at if before and stays else (model_call, position)
        counted.pop(key, None)  # the latest stands last
        counted[key] = Seen(count=number, at=at, read=read, told=told)
        said.append(repetition)
    return said, counted, reset
