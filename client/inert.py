"""Text from outside, made harmless to show: whoever wrote it, a model, a tool or a stranger."""

import reprlib
import unicodedata

from longshift import jsontext

MAX_TEXT = 160
"""Characters shown of a text that came from outside; a line should fit on a screen or two."""
JOINERS = "\u200c\u200d"
"""Format characters that are kept: they shape letters and emoji, and move nothing."""


def inert(text: str, *, multiline: bool = False) -> str:
    """Text that does nothing to a terminal, whoever wrote it: escapes, control characters, bidi marks and invisible
    format characters are shown as what they are, such as \\x1b.

    Args:
        multiline: keep line feeds and tabs; else they are shown as well, so that no text can forge a line.
    """
    kept = JOINERS + ("\n\t" if multiline else "")
    return "".join(c if c in kept or not _acts(c) else _shown(c) for c in text)


def _acts(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _shown(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


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
