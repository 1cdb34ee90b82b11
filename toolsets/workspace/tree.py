"""The workspace as a tree: its files listed, their lines searched. Both in a settled order, and neither without end."""

import fnmatch
import os
import re
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import regex

from longshift import ToolRefused
from toolsets.workspace.paths import REGULAR, Place, Workspace

HIDDEN = ".git"
"""Left out: what git keeps there is no source, and much."""
MAX_LEVELS = 40
"""Levels of folders that are looked into."""
MAX_ENTRIES = 1000
"""Files and folders that one list names."""
MAX_MATCHES = 200
"""Lines that one search gives."""
MAX_SHOWN = 300
"""Characters of a line that a search gives."""
MAX_LINE = 10_000
"""Characters of a line that are searched."""
MAX_SEARCHED = 4 * 1024 * 1024
"""Bytes of a file that is searched; a larger one is left out."""
MAX_PATTERN = 1000
"""Characters of a pattern."""
SECONDS = 10.0
"""Seconds after which a list or a search gives what it has."""
RECURSION = re.compile(r"\(\?(?:R|\d|&|P>)")
"""A pattern that calls itself: it can take all memory before its time is up."""


class _OutOfTime(Exception):
    """A list or a search has had its time."""


@dataclass
class _Walk:
    """The files below a place, and what of them was not looked at."""

    workspace: Workspace
    place: Place
    levels: int
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)
    deeper: list[Place] = field(default_factory=list)
    """Folders that lie too deep to be looked into."""
    left_out: list[Place] = field(default_factory=list)
    """Files that cannot be searched."""

    def left(self) -> float:
        """Seconds left. Raises _OutOfTime where there are none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise _OutOfTime
        return left

    def folders(self) -> Iterator[tuple[Place, list[str], list[str], int]]:
        """Each folder, from the top: where it is, the names of its folders and of its files in order, and the folder
        itself, open. A place that is a file is given as its folder with it alone."""
        if self.place.parts:
            name = self.place.parts[-1]
            with self.place.told(), self.workspace.folder(self.place.parent) as folder:
                if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    yield self.place.parent, [], [name], folder
                    return
        with self.place.told(), self.workspace.folder(self.place) as folder:
            for where, folders, files, descriptor in os.fwalk(".", dir_fd=folder):
                self.left()
                folders[:] = sorted(name for name in folders if name != HIDDEN)
                below = where.split("/")[1:]
                at = Place((*self.place.parts, *below))
                yield at, list(folders), sorted(set(files) - {HIDDEN}), descriptor
                if len(below) + 1 >= self.levels:
                    self.deeper += [Place((*at.parts, name)) for name in folders]
                    folders.clear()

    def texts(self, pattern: str | None) -> Iterator[tuple[Place, list[str]]]:
        """The lines of each text file whose name fits."""
        for at, _, names, folder in self.folders():
            for name in names:
                found = Place((*at.parts, name))
                if not _fits(found, pattern):
                    continue
                data = _content(folder, name)
                if data is None:
                    self.left_out.append(found)
                else:
                    yield found, [line.removesuffix("\r") for line in data.decode("utf-8", "replace").split("\n")]

    def notes(self) -> list[str]:
        """What was not looked at, in words."""
        notes = []
        if self.deeper:
            notes.append(f"folders below level {self.levels} are not looked into, such as {self.deeper[0]}")
        if self.left_out:
            count = len(self.left_out)
            text = f"left out as binary, unreadable or over {MAX_SEARCHED} bytes: {count}, such as {self.left_out[0]}"
            notes.append(text)
        return notes


def list_files(workspace: Workspace, path: str, depth: int, pattern: str | None) -> dict[str, Any]:
    """The files and folders below a folder, `depth` levels deep; with a pattern, only the files that it fits."""
    walk = _Walk(workspace, workspace.place(path), depth)
    entries: list[str] = []
    notes = []
    try:
        for at, folders, files, _ in walk.folders():
            names = [*files, *(f"{name}/" for name in folders)] if pattern is None else files
            found = (Place((*at.parts, name)) for name in sorted(names))
            entries += [str(place) for place in found if _fits(place, pattern)]
            if len(entries) > MAX_ENTRIES:
                notes.append(f"only the first {MAX_ENTRIES} are named; list one of the folders")
                break
    except _OutOfTime:
        notes.append(f"given up after {SECONDS:g} s; list one of the folders")
    return _with_notes({"entries": entries[:MAX_ENTRIES]}, notes + walk.notes())


def search(workspace: Workspace, pattern: str, path: str, files: str | None, literal: bool) -> dict[str, Any]:
    """The lines that a pattern is found in, of one file or of the files below a folder, as `path:line: text`."""
    wanted = _compiled(pattern, literal)
    walk = _Walk(workspace, workspace.place(path), MAX_LEVELS)
    matches: list[str] = []
    notes: list[str] = []
    place, cut = walk.place, None
    try:
        for place, lines in walk.texts(files):
            for number, line in enumerate(lines, 1):
                cut = place if len(line) > MAX_LINE else cut
                if wanted.search(line, pos=0, endpos=MAX_LINE, timeout=walk.left()):
                    matches.append(f"{place}:{number}: {line[:MAX_SHOWN]}{'...' if line[MAX_SHOWN:] else ''}")
            if len(matches) > MAX_MATCHES:
                notes.append(f"only the first {MAX_MATCHES} lines are given; search one folder, or for something rarer")
                break
    except (_OutOfTime, TimeoutError, MemoryError):
        notes.append(f"given up after {SECONDS:g} s at {place}; take a simpler pattern, or search one folder")
    if cut:
        notes.append(f"of a line, {MAX_LINE} characters are searched; there are longer ones, such as in {cut}")
    return _with_notes({"matches": matches[:MAX_MATCHES]}, notes + walk.notes())


def _with_notes(found: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    return found | ({"note": "; ".join(notes)} if notes else {})


def _compiled(pattern: str, literal: bool) -> "regex.Pattern[str]":
    if not pattern or len(pattern) > MAX_PATTERN:
        raise ToolRefused(f"pattern must have 1 to {MAX_PATTERN} characters")
    if not literal and RECURSION.search(pattern):
        raise ToolRefused("pattern calls itself, which is not taken; write it without (?R) and the like")
    try:
        return regex.compile(regex.escape(pattern) if literal else pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        text = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ToolRefused(f"pattern is no regular expression: {text}; set literal to search for it as it is") from None


def _content(folder: int, name: str) -> bytes | None:
    """What a file holds; None where that is nothing to search. A link is nothing: its file is found where it lies."""
    try:
        if not stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            return b""
        with os.fdopen(os.open(name, REGULAR, dir_fd=folder), "rb") as file:
            data = file.read(MAX_SEARCHED + 1)
    except OSError:
        return None
    return None if len(data) > MAX_SEARCHED or b"\0" in data else data


def _fits(place: Place, pattern: str | None) -> bool:
    """Whether a file's name fits, or where the pattern has a slash its path."""
    if pattern is None:
        return True
    return fnmatch.fnmatchcase(str(place) if "/" in pattern else place.parts[-1], pattern)
