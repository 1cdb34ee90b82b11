"""From a path that a model wrote to an open file or folder that surely lies in the workspace.

A path is decided on once its links and `..` are resolved. What it then says is opened from the workspace down, one
folder at a time, following no link: a link that is put in its way after the decision is an error and no way out.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from longshift import ToolFatal, ToolNotFound, ToolRefused

MAX_PATH = 4096
"""Characters of a path that are looked at; no file system takes more."""
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
REGULAR = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
"""Without blocking: a pipe that takes a file's place must not be waited for."""


@dataclass(frozen=True)
class Place:
    """A path in the workspace, without links and `..` as far as it exists."""

    parts: tuple[str, ...]

    def __str__(self) -> str:
        """As messages show it: relative to the workspace."""
        return "/".join(self.parts) or "."

    @property
    def parent(self) -> "Place":
        """The folder it lies in."""
        return Place(self.parts[:-1])

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Tell what the file system says of this place in a tool's words: ToolNotFound or ToolRefused."""
        try:
            yield
        except FileNotFoundError:
            raise ToolNotFound(f"there is no {self} in the workspace; list_files shows what there is") from None
        except OSError as error:
            raise ToolRefused(f"{self}: {(error.strerror or type(error).__name__).lower()}") from None


class Workspace:
    """One directory. All that is opened through it lies in it."""

    def __init__(self, root: Path) -> None:
        """Raises ValueError where `root` is no directory."""
        self.root = root.resolve()
        if not self.root.is_dir():
            raise ValueError(f"the workspace {root} is no directory; make it, or give another one")

    def place(self, path: str) -> Place:
        """Decide on a path.

        Args:
            path: relative to the workspace, or absolute.

        Raises:
            ToolRefused: it leads out of the workspace, or is none.
        """
        if not path.strip() or "\0" in path or len(path) > MAX_PATH:
            raise ToolRefused(f"path must have 1 to {MAX_PATH} characters and no NUL; the workspace itself is .")
        if path.split("/")[0] == "~":
            raise ToolRefused("path: ~ stands for no folder here; give a path relative to the workspace")
        try:
            real = Path(os.path.realpath(self.root / path))
        except ValueError:
            raise ToolRefused("path: no file can have this name; it is not Unicode") from None
        if not real.is_relative_to(self.root):
            raise ToolRefused("path leads out of the workspace; give one that stays in it, relative to it")
        return Place(real.relative_to(self.root).parts)

    @contextlib.contextmanager
    def folder(self, place: Place, *, create: bool = False) -> Iterator[int]:
        """An open folder, to be used as `dir_fd`.

        Args:
            place: where it is.
            create: make it and those above it where they are missing.

        Raises:
            OSError: it cannot be opened, or is none.
            ToolFatal: the workspace itself is gone.
        """
        try:
            opened = os.open(self.root, FOLDER)
        except OSError as error:
            raise ToolFatal(f"the workspace itself cannot be opened: {(error.strerror or '').lower()}") from None
        try:
            for part in place.parts:
                below = _below(opened, part, create)
                os.close(opened)
                opened = below
            yield opened
        finally:
            os.close(opened)

    @contextlib.contextmanager
    def file(self, place: Place) -> Iterator[BinaryIO]:
        """An open regular file, to be read.

        Raises ToolNotFound, ToolRefused.
        """
        with place.told(), self.folder(place.parent) as folder:
            check_regular(place, folder)
            descriptor = os.open(place.parts[-1], REGULAR, dir_fd=folder)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ToolRefused(f"{place} changed while it was opened; try again")
            yield file


def check_regular(place: Place, folder: int) -> os.stat_result:
    """What the file system knows of a file.

    Args:
        place: the file.
        folder: the open folder it lies in.

    Raises:
        OSError: it is not there, or cannot be looked at.
        ToolRefused: it is no regular file.
    """
    if not place.parts:
        raise ToolRefused(". is the workspace itself; name a file")
    found = os.stat(place.parts[-1], dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        raise ToolRefused(f"{place} is a folder; name a file")
    if not stat.S_ISREG(found.st_mode):
        raise ToolRefused(f"{place} is no regular file but a pipe, a socket, a device or a link to nowhere")
    return found


def _below(folder: int, name: str, create: bool) -> int:
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    with contextlib.suppress(FileExistsError):  # made by someone else in between
        os.mkdir(name, dir_fd=folder)
    return os.open(name, FOLDER, dir_fd=folder)
