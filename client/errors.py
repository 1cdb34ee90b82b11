"""What can go wrong for a person who uses the client. Each text is a sentence with its remedy.

    ClientError
    |-- NoSuchRun       the server knows no run of that id
    |-- AlreadyStarted  the id is taken, by a run at work or an ended one
    |-- Refused         an input or a message that cannot be applied; nothing was changed
    |-- NoJournal       the journal cannot be read, or does not hold the run
    `-- Unreadable      the server holds something about the run that cannot be understood

A server that does not answer is worker.connection.NoServer. Foreign errors are translated in `rpc_border`.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from temporalio.service import RPCError, RPCStatusCode

from worker.connection import NoServer


class ClientError(Exception):
    """Root of this tree."""


class NoSuchRun(ClientError):
    """The server knows no run of that id."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(f"there is no run {run_id[:200]!r} on this server; see which there are with: longshift list")


class AlreadyStarted(ClientError):
    """The id is taken."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        super().__init__(
            f"a run {run_id} was started before and is not started again; "
            f"give another id, or look at that one with: longshift state {run_id}"
        )


class Refused(ClientError):
    """An input or a message that cannot be applied; the text names the field and the remedy. Nothing was changed."""


class NoJournal(ClientError):
    """The journal cannot be read, or does not hold the run."""


class Unreadable(ClientError):
    """The server holds something about the run that cannot be understood."""


@contextmanager
def rpc_border(run_id: str | None = None) -> Iterator[None]:
    """Translate what the server's refusals mean for a person.

    Args:
        run_id: the run that is asked about, where there is one.

    Raises:
        NoSuchRun: the server does not know the run.
        NoServer: the server does not answer.
        Unreadable: the server refuses for another reason, which the text gives.
    """
    try:
        yield
    except RPCError as error:
        if run_id is not None and error.status is RPCStatusCode.NOT_FOUND:
            raise NoSuchRun(run_id) from None
        if error.status in (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED):
            raise NoServer("the Temporal server does not answer; start it again with: longshift up") from None
        raise Unreadable(f"the Temporal server refuses: {error.message[:300]}") from None
