"""What a person uses to answer a waiting shift: approvals, approve, deny, resolve, and one tool call whole."""

import json
import os
import pty
import subprocess
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from client.main import longshift as command_line
from tests.acceptance.commands import Up, kept_up, longshift, read_until, running

TOOLS = '''
from longshift import tool
from longshift.tools import ToolOutcomeUnknown


@tool(needs_approval=True)
def order(sku: str, quantity: int, remark: str = "") -> str:
    """Order."""
    return f"ordered {quantity} {sku}"


@tool
def pay(cents: int) -> str:
    """Pay."""
    raise ToolOutcomeUnknown("the bank did not answer")


@tool(kind="read", max_bytes=256)
def catalogue() -> str:
    """Read all of it."""
    return "x" * 5_000
'''
REMARK = "very cold " * 100
CONFIG = f"""
default_agent = "buyer"

[agents.buyer]
system = "Buy."
endpoint = "ordering"
tools = ["buying:order", "buying:pay", "buying:catalogue"]

[agents.buyer.limits]
seconds = 300

[endpoints.ordering]
kind = "replay"
[[endpoints.ordering.turns]]
content = ""
output_tokens = 2
calls = [
    {{id = "all", name = "catalogue", arguments = {{}}}},
    {{id = "order-1", name = "order", arguments = {{sku = "\\u001b[2J", quantity = 6, remark = "{REMARK}"}}}},
]
[[endpoints.ordering.turns]]
content = "Done."
output_tokens = 2

[endpoints.paying]
kind = "replay"
[[endpoints.paying.turns]]
content = ""
output_tokens = 2
calls = [{{id = "pay-1", name = "pay", arguments = {{cents = 900}}}}]
[[endpoints.paying.turns]]
content = "Done."
output_tokens = 2
"""


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Server and worker of an agent that must ask."""
    folder = tmp_path_factory.mktemp("answering")
    (folder / "buying.py").write_text(TOOLS, encoding="utf-8")
    with kept_up(folder, CONFIG) as up:
        yield up


def asking(up: Up, run_id: str, endpoint: str) -> None:
    """Start a shift, and leave it where it asks."""
    words = up.command("run", "Buy.", "--id", run_id, "--endpoint", endpoint)
    with running(*words[1:], env=up.env) as said:
        while "  waiting: " not in (line := said.readline()):
            assert line, "the shift ended"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("approve", "r"), ["Missing argument 'CALL'"]),
        (("deny", "r", "c"), ["Missing option '--reason'"]),
        (("deny", "r", "c", "--reason", " "), ["--reason: is blank"]),
        (("resolve", "r", "c"), ["give one of --happened JSON, --did-not-happen and --stop"]),
        (("resolve", "r", "c", "--stop", "--happened", "1"), ["give one of --happened"]),
        (("resolve", "r", "c", "--happened", '{"a" 1}'), ["--happened: is no JSON", "at character 5"]),
        (("resolve", "r", "c", "--happened", "NaN"), ["--happened: is no JSON: NaN is not JSON"]),
        (("resolve", "r", "c", "--happened", "-"), ["--happened: is no JSON", "at character 0"]),
        (("resolve", "r", "c", "--happened", "@nowhere.json"), ["nowhere.json cannot be read: No such file"]),
        (("resolve", "r", "c", "--happened", "@/dev/zero"), ["--happened: is longer than 65536 bytes"]),
    ],
)
def test_an_answer_that_cannot_be_used_is_refused_before_any_server_is_asked(
    words: tuple[str, ...], said: list[str]
) -> None:
    ended = CliRunner().invoke(command_line, words)

    assert ended.exit_code == 2
    for word in said:
        assert word in ended.output


@pytest.mark.slow
def test_a_shift_that_asks_is_listed_looked_at_and_approved_once(up: Up) -> None:
    asking(up, "shift-1", "ordering")

    listed = up.installed("approvals")
    for shown in (listed, up("state", "shift-1")):
        assert shown.code == 0
        assert 'approve order {"quantity":6,' in shown.out
        assert "longshift transcript shift-1 --call order-1\n" in shown.out
        assert "longshift approve shift-1 order-1\n" in shown.out
        assert "longshift deny shift-1 order-1 --reason TEXT\n" in shown.out
    documents = up("approvals", "--json").document
    assert [(one["run_id"], one["question"]["call_id"]) for one in documents] == [("shift-1", "order-1")]

    assert documents[0]["look_first"] == "longshift transcript shift-1 --call order-1"

    up("approve", "shift-1", "order-2").refused("call order-1 does")
    away = up.env | {"LONGSHIFT_JOURNAL__URL": f"sqlite:///{up.config.parent}/other.db"}
    unseen = longshift(*up.command("approve", "shift-1", "order-1", "--yes")[1:], env=away, cwd=up.config.parent)
    unseen.refused("cannot be shown, so they are not approved", "nothing was sent")
    unread = up("approve", "shift-1", "order-1", stdin="y\n")
    unread.refused("--yes: the question shows a part of these arguments only", REMARK)
    assert up("approvals", "--json").document == documents, "nothing was sent"
    approved = up("approve", "shift-1", "order-1", "--reason", "agreed", "--yes")
    assert (approved.code, approved.out) == (0, "shift-1 order-1: approved\n")
    assert REMARK in approved.err
    assert "\x1b[2J" not in approved.err + listed.out
    assert up("result", "shift-1", "--wait").code == 0
    up("approve", "shift-1", "order-1").refused("has ended with COMPLETED")
    assert up("approvals").out == "no shift waits for an answer\n"


@pytest.mark.parametrize(("typed", "code"), [("n", 2), ("y", 0)])
@pytest.mark.slow
def test_a_person_at_a_terminal_is_asked_once_more_where_the_question_had_a_part_of_the_arguments(
    up: Up, typed: str, code: int
) -> None:
    run_id = f"terminal-{typed}"
    asking(up, run_id, "ordering")
    terminal, its_end = pty.openpty()
    words = up.command("approve", run_id, "order-1")
    with subprocess.Popen(words, env=up.env, stdin=its_end, stdout=its_end, stderr=its_end) as process:
        os.close(its_end)
        assert "very cold" in read_until(terminal, "Approve these arguments?")
        os.write(terminal, f"{typed}\n".encode())
        said = read_until(terminal, "nothing was sent" if code else "order-1: approved\r\n")
    os.close(terminal)

    assert (process.returncode, "nothing was sent" in said) == (code, code == 2)
    up("stop", run_id, "--now")


@pytest.mark.slow
def test_one_tool_call_is_printed_whole(up: Up) -> None:
    asking(up, "shift-2", "ordering")
    assert up.installed("deny", "shift-2", "order-1", "--reason", "not now", "--json").document["sent"] == "deny"
    assert up("result", "shift-2", "--wait").code == 0

    assert "cut here: 5000 bytes in all" in up("transcript", "shift-2").out
    shown = up("transcript", "shift-2", "--call", "all")
    assert f'observation     {{"ok":true,"value":"{"x" * 5_000}"}}\n' in shown.out
    assert "state           settled\n" in shown.out
    document = up("transcript", "shift-2", "--call", "order-1", "--json").document
    assert (document["state"], document["cut"], document["arguments"]["remark"]) == (None, False, REMARK)
    assert "not now" in json.loads(document["observation"])["error"]["message"]
    up("transcript", "shift-2", "--call", "other").refused("no call 'other'", "all (catalogue), order-1 (order)")


@pytest.mark.parametrize(
    ("run_id", "options", "seen"),
    [
        ("shift-3", ("--happened", "-"), '"payment":4711'),
        ("shift-4", ("--happened", "@paid.json"), '"payment":4712'),
        ("shift-5", ("--did-not-happen", "--reason", "no payment there"), "no payment there"),
        ("shift-6", ("--stop",), "unknown   pay-1; may have happened"),
    ],
)
@pytest.mark.slow
def test_an_unknown_outcome_is_resolved_by_what_a_person_says(
    up: Up, run_id: str, options: tuple[str, ...], seen: str
) -> None:
    (up.config.parent / "paid.json").write_text('{"payment": 4712}', encoding="utf-8")
    asking(up, run_id, "paying")

    resolved = up.installed("resolve", run_id, "pay-1", *options, stdin='{"payment": 4711}')

    assert (resolved.code, resolved.out.startswith(f"{run_id} pay-1: resolved: ")) == (0, True)
    ended = up("result", run_id, "--wait").out
    assert ("OUTCOME_UNKNOWN: " if "--stop" in options else "COMPLETED: ") in ended
    assert seen in ended + up("transcript", run_id, "--call", "pay-1").out
