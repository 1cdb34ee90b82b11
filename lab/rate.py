"""So many of so many. Pure."""

from dataclasses import dataclass

from lab.formulas import Interval, wilson_interval


@dataclass(frozen=True)
class Rate:
    """So many of so many, with Wilson's interval."""

    k: int
    n: int

    @property
    def value(self) -> float | None:
        """None of nothing."""
        return self.k / self.n if self.n else None

    @property
    def interval(self) -> Interval:
        """From 0 to 1 where there is nothing to tell from."""
        return wilson_interval(self.k, self.n) if self.n else Interval(0.0, 1.0)

    def document(self) -> dict[str, object]:
        """As the receipt has it."""
        return {"k": self.k, "n": self.n, "value": self.value, "interval": list(self.interval)}

    def __str__(self) -> str:
        if self.value is None:
            return "not seen"
        return f"{self.value:.3g} ({self.interval.low:.3g} to {self.interval.high:.3g})"
