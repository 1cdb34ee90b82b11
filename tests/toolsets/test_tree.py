"""Listing and searching: what is found, in which order, and that neither goes on without end."""

import asyncio
import json
from typing import Any

import pytest

from tests.toolsets.workspaces import Tools, worker
from toolsets.workspace import tree

pytestmark = pytest.mark.asyncio


@pytest.fixture
def project(tools: Tools) -> Tools:
    """A workspace with folders, a repository of git's, and files that are no text."""
    files: dict[str, bytes] = {
        ".git/config": b"def hidden\n",
        "src/.git": b"gitdir: def hidden\n",
        ".hidden": b"def in_dot\n",
        "src/b.py": b"def b(x):\r\n    return x + 1\r\n",
        "src/deep/er/c.py": b"def c():\n    pass\n",
        "image.png": b"\x89PNG\x00def x",
        "café.txt": b"def \xff caf\xe9\n",
    }
    for name, data in files.items():
        file = tools.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    (tools.root / "again").symlink_to("src")
    (tools.root / "same.py").symlink_to("src/b.py")
    return tools


ALL = [".hidden", "README.md", "again/", "café.txt", "image.png", "same.py", "src/"]


@pytest.mark.parametrize(
    ("arguments", "entries"),
    [
        ({"depth": 4}, [*ALL, "src/b.py", "src/deep/", "src/main.py", "src/deep/er/", "src/deep/er/c.py"]),
        ({"path": "src/deep", "depth": 2}, ["src/deep/er/", "src/deep/er/c.py"]),
        ({"path": "src", "depth": 40}, ["src/b.py", "src/deep/", "src/main.py", "src/deep/er/", "src/deep/er/c.py"]),
        ({"path": "again/deep"}, ["src/deep/er/", "src/deep/er/c.py"]),
        ({"path": "src/b.py"}, ["src/b.py"]),
        ({"pattern": "*.py", "depth": 9}, ["same.py", "src/b.py", "src/main.py", "src/deep/er/c.py"]),
        ({"pattern": "src/*/c.py", "depth": 9}, ["src/deep/er/c.py"]),
        ({"pattern": "*.rs", "depth": 9}, []),
    ],
)
async def test_a_list_is_in_order_without_gits_own_and_does_not_follow_links(
    project: Tools, arguments: dict[str, Any], entries: list[str]
) -> None:
    assert await project.value("list_files", **arguments) == {"entries": entries}


@pytest.mark.parametrize(
    ("arguments", "entries", "deeper"),
    [
        (
            {},
            [*ALL, "src/b.py", "src/deep/", "src/main.py", "src/deep/er/"],
            "level 3 are not looked into, such as src/deep/er",
        ),
        ({"depth": 1}, ALL, "level 1 are not looked into, such as again"),
        ({"depth": 3, "pattern": "c.py"}, [], "level 3 are not looked into, such as src/deep/er"),
    ],
)
async def test_a_list_says_what_lies_deeper(
    project: Tools, arguments: dict[str, Any], entries: list[str], deeper: str
) -> None:
    assert await project.value("list_files", **arguments) == {"entries": entries, "note": f"folders below {deeper}"}


@pytest.mark.parametrize(
    ("arguments", "matches"),
    [
        (
            {"pattern": r"^def \w"},
            [
                ".hidden:1: def in_dot",
                "src/b.py:1: def b(x):",
                "src/main.py:1: def main():",
                "src/deep/er/c.py:1: def c():",
            ],
        ),
        ({"pattern": r":$", "files": "b.py"}, ["src/b.py:1: def b(x):"]),
        ({"pattern": "(x)", "literal": True}, ["src/b.py:1: def b(x):"]),
        ({"pattern": "x + 1", "literal": True, "path": "src"}, ["src/b.py:2:     return x + 1"]),
        ({"pattern": "return", "path": "same.py"}, ["src/b.py:2:     return x + 1"]),
        ({"pattern": r"(?i)DEF(?= c)", "path": "src/deep"}, ["src/deep/er/c.py:1: def c():"]),
        ({"pattern": r"def\s+b[^;]*return"}, []),
    ],
)
async def test_a_search_gives_the_lines_in_order_and_leaves_gits_own_out(
    project: Tools, arguments: dict[str, Any], matches: list[str]
) -> None:
    assert (await project.value("search", **arguments))["matches"] == matches


async def test_a_search_says_what_it_left_out_and_shows_what_is_not_utf8_replaced(project: Tools) -> None:
    value = await project.value("search", pattern="def .* caf")
    assert value["matches"] == ["café.txt:1: def \ufffd caf\ufffd"]
    assert value["note"] == f"left out as binary, unreadable or over {tree.MAX_SEARCHED} bytes: 1, such as image.png"


async def test_a_file_that_is_too_large_is_left_out_and_said(tools: Tools) -> None:
    with (tools.root / "large.txt").open("wb") as file:
        file.truncate(tree.MAX_SEARCHED + 1)
    assert "1, such as large.txt" in (await tools.value("search", pattern="x"))["note"]


async def test_a_long_list_and_a_long_search_are_cut_and_say_so(tools: Tools) -> None:
    for number in range(tree.MAX_ENTRIES + 1):
        (tools.root / f"{number:05}.txt").write_text("needle " + "x" * 1000 + "\n")
    listed = await tools.value("list_files")
    assert listed["entries"] == [f"{number:05}.txt" for number in range(tree.MAX_ENTRIES)]
    assert listed["note"] == f"only the first {tree.MAX_ENTRIES} are named; list one of the folders"
    found = await tools.value("search", pattern="needle")
    assert len(found["matches"]) == tree.MAX_MATCHES
    assert found["matches"][0] == f"00000.txt:1: needle {'x' * (tree.MAX_SHOWN - 7)}..."
    assert found["note"].startswith(f"only the first {tree.MAX_MATCHES} lines are given")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arguments", "found"),
    [
        ("list_files", {}, {"entries": ["src/b.py", "src/deep/", "src/main.py"]}),
        ("search", {"pattern": "^def"}, {"matches": ["src/b.py:1: def b(x):", "src/main.py:1: def main():"]}),
    ],
)
async def test_a_folder_that_cannot_be_read_is_left_out_and_said(
    project: Tools, name: str, arguments: dict[str, Any], found: dict[str, Any]
) -> None:
    (project.root / "src" / "deep").chmod(0)
    with worker(project.root, name, {"path": "src", **arguments}, root_as_others=True) as process:
        printed, _ = await asyncio.to_thread(process.communicate)
    (project.root / "src" / "deep").chmod(0o700)
    note = f"left out as binary, unreadable or over {tree.MAX_SEARCHED} bytes: 1, such as src/deep"
    assert json.loads(printed)["value"] == {**found, "note": note}


async def test_a_link_that_leads_in_a_circle_is_listed_and_holds_nothing_up(tools: Tools) -> None:
    (tools.root / "circle").symlink_to("circle")
    assert await tools.value("list_files", depth=1, pattern="c*") == {
        "entries": ["circle"],
        "note": "folders below level 1 are not looked into, such as src",
    }


@pytest.mark.parametrize("pattern", ["(a|aa)+c", "((a{1,100}){1,100}){1,100}c", "(a+)+$"])
async def test_a_pattern_that_would_never_end_is_given_up(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    (tools.root / "a.txt").write_text("def\n" + "a" * 9000 + "!\n")
    monkeypatch.setattr(tree, "SECONDS", 1.5)
    value = await tools.value("search", pattern=f"def|{pattern}")
    assert value == {
        "matches": ["a.txt:1: def"],
        "note": "given up after 1.5 s at a.txt; take a simpler pattern, or search one folder",
    }


@pytest.mark.parametrize("pattern", ["(((a?){500}){500}){500}", "((((a?){500}){500}){500}){500}"])
async def test_a_pattern_that_would_take_all_memory_is_refused(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    monkeypatch.setattr(tree, "MAX_MEMORY", 100_000_000)
    kind, message = await tools.refusal("search", pattern=pattern)
    assert kind == "refused"
    assert "it takes too much memory" in message


async def test_a_pattern_that_takes_all_memory_in_a_file_is_given_up(
    tools: Tools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree, "MAX_MEMORY", 100_000_000)
    value = await tools.value("search", pattern="Read|(?R)*x")
    note = "given up for want of memory at src/main.py; take a simpler pattern, or search one folder"
    assert value == {"matches": ["README.md:1: Read me."], "note": note}


@pytest.mark.parametrize(
    ("name", "arguments"), [("list_files", {"pattern": "*" * 1001}), ("search", {"pattern": "x", "files": ""})]
)
async def test_the_pattern_of_a_name_has_a_length_too(tools: Tools, name: str, arguments: dict[str, Any]) -> None:
    kind, message = await tools.refusal(name, **arguments)
    assert kind == "refused"
    assert "must have 1 to 1000 characters" in message


@pytest.mark.parametrize("name", ["list_files", "search"])
async def test_what_takes_too_long_gives_what_it_has(
    project: Tools, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(tree, "SECONDS", -1)
    value = await project.value(name, **{"search": {"pattern": "x"}}.get(name, {}))
    assert value["note"].startswith("given up after -1 s")


async def test_a_line_that_is_too_long_is_searched_in_part_and_said(tools: Tools) -> None:
    (tools.root / "min.js").write_text("needle" + "x" * tree.MAX_LINE + "straw\n")
    value = await tools.value("search", pattern="needle")
    assert value["note"] == "of a line, 10000 characters are searched; there are longer ones, such as in min.js"
    assert (await tools.value("search", pattern="straw"))["matches"] == []


async def test_folders_without_end_are_listed_and_searched_as_far_as_it_makes_sense(tools: Tools) -> None:
    deep = tools.root.joinpath(*["d"] * 200)
    deep.mkdir(parents=True)
    (deep / "x.txt").write_text("needle")
    assert len((await tools.value("list_files", path="d", depth=tree.MAX_LEVELS))["entries"]) == tree.MAX_LEVELS
    value = await tools.value("search", pattern="needle")
    assert value["matches"] == []
    assert value["note"].startswith(f"folders below level {tree.MAX_LEVELS} are not looked into, such as d/d/d")
    found = await tools.value("search", pattern="needle", path=str(deep.relative_to(tools.root)))
    assert len(found["matches"]) == 1


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "no regular expression: missing )"),
        ("(" * 900, "nested too deeply"),
        ("", "1 to 1000 characters"),
        ("x" * 1001, "1 to 1000 characters"),
    ],
)
async def test_a_pattern_that_is_none_is_refused_with_the_reason(tools: Tools, pattern: str, words: str) -> None:
    kind, message = await tools.refusal("search", pattern=pattern)
    assert kind == "refused"
    assert words in message
