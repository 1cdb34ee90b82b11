"""What can be wrong with an MCP server, and with one request to it."""

from collections.abc import Sequence


class ServerAway(Exception):
    """The server cannot be reached, or not for now; nothing was asked of it. The text names it and says why."""


class ServerUnfit(ValueError):
    """What the server offers cannot be used as the configuration says. `problems` has a text for each thing wrong."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(problems))


class Unusable(ValueError):
    """One tool of a server cannot be offered to a model; the text says why."""


class RequestFailed(Exception):
    """A request brought no result."""


class NotSent(RequestFailed):
    """It surely was not done: no connection was made, or the server turned it away unread."""


class Forbidden(RequestFailed):
    """The credentials are bad, or not enough."""


class BrokenOff(RequestFailed):
    """It was sent and no answer came that can be read: the server ended, or the connection did."""


class Declined(RequestFailed):
    """The server has no such method or tool, or does not take these parameters."""


class Failed(RequestFailed):
    """The server answered with another error of its own."""
