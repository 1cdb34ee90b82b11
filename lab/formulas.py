"""The arithmetic of reliability: what a run of many steps can be expected to do, and what measurements allow to say.

Pure functions of numbers. A probability is a number from 0 to 1; whatever else is given raises a ValueError that names
the argument.

Sources. Feller: W. Feller, An Introduction to Probability Theory and Its Applications, vol. 1, 3rd ed., Wiley 1968.
Wilson: E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, Journal of the American
Statistical Association 22 (1927), 209 to 212.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

EXTRA = "Longshift's extra lab (in a checkout: .uv/bin/uv sync --locked --inexact --extra lab)"
"""The extra that brings SciPy and matplotlib."""
ROUNDING = 1e-9
"""Relative size below which a difference is one of rounding."""
CONFIDENCE = 0.95
"""Of an interval."""
DEVIATIONS = 1.959963984540054
"""Between an estimate and the ends of such an interval."""
MOST = 10**15
"""Of steps, attempts or trials; more would not be told apart by a float."""


class LabExtraMissing(Exception):
    """Something of the extra is needed and not installed. Its text says how to get it."""


def chain_success(p: float, n: int) -> float:
    """Probability that n steps in a row succeed, each by itself with probability p: p^n.

    Independent trials (Feller, ch. VI.1): the product of their probabilities. It is a bound to be refuted by
    `fit_decay`, not a law: real steps are seldom independent.
    """
    return _probability("p", p) ** _count("n", n)


def half_life(p: float) -> float:
    """Steps after which a chain of independent steps succeeds half of the time: ln 2 / -ln p, where p^n = 1/2.

    Infinite for p = 1, 0 for p = 0.
    """
    p = _probability("p", p)
    if p in (0, 1):
        return math.inf if p else 0.0
    return math.log(2) / -math.log(p)


def success_with_recovery(p: float, r: float, n: int) -> float:
    """Probability of standing right after n steps, where a step can also mend what went wrong.

    pi + (1 - pi)(p - r)^n with pi = r / (1 - p + r): the Markov chain of two states, right and wrong, that begins
    right (Feller, ch. XVI.2, the chain of two states). pi is where it settles, however long it goes on.

    Args:
        p: that a step from right stays right.
        r: that a step from wrong comes back to right.
        n: steps.
    """
    p, r, n = _probability("p", p), _probability("r", r), _count("n", n)
    if p == 1:
        return 1.0
    settled = r / (1 - p + r)
    return settled + (1 - settled) * (p - r) ** n


def retry_success(q: float, k: int, hard: float = 0) -> float:
    """Probability that one of k attempts succeeds: (1 - h)(1 - (1 - q)^k).

    A mixture: a fraction h of the tasks is hard and never succeeds, the others succeed independently with q an attempt
    (Feller, ch. V.2, on mixtures of urns). Of a measured success at the first attempt, q is that divided by 1 - h.

    Args:
        q: success of one attempt at a task that is not hard.
        k: attempts.
        hard: the fraction of tasks that no attempt can do.
    """
    q, k, hard = _probability("q", q), _count("k", k), _probability("hard", hard)
    return (1 - hard) * (1 - (1 - q) ** k)


def finish_within(budget: int, f: float) -> float:
    """Probability that a run ends within a budget of B steps, each of which ends it with probability f: 1 - (1 - f)^B.

    The geometric distribution (Feller, ch. VI.8, waiting times). Computed by its logarithm, so that a small f is not
    lost.
    """
    budget, f = _count("budget", budget), _probability("f", f)
    if f == 1:
        return 1.0 if budget else 0.0
    return -math.expm1(budget * math.log1p(-f))


def budget_for(f: float, eps: float) -> int:
    """The smallest budget of steps that a run outlasts with a probability of at most eps: ceil(ln eps / ln(1 - f)).

    The inverse of `finish_within`.

    Args:
        f: that a step ends the run; above 0, since else no budget suffices.
        eps: the share of runs that may be cut off; above 0 for the same reason.
    """
    f, eps = _probability("f", f), _probability("eps", eps)
    for name, value in (("f", f), ("eps", eps)):
        if value == 0:
            raise ValueError(f"{name} is 0: no budget suffices; give a probability above 0")
    if eps == 1:
        return 0
    if f == 1:
        return 1
    steps = math.log(eps) / math.log1p(-f)
    if steps > MOST:
        raise ValueError(f"f is {f:g}: more than {MOST} steps would be needed; give a larger probability")
    whole = round(steps)
    return whole if whole > 0 and math.isclose(steps, whole, rel_tol=ROUNDING) else math.ceil(steps)


class Interval(NamedTuple):
    """Between what a probability may lie."""

    low: float
    high: float


def wilson_interval(k: int, n: int) -> Interval:
    """The 95 % interval of a probability, k of n trials having succeeded: Wilson's score interval, by SciPy.

    It keeps its coverage where the usual one (the estimate plus or minus two deviations) fails: few trials, and rates
    near 0 or 1. It never leaves 0 to 1.

    Raises LabExtraMissing without SciPy.
    """
    n, k = _count("n", n), _count("k", k)
    if n == 0:
        raise ValueError("n is 0: nothing was tried; give at least one trial")
    if k > n:
        raise ValueError(f"k is {k}, more than the {n} trials of n")
    found = of_scipy("binomtest")(k, n).proportion_ci(confidence_level=CONFIDENCE, method="wilson")
    return Interval(float(found.low), float(found.high))


@dataclass(frozen=True)
class Decay:
    """How success falls with length: a p^n."""

    p: float
    """Success of a step."""
    a: float
    """Where the line meets n = 0; 1 for independent steps."""

    @property
    def independent(self) -> bool:
        """Whether independent steps could look so. With a > 1 the fit would have a run of no steps succeed more than
        always: longer runs do worse than one rate for every step allows. At which steps, it does not say."""
        return self.a <= 1 + ROUNDING

    @property
    def sentence(self) -> str:
        """What the fit says, in words."""
        figures = f"success falls as {self.a:.3g} x {self.p:.3g}^n"
        if self.independent:
            return f"{figures}; a is not above 1, so these points do not refute independent steps"
        return (
            f"{figures}; a is above 1, so the model of independent steps is refuted: longer runs do worse than one "
            "rate for every step allows"
        )


def fit_decay(points: Iterable[tuple[float, float]]) -> Decay:
    """Fit log success = n log p + log a by least squares (SciPy's linregress).

    The points carry no error here; hold them against their `wilson_interval`.

    Args:
        points: lengths, each with its success, at least two lengths.

    Raises:
        ValueError: too few lengths, or a success of 0, which has no logarithm.
        LabExtraMissing: without SciPy.
    """
    given = list(points)
    lengths = [_number("points", n) for n, _ in given]
    successes = [_probability("points", success) for _, success in given]
    if len(set(lengths)) < 2:
        raise ValueError("points: has fewer than two lengths; a line needs two")
    if 0 in successes:
        raise ValueError("points: a success of 0 has no logarithm; leave out the lengths at which nothing succeeded")
    line = of_scipy("linregress")(lengths, [math.log(success) for success in successes])
    return Decay(p=math.exp(line.slope), a=math.exp(line.intercept))


def missing(error: ModuleNotFoundError) -> LabExtraMissing:
    """What is missing, with the remedy."""
    return LabExtraMissing(f"{error.name} is not installed; install {EXTRA}")


def of_scipy(name: str, part: str = "stats") -> Callable[..., Any]:
    """A function of a part of SciPy, which takes a second to import: only when it is used."""
    try:
        import scipy  # it imports its parts when they are asked for
    except ModuleNotFoundError as error:
        raise missing(error) from None
    function: Callable[..., Any] = getattr(getattr(scipy, part), name)
    return function


def _number(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value!r}")
    return value


def _probability(name: str, value: float) -> float:
    if not 0 <= _number(name, value) <= 1:
        raise ValueError(f"{name} must be a probability, from 0 to 1, not {value!r}")
    return value


def _count(name: str, value: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST:
        raise ValueError(f"{name} must be a whole number from 0 to {MOST}, not {str(value)[:40]}")
    return value
