"""A run as a person sees it while it is under way."""

from typing import Literal

from pydantic import Field

from longshift.contracts import RunResult
from longshift.limits import Limits
from longshift.messages import Payload
from longshift.questions import Question


class StateView(Payload):
    """Answer of the `state` query."""

    run_id: str
    status: Literal["RUNNING", "WAITING", "ENDED"]
    phase: str
    """What the run is doing, in words."""
    waiting_for: str | None = None
    """What would let it go on, in words."""
    commands: tuple[str, ...] = ()
    """The commands that let it go on, as one types them into a shell; none where no command does."""
    question: Question | None = None
    """What it asks a person, if it does: `approve`, `deny` or `resolve` answers it."""
    answered: dict[str, str] = Field(default_factory=dict)
    """The latest calls that a person answered for, by id, and in words what stands."""
    agent: str | None = None
    endpoint: str | None = None
    fund: str | None = None
    model_calls: int = 0
    tool_calls: int = 0
    output_tokens: int = 0
    exposure: int = 0
    messages: int = 0
    context_bytes: int = 0
    """Of what the next model call would be sent."""
    started_at: float = 0
    deadline: float = 0
    """Seconds since the epoch."""
    working_seconds: float = 0
    limits: Limits | None = None
    stop: str | None = None
    """Who or why, once a stop was asked for."""
    result: RunResult | None = None
