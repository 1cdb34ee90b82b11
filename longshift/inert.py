"""Text from outside, made harmless to show: whoever wrote it, a model, a tool or a stranger."""

import unicodedata

JOINERS = "\u200c\u200d"
"""Format characters that are kept: they shape letters and emoji, and move nothing."""


def inert(text: str, *, multiline: bool = False) -> str:
    """Text that does nothing to a terminal, whoever wrote it: escapes, control characters, bidi marks and invisible
    format characters are shown as what they are, such as \\x1b.

    Args:
        multiline: keep line feeds and tabs; else they are shown as well, so that no text can forge a line.
    """
    if (text.replace("\n", "").replace("\t", "") if multiline else text).isprintable():
        return text  # nearly all are, and a transcript may be long
    kept = JOINERS + ("\n\t" if multiline else "")
    return "".join(c if c in kept or not _acts(c) else _shown(c) for c in text)


def _acts(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _shown(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
