"""What the doctor's checks find."""

from dataclasses import asdict, dataclass
from typing import Literal

from pydantic import JsonValue

State = Literal["ok", "note", "wrong", "skipped"]
"""`note`: nothing is wrong, and a person should know. `skipped`: it could not be looked at, for the reason given."""


@dataclass(frozen=True)
class Finding:
    """What one check found."""

    check: str
    """What was looked at: server, search attributes, worker, journal, telemetry, agents, key, endpoint, mcp server."""
    name: str | None
    """Which one, where the configuration has several."""
    state: State
    text: str
    """What was found, and the remedy where there is something to do."""

    def document(self) -> dict[str, JsonValue]:
        """The finding as `--json` prints it."""
        return asdict(self)
