"""Files of the workspace: read, written whole, edited. What is not as it seems to be is said in a `note`."""

import contextlib
import os
import secrets
from typing import Any, BinaryIO

from longshift import ToolRefused
from toolsets.workspace import utf8
from toolsets.workspace.paths import Place, Workspace, check_regular

MAX_READ = 24_000
"""Bytes of a file that one read gives."""
MAX_SKIPPED = 256 * 1024 * 1024
"""Bytes of a file that are read over to come to a line."""
MAX_EDITED = 8 * 1024 * 1024
"""Bytes of a file that can be edited."""
SHOWN_LINES = 5
"""Line numbers that an error names."""


def read(workspace: Workspace, path: str, from_line: int, lines: int) -> dict[str, Any]:
    """Up to `lines` lines of a text file, from line `from_line` on: `text`, and a `note` where there is more to say."""
    place = workspace.place(path)
    with workspace.file(place) as file, place.told():
        _skip(place, file, from_line - 1)
        data, taken, more = _take(file, lines)
    if b"\0" in data:
        raise ToolRefused(f"{place} is binary, or text in another encoding than UTF-8")
    if from_line > 1 and not data:
        raise ToolRefused(f"{place} ends before line {from_line}")
    notes: list[str] = []
    if more and taken:
        notes.append(f"there is more: go on with from_line={from_line + taken}")
    elif more:
        notes.append(f"line {from_line} is cut, it has more than {MAX_READ} bytes; the next line is {from_line + 1}")
        data = utf8.untorn(data)
    text = utf8.shown(data, notes)
    if _is_crlf(data):
        text = text.replace("\r\n", "\n")
        notes.append("its lines end in CRLF, shown as \\n; edit_file keeps them so")
    return {"text": text} | ({"note": "; ".join(notes)} if notes else {})


def write(workspace: Workspace, path: str, content: str) -> dict[str, Any]:
    """Make a file, or put `content` in place of what one holds."""
    place = workspace.place(path)
    data = content.encode("utf-8")
    with place.told(), workspace.folder(place.parent, create=True) as folder:
        try:
            mode = check_regular(place, folder).st_mode
        except FileNotFoundError:
            mode = None
        _replace(folder, place.parts[-1], data, mode)
    return {"path": str(place), "bytes": len(data), "created": mode is None}


def edit(workspace: Workspace, path: str, old: str, new: str) -> dict[str, Any]:
    """Put `new` in place of the one `old` in a file; everything else stays as it is, byte for byte."""
    place = workspace.place(path)
    if not old or old == new:
        raise ToolRefused("old must not be empty, and new must differ from it; write_file makes a new file")
    with place.told(), workspace.folder(place.parent) as folder:
        mode = check_regular(place, folder).st_mode
        with workspace.file(place) as file:
            data = file.read(MAX_EDITED + 1)
        if len(data) > MAX_EDITED:
            raise ToolRefused(f"{place} has more than {MAX_EDITED} bytes; edit it by run_command, such as with sed")
        found, old_bytes, new_bytes = _find(data, old, new)
        if not found:
            raise ToolRefused(
                f"old does not occur in {place}; read the file again and copy the text exactly, with its indentation"
            )
        lines = [data.count(b"\n", 0, at) + 1 for at in found[:SHOWN_LINES]]
        if len(found) > 1:
            many = f"more than {SHOWN_LINES}" if found[SHOWN_LINES:] else str(len(found))
            shown = ", ".join(str(line) for line in lines) + (", ..." if found[SHOWN_LINES:] else "")
            raise ToolRefused(
                f"old occurs {many} times in {place}, in lines {shown}, and must occur once; "
                "give more of the lines around the one that is meant"
            )
        rest = data[found[0] + len(old_bytes) :]
        _replace(folder, place.parts[-1], data[: found[0]] + new_bytes + rest, mode)
    return {"path": str(place), "line": lines[0]}


def _skip(place: Place, file: BinaryIO, lines: int) -> None:
    """Read over the first lines."""
    room = MAX_SKIPPED
    while lines and (part := file.readline(MAX_READ)):
        lines -= part.endswith(b"\n")
        room -= len(part)
        if room < 0:
            raise ToolRefused(f"this line of {place} lies too far in; take it with run_command, such as by sed -n")


def _take(file: BinaryIO, lines: int) -> tuple[bytes, int, bool]:
    """The next lines: their bytes, how many are whole (0: the first alone is too long), and whether more follows."""
    data = b""
    for taken in range(lines):
        line = file.readline(MAX_READ + 1)
        if not line:
            return data, taken, False
        if len(data) + len(line) > MAX_READ:
            return data or line[:MAX_READ], taken, True
        data += line
    return data, lines, bool(file.read(1))


def _is_crlf(data: bytes) -> bool:
    return 0 < data.count(b"\n") == data.count(b"\r\n")


def _find(data: bytes, old: str, new: str) -> tuple[list[int], bytes, bytes]:
    """Where `old` occurs, and both texts with the line ends of the file: a model writes \\n whatever a file has."""
    exact = old.encode("utf-8"), new.encode("utf-8")
    crlf = _with_crlf(exact[0]), _with_crlf(exact[1])
    for pair in (crlf,) if _is_crlf(data) else (exact, crlf):
        if found := _occurrences(data, pair[0]):
            return found, *pair
    return [], *exact


def _with_crlf(text: bytes) -> bytes:
    return text.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _occurrences(data: bytes, text: bytes) -> list[int]:
    """Where `text` begins in `data`, overlaps included; of more than an error names, one more."""
    found: list[int] = []
    at = data.find(text)
    while at >= 0 and len(found) <= SHOWN_LINES:
        found.append(at)
        at = data.find(text, at + 1)
    return found


def _replace(folder: int, name: str, data: bytes, mode: int | None) -> None:
    """Make a file of the folder hold `data`, at once: whoever reads it sees all of the old or all of the new."""
    temporary = f".longshift-{secrets.token_hex(8)}.tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if mode is not None:
                os.fchmod(descriptor, mode & 0o7777)
            os.fsync(descriptor)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
