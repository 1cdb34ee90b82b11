"""Errors as sentences."""

from client.cases import CasesRefused
from client.errors import ClientError
from client.inert import inert
from client.local import WorkerFailed
from longshift.run_input import InputRefused
from worker.attributes import AttributesRefused
from worker.connection import NoServer
from worker.dev_server import ServerFailed
from worker.problems import SettingsRefused

KNOWN = (
    AttributesRefused,
    CasesRefused,
    ClientError,
    InputRefused,
    NoServer,
    ServerFailed,
    SettingsRefused,
    WorkerFailed,
)
"""Errors whose text is written for people, with the remedy."""


def sentence(error: Exception) -> str:
    """What to tell a person of `error`."""
    text = inert(str(error), multiline=True)
    if isinstance(error, KNOWN):
        return f"Error: {text}"
    if isinstance(error, OSError) and error.strerror:  # a full disk, a folder that may not be written
        return f"Error: {inert(error.strerror)}{f': {inert(str(error.filename))}' if error.filename else ''}"
    return f"Error: {type(error).__name__}: {text[:500]}\nThis should not happen; please report it, with the command."
