"""Questions: what a run asks a person and waits for, and what the person answered.

A run asks one question at a time, since effects run alone: whether an effect may be made (an approval), or what came
of one whose outcome never reached the run. An answer is bound to the call's id and to the digest of its arguments.
"""

from typing import Literal

from pydantic import Field, JsonValue, StrictFloat, StrictInt

from longshift import jsontext
from longshift.messages import Payload, ToolCall, arguments_digest, usual

QuestionKind = Literal["approval", "outcome"]
AnswerKind = Literal["approved", "denied", "happened", "did_not_happen", "stop"]

MAX_SHOWN = 400
"""Characters of the arguments that a question shows, which the journal has whole, and of its reason."""
MIN_DIGEST = 8
"""Hex digits of the arguments' digest that an answer must give at least."""


class ApprovalRule(Payload):
    """When an effect needs a person's approval: by one of its arguments, a path of names joined by dots.

    Approval is needed where the argument is above the amount, or not among the values; and, to be safe, where it is
    missing or of another type.
    """

    argument: str
    above: StrictInt | StrictFloat | None = None
    """Numbers up to this one need no approval."""
    not_in: tuple[JsonValue, ...] | None = None
    """These values need no approval."""


class Question(Payload):
    """What a run asks a person, of a size that never grows."""

    kind: QuestionKind
    call_id: str
    name: str
    arguments: str
    """Their canonical JSON, cut to MAX_SHOWN characters."""
    arguments_sha256: str
    why: str
    """Why it is asked, in words."""
    asked_at: float
    """Seconds since the epoch."""


class PersonsAnswer(Payload):
    """What a person answered."""

    call_id: str
    kind: AnswerKind
    reason: str = Field("", exclude_if=usual(""))
    result: JsonValue = None
    """What the call returned, where it happened."""
    at: float = 0


def question(kind: QuestionKind, call: ToolCall, why: str, now: float) -> Question:
    """The question about a call."""
    arguments = jsontext.canonical(call.arguments) if call.arguments_sha256 is None else "(too long to show here)"
    return Question(
        kind=kind,
        call_id=call.id,
        name=call.name,
        arguments=arguments if len(arguments) <= MAX_SHOWN else arguments[: MAX_SHOWN - 3] + "...",
        arguments_sha256=arguments_digest(call),
        why=why if len(why) <= MAX_SHOWN else why[: MAX_SHOWN - 3] + "...",
        asked_at=now,
    )


def needs_approval(needed: bool | ApprovalRule, call: ToolCall) -> str | None:
    """Why a call needs a person's approval, in words; None where it needs none."""
    if isinstance(needed, bool):
        return f"{call.name} always needs approval" if needed else None
    if call.arguments_sha256 is not None:
        return f"the arguments of {call.name} are too long to be judged by its rule"
    value: JsonValue = call.arguments
    for name in needed.argument.split("."):
        if not isinstance(value, dict) or name not in value:
            return f"{needed.argument} is missing"
        value = value[name]
    if needed.above is not None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"{needed.argument} is no number"
        if not value <= needed.above:
            return f"{needed.argument} is {value}, above {needed.above}"
    if needed.not_in is not None and not any(_same(value, known) for known in needed.not_in):
        return f"{needed.argument} is not one of those that need no approval"
    return None


def _same(value: JsonValue, known: JsonValue) -> bool:
    """Whether two values are the same JSON, at any depth: 1, 1.0 and true are three values."""
    return value == known and jsontext.canonical(value) == jsontext.canonical(known)
