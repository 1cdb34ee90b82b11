"""Budgets from measurements: the limits within which a share of an agent's runs comes to its end, from the runs that
did and those that were cut off before. Pure.

A run that completed tells what it needed. Any other tells that it would have needed more than it used: it is counted as
cut off there (right-censored), neither left out nor taken for a finished one. That holds where what cut it off had
nothing to do with how long it would have taken.

Two ways, and the data decide. Kaplan-Meier supposes nothing of the shape, and needs many runs to see a rare tail. The
geometric fit (the same chance of the end at every step) needs fewer, and is used only where a test does not refute it
and some runs lie as far out as the share: a test sees nothing of a tail that no run is in.

Sources. Kaplan-Meier: E. L. Kaplan and P. Meier, Nonparametric Estimation from Incomplete Observations, Journal of the
American Statistical Association 53 (1958), 457 to 481. The size of the sample that a censored one is worth: R. Peto et
al., Design and analysis of randomized clinical trials, British Journal of Cancer 35 (1977), 1 to 39. An interval of a
quantile from one of the curve: R. Brookmeyer and J. Crowley, A Confidence Interval for the Median Survival Time,
Biometrics 38 (1982), 29 to 41.
"""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from lab.formulas import DEVIATIONS, ROUNDING, budget_for, of_scipy, wilson_interval
from lab.needs import QUANTITIES, Measured, completed
from longshift.limits import Limits, cents
from store.runs import RunFigures

FEWEST = 30
"""Finished runs below which no shape can be told from another."""
FURTHER = 2
"""Finished runs that must be expected past a budget for the geometric fit to be asked for it. With one, four in ten
simulated measurements of runs that have a rare long kind among them passed for geometric at 0.99; with two, one in
fifty."""
EXPECTED = 5
"""Fewest runs expected in a cell of the test's table, as is usual for chi-squared."""
REFUTED = 0.05
"""The probability below which the test refutes that every step has the same chance."""
SLICES = 100
"""Steps into which an amount that is no count of steps is cut, for the geometric fit."""

Way = Literal["Kaplan-Meier", "geometric fit", "geometric fit, if the shape holds beyond what was seen"]


@dataclass(frozen=True)
class Budget:
    """What so many runs stay within, and its 95 % interval."""

    value: float
    low: float
    high: float
    way: Way

    def with_more(self, amount: float) -> "Budget":
        """The same with so much more."""
        return replace(self, value=self.value + amount, low=self.low + amount, high=self.high + amount)


@dataclass(frozen=True)
class TooFew:
    """The data do not support a budget."""

    why: str
    needs: int
    """Finished runs that it takes, about, whatever their shape."""
    at_best: int | None = None
    """Those that it takes where every step has the same chance to be the last, if that are fewer."""

    @property
    def takes(self) -> str:
        """How many runs it takes, in words."""
        if self.at_best is None:
            return f"it needs about {self.needs} finished runs"
        return f"it needs about {self.at_best} finished runs if every step has the same chance, else {self.needs}"


def budget_within(measured: Sequence[Measured], within: float, *, step: float = 1) -> Budget | TooFew:
    """The least budget within which a share of all runs finishes.

    Args:
        measured: the runs.
        within: the share, above 0 and below 1.
        step: what counts as a step for the geometric fit, in the unit of the amounts.

    Raises:
        ValueError: the share is none.
        LabExtraMissing: without SciPy.
    """
    if not 0 < within < 1:
        raise ValueError(f"within must be above 0 and below 1, not {within!r}")
    eps = 1 - within
    seen = _seen(measured, eps)
    if seen.value is not None and seen.low is not None and seen.high is not None:
        return Budget(seen.value, seen.low, seen.high, "Kaplan-Meier")
    finished = sum(one.finished for one in measured)
    some = sum(one.finished and one.used > 0 for one in measured)
    needs = max(FEWEST, math.ceil(DEVIATIONS**2 * within / eps))  # of which none is past it, by Wilson's interval
    for_shape = math.ceil(FEWEST * finished / max(some, 1))  # those that used none show none
    at_best = max(FEWEST, for_shape, math.ceil(FURTHER / eps - ROUNDING))
    if finished < at_best:
        why = f"{_runs(finished)} finished; {within:.6g} is further out than they show"
        if some < FEWEST:
            of_them = f", {some} of them used any" if some < finished else ""
            why = f"{_runs(finished)} finished{of_them}; no shape shows in fewer than {FEWEST}"
        if at_best < needs:
            return TooFew(why, needs, at_best)
        return TooFew(why, needs if finished < needs else at_best)
    steps = [(math.ceil(one.used / step), one.finished) for one in measured if one.used > 0]
    refutation = _refutation(steps)
    if refutation is None:
        none = finished - some  # they stay within any budget
        eps_of_steps = min(1.0, eps * (len(steps) + none) / len(steps))
        return _geometric(steps, eps_of_steps, step, seen.value)
    if finished < needs:
        return TooFew(f"{refutation}, and without a shape {_runs(finished)} that finished are too few", needs)
    cut = len(measured) - finished
    text = f"{refutation}, and {_runs(cut)} of {len(measured)} cut off hide where the last ones finish"
    return TooFew(f"{text}; raise the limits that cut them off, and measure again", finished + needs)


@dataclass(frozen=True)
class _Seen:
    """Where the curve comes down to a share of runs that goes on, and the ends of its interval; None where it does
    not."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


def _seen(measured: Sequence[Measured], eps: float) -> _Seen:
    """The quantile and its interval off Kaplan-Meier's curve.

    The value is that for a further run: past an amount that k of n outlast, a further one goes with (k + 1) / (n + 1),
    so that in the mean no less than the share finishes. Wilson's interval is that of the score test: whether it holds
    the share takes no more than the test's deviation.
    """
    finished = [one.used for one in measured if one.finished]
    if not finished:
        return _Seen()
    cut = [one.used for one in measured if not one.finished]
    curve = of_scipy("ecdf")(of_scipy("CensoredData")(uncensored=finished, right=cut)).sf
    events, ordered = set(finished), sorted(one.used for one in measured)
    seen, before = _Seen(), 1.0
    for at, left in zip(map(float, curve.quantiles), map(float, curve.probabilities), strict=True):
        if at not in events:
            continue
        at_risk = len(ordered) - bisect_left(ordered, at)
        worth = math.floor(at_risk / before + ROUNDING)  # runs without a cut-off one that it is worth, by Peto
        deviation = DEVIATIONS * math.sqrt(eps * (1 - eps) / worth)
        if seen.low is None and left - eps <= deviation:
            seen = replace(seen, low=at)
        if seen.value is None and (left * worth + 1) / (worth + 1) <= eps + ROUNDING:
            seen = replace(seen, value=at)
        if eps - left >= deviation:
            return replace(seen, high=at)
        before = left
    return seen


def _geometric(steps: Sequence[tuple[int, bool]], eps: float, step: float, seen: float | None) -> Budget:
    """The budget that a share of the runs with steps goes past, where each step ends one with the same probability: as
    many ends as there are, of all steps made.

    The value is that for a further run too, over all that the probability may be (Beta, a half added to each count),
    and not less than the curve's, where it has one.
    """
    ends, trials = sum(ended for _, ended in steps), sum(count for count, _ in steps)
    interval = wilson_interval(ends, trials)
    ended, went_on = ends + 0.5, trials - ends + 0.5

    def outlasts(count: int) -> float:
        """The probability that a further run goes on past so many steps."""
        goes_on = math.lgamma(went_on + count) - math.lgamma(went_on)
        return math.exp(goes_on + math.lgamma(ended + went_on) - math.lgamma(ended + went_on + count))

    count = budget_for(ends / trials, eps)
    while outlasts(count) > eps:
        count += 1
    low, high = (budget_for(f, eps) * step for f in (interval.high, interval.low))
    value = max(count * step, seen or 0)
    way: Way = "geometric fit" if seen is not None else "geometric fit, if the shape holds beyond what was seen"
    return Budget(value, min(low, value), max(high, value), way)


def _refutation(steps: Sequence[tuple[int, bool]]) -> str | None:
    """Why the steps cannot have one and the same chance to be the last; None where they may.

    A table of the steps, those next to each other taken together until enough is expected of each: how many runs ended
    in them, and how many went on. With one chance for all, no row differs from another but by accident (chi-squared).
    """
    ends, trials = Counter(count for count, ended in steps if ended), sum(count for count, _ in steps)
    lengths = Counter(count for count, _ in steps)
    chance = ends.total() / trials
    table: list[tuple[int, int]] = []
    at_risk, ended, went_on = len(steps), 0, 0
    for number in range(1, max(lengths) + 1):
        ended, went_on = ended + ends[number], went_on + at_risk - ends[number]
        at_risk -= lengths[number]
        if min(chance, 1 - chance) * (ended + went_on) >= EXPECTED:
            table.append((ended, went_on))
            ended = went_on = 0
    if (ended or went_on) and table:
        table[-1] = (table[-1][0] + ended, table[-1][1] + went_on)
    if len(table) < 2:
        return "whether each step has the same chance to be the last cannot be tested"
    probability = float(of_scipy("chi2_contingency")(table, correction=False).pvalue)
    if probability < REFUTED:
        return f"not every step has the same chance to be the last (p = {probability:.2g})"
    return None


@dataclass(frozen=True)
class Proposal:
    """Limits for an agent, from its runs."""

    agent: str
    within: float
    runs: int
    finished: int
    models: tuple[str, ...]
    found: Mapping[str, Budget | TooFew | str]
    """By limit: a budget in the limit's unit, or why there is none."""

    @property
    def limits(self) -> dict[str, int | float]:
        """The limits proposed."""
        return {name: _whole(name, one.value) for name, one in self.found.items() if isinstance(one, Budget)}

    @property
    def refusal(self) -> str | None:
        """Why nothing can be proposed, and how many runs it takes; None where something can."""
        if self.limits:
            return None
        reasons = {name: one for name, one in self.found.items() if isinstance(one, TooFew)}
        if not reasons:
            return f"{_runs(self.runs)} of {self.agent} used nothing that a limit bounds"
        name, first = next(iter(reasons.items()))
        return (
            f"{name}: {first.why}; {first.takes}, there are {self.finished} of {self.runs}: measure more of them, or "
            "give a longer --since or a lower --within"
        )

    @property
    def toml(self) -> str:
        """The limits as a section of the configuration, with what they rest on as comments."""
        lines = [
            f"# {self.within:.6g} of the runs of {self.agent} finish within each of these, as far as can be told from",
            f"# {_runs(self.runs)}: {self.finished} finished, {self.runs - self.finished} cut off. "
            "The upper end of an interval is the careful choice.",
        ]
        if len(self.models) > 1:
            lines.append(f"# They are of several models together: {', '.join(self.models)}.")
        lines.append(f"[agents.{self.agent}.limits]")
        for name, one in self.found.items():
            match one:
                case Budget():
                    low, high = _whole(name, one.low), _whole(name, one.high)
                    lines.append(f"{name} = {_whole(name, one.value)}  # 95 % interval {low} to {high}, {one.way}")
                case TooFew():
                    lines.append(f"# {name}: {one.why}; {one.takes}")
                case _:
                    lines.append(f"# {name}: {one}")
        return "\n".join(lines)

    def document(self) -> dict[str, object]:
        """The proposal as `--json` prints it; each limit in its own unit."""
        found: dict[str, object] = {}
        for name, one in self.found.items():
            match one:
                case Budget():
                    interval = [_whole(name, one.low), _whole(name, one.high)]
                    found[name] = {"value": _whole(name, one.value), "interval": interval, "way": one.way}
                case TooFew():
                    found[name] = {"value": None, "why": one.why, "needs": one.needs, "at_best": one.at_best}
                case _:
                    found[name] = {"value": None, "why": one}
        return {
            "agent": self.agent,
            "within": self.within,
            "runs": self.runs,
            "finished": self.finished,
            "cut_off": self.runs - self.finished,
            "models": list(self.models),
            "limits": found,
        }


def propose(agent: str, runs: Sequence[RunFigures], within: float) -> Proposal:
    """Limits for an agent from its runs.

    Args:
        agent: its name; runs of others are left out.
        runs: as the journal sums them up.
        within: the share of runs that shall finish, above 0 and below 1.

    Raises:
        ValueError: the share is none.
        LabExtraMissing: without SciPy.
    """
    mine = [run for run in runs if run.agent == agent]
    found: dict[str, Budget | TooFew | str] = {}
    for quantity in QUANTITIES:
        measured, beyond = quantity.measured(mine)
        most = max((one.used for one in measured), default=0)
        if most + beyond == 0 and mine:
            found[quantity.limit] = quantity.none
            continue
        budget = budget_within(measured, within, step=1 if quantity.counted else most / SLICES or 1)
        found[quantity.limit] = budget.with_more(beyond) if isinstance(budget, Budget) else budget
    proposal = Proposal(
        agent=agent,
        within=within,
        runs=len(mine),
        finished=sum(map(completed, mine)),
        models=tuple(sorted({run.model for run in mine})),
        found=found,
    )
    Limits().changed(proposal.limits)
    return proposal


def _whole(limit: str, value: float) -> int | float:
    """A value in the limit's unit, rounded up to what it is given in: money from micro-USD to US cents, seconds to
    tenths, all else to whole ones."""
    if limit == "model_budget_cents":
        return cents(max(1, math.ceil(value)))
    if limit == "seconds":
        return max(1, math.ceil(value * 10)) / 10
    return max(1, math.ceil(value - 1e-9))


def _runs(count: int) -> str:
    return f"{count} run{'s' * (count != 1)}"
