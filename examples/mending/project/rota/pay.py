"""What a shift is paid, in cents."""

from rota.clock import between, minutes


def paid(start: str, end: str, cents_per_hour: int) -> int:
    """Cents for a shift from `start` to `end`, rounded down."""
    return between(minutes(start), minutes(end)) * cents_per_hour // 60
