"""Why a run ended. Every run ends in exactly one of these; only COMPLETED carries an answer."""

from enum import StrEnum


class Status(StrEnum):
    """The end statuses. They say how the exchange ended, not that an answer is right."""

    COMPLETED = "COMPLETED"
    """A turn with no tool calls and non-blank text."""
    EMPTY_REPLY = "EMPTY_REPLY"
    """A turn with no tool calls and blank text."""
    STOP_REQUESTED = "STOP_REQUESTED"
    """A stop signal, or a cancellation of the workflow, seen at an admission point."""
    MODEL_CALL_LIMIT = "MODEL_CALL_LIMIT"
    """No model call is left."""
    TOOL_LIMIT = "TOOL_LIMIT"
    """A batch asks for more tool calls than are left; none of the batch runs."""
    TIME_LIMIT = "TIME_LIMIT"
    """The deadline passed, before a step or while a call was out, or the working time is used up."""
    CONTEXT_LIMIT = "CONTEXT_LIMIT"
    """Transcript and tool schemas are too large; nothing is sent."""
    TOKEN_LIMIT = "TOKEN_LIMIT"
    """No output tokens are left."""
    MODEL_COST_LIMIT = "MODEL_COST_LIMIT"
    """The next call's estimate would pass the budget; nothing is sent."""
    MODEL_FAILED = "MODEL_FAILED"
    """The endpoint failed, or answered what is not one complete, valid turn, and no retry is left or applies."""
    INVALID_USAGE = "INVALID_USAGE"
    """The endpoint reports output tokens that are not an integer in 0..allowed."""
    REPEATED_CALL_ID = "REPEATED_CALL_ID"
    """A call id is used twice in a batch, or was used before in the run; none of the batch runs."""
    LOOP_DETECTED = "LOOP_DETECTED"
    """The same call again after the run was told that it repeats itself."""
    TOOL_FATAL = "TOOL_FATAL"
    """A tool says that nothing the model does can help."""
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    """An effect may or may not have happened, and the policy is to stop."""
    TERMINATED = "TERMINATED"
    """The workflow was ended from outside (terminated, or timed out by the server) and no code of the loop ran.
    The loop never decides this one; the client reports it, with the figures that were recorded last."""


CLOSED_WELL = frozenset({Status.COMPLETED, Status.STOP_REQUESTED})
"""With these the workflow completes; with every other it fails, so that a list of runs tells the truth."""
WAITABLE = frozenset(
    {
        Status.MODEL_CALL_LIMIT,
        Status.TOOL_LIMIT,
        Status.CONTEXT_LIMIT,
        Status.TOKEN_LIMIT,
        Status.MODEL_COST_LIMIT,
    }
)
"""With `on_limit = "wait"` a run waits at these for a raised limit instead of ending. Time is not one of them: the
deadline is never waited past."""
