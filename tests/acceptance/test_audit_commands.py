"""`longshift audit` and `longshift journal rebuild`, in processes of their own."""

import contextlib
import json
import sqlite3
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.main import longshift as command_line
from tests.acceptance.commands import Up, clean_environment, longshift

NOWHERE = {"TEMPORAL_ADDRESS": "127.0.0.1:1"}
"""No server is there."""


@pytest.fixture(scope="module")
def run_id(up: Up) -> str:
    """A shift that has ended."""
    run_id: str = up("run", "Prepare replenishment drafts.", "--json").out.splitlines()[-1]
    return str(json.loads(run_id)["run_id"])


def change(up: Up, statement: str) -> None:
    """Change the journal's rows past Longshift."""
    with contextlib.closing(sqlite3.connect(up.config.parent / "journal.db")) as database, database:
        assert database.execute(statement).rowcount


def test_a_bundle_of_a_sound_shift_is_audited_with_no_server_and_no_journal(
    up: Up, run_id: str, tmp_path: Path
) -> None:
    file = tmp_path / "shift.json"
    there = up("audit", run_id, "--export", str(file))
    assert there.code == 0, there
    lines = there.out.splitlines()
    assert lines[1].split() == ["held", "chain", "8", "messages,", "each", "link", "recomputed"]
    assert lines[-1] == f"{run_id}: all that was checked held"
    digest = lines[-2].removeprefix("digest of the bundle: ")

    elsewhere = clean_environment(XDG_STATE_HOME=str(tmp_path), **NOWHERE)
    told = longshift("audit", "--bundle", str(file), "--digest", digest[:12], env=elsewhere, cwd=tmp_path)
    assert told.code == 0, told
    assert [line.split()[:2] for line in told.out.splitlines()[:2]] == [["held", "bundle"], ["held", "digest"]]
    assert told.out.splitlines()[2:] == lines

    file.write_text(file.read_text(encoding="utf-8").replace("SKU-VANILLA", "SKU-CHOCOLATE"), encoding="utf-8")
    changed = longshift("audit", "--bundle", str(file), "--digest", digest, "--json", env=elsewhere, cwd=tmp_path)
    assert changed.code == 1, changed
    assert (changed.document["run_id"], changed.document["verdict"]) == (run_id, "differs")
    differs = {check["name"] for check in changed.document["checks"] if check["verdict"] == "differs"}
    assert {"bundle", "digest", "history"} <= differs


def test_a_changed_row_exits_with_one_and_is_named_and_a_rebuild_mends_it(up: Up, run_id: str) -> None:
    change(up, f"UPDATE tool_calls SET milliseconds = 987654 WHERE run_id = '{run_id}' AND position = 0")
    change(up, f"DELETE FROM messages WHERE run_id = '{run_id}'")
    ended = up("audit", run_id)
    assert ended.code == 1, ended
    assert "milliseconds is 987654" in ended.out
    assert ended.out.splitlines()[-1].startswith(f"{run_id} differs, first in its chain: ")
    made = up("journal", "rebuild", run_id)
    assert made.code == 0, made
    assert "rows made from the history" in made.out
    again = up("journal", "rebuild", run_id, "--json").document
    assert (again["made"], again["removed"], again["lost"]) == (0, [], {})
    assert up("audit", run_id, "--json").document["verdict"] == "held"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "RUN: give a shift's id"),
        (["run", "--bundle", "x"], "RUN: give a shift's id"),
        (["--bundle", "x", "--export", "y"], "--export: "),
        (["run", "--digest", "12345678"], "--digest: is compared with a bundle"),
        (["--bundle", "x", "--digest", "nothex99"], "at least its first 8 hex digits"),
        ([" "], "RUN: is blank"),
    ],
)
def test_what_cannot_be_used_is_refused_with_field_and_remedy(words: list[str], said: str) -> None:
    ended = CliRunner().invoke(command_line, ["audit", *words])
    assert ended.exit_code == 2
    assert said in ended.output


def test_a_shift_or_a_bundle_that_is_not_there_is_refused(up: Up, tmp_path: Path) -> None:
    up("audit", "nobody").refused("there is no run 'nobody'", "longshift list")
    up("audit", "--bundle", str(tmp_path / "none.json")).refused("cannot be read", "none.json")


def test_a_shift_at_work_is_audited_and_not_rebuilt(up: Up) -> None:
    busy = up("start", "Wait.", "--endpoint", "hung").out.strip()
    at_work = up("audit", busy)
    assert at_work.code == 0, at_work
    up("journal", "rebuild", busy).refused("is at work", f"longshift pause {busy}")
    up("stop", busy, "--now")
