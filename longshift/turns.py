"""What a model endpoint gives back for one call: a turn, or a failure. The same for every kind of endpoint."""

from typing import Literal

from pydantic import Field

from longshift.messages import AssistantMessage, Payload, usual
from longshift.recording import Recorded

MAX_CALLS = 32
"""Tool calls accepted in one turn."""
MAX_ID_BYTES = 256
"""Bytes of a call id or a tool name accepted from an endpoint; providers stay under 64."""
MALFORMED_TURNS = 3
"""With `malformed_calls = "observe"`, so many turns with malformed calls in a row are MODEL_FAILED."""


class Usage(Payload):
    """Tokens as an endpoint reported them, read but not yet judged."""

    output_tokens: int | None = None
    """None: not reported; the whole allowance of the call is charged, and flagged."""
    input_tokens: int | None = None
    invalid: str | None = None
    """Set where the reported output tokens are no integer of 0 or more: what was reported, cut to 40 characters."""


def makes_sense(usage: Usage, allowed: int) -> bool:
    """Whether a turn's report of its output tokens can be: none at all, or 0 to what it was allowed."""
    return usage.invalid is None and (usage.output_tokens is None or 0 <= usage.output_tokens <= allowed)


def charged(usage: Usage, allowed: int) -> int:
    """Output tokens that a turn is charged with: those reported, or its whole allowance where none are. A report that
    makes no sense ends the run, and is charged nothing."""
    if not makes_sense(usage, allowed):
        return 0
    return allowed if usage.output_tokens is None else usage.output_tokens


class Turn(Payload):
    """One complete, valid reply."""

    reply: Recorded
    stop_reason: str = ""
    """The endpoint's own word for why it ended."""
    usage: Usage = Usage()
    cost: int | None = None
    """Micro-USD by the operator's price, rounded up; None where no price is given or the usage makes no sense."""
    milliseconds: int = 0
    """Wall time of the request."""
    allowed: int | None = Field(None, exclude_if=usual(None))
    """Output tokens that it was sent with, where the run, since it was reset, allows it others."""

    @property
    def message(self) -> AssistantMessage:
        """The assistant message, as the history holds it."""
        if not isinstance(self.reply.message, AssistantMessage):
            raise TypeError("a turn's message is an assistant message")
        return self.reply.message


FailureKind = Literal[
    "connect",  # no connection: name look-up, refused, TLS
    "timeout",  # the endpoint's own deadline passed; the request may have been answered and billed
    "status",  # an error status
    "redirect",  # redirects are refused
    "too_large",  # the body passed the cap
    "broken_body",  # cut, not decodable, not JSON
    "invalid_turn",  # a reply that is not one complete, valid turn
    "used_up",  # a replay has no turn left
    "missing_key",  # the environment variable that holds the key is not set on this worker
    "lost",  # sent by a worker that died before it recorded an answer
    "journal",  # the journal could not be read or written, or differs from what the workflow carries
    "fund",  # refused before it was sent: the run's fund has too little left; the call was never admitted
    "internal",  # an error of Longshift's own, or an unknown one
]


class ModelFailure(Payload):
    """One model call that brought no turn. Holds no header, key or body, so it may be shown and recorded."""

    kind: FailureKind
    message: str
    """A sentence that names the endpoint, the status where there is one, and the remedy where one is known."""
    transient: bool
    """Whether another attempt may help."""
    retry_after: float | None = None
    """Seconds the endpoint asked to wait; a date is turned into seconds where it is read."""
    usage: Usage | None = None
    """What a reply that was received and refused reported: it is charged."""
    cost: int | None = None
    """Micro-USD of that reply; None as in a turn, and where no reply was received."""
    milliseconds: int = 0


class CallFailed(Exception):
    """Raised by an endpoint; carries the failure."""

    def __init__(self, failure: ModelFailure) -> None:
        self.failure = failure
        super().__init__(failure.message)
