"""Reading, writing and editing: what a model is shown, and what stays as it was."""

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.toolsets.workspaces import Tools
from toolsets.workspace import files

pytestmark = pytest.mark.asyncio

TEN = "".join(f"line {number}\n" for number in range(1, 11))


def put(tools: Tools, data: bytes | str, name: str = "file.txt") -> Path:
    """A file of the workspace."""
    file = tools.root / name
    file.write_bytes(data.encode() if isinstance(data, str) else data)
    return file


@pytest.mark.parametrize(
    ("arguments", "text", "note"),
    [
        ({}, TEN, None),
        ({"from_line": 9}, "line 9\nline 10\n", None),
        ({"lines": 2}, "line 1\nline 2\n", "there is more: go on with from_line=3"),
        ({"from_line": 3, "lines": 1}, "line 3\n", "there is more: go on with from_line=4"),
        ({"from_line": 10, "lines": 1}, "line 10\n", None),
    ],
)
async def test_a_part_of_a_file_says_how_to_go_on(
    tools: Tools, arguments: dict[str, Any], text: str, note: str | None
) -> None:
    put(tools, TEN)
    assert await tools.value("read_file", path="file.txt", **arguments) == {"text": text} | (
        {"note": note} if note else {}
    )


@pytest.mark.parametrize("from_line", [11, 12, 1000])
async def test_a_line_past_the_end_is_refused(tools: Tools, from_line: int) -> None:
    put(tools, TEN)
    refused = await tools.refusal("read_file", path="file.txt", from_line=from_line)
    assert refused == ("refused", f"file.txt ends before line {from_line}")


async def test_an_empty_file_is_empty(tools: Tools) -> None:
    put(tools, "")
    assert await tools.value("read_file", path="file.txt") == {"text": ""}


async def test_a_large_file_is_read_in_parts_that_join_to_the_whole(tools: Tools) -> None:
    whole = "".join(f"{number} ü\n" for number in range(20_000))
    put(tools, whole)
    text, line, reads = "", 1, 0
    while True:
        value = await tools.value("read_file", path="file.txt", from_line=line, lines=100_000)
        assert len(value["text"].encode()) <= files.MAX_READ
        text, reads = text + value["text"], reads + 1
        if "note" not in value:
            break
        line = int(value["note"].rpartition("=")[2])
    assert text == whole
    assert reads == -(-len(whole.encode()) // files.MAX_READ)


async def test_a_line_that_is_too_long_is_cut_between_characters_and_the_next_can_be_read(tools: Tools) -> None:
    put(tools, "xü" * 20_000 + "\nnext\n")
    value = await tools.value("read_file", path="file.txt")
    assert value["text"] == "xü" * (files.MAX_READ // 3)
    assert value["note"] == f"line 1 is cut, it has more than {files.MAX_READ} bytes; the next line is 2"
    assert await tools.value("read_file", path="file.txt", from_line=2) == {"text": "next\n"}


async def test_a_line_that_lies_too_far_in_is_refused_with_another_way(tools: Tools) -> None:
    with put(tools, "").open("wb") as file:
        file.truncate(files.MAX_SKIPPED + files.MAX_READ)
        file.seek(0, os.SEEK_END)
        file.write(b"\nend\n")
    kind, message = await tools.refusal("read_file", path="file.txt", from_line=2)
    assert kind == "refused"
    assert "run_command" in message


async def test_a_binary_file_is_refused(tools: Tools) -> None:
    put(tools, b"\x7fELF\x00\x01")
    refused = await tools.refusal("read_file", path="file.txt")
    assert refused == ("refused", "file.txt is binary, or text in another encoding than UTF-8")


async def test_what_is_not_utf8_is_shown_replaced_and_said(tools: Tools) -> None:
    put(tools, b"caf\xe9\n")
    value = await tools.value("read_file", path="file.txt")
    assert value == {"text": "caf\ufffd\n", "note": "not all of it is UTF-8; what is not is shown as \ufffd"}


async def test_crlf_is_shown_as_a_line_feed_and_kept_by_an_edit(tools: Tools) -> None:
    file = put(tools, b"one\r\ntwo\r\nthree\r\n")
    value = await tools.value("read_file", path="file.txt")
    assert value["text"] == "one\ntwo\nthree\n"
    assert "CRLF" in value["note"]
    await tools.value("edit_file", path="file.txt", old="two\nthree", new="2\n3\r\n4")
    await tools.value("edit_file", path="file.txt", old="one", new="0\n1")
    assert file.read_bytes() == b"0\r\n1\r\n2\r\n3\r\n4\r\n"


async def test_in_a_file_of_mixed_line_ends_an_edit_changes_only_its_own_lines(tools: Tools) -> None:
    file = put(tools, b"a\r\nb\r\nc\nd\n")
    assert (await tools.value("read_file", path="file.txt"))["text"] == "a\r\nb\r\nc\nd\n"
    await tools.value("edit_file", path="file.txt", old="a\nb", new="A\nB")
    await tools.value("edit_file", path="file.txt", old="c\nd", new="C\nD")
    assert file.read_bytes() == b"A\r\nB\r\nC\nD\n"


async def test_an_edit_replaces_one_text_and_leaves_every_other_byte_and_the_mode(tools: Tools) -> None:
    file = put(tools, b"\xef\xbb\xbf#!x\nbad \xff\nreturn a - b")
    file.chmod(0o754)
    value = await tools.value("edit_file", path="file.txt", old="a - b", new="a + b")
    assert value == {"path": "file.txt", "line": 3}
    assert file.read_bytes() == b"\xef\xbb\xbf#!x\nbad \xff\nreturn a + b"
    assert stat.S_IMODE(file.stat().st_mode) == 0o754


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("x = 9", "y", "old does not occur in file.txt; read the file again and copy the text exactly"),
        ("x = 1", "y", "old occurs more than 5 times in file.txt, in lines 1, 2, 3, 4, 5, ..., and must occur once"),
        ("\n\n", "y", "old occurs 2 times in file.txt, in lines 7, 8, and must occur once"),
        ("", "y", "old must not be empty"),
        ("x = 2", "x = 2", "new must differ"),
    ],
)
async def test_an_edit_of_what_does_not_occur_exactly_once_changes_nothing_and_says_what_to_do(
    tools: Tools, old: str, new: str, words: str
) -> None:
    text = "x = 1\n" * 7 + "\n\nx = 2\n"
    file = put(tools, text)
    kind, message = await tools.refusal("edit_file", path="file.txt", old=old, new=new)
    assert kind == "refused"
    assert words in message
    assert file.read_text() == text


async def test_no_more_occurrences_are_looked_for_than_the_error_names(tools: Tools) -> None:
    put(tools, "e\n" * 2_000_000)  # to count the lines up to each of them would take hours
    kind, message = await tools.refusal("edit_file", path="file.txt", old="e", new="f")
    assert kind == "refused"
    assert "old occurs more than 5 times in file.txt, in lines 1, 2, 3, 4, 5, ..., and must" in message


async def test_a_file_that_is_too_large_to_edit_is_refused_with_another_way(tools: Tools) -> None:
    put(tools, b"x" * (files.MAX_EDITED + 1))
    kind, message = await tools.refusal("edit_file", path="file.txt", old="x", new="y")
    assert kind == "refused"
    assert "sed" in message


async def test_writing_makes_folders_and_replaces_a_file_with_its_mode_kept(tools: Tools) -> None:
    value = await tools.value("write_file", path="new/deep/file.txt", content="ü\r\n")
    file = tools.root / "new" / "deep" / "file.txt"
    assert value == {"path": "new/deep/file.txt", "bytes": 4, "created": True}
    assert file.read_bytes() == "ü\r\n".encode()
    file.chmod(0o600)
    value = await tools.value("write_file", path="new/deep/file.txt", content="")
    assert value == {"path": "new/deep/file.txt", "bytes": 0, "created": False}
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"", 0o600)


@pytest.mark.parametrize("name", ["write_file", "edit_file"])
async def test_who_reads_while_a_file_is_replaced_sees_all_of_the_old_and_a_link_stays_a_link(
    tools: Tools, name: str
) -> None:
    file = put(tools, "old")
    (tools.root / "link").symlink_to("file.txt")
    arguments = {"content": "new"} if name == "write_file" else {"old": "old", "new": "new"}
    with file.open() as reader:
        await tools.value(name, path="link", **arguments)
        assert reader.read() == "old"
    assert (file.read_text(), (tools.root / "link").is_symlink()) == ("new", True)


@pytest.mark.parametrize("name", ["write_file", "edit_file"])
async def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tools: Tools, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    put(tools, "old")
    before = sorted(tools.root.iterdir())

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    arguments = {"content": "new"} if name == "write_file" else {"old": "old", "new": "new"}
    refused = await tools.refusal(name, path="file.txt", **arguments)
    assert refused == ("refused", "file.txt: no space left on device")
    assert sorted(tools.root.iterdir()) == before
    assert (tools.root / "file.txt").read_text() == "old"
