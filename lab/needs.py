"""What a run needed of each thing that a limit bounds: the least limit under which it would have gone as it went, but
for summaries, which are made only where a turn's tokens and an estimate are left beyond that. Pure.

Of a run that did not complete it is what it would have needed more than. Where its own limit ended it, or held it
until it was stopped or late, that is the limit as it was opened with, which can be far above what it used: a batch of
tool calls is refused whole, a model call for its estimate. Runs that completed may have used all up to the limit, so
that the others, counted where they stood, would be counted out before them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longshift.status import Status
from store.runs import RunFigures


@dataclass(frozen=True)
class Measured:
    """What one run used of something."""

    used: float
    finished: bool
    """Whether it needed just that; else it was cut off there."""


def _nothing(_: RunFigures) -> float:
    return 0


@dataclass(frozen=True)
class Quantity:
    """Something that a run uses and a limit bounds."""

    limit: str
    of: Callable[[RunFigures], float]
    none: str
    """What it means that no run used any."""
    counted: bool = True
    """Whether it is counted in steps."""
    beyond: Callable[[RunFigures], float] = _nothing
    """What the limit must leave beyond that: a run that wraps up has its tools taken away for the last call that its
    limits leave, and ends by the limit."""

    def measured(self, runs: Sequence[RunFigures]) -> tuple[list[Measured], float]:
        """What some runs used, and what the limit must leave beyond that for each of them."""
        beyond = [self.beyond(run) for run in runs]
        least = min(beyond, default=0)
        used = [self.of(run) + more - least for run, more in zip(runs, beyond, strict=True)]
        return [Measured(one, completed(run)) for one, run in zip(used, runs, strict=True)], least


def completed(run: RunFigures) -> bool:
    """Whether a run came to its own end, so that it tells what it needed."""
    return run.status == Status.COMPLETED


def _cut_off_by(run: RunFigures, limit: Status) -> bool:
    """Whether a limit ended a run, or held one that did not complete: so begins the reason of such a wait."""
    if completed(run):
        return False
    return run.status == limit or any(f'"reason":"{limit}:' in detail for detail in run.held)


def _model_calls(run: RunFigures) -> float:
    """Its calls; of one that was cut off, without the last, which may have been the wrap-up in another's place."""
    return run.model_calls - (run.limits.wraps_up and not completed(run) and run.model_calls > 0)


def _tool_calls(run: RunFigures) -> float:
    return max(run.tool_calls, run.limits.tool_calls) if _cut_off_by(run, Status.TOOL_LIMIT) else run.tool_calls


def _tokens(run: RunFigures) -> float:
    """The tokens charged. Where it wraps up, only those before its last call, for which a whole turn must be left."""
    return run.tokens_before if run.limits.wraps_up else run.charged_tokens


def _budget(run: RunFigures) -> float:
    """What its calls had to find in the budget; where that cut it off, what the next one would have had to."""
    if _cut_off_by(run, Status.MODEL_COST_LIMIT) and not run.limits.wraps_up:
        return max(run.budget_needed, run.exposure + run.limits.estimate - 1)
    return run.budget_needed


def _seconds(run: RunFigures) -> float:
    return max(0.0, (run.last_at if run.closed_at is None else run.closed_at) - run.opened_at)


QUANTITIES = (
    Quantity("model_calls", _model_calls, "no model call was made", beyond=lambda run: run.limits.wraps_up),
    Quantity("tool_calls", _tool_calls, "no tool was called"),
    Quantity(
        "total_output_tokens",
        _tokens,
        "no output token was counted",
        counted=False,
        beyond=lambda run: run.limits.wraps_up and run.limits.output_tokens + 1,
    ),
    Quantity(
        "model_budget_cents",
        _budget,
        "no budget refuses its calls: nothing was spent before the last one, and no estimate is set",
        counted=False,
        beyond=lambda run: run.limits.wraps_up and run.limits.estimate,
    ),
    Quantity("seconds", _seconds, "no run took any time", counted=False),
)
