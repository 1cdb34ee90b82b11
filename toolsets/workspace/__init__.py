"""Tools to work on files in one directory, and to run commands there.

paths.py       what lies in the workspace, opened so that no link leads out of it
files.py       read, write, edit
tree.py        list, search; matcher.py is the process that a search's pattern is looked for in
commands.py    run a command; supervisor.py is the process that watches over it
utf8.py        bytes shown as text
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from longshift import Tool, tool
from toolsets.workspace import commands, files, tree
from toolsets.workspace.paths import Workspace

MAX_SECONDS = 600
"""Seconds that one command may be given."""
SPARE_SECONDS = 30
"""Seconds beyond these, in which a command that is out of time is ended and its output told."""
MAX_BYTES = 65_536
"""Bytes of what a tool gives; what it reads or runs is cut well below that, and says so."""

Line = Annotated[int, Field(ge=1)]
Lines = Annotated[int, Field(ge=1, le=100_000)]
Levels = Annotated[int, Field(ge=1, le=tree.MAX_LEVELS)]
Seconds = Annotated[int, Field(ge=1, le=MAX_SECONDS)]


def workspace(root: Path | str) -> tuple[Tool[..., Any], ...]:
    """The tools read_file, list_files, search, write_file, edit_file and run_command, inside one directory.

    Files are reached in `root` only: `..`, absolute paths and links that lead out of it are refused. A command starts
    in `root` with a clean environment, but is confined by nothing except the rights of the worker's user.

    On Linux, no process of this user can read the memory and the environment of the calling one from then on.

    Args:
        root: the directory, which must exist; relative to the working directory.

    Raises:
        ValueError: it is no directory.
    """
    place = Workspace(Path(root))
    commands.hide_memory()

    @tool(kind="read", max_bytes=MAX_BYTES)
    def read_file(path: str, from_line: Line = 1, lines: Lines = 2000) -> dict[str, Any]:
        """Read a text file of the workspace, or a part of it.

        Args:
            path: the file, relative to the workspace
            from_line: number of the first line to read
            lines: lines to read at most
        """
        return files.read(place, path, from_line, lines)

    @tool(kind="read", max_bytes=MAX_BYTES)
    def list_files(path: str = ".", depth: Levels = 3, pattern: str | None = None) -> dict[str, Any]:
        """List the files and folders of the workspace, or of one folder of it. Folders end in a slash.

        Args:
            path: the folder, relative to the workspace
            depth: levels of folders to list
            pattern: list only files whose name fits, such as *.py; with a slash in it, whose path fits
        """
        return tree.list_files(place, path, depth, pattern)

    @tool(kind="read", max_bytes=MAX_BYTES)
    def search(pattern: str, path: str = ".", files: str | None = None, literal: bool = False) -> dict[str, Any]:
        """Find the lines of text files that hold a pattern, each given as path:line: text.

        Args:
            pattern: regular expression of Python's, looked for in each line
            path: the folder or file to search, relative to the workspace
            files: search only files whose name fits, such as *.py; with a slash in it, whose path fits
            literal: look for the pattern as it is written, not as a regular expression
        """
        return tree.search(place, pattern, path, files, literal)

    @tool
    def write_file(path: str, content: str) -> dict[str, Any]:
        """Make a file of the workspace, with the folders it lies in, or replace all that it holds.

        Args:
            path: the file, relative to the workspace
            content: all that it shall hold
        """
        return files.write(place, path, content)

    @tool
    def edit_file(path: str, old: str, new: str) -> dict[str, Any]:
        """Replace one piece of text in a file of the workspace.

        Args:
            path: the file, relative to the workspace
            old: the text to replace, exact with its indentation; it must occur exactly once
            new: the text to put in its place
        """
        return files.edit(place, path, old, new)

    @tool(timeout_seconds=MAX_SECONDS + SPARE_SECONDS, max_bytes=MAX_BYTES)
    async def run_command(command: str, timeout_seconds: Seconds = 120) -> dict[str, Any]:
        """Run a command in the workspace and give its exit code and output. Nothing is at its stdin, and what it leaves
        running in the background is ended with it.

        Args:
            command: command line for bash
            timeout_seconds: seconds after which it is killed
        """
        return await commands.run(place, command, timeout_seconds)

    return read_file, list_files, search, write_file, edit_file, run_command
