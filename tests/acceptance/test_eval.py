"""`longshift eval`, in processes of its own: shifts and cases, judged by the evidence that their agents declare."""

import contextlib
import json
import shutil
import sqlite3
from pathlib import Path

import pytest

from longshift.observations import ok
from tests.acceptance.commands import HUNG, Up, clean_environment, longshift
from worker.settings import SHOP_TURNS

pytestmark = pytest.mark.slow

CASES = Path(__file__).parents[1] / "cases"
TASK = json.loads(SHOP_TURNS.read_text(encoding="utf-8"))["task"]
CONFIG = (
    HUNG
    + """
[endpoints.boasting]
kind = "replay"
[[endpoints.boasting.turns]]
content = "I have drafted 6 of SKU-VANILLA and 4 of SKU-STRAWBERRY, 2600 cents in all."
output_tokens = 20

[endpoints.skimping]
kind = "replay"
[[endpoints.skimping.turns]]
calls = [{ id = "a", name = "draft_order", arguments = { sku = "SKU-VANILLA", quantity = 6 } }]
output_tokens = 20
[[endpoints.skimping.turns]]
calls = [{ id = "b", name = "draft_order", arguments = { sku = "SKU-STRAWBERRY", quantity = 3 } }]
output_tokens = 20
[[endpoints.skimping.turns]]
content = "Both are drafted."
output_tokens = 20

[agents.unjudged]
system = "Talk."
endpoint = "boasting"
"""
)


def ran(up: Up, *words: str) -> str:
    """A shift that has ended; its id."""
    return str(json.loads(up("run", TASK, "--json", *words).out)["run_id"])


def test_shifts_are_judged_by_what_tools_observed_and_not_by_what_they_say(up: Up) -> None:
    drafting, boasting = ran(up), ran(up, "--endpoint", "boasting")

    told = up("eval", drafting, boasting)
    assert told.code == 1, told
    good, bad, looks_at, cannot_know, counted = told.out.splitlines()
    assert good == f"pass  {drafting}  drafts: both drafts were made, once each, 2600 cents in all (COMPLETED)"
    assert bad == f"fail  {boasting}  drafts: no draft was made (COMPLETED)"
    assert looks_at.startswith("shop's drafts looks at: what draft_order returned")
    assert cannot_know.startswith("shop's drafts cannot know: whether the stock")
    assert counted == "2 judged, 1 failed"

    told = up.installed("eval", drafting, drafting, "--json")
    assert told.code == 0, told
    assert told.document.keys() == {"name", "agent", "status", "passed", "checks"}
    (check,) = told.document["checks"]
    assert (told.document["agent"], told.document["status"], told.document["passed"]) == ("shop", "COMPLETED", True)
    assert check.keys() == {"name", "passed", "sentence", "looks_at", "cannot_know"}


def test_what_cannot_be_judged_is_refused_in_words(up: Up) -> None:
    under_way = up("start", TASK, "--endpoint", "hung").out.strip()
    unjudged = ran(up, "--agent", "unjudged")

    up("eval", under_way).refused(
        f"{under_way}: has not ended and cannot be judged", f"longshift result {under_way} --wait"
    )
    up("eval", unjudged).refused(f"{unjudged}: its agent unjudged declares no check; add some to its `evidence`")
    up("eval", "nobody").refused("there is no run 'nobody'")
    up("stop", under_way, "--now")


def changed(up: Up, run_id: str, statement: str, *values: str) -> None:
    """Change the journal's rows of a shift past Longshift."""
    with contextlib.closing(sqlite3.connect(up.config.parent / "journal.db")) as database, database:
        assert database.execute(f"{statement} AND run_id = ?", (*values, run_id)).rowcount == 1


def test_a_shift_whose_journal_was_changed_or_lost_its_end_is_not_judged(up: Up) -> None:
    run_id = ran(up, "--endpoint", "skimping")
    assert up("eval", run_id).code == 1

    draft = {"sku": "SKU-STRAWBERRY", "quantity": 4, "total_cents": 1100, "currency": "USD"}
    changed(up, run_id, "UPDATE tool_calls SET body = json_set(body, '$.content', ?) WHERE call_id = 'b'", ok(draft))
    up("eval", run_id).refused(f"run '{run_id}': the journal's messages do not end at message", "audit the run")

    run_id = ran(up)
    changed(up, run_id, "DELETE FROM messages WHERE number = 7")
    up("eval", run_id).refused(f"run '{run_id}': the journal's messages do not end at message", "audit the run")


def test_cases_are_played_and_judged(tmp_path: Path) -> None:
    for name in ("opening-shift", "description-only"):
        shutil.copy(CASES / f"{name}.json", tmp_path)

    told = longshift("eval", "--cases", str(tmp_path), "--json", env=clean_environment(), cwd=tmp_path)

    assert told.code == 1, told
    found = {one["name"]: one for one in map(json.loads, told.out.splitlines())}
    assert {name: (one["status"], one["passed"]) for name, one in found.items()} == {
        "description-only": ("COMPLETED", False),
        "opening-shift": ("COMPLETED", True),
    }


NOISY = """
from longshift import Agent, Verdict, evidence_check, tool

print("imported")

@tool(kind="read")
def look() -> str:
    'Look.'
    print("looked")
    return "nothing"

@evidence_check(looks_at="nothing", cannot_know="anything")
def own(trajectory):
    print("judged")
    return Verdict(True, "well")

agent = Agent(name="noisy", system="Look.", endpoint="authored", tools=(look,), evidence=(own,))
"""
"""An agent that prints wherever it can."""


def test_what_a_users_own_code_prints_stands_not_among_the_documents(tmp_path: Path) -> None:
    turns = [
        {"calls": [{"id": "a", "name": "look", "arguments": {}}], "output_tokens": 2},
        {"content": "Nothing.", "output_tokens": 2},
    ]
    case = {"agent": "noisy", "task": "Look.", "turns": turns, "expect": {"status": "COMPLETED"}}
    (tmp_path / "case.json").write_text(json.dumps(case), encoding="utf-8")
    (tmp_path / "noisy.py").write_text(NOISY, encoding="utf-8")
    (tmp_path / "longshift.toml").write_text('[agents.noisy]\nuse = "noisy:agent"\n', encoding="utf-8")

    replayed = longshift("replay", "case.json", "--json", env=clean_environment(), cwd=tmp_path)
    judged = longshift("eval", "--cases", "case.json", "--json", env=clean_environment(), cwd=tmp_path)

    assert (replayed.document["name"], replayed.document["mismatches"]) == ("case", [])
    assert (judged.document["name"], judged.document["passed"]) == ("case", True)
    assert {"imported", "looked"} <= set(replayed.err.splitlines())
    assert {"imported", "looked", "judged"} <= set(judged.err.splitlines())


def test_bad_input_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    env = clean_environment(TEMPORAL_ADDRESS="127.0.0.1:1")
    longshift("eval", env=env).refused("RUN: give the ids of shifts that have ended, or cases with --cases")
    longshift("eval", "a", "--cases", str(CASES), env=env).refused("RUN: give the ids of shifts that have ended, or")
    longshift("eval", " ", env=env).refused("RUN: is blank")
    longshift("eval", "--cases", str(tmp_path), env=env).refused(f"{tmp_path}: holds no case")
    case = {"agent": "unjudged", "task": "Talk.", "turns": [], "expect": {"status": "MODEL_FAILED"}}
    (tmp_path / "case.json").write_text(json.dumps(case), encoding="utf-8")
    (tmp_path / "longshift.toml").write_text(CONFIG, encoding="utf-8")
    told = longshift("eval", "--cases", str(tmp_path), env=env, cwd=tmp_path)
    told.refused("case: its agent unjudged declares no check; add some to its `evidence`")
