"""How an activity fails: the one place where errors of ours become Temporal failures with a retry posture.

A known outcome is returned or reported with a typed failure that the platform does not retry; only a read that may
run again, and journal work, which is idempotent, are left to the platform's retries.
"""

from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from longshift import contracts
from longshift.run_input import InputRefused
from longshift.turns import ModelFailure

KNOWN = ApplicationErrorCategory.BENIGN
"""What a failure of ours is to Temporal's logging: expected, so that it writes no traceback; the worker says a line."""


def model_failed(failure: ModelFailure) -> ApplicationError:
    """A model call that brought no turn. The workflow decides on another attempt, since each must be admitted."""
    return ApplicationError(failure.message, failure, type=contracts.MODEL_FAILURE, non_retryable=True, category=KNOWN)


def input_refused(refused: InputRefused) -> ApplicationError:
    """A run that cannot start. Final: its input stays what it is."""
    return ApplicationError(str(refused), type=contracts.INPUT_REFUSED, non_retryable=True, category=KNOWN)


def read_failed(message: str) -> ApplicationError:
    """A read that may be tried again."""
    return ApplicationError(message, type=contracts.TOOL_TRANSIENT, category=KNOWN)


def tool_broke(message: str) -> ApplicationError:
    """A fault of Longshift's own while it ran a tool. Final: trying again meets it again."""
    return ApplicationError(message, type=contracts.TOOL_BROKE, non_retryable=True, category=KNOWN)


def tool_missing(message: str) -> ApplicationError:
    """A tool that the run recorded and this worker does not have."""
    return ApplicationError(message, type=contracts.TOOL_MISSING, non_retryable=True, category=KNOWN)


def too_late(message: str) -> ApplicationError:
    """A run that could not be opened before its deadline."""
    return ApplicationError(message, type=contracts.TOO_LATE, non_retryable=True, category=KNOWN)


def place_taken(message: str) -> ApplicationError:
    """An effect that will never run: its place in the ledger is another one's."""
    return ApplicationError(message, type=contracts.PLACE_TAKEN, non_retryable=True, category=KNOWN)


def outcome_unknown(message: str) -> ApplicationError:
    """An effect that may have happened. Final: it is never tried again by the platform."""
    return ApplicationError(message, type=contracts.OUTCOME_UNKNOWN, non_retryable=True, category=KNOWN)


def journal_away(message: str) -> ApplicationError:
    """Journal work that is tried again until its time is up."""
    return ApplicationError(message, type=contracts.JOURNAL_AWAY, category=KNOWN)


def tools_away(message: str) -> ApplicationError:
    """A run that waits for a server of its tools; its opening is tried again until the run gives up."""
    return ApplicationError(message, type=contracts.TOOLS_AWAY, category=KNOWN)


def journal_differs(message: str) -> ApplicationError:
    """The journal does not hold what the workflow carries. Final: trying again finds the same."""
    return ApplicationError(message, type=contracts.JOURNAL_DIFFERS, non_retryable=True, category=KNOWN)
