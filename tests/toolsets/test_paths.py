"""What a path of a model's leads to: a file in the workspace, or nowhere."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longshift import ToolRefused
from tests.toolsets.workspaces import Tools
from toolsets.workspace import paths, workspace
from toolsets.workspace.paths import Workspace

pytestmark = pytest.mark.asyncio

ON_FILES: dict[str, dict[str, Any]] = {
    "read_file": {},
    "write_file": {"content": "x"},
    "edit_file": {"old": "secret", "new": "x"},
    "search": {"pattern": "secret"},
    "list_files": {},
}
"""The tools that take a path, and what else each is given."""


def links(root: Path, outside: Path) -> None:
    """Links that lead out, in every way, and some that stay in."""
    (root / "to-file").symlink_to(outside / "secret.txt")
    (root / "to-folder").symlink_to(outside)
    (root / "upwards").symlink_to("../outside")
    (root / "chain").symlink_to("to-folder")
    (root / "src" / "up").symlink_to("../..")
    (root / "nowhere").symlink_to(outside / "missing.txt")
    (root / "entry").symlink_to("src/main.py")
    (root / "sources").symlink_to(root / "src")
    (root / "loop").symlink_to("loop")


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir()}


@pytest.mark.parametrize("name", ON_FILES)
@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../outside/secret.txt",
        "src/../../outside/secret.txt",
        "/etc/passwd",
        "//etc/passwd",
        "{outside}/secret.txt",
        "{root}/../outside/secret.txt",
        "{root}x",
        "to-file",
        "to-folder/secret.txt",
        "to-folder",
        "upwards/secret.txt",
        "chain/secret.txt",
        "src/up/outside/secret.txt",
        "nowhere",
        "to-folder/../outside/secret.txt",
    ],
)
async def test_no_path_leads_out_of_the_workspace(tools: Tools, outside: Path, name: str, path: str) -> None:
    links(tools.root, outside)
    given = path.replace("{root}", str(tools.root)).replace("{outside}", str(outside))

    kind, message = await tools.refusal(name, path=given, **ON_FILES[name])

    assert (kind, message) == ("refused", "path leads out of the workspace; give one that stays in it, relative to it")
    assert contents(outside) == {"secret.txt": "secret"}


@pytest.mark.parametrize("name", ON_FILES)
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("", "1 to 4096 characters"),
        ("  ", "1 to 4096 characters"),
        ("a\0b", "no NUL"),
        ("a/" * 3000, "1 to 4096 characters"),
        ("~/secret.txt", "~ stands for no folder here"),
        ("x" * 300, "file name too long"),
        ("README.md/x", "not a directory"),
        ("loop/x", "not a directory"),
    ],
)
async def test_what_is_no_path_is_refused_with_the_reason(
    tools: Tools, outside: Path, name: str, path: str, words: str
) -> None:
    links(tools.root, outside)
    kind, message = await tools.refusal(name, path=path, **ON_FILES[name])
    assert kind == "refused"
    assert words in message


@pytest.mark.parametrize("path", ["src/main.py", "./src//main.py", "src/../src/main.py", "entry", "sources/main.py"])
async def test_a_path_that_stays_inside_is_followed_whatever_its_form(tools: Tools, outside: Path, path: str) -> None:
    links(tools.root, outside)
    assert await tools.value("read_file", path=path) == {"text": "def main():\n    return 1\n"}
    assert await tools.value("read_file", path=str(tools.root / path)) == {"text": "def main():\n    return 1\n"}


@pytest.mark.parametrize("name", ["read_file", "edit_file", "search", "list_files"])
async def test_what_is_not_there_is_not_found_and_says_how_to_look(tools: Tools, name: str) -> None:
    kind, message = await tools.refusal(name, path="src/none.py", **ON_FILES[name])
    expected = "there is no src/none.py in the workspace; list_files shows what there is"
    assert (kind, message) == ("not_found", expected)


def pipe(place: Path) -> None:
    os.mkfifo(place)


def folder(place: Path) -> None:
    place.mkdir()


def loop(place: Path) -> None:
    place.symlink_to(place.name)


@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file"])
@pytest.mark.parametrize(("make", "words"), [(pipe, "a pipe"), (folder, "is a folder"), (loop, "a link to nowhere")])
async def test_what_is_no_regular_file_is_refused_and_never_waited_for(
    tools: Tools, name: str, make: Callable[[Path], None], words: str
) -> None:
    make(tools.root / "thing")
    kind, message = await tools.refusal(name, path="thing", **ON_FILES[name])
    assert kind == "refused"
    assert words in message


@pytest.mark.parametrize("name", ["read_file", "write_file", "edit_file"])
@pytest.mark.parametrize("part", ["src", "src/secret.txt"])
async def test_a_link_put_in_the_way_after_the_decision_leads_nowhere(
    tools: Tools, outside: Path, monkeypatch: pytest.MonkeyPatch, name: str, part: str
) -> None:
    """The worst moment for it: the path is decided on, and nothing is open yet."""
    (tools.root / "src" / "secret.txt").write_text("my secret", encoding="utf-8")
    decide = Workspace.place

    def swapped(self: Workspace, path: str) -> paths.Place:
        place = decide(self, path)
        (tools.root / part).rename(tools.root / "old")
        (tools.root / part).symlink_to(outside if part == "src" else outside / "secret.txt")
        return place

    monkeypatch.setattr(Workspace, "place", swapped)
    kind, _ = await tools.refusal(name, path="src/secret.txt", **ON_FILES[name])

    assert kind == "refused"
    assert (outside / "secret.txt").read_text() == "secret"


async def test_a_pipe_that_takes_a_files_place_while_it_is_opened_is_not_waited_for(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = paths.check_regular

    def swapped(place: paths.Place, opened: int) -> os.stat_result:
        found = check(place, opened)
        (tools.root / "README.md").unlink()
        os.mkfifo(tools.root / "README.md")
        return found

    monkeypatch.setattr(paths, "check_regular", swapped)
    assert await tools.refusal("read_file", path="README.md") == (
        "refused",
        "README.md changed while it was opened; try again",
    )


async def test_no_error_names_the_root(tools: Tools, outside: Path) -> None:
    links(tools.root, outside)
    (tools.root / "shut").mkdir(mode=0)
    for name, more in ON_FILES.items():
        for path in (
            "none",
            "to-file",
            "src",
            "..",
            str(tools.root / "none"),
            f"{tools.root}/..",
            "README.md/x",
            "loop",
        ):
            await tools.observe(name, path=path, **more)
    errors = [seen["error"]["message"] for seen in tools.seen if not seen["ok"]]
    assert len(errors) > 20
    assert [error for error in errors if str(tools.root) in error or str(outside) in error] == []


async def test_a_workspace_that_is_gone_ends_the_shift(tools: Tools) -> None:
    tools.root.rename(tools.root.with_name("moved"))
    for name, arguments in ON_FILES.items():
        kind, message = await tools.refusal(name, path="README.md", **arguments)
        assert (kind, message) == ("fatal", "the workspace itself cannot be opened: no such file or directory")
    kind, _ = await tools.refusal("run_command", command="true")
    assert kind == "fatal"


@pytest.mark.parametrize("root", ["none", "README.md"])
async def test_a_root_that_is_no_directory_is_a_mistake_at_the_start(tools: Tools, root: str) -> None:
    with pytest.raises(ValueError, match=f"{root} is no directory; make it, or give another one"):
        workspace(tools.root / root)


async def test_a_name_that_is_not_unicode_is_refused(tools: Tools) -> None:
    with pytest.raises(ToolRefused, match="not Unicode"):
        Workspace(tools.root).place("\ud800")
