"""The shift that all do, in words and sizes: each step is one turn with one call of a read, whose observation is 1 KB.

Imports nothing but the standard library: the peers read it in an environment of their own.
"""

import re
from datetime import timedelta
from typing import TypedDict

OBSERVATION_BYTES = 1024
"""Bytes of what a step brings back."""
REMARK_BYTES = 400
"""Bytes of text in a turn: a few sentences, so that the floor's step weighs 2.9 KB."""
OUTPUT_TOKENS = 120
"""Output tokens that a turn reports."""
TOOL = "read_part"
SYSTEM = "Read what you are asked to read."
ANSWER = "The log holds nothing unusual."
PATIENCE = timedelta(minutes=1)
"""Temporal wants one time-out for an activity; the same for all but Longshift, which sets its own."""


class Settings(TypedDict):
    """How a Temporal worker is set up."""

    max_cached_workflows: int
    max_concurrent_activities: int
    sticky_queue_schedule_to_start_timeout: timedelta


WORKER = Settings(
    max_cached_workflows=1000,
    max_concurrent_activities=100,
    sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
)
"""As Longshift's worker is, for all of them."""


def task(steps: int) -> str:
    """What the model is asked."""
    return f"Read the {steps} parts of the log one by one, then say what you found."


def asked(text: str) -> int:
    """The steps that a task asks for, which is all that a scripted model knows of its shift."""
    found = re.search(r"\d+", text)
    if found is None:
        raise ValueError(f"no task of ours: {text[:60]!r}")
    return int(found.group())


def remark(number: int) -> str:
    """The text of turn `number`, beside its call."""
    return _repeated(f"Part {number} of the log comes next. ", REMARK_BYTES)


def call_id(number: int) -> str:
    """The id of the call in turn `number`, as long as ids of providers are."""
    return f"call_{number:019d}"


def part(number: int) -> str:
    """What the tool returns for one part of the log."""
    return _repeated(f"part {number}: 200 GET /index.html; ", OBSERVATION_BYTES)


def _repeated(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]
