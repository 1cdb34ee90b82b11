"""What an experiment's grades support, in figures and in words. Pure.

Success against length, the chain of right and wrong look-ups (p and r), the step that goes wrong most often, and what
retries bring, held against independent attempts and against a hard fraction h. Every estimate has its 95 % interval,
and a sentence says no more than the interval does.

Source of the hard fraction: the binomial with added zeros, by maximum likelihood, D. Lambert, Zero-Inflated Poisson
Regression, Technometrics 34 (1992), 1 to 14; its interval is the profile likelihood's.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.decay import CHANCE, Fit, fit
from lab.formulas import Interval, of_scipy, retry_success
from lab.plan import Plan
from lab.rate import Rate
from lab.stock import CONDITIONS, Condition, Grade

GRID = 100
"""Steps of a probability between 0 and 1 in a likelihood."""
DROP = 1.920729
"""By so much less than its highest is the log likelihood at the ends of a 95 % interval: half of chi-squared's."""
FEW = 10
"""Look-ups after a wrong one, of which fewer tell no rate."""
TOTAL = "total"


@dataclass(frozen=True)
class Step:
    """A step of the task, over all lengths: errors that were the first of their run, of the runs that came so far."""

    name: str
    errors: Rate


@dataclass(frozen=True)
class Mixture:
    """Retries with a hard fraction."""

    q: float
    """Success of an attempt at a task that is not hard."""
    hard: float
    interval: Interval
    """Of the hard fraction."""
    within: Sequence[float]
    """Tasks that succeed within 1, 2, ... attempts."""


@dataclass(frozen=True)
class Retries:
    """What attempts bring, and what the two models have them bring."""

    length: int
    within: Sequence[Rate]
    """Tasks that succeeded within 1, 2, ... attempts."""
    independent: Sequence[float]
    mixture: Mixture | None
    """None where the attempts cannot tell: nothing succeeded, or all came out alike."""
    alike: bool
    """Whether each task's attempts all came out alike, step by step."""

    @property
    def sentence(self) -> str:
        """Whether tasks differ. A hard fraction is told as no more than a likeness: some tasks that seldom succeed give
        the same figures as some that never do."""
        last, attempts, at = self.within[-1], len(self.within), f"at {self.length} look-ups"
        if not last.k:
            return f"Nothing succeeded {at} within {attempts} attempts, so nothing can be said of retries."
        if self.mixture is None:
            return (
                f"All {attempts} attempts at each task came out alike {at}, each step, right at {last} of the tasks. "
                "So they do where the endpoint leaves nothing to chance, and then say nothing of retries."
            )
        interval = self.mixture.interval
        h = f"{self.mixture.hard:.3g} ({interval.low:.3g} to {interval.high:.3g})"
        came = (
            f"within {attempts} attempts {last} succeed, {self.independent[-1]:.3g} would if attempts were independent"
        )
        if interval.low > 0:
            return (
                f"Tasks differ {at}: {came}, as if {h} of the tasks never did. So few attempts do not tell tasks that "
                "never succeed from tasks that seldom do."
            )
        return f"No hard fraction shows {at}: it may be {h}; {came}."


@dataclass(frozen=True)
class Findings:
    """What was found under one condition."""

    condition: Condition
    lengths: Mapping[int, Rate]
    fit: Fit | None
    p: Rate
    """Look-ups that were right, of those of a first turn or after a turn whose look-ups were all right."""
    r: Rate
    """Look-ups that were right, of those after a turn with a wrong one."""
    steps: Sequence[Step]
    culprit: Step | None
    """The step that goes wrong most often where runs come so far, if one stands out."""
    retries: Retries | None

    @property
    def sentences(self) -> list[str]:
        """What the data support."""
        told = ["Too few lengths had any success: nothing can be said of the decay."]
        if self.fit is not None:
            told = self.fit.sentences
        errors = sum(step.errors.k for step in self.steps)
        worst = max(self.steps, key=lambda step: (step.errors.k, step.errors.value or 0))
        if not errors:
            told.append("No run went wrong, so no step holds errors.")
        elif self.culprit is not None:
            one = self.culprit
            most = f"; most, {worst.errors.k}, did so at the {worst.name}" if worst.errors.k > one.errors.k else ""
            told.append(
                f"The {one.name} stands out: of the runs that came so far {one.errors} went wrong there first. "
                f"These are {one.errors.k} of all {errors} that went wrong{most}."
            )
        else:
            told.append(
                f"No step stands out: of {errors} runs that went wrong most, {worst.errors.k}, did so first at the "
                f"{worst.name}, {worst.errors} of those that came so far."
            )
        after = f"one after a wrong one with {self.r}"
        if self.r.n < FEW:
            after = f"of {self.r.n} after a wrong one {self.r.k} were right, too few for a rate"
        told.append(f"A look-up that is the first or comes after right ones is right with {self.p}; {after}.")
        return told + ([self.retries.sentence] if self.retries else [])

    def document(self) -> dict[str, object]:
        """As the receipt has it."""
        retries = self.retries
        return {
            "condition": self.condition,
            "sentences": self.sentences,
            "success": [{"length": length, **rate.document()} for length, rate in self.lengths.items()],
            "fit": self.fit and self.fit.document(),
            "chain": {"p": self.p.document(), "r": self.r.document()},
            "first_errors": [{"step": step.name, **step.errors.document()} for step in self.steps],
            "culprit": self.culprit and self.culprit.name,
            "retries": retries
            and {
                "length": retries.length,
                "within": [rate.document() for rate in retries.within],
                "independent": list(retries.independent),
                "alike": retries.alike,
                "with_hard_fraction": retries.mixture
                and {
                    "within": list(retries.mixture.within),
                    "q": retries.mixture.q,
                    "hard": retries.mixture.hard,
                    "hard_interval": list(retries.mixture.interval),
                },
            },
        }


Key = tuple[Condition, int, int, int]
"""Condition, length, instance and attempt of a run."""


def analyse(plan: Plan, grades: Mapping[Key, Grade]) -> list[Findings]:
    """What the grades of all runs of a plan support, condition by condition.

    Raises LabExtraMissing without SciPy.
    """
    return [_findings(plan, condition, grades) for condition in CONDITIONS if condition in plan.conditions]


def _findings(plan: Plan, condition: Condition, grades: Mapping[Key, Grade]) -> Findings:
    first: dict[int, list[Grade]] = defaultdict(list)
    tried: dict[int, list[Grade]] = defaultdict(list)
    for (of, length, instance, attempt), grade in sorted(grades.items()):
        if of != condition:
            continue
        if attempt == 1:
            first[length].append(grade)
        if length == plan.retry_length:
            tried[instance].append(grade)
    lengths = {length: Rate(sum(one.right for one in found), len(found)) for length, found in sorted(first.items())}
    every = [one for found in first.values() for one in found]
    p, r = _chain(every)
    steps = _steps(every)
    return Findings(
        condition=condition,
        lengths=lengths,
        fit=fit(lengths),
        p=p,
        r=r,
        steps=steps,
        culprit=_culprit(steps),
        retries=_retries(plan.retry_length, list(tried.values())) if plan.attempts > 1 else None,
    )


def _chain(grades: Sequence[Grade]) -> tuple[Rate, Rate]:
    """How often a look-up is right after right ones, and after a wrong one; a run begins right. After means in a later
    turn: the look-ups of one turn are decided together, before any of them has come out."""
    counts = Counter(
        (all(before), right)
        for grade in grades
        for before, turn in pairwise(((True,), *grade.outcomes))
        for right in turn
    )
    return (
        Rate(counts[True, True], counts[True, True] + counts[True, False]),
        Rate(counts[False, True], counts[False, True] + counts[False, False]),
    )


def _steps(grades: Sequence[Grade]) -> list[Step]:
    """First errors by step: each look-up by its place, then the total."""
    errors: Counter[str] = Counter()
    reached: Counter[str] = Counter()
    for grade in grades:
        names = [*(f"look-up {number}" for number in range(1, len(grade.lookups) + 1)), TOTAL]
        wrong = grade.first_error
        reached.update(names[:wrong])
        if wrong is not None:
            errors[names[wrong - 1]] += 1
    return [Step(name, Rate(errors[name], reached[name])) for name in in_order(reached)]


def in_order(names: Collection[str]) -> list[str]:
    """Names of steps: the look-ups by their places, then the total."""
    return sorted(names, key=lambda name: (name == TOTAL, len(name), name))


def _culprit(steps: Sequence[Step]) -> Step | None:
    """The step that goes wrong more often than those together that go wrong at all besides, where that is no accident:
    Fisher's exact test, as strict as it takes for the worst of so many (Bonferroni)."""
    if len(steps) < 2 or not any(step.errors.k for step in steps):
        return None
    worst = max(steps, key=lambda step: (step.errors.interval.low, step.errors.k))
    every = [step.errors for step in steps if step is not worst]
    others = [errors for errors in every if errors.k] or every
    k, n = sum(one.k for one in others), sum(one.n for one in others)
    table = [[worst.errors.k, worst.errors.n - worst.errors.k], [k, n - k]]
    accident = float(of_scipy("fisher_exact")(table, alternative="greater").pvalue)
    return worst if accident * len(steps) < CHANCE else None


def _retries(length: int, tried: Sequence[Sequence[Grade]]) -> Retries:
    attempts = len(tried[0])
    right = [[grade.right for grade in one] for one in tried]
    within = [Rate(sum(any(one[:k]) for one in right), len(right)) for k in range(1, attempts + 1)]
    successes = Counter(map(sum, right))
    alone = sum(map(sum, right)) / (attempts * len(right))
    alike = all(grade == one[0] for one in tried for grade in one)
    return Retries(
        length=length,
        within=within,
        independent=[retry_success(alone, k) for k in range(1, attempts + 1)],
        mixture=_mixture(successes, attempts) if alone and not alike else None,
        alike=alike,
    )


def _mixture(successes: Counter[int], attempts: int) -> Mixture:
    """The most likely one.

    Args:
        successes: how many tasks had so many successful attempts.
        attempts: at each task.
    """
    grid = [step / GRID for step in range(GRID + 1)]
    best: dict[float, tuple[float, float]] = {}
    for hard in grid:
        best[hard] = max((_likelihood(successes, attempts, q, hard), q) for q in grid)
    top, q, hard = max((likelihood, q, -hard) for hard, (likelihood, q) in best.items())
    inside = [one for one, (likelihood, _) in best.items() if likelihood >= top - DROP]
    within = [retry_success(q, k, -hard) for k in range(1, attempts + 1)]
    return Mixture(q, -hard, Interval(min(inside), max(inside)), within)


def _likelihood(successes: Counter[int], attempts: int, q: float, hard: float) -> float:
    """Its logarithm, without the part that depends on neither."""
    total = 0.0
    for count, tasks in successes.items():
        chance = (1 - hard) * q**count * (1 - q) ** (attempts - count) + (hard if count == 0 else 0)
        if chance <= 0:
            return -math.inf
        total += tasks * math.log(chance)
    return total
