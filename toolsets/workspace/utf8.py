"""Bytes that are mostly text, shown as text."""

import codecs


def shown(data: bytes, notes: list[str]) -> str:
    """`data` as text; what is no UTF-8 becomes U+FFFD, and `notes` gains a sentence that says so."""
    text = data.decode("utf-8", errors="replace")
    if text.encode("utf-8") != data:
        notes.append("not all of it is UTF-8; what is not is shown as \ufffd")
    return text


def untorn(data: bytes) -> bytes:
    """`data` without a character at its end that it has only the beginning of."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]
