"""How success falls with length, and whether independent steps could look so. Pure.

The line is `fit_decay`'s a p^n: it describes the lengths at which anything succeeded, since nothing has no logarithm.
Whether the decay is geometric is another question, and takes every length: the counts of success are held against
p^n with its most likely p. Two tests look at them, each at half the chance of error: whether a is another than 1, and
whether one length stands apart, as a cliff does behind an early error.

Source of the first: C. R. Rao, Large sample tests of statistical hypotheses concerning several parameters with
applications to problems of estimation, Mathematical Proceedings of the Cambridge Philosophical Society 44 (1948), 50 to
57. Of one length alone the interval of p^n is Wilson's, who did the same. Its false alarms stay near what they may be;
those of the likelihood ratio are twice as many where tasks come by the dozen and few fail.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lab.formulas import DEVIATIONS, Decay, Interval, fit_decay, of_scipy
from lab.rate import Rate

CHANCE = 0.05
"""The probability below which a difference is no accident."""
FAR, NEAR = 40.0, 1e-12
"""Between these lies the logarithm of success, its sign left out: beyond them it is never and always."""


@dataclass(frozen=True)
class Fit:
    """Success by length, held against independent steps."""

    lengths: Mapping[int, Rate]
    p: float
    """Success of a step, were all alike and independent: the most likely one."""
    interval: Interval
    """Of p."""
    bend: float
    """By how many standard deviations the data pull a of a p^n above 1, or below it."""
    furthest: int
    """The length whose success is least likely with p^n."""
    stands_apart: float
    """How often p^n would bring one as unlikely there."""
    line: Decay | None
    """By least squares of log success; None where fewer than two lengths had any."""

    @property
    def bends_by_chance(self) -> float:
        """How often independent steps would bring at least as large a bend; twice that, since it is one test of two."""
        return min(1.0, 2 * math.erfc(abs(self.bend) / math.sqrt(2)))

    @property
    def chance(self) -> float:
        """How often independent steps would bring as large a bend or a length as far apart, at most (Bonferroni)."""
        return min(self.bends_by_chance, 2 * len(self.lengths) * self.stands_apart)

    @property
    def geometric(self) -> bool:
        """Whether independent steps are not refuted."""
        return self.chance >= CHANCE

    @property
    def fitted(self) -> list[int]:
        """The lengths that the line is of."""
        return [length for length, rate in self.lengths.items() if rate.k]

    @property
    def sentences(self) -> list[str]:
        """Whether the decay is geometric, and the line."""
        told = [self._verdict]
        if self.line is not None:
            none = ", ".join(str(length) for length, rate in self.lengths.items() if not rate.k)
            without = f", without {none}, where nothing succeeded" if none else ""
            told.append(
                f"The line of least squares through log success from {self.fitted[0]} to {self.fitted[-1]} look-ups is "
                f"{self.line.a:.3g} x {self.line.p:.3g}^n{without}."
            )
        return told

    @property
    def _verdict(self) -> str:
        p = f"p is {self.p:.3g} ({self.interval.low:.3g} to {self.interval.high:.3g})"
        if all(rate.k == rate.n for rate in self.lengths.values()):
            return f"Nothing failed, which does not refute a geometric decay, independent steps: {p}."
        if self.geometric:
            return (
                f"The data do not refute a geometric decay, independent steps: {p}; they bring as large a "
                f"difference in up to {self.chance:.2g} of experiments."
            )
        most = (
            f"with p^n at its most likely, {p}, {self.p**self.furthest:.3g} would succeed at {self.furthest} look-ups, "
            f"where {self.lengths[self.furthest]} did"
        )
        if self.bends_by_chance >= CHANCE:
            return f"The decay is not geometric: one length stands apart; {most}."
        if self.bend > 0:
            return (
                "The decay is not geometric: a of a p^n is above 1, so longer tasks do worse than one rate for every "
                f"step allows, at whichever steps; {most}."
            )
        return (
            "The decay is not geometric alone: a of a p^n is below 1, so some failures do not come with length; "
            f"{most}."
        )

    def document(self) -> dict[str, object]:
        """As the receipt has it."""
        return {
            "lengths": self.fitted,
            "p": self.line and self.line.p,
            "a": self.line and self.line.a,
            "independent": {
                "p": self.p,
                "p_interval": list(self.interval),
                "bend": self.bend,
                "chance": self.chance,
                "refuted": not self.geometric,
            },
        }


def fit(lengths: Mapping[int, Rate]) -> Fit | None:
    """Hold the success by length against independent steps.

    Returns: None of fewer than two lengths, and where nothing succeeded.

    Raises LabExtraMissing without SciPy.
    """
    succeeded = [(length, rate.k / rate.n) for length, rate in lengths.items() if rate.k]
    if len(lengths) < 2 or not succeeded:
        return None
    slope, low, high = (_slope(lengths, deviations) for deviations in (0.0, DEVIATIONS, -DEVIATIONS))
    p, test = math.exp(slope), of_scipy("binomtest")
    by_chance = {length: float(test(rate.k, rate.n, p**length).pvalue) for length, rate in lengths.items()}
    furthest = min(lengths, key=lambda length: by_chance[length])
    return Fit(
        lengths,
        p,
        Interval(math.exp(low), math.exp(high)),
        _bend(lengths, slope),
        furthest,
        by_chance[furthest],
        fit_decay(succeeded) if len(succeeded) > 1 else None,
    )


def _terms(lengths: Mapping[int, Rate], slope: float) -> list[tuple[int, float, float]]:
    """Each length, the pull of its successes on log success there, and the variance of that; log p is the slope."""
    found = []
    for length, rate in lengths.items():
        success, failure = math.exp(slope * length), -math.expm1(slope * length)
        found.append((length, (rate.k - rate.n * success) / failure, rate.n * success / failure))
    return found


def _slope(lengths: Mapping[int, Rate], deviations: float) -> float:
    """The log p above which the successes are by so many deviations; 0 where nothing failed and p may be 1."""

    def away(slope: float) -> float:
        terms = _terms(lengths, slope)
        pull = sum(length * pull for length, pull, _ in terms)
        return pull / math.sqrt(sum(length**2 * variance for length, _, variance in terms)) - deviations

    if away(-NEAR) >= 0:
        return 0.0
    return float(of_scipy("brentq", "optimize")(away, -FAR / min(lengths), -NEAR))


def _bend(lengths: Mapping[int, Rate], slope: float) -> float:
    """The pull on log a at a = 1, in deviations: what the pull on the slope, which is none there, does not explain."""
    if slope == 0:
        return 0.0
    terms = _terms(lengths, slope)
    shared = sum(length * variance for length, _, variance in terms) / sum(
        length**2 * variance for length, _, variance in terms
    )
    pull = sum((1 - shared * length) * pull for length, pull, _ in terms)
    spread = sum((1 - shared * length) ** 2 * variance for length, _, variance in terms)
    return pull / math.sqrt(spread) if spread else 0.0  # with one length that tells anything there is no bend
