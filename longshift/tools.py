"""Tools: how a function becomes one, and what the workflow knows of it."""

from typing import Literal

from pydantic import Field, JsonValue

from longshift.messages import Payload

Kind = Literal["read", "effect"]
"""`read` only observes or computes; `effect` changes the world outside and is never run twice."""


class ToolSpec(Payload):
    """A tool as data: recorded when a run starts, offered to the model, and all that a workflow knows of it."""

    name: str
    description: str = ""
    parameters: dict[str, JsonValue] = Field(default_factory=dict)
    """JSON schema of the arguments object."""
    kind: Kind = "effect"
    timeout_seconds: float = 30
    """Seconds one run of the handler may take."""
    max_bytes: int = 16_384
    """Bytes of an observation's value or message; a larger one is cut, whole in the journal."""
    repeatable: bool = False
    """Identical effects in one turn are meant, and each runs."""
