"""Text and values from outside as one short line."""

import reprlib

from longshift import jsontext
from longshift.inert import inert as inert  # the one door of the client's for what it shows

MAX_TEXT = 160
"""Characters shown of a text that came from outside; a line should fit on a screen or two."""


def short(text: str, characters: int = MAX_TEXT) -> str:
    """One inert line of at most so many characters, before what is shown for characters that are not inert."""
    line = " ".join(text[: 8 * characters].split())
    return inert(line if len(line) <= characters else line[: characters - 3] + "...")


def short_json(value: object, characters: int = MAX_TEXT) -> str:
    """A value as one short line of JSON. What came from outside may be none, such as 1e999, or be nested too deep to be
    written: that is shown as Python has it, and only so deep."""
    try:
        return short(jsontext.canonical(value), characters)
    except (TypeError, ValueError, RecursionError):
        return short(reprlib.repr(value), characters)
