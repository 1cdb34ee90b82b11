"""Times of day, as minutes since midnight."""

DAY = 24 * 60
"""Minutes of a day."""


def minutes(text: str) -> int:
    """Minutes since midnight of a time such as `22:30`."""
    hours, _, rest = text.partition(":")
    return int(hours) * 60 + int(rest)


def between(start: int, end: int) -> int:
    """Minutes from one time of day to the next time that a clock shows the other."""
    return end - start
