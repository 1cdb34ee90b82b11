"""Every case file through the real workflow, on a real server; and what the playing reports."""

import asyncio
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from client.cases import CasesRefused, read_cases
from client.evaluating import of_case
from client.replay import Outcome, Play, Stage, play, play_command
from examples.shop.evidence import check_drafts
from longshift import validate_episode
from longshift.audit.checks import Check
from longshift.status import Status
from tests.audits import differences
from worker.agents import load_agents
from worker.settings import Settings, load_settings

CASES = Path(__file__).parents[1] / "cases"
NAMES = sorted(file.stem for file in CASES.glob("*.json"))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    """The built-in configuration, whatever this machine's says."""
    with contextlib.chdir(tmp_path_factory.mktemp("no configuration")):
        return load_settings(environ={})


@pytest.fixture(scope="module")
def audits() -> dict[str, list[Check]]:
    """What differs by the audit of each case's run, once it was played."""
    return {}


@pytest.fixture(scope="module")
def outcomes(settings: Settings, audits: dict[str, list[Check]]) -> Mapping[str, Outcome]:
    """All cases, played once, side by side, each run audited in the end."""
    agents = load_agents(settings)
    played: list[Outcome] = []
    run = Play.run

    async def audited(one: Play, stage: Stage) -> Outcome:
        outcome = await run(one, stage)
        audits[one.case.name] = await differences(stage.client, stage.journal, one.run_id)
        return outcome

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Play, "run", audited)
        asyncio.run(play(read_cases([CASES], agents), agents, played.append))
    return {outcome.case.name: outcome for outcome in played}


@pytest.mark.parametrize("name", NAMES)
def test_a_case_comes_out_as_it_says(outcomes: Mapping[str, Outcome], name: str) -> None:
    assert outcomes[name].mismatches == ()


@pytest.mark.parametrize("name", NAMES)
def test_the_transcript_is_a_valid_episode_and_complete_only_when_completed(
    outcomes: Mapping[str, Outcome], name: str
) -> None:
    outcome = outcomes[name]
    assert outcome.result is not None
    report = validate_episode(outcome.transcript)
    assert report.problem is None
    assert len(outcome.transcript) == outcome.result.messages
    assert report.unanswered == outcome.result.unrun_calls
    if outcome.result.status is Status.COMPLETED:
        assert report.complete
        assert outcome.transcript[-1].content == outcome.result.answer


@pytest.mark.usefixtures("outcomes")
@pytest.mark.parametrize("name", NAMES)
def test_the_audit_of_a_case_finds_no_difference(audits: Mapping[str, list[Check]], name: str) -> None:
    assert audits[name] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_evidence_of_a_case_is_that_of_the_shop(
    outcomes: Mapping[str, Outcome], settings: Settings, name: str
) -> None:
    found = of_case(outcomes[name], load_agents(settings))

    (graded,) = found.graded
    assert (found.name, found.agent, graded.check.name) == (name, "shop", "drafts")
    shop = check_drafts(outcomes[name].transcript)
    assert (found.passed, graded.verdict.sentence) == (shop.verdict, shop.sentence)


def copied(folder: Path, name: str, /, expect: Mapping[str, Any], **changes: Any) -> Path:
    """A copy of a kept case that expects, or does, something else."""
    case = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8")) | changes
    file = folder / f"{name}.json"
    file.write_text(json.dumps(case | {"expect": expect}), encoding="utf-8")
    return file


def test_mismatches_are_printed_and_the_exit_code_is_one(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = copied(tmp_path, "context-limit", {"status": "COMPLETED", "tool_calls": 0}, name="a\x1b[2J")
    sent = [
        {"during_model_call": 1, "update": "set_limits", "args": {"seconds": 90}, "refused": True},
        {"during_model_call": 1, "update": "tell"},
        {"during_model_call": 2, "signal": "stop"},
    ]
    unsent = copied(tmp_path, "empty-reply", {"status": "EMPTY_REPLY"}, send=sent)
    assert play_command([wrong, unsent, CASES / "invalid-usage.json"], json=False, settings=settings) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines if "\x1b" in line] == []
    assert lines[0].startswith("differs")
    assert lines[1].strip().startswith('status: expected "COMPLETED", came "CONTEXT_LIMIT" (')
    assert lines[2:4] == [
        "differs  empty-reply",
        "         set_limits during model call 1: was taken, and should have been refused",
    ]
    assert lines[4].strip().startswith("tell during model call 1: was refused: MessageRefused: text: ")
    assert lines[5].strip() == "stop during model call 2: was not sent, the run did not come so far"
    assert lines[6:] == ["ok       invalid-usage", "3 played, 2 with mismatches"]


def test_json_is_a_line_for_each_case_with_the_results_keys(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = copied(tmp_path, "token-limit", {"status": "COMPLETED"})
    assert play_command([CASES / "context-limit.json", wrong], json=True, settings=settings) == 1
    good, bad = map(json.loads, capsys.readouterr().out.splitlines())
    assert (good["name"], good["mismatches"], good["status"]) == ("context-limit", [], "CONTEXT_LIMIT")
    assert (bad["name"], len(bad["mismatches"]), bad["output_tokens"]) == ("token-limit", 1, 10)
    keys = "run_id status answer detail model_calls tool_calls output_tokens exposure_cents messages unrun_calls"
    assert good.keys() >= set(keys.split())


def test_cases_that_all_come_out_as_expected_exit_with_zero(
    settings: Settings, capsys: pytest.CaptureFixture[str]
) -> None:
    assert play_command([CASES / "stop-before-start.json"], json=False, settings=settings) == 0
    assert capsys.readouterr().out.splitlines() == ["ok       stop-before-start", "1 played, none with mismatches"]


def test_a_malformed_case_stops_the_playing_before_it_begins(
    settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = copied(tmp_path, "context-limit", {"stauts": "COMPLETED"})
    with pytest.raises(CasesRefused) as caught:
        play_command([CASES, bad], json=True, settings=settings)
    assert str(caught.value).startswith(f"{bad}: expect.stauts: nothing comes out under this name; take of ")
    assert capsys.readouterr().out == ""
