"""The workspace as a tree: its files listed, their lines searched. Both in a settled order, and neither without end."""

import contextlib
import fnmatch
import itertools
import json
import math
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import regex

from longshift import ToolRefused
from toolsets.workspace.paths import FOLDER, REGULAR, Place, Workspace

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
MAX_MEMORY = 512 * 1024 * 1024
"""Bytes of memory that a search's pattern may take, with the lines of a file."""
SECONDS = 10.0
"""Seconds after which a list or a search gives what it has."""
MATCHER = Path(__file__).with_name("matcher.py")


class _GivenUp(Exception):
    """A list or a search has had its time, or a pattern its memory."""


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
    """Folders that cannot be opened, and files that cannot be searched."""

    def left(self) -> float:
        """Seconds left. Raises _GivenUp where there are none."""
        left = self.until - time.monotonic()
        if left <= 0:
            raise _GivenUp
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
            yield from self._from(self.place, folder)

    def _from(self, at: Place, folder: int) -> Iterator[tuple[Place, list[str], list[str], int]]:
        """A folder that is open, and those below it."""
        self.left()
        with os.scandir(folder) as entries:
            found = sorted((entry for entry in entries if entry.name != HIDDEN), key=lambda entry: entry.name)
        folders = [entry.name for entry in found if _is_folder(entry)]
        yield at, folders, [entry.name for entry in found if entry.name not in set(folders)], folder
        if len(at.parts) + 1 >= len(self.place.parts) + self.levels:
            self.deeper += [Place((*at.parts, name)) for name in folders]
            return
        for entry in found:
            if not entry.is_dir(follow_symlinks=False):
                continue
            below = Place((*at.parts, entry.name))
            try:
                opened = os.open(entry.name, FOLDER, dir_fd=folder)
            except OSError:
                self.left_out.append(below)
                continue
            try:
                yield from self._from(below, opened)
            finally:
                os.close(opened)

    def texts(self, pattern: str | None) -> Iterator[tuple[Place, list[str]]]:
        """The lines of each text file whose name fits."""
        for at, _, names, folder in self.folders():
            for name in names:
                found = Place((*at.parts, name))
                self.left()
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
    _check("pattern", pattern)
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
    except _GivenUp:
        notes.append(f"given up after {SECONDS:g} s; list one of the folders")
    return _with_notes({"entries": entries[:MAX_ENTRIES]}, notes + walk.notes())


def search(workspace: Workspace, pattern: str, path: str, files: str | None, literal: bool) -> dict[str, Any]:
    """The lines that a pattern is found in, of one file or of the files below a folder, as `path:line: text`."""
    _check("pattern", pattern)
    _check("files", files)
    walk = _Walk(workspace, workspace.place(path), MAX_LEVELS)
    matches: list[str] = []
    notes: list[str] = []
    place, cut = walk.place, None
    try:
        with _matcher(regex.escape(pattern) if literal else pattern, walk.left()) as numbers:
            for place, lines in walk.texts(files):
                cut = place if any(len(line) > MAX_LINE for line in lines) else cut
                found = numbers([line[:MAX_LINE] for line in lines])
                for number in itertools.islice(found, MAX_MATCHES + 1 - len(matches)):
                    line = lines[number - 1]
                    matches.append(f"{place}:{number}: {line[:MAX_SHOWN]}{'...' if line[MAX_SHOWN:] else ''}")
                if len(matches) > MAX_MATCHES:
                    only = f"only the first {MAX_MATCHES} lines are given"
                    notes.append(f"{only}; search one folder, or for something rarer")
                    break
    except _GivenUp:
        why = f"after {SECONDS:g} s" if time.monotonic() > walk.until else "for want of memory"
        notes.append(f"given up {why} at {place}; take a simpler pattern, or search one folder")
    if cut:
        notes.append(f"of a line, {MAX_LINE} characters are searched; there are longer ones, such as in {cut}")
    return _with_notes({"matches": matches[:MAX_MATCHES]}, notes + walk.notes())


def _with_notes(found: dict[str, Any], notes: list[str]) -> dict[str, Any]:
    return found | ({"note": "; ".join(notes)} if notes else {})


def _check(name: str, pattern: str | None) -> None:
    if pattern is not None and not 1 <= len(pattern) <= MAX_PATTERN:
        raise ToolRefused(f"{name} must have 1 to {MAX_PATTERN} characters")


@contextlib.contextmanager
def _matcher(pattern: str, seconds: float) -> Iterator[Callable[[list[str]], Iterator[int]]]:
    """A function that gives the numbers of the lines that a pattern is found in, from 1. It raises _GivenUp when the
    seconds are over, or the pattern took too much memory; and so does this.

    Raises ToolRefused: the pattern is none.
    """
    packages = str(Path(regex.__file__).parents[1])
    limits = str(math.ceil(seconds)), str(MAX_MEMORY)
    process = subprocess.Popen(
        (sys.executable, "-I", "-S", MATCHER, packages, *limits, json.dumps(pattern)),
        env={},  # commands can read it
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    writing, reading = process.stdin, process.stdout

    def answer() -> bytes:
        line = reading.readline()
        if not line.endswith(b"\n"):
            raise _GivenUp
        return line

    def numbers(lines: list[str]) -> Iterator[int]:
        try:
            writing.write(json.dumps(lines).encode() + b"\n")
            writing.flush()
        except BrokenPipeError:
            raise _GivenUp from None
        while (line := answer()) != b"\n":
            yield int(line)

    # A kill ends whatever is waited for here: what is written, and what is read.
    over = threading.Timer(seconds, process.kill)
    over.start()
    try:
        if wrong := json.loads(answer()):
            text = f"pattern is no regular expression: {wrong}; set literal to search for it as it is"
            raise ToolRefused(text)
        yield numbers
    finally:
        over.cancel()
        process.kill()
        process.communicate()


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether it is a folder, or a link to one."""
    try:
        return entry.is_dir()
    except OSError:  # a link that goes round in a circle
        return False


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
