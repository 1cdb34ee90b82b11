"""What the platform proves of an effect's dispatch that brought nothing: whatever it does not prove is unknown."""

import pytest
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    CancelledError,
    RetryState,
    ServerError,
    TerminatedError,
    TimeoutError,
    TimeoutType,
)

from activities import failures
from longshift.effects import Missed
from workflows.effect_runs import missed_of

MAXIMUM_ATTEMPTS, TIMED_OUT = RetryState.MAXIMUM_ATTEMPTS_REACHED, RetryState.TIMEOUT


def activity_error(cause: BaseException | None, state: RetryState, started: int = 7) -> ActivityError:
    """What a workflow gets of an activity that failed of `cause`."""
    error = ActivityError(
        "activity error",
        scheduled_event_id=5,
        started_event_id=started,
        identity="worker-1",
        activity_type="run_tool",
        activity_id="tool-1.0",
        retry_state=state,
    )
    error.__cause__ = cause
    return error


def timed_out(kind: TimeoutType | None) -> TimeoutError:
    """A time-out of the platform's."""
    return TimeoutError("activity timed out", type=kind, last_heartbeat_details=["about to send"])


def application(kind: str | None, message: str = "it says so") -> ApplicationError:
    """A failure that an activity or a worker reported."""
    return ApplicationError(message, type=kind)


@pytest.mark.parametrize(
    ("cause", "state", "missed"),
    [
        # Its place in the ledger is another effect's.
        (failures.place_taken("held by another"), MAXIMUM_ATTEMPTS, Missed("displaced", "held by another")),
        # No worker took it: it surely did not run.
        (timed_out(TimeoutType.SCHEDULE_TO_START), TIMED_OUT, Missed("not_taken", "no worker took it")),
        (
            CancelledError("activity cancelled", "ACTIVITY_ID_NOT_STARTED"),
            RetryState.CANCEL_REQUESTED,
            Missed("not_taken", "it was cancelled"),
        ),
        # A worker had it, and only the ledger knows.
        (timed_out(TimeoutType.START_TO_CLOSE), MAXIMUM_ATTEMPTS, Missed("unknown", "its time ran out")),
        (timed_out(TimeoutType.HEARTBEAT), MAXIMUM_ATTEMPTS, Missed("unknown", "its worker was lost")),
        (timed_out(TimeoutType.SCHEDULE_TO_CLOSE), TIMED_OUT, Missed("unknown", "its time ran out")),
        (timed_out(None), TIMED_OUT, Missed("unknown", "its time ran out")),
        (CancelledError("cancelled"), RetryState.CANCEL_REQUESTED, Missed("unknown", "it was cancelled")),
        (CancelledError("cancelled", "other"), RetryState.CANCEL_REQUESTED, Missed("unknown", "it was cancelled")),
        (
            application("WorkerShutdown"),
            MAXIMUM_ATTEMPTS,
            Missed("unknown", "its worker was shut down while it was at work"),
        ),
        (application("PayloadsTooLarge"), MAXIMUM_ATTEMPTS, Missed("unknown", "it says so")),
        (application("ActivityReset"), MAXIMUM_ATTEMPTS, Missed("unknown", "it says so")),
        (application("ActivityPause"), MAXIMUM_ATTEMPTS, Missed("unknown", "it says so")),
        (application("SomethingNew"), MAXIMUM_ATTEMPTS, Missed("unknown", "it says so")),
        (application(None), MAXIMUM_ATTEMPTS, Missed("unknown", "it says so")),
        (TerminatedError("terminated"), RetryState.NON_RETRYABLE_FAILURE, Missed("unknown", "its dispatch failed")),
        (ServerError("internal"), RetryState.INTERNAL_SERVER_ERROR, Missed("unknown", "its dispatch failed")),
        (None, RetryState.IN_PROGRESS, Missed("unknown", "its dispatch failed")),
        # What an operator does to a pending activity by hand: `temporal activity fail`.
        (application("", "by hand"), RetryState.NON_RETRYABLE_FAILURE, Missed("unknown", "by hand")),
        # The activity's own words.
        (failures.outcome_unknown("the bank hung up"), MAXIMUM_ATTEMPTS, Missed("unknown", "the bank hung up")),
        (failures.tool_broke("a fault"), MAXIMUM_ATTEMPTS, Missed("unknown", "a fault")),
        (failures.journal_differs("another call"), MAXIMUM_ATTEMPTS, Missed("unknown", "another call")),
        (failures.journal_away("it is locked"), MAXIMUM_ATTEMPTS, Missed("not_begun", "it is locked")),
        (failures.tool_missing("no tool pay here"), MAXIMUM_ATTEMPTS, Missed("missing", "no tool pay here")),
        # Temporal's own word for a worker that does not know the activity names what the worker has: not told.
        (
            application("NotFoundError", "Activity function run_tool is not registered; available: echo"),
            MAXIMUM_ATTEMPTS,
            Missed("missing", "no worker can run it"),
        ),
    ],
)
def test_only_what_the_platform_proves_counts_as_not_run(
    cause: BaseException | None, state: RetryState, missed: Missed
) -> None:
    assert missed_of(activity_error(cause, state)) == missed


@pytest.mark.parametrize("kind", [kind for kind in TimeoutType if kind is not TimeoutType.SCHEDULE_TO_START])
def test_a_time_out_that_found_no_worker_starting_it_is_asked_of_the_ledger_all_the_same(kind: TimeoutType) -> None:
    """The platform says so of started_event_id, which it also leaves at 0 where it had no news of a start."""
    assert missed_of(activity_error(timed_out(kind), TIMED_OUT, started=0)).kind == "unknown"
