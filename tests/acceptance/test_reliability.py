"""The experiment on real shifts, killed in the middle: what was planted is found, and nothing is run twice."""

import asyncio
import json
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from client.local import connect_to
from client.main import longshift as command_line
from endpoints.config import ReplayConfig
from lab.analysis import Findings, analyse
from lab.experiment import QUEUE, ExperimentRefused, Graded, conduct, keep
from lab.fan_out import WORKFLOW, FanOut, Reliability
from lab.page import page
from lab.pictures import draw
from lab.plan import runs_of
from lab.receipt import receipt
from lab.stock import SHELF, task
from lab.trials import Scripted
from longshift.status import Status
from tests.acceptance.stock_experiment import PLAN, SHARE, conducted
from tests.acceptance.stock_models import PLANTED, planted
from worker.dev_server import DevServer
from worker.plugin import longshift_plugin

pytestmark = pytest.mark.slow

Rows = dict[str, tuple[Any, ...]]


@dataclass(frozen=True)
class Experiment:
    """One that was killed and went on."""

    folder: Path
    before: Rows
    """Runs that had ended when it was killed, by id."""
    after: Rows
    graded: list[Graded]
    findings: dict[str, Findings]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """Killed with SIGKILL once a third has ended, then conducted to its end."""
    folder = tmp_path_factory.mktemp("experiment")
    command = [sys.executable, "-m", "tests.acceptance.stock_experiment", str(folder)]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert any(int(line) >= len(runs_of(PLAN)) // 3 for line in process.stdout), "it ended before it was killed"
        process.kill()
    before = ended(folder)
    graded = conducted(folder)
    keys = {(p.condition, p.length, p.instance, p.attempt): one.grade for one in graded for p in [one.planned]}
    found: dict[str, Findings] = {one.condition: one for one in analyse(PLAN, keys)}
    return Experiment(folder, before, ended(folder), graded, found)


def ended(folder: Path) -> Rows:
    """The runs in the journal that have ended, by id."""
    with sqlite3.connect(folder / "journal.db") as journal:
        rows = journal.execute(
            "SELECT run_id, opened_at, closed_at, status, digest, "
            "(SELECT count(*) FROM model_calls WHERE model_calls.run_id = runs.run_id) "
            "FROM runs WHERE closed_at IS NOT NULL"
        ).fetchall()
    journal.close()
    return {row[0]: row[1:] for row in rows}


def test_killed_in_the_middle_it_goes_on_and_runs_nothing_twice(experiment: Experiment) -> None:
    assert 0 < len(experiment.before) < len(runs_of(PLAN))
    assert experiment.after.keys() == {run.run_id for run in runs_of(PLAN)}
    assert {run_id: experiment.after[run_id] for run_id in experiment.before} == experiment.before
    assert [one.planned for one in experiment.graded] == runs_of(PLAN)
    assert {one.result.status for one in experiment.graded} == {Status.COMPLETED}


def test_the_parents_history_stays_small_and_replays(experiment: Experiment) -> None:
    async def histories() -> list[WorkflowHistory]:
        found: list[WorkflowHistory] = []
        async with DevServer(experiment.folder / "server", ui=False) as server:
            client = await connect_to(server)
            run_id = None
            while run_id != "":
                found.append(await client.get_workflow_handle(WORKFLOW, run_id=run_id).fetch_history())
                run_id = found[-1].events[0].workflow_execution_started_event_attributes.continued_execution_run_id
        return found

    async def replay(all_of_them: list[WorkflowHistory]) -> None:
        replayer = Replayer(workflows=[Reliability], plugins=[longshift_plugin(sandboxed=True)])
        for one in all_of_them:
            await replayer.replay_workflow(one)

    kept = asyncio.run(histories())
    asyncio.run(replay(kept))
    assert len(kept) == -(-len(runs_of(PLAN)) // SHARE)
    assert max(len(one.events) for one in kept) < 15 * SHARE


def test_the_look_up_where_the_errors_were_planted_holds_them(experiment: Experiment) -> None:
    found = experiment.findings["model-adds"]

    assert found.culprit is not None
    assert found.culprit.name == "look-up 2"
    interval = found.culprit.errors.interval
    assert interval.low <= 1 - PLANTED["model-adds"].right <= interval.high


def test_a_chance_of_each_step_is_recovered(experiment: Experiment) -> None:
    found, planted = experiment.findings["program-adds"], PLANTED["program-adds"].right

    assert found.fit is not None
    assert found.fit.interval.low <= planted <= found.fit.interval.high
    assert found.fit.geometric
    assert found.sentences[0].startswith("The data do not refute a geometric decay")
    assert found.p.interval.low <= planted <= found.p.interval.high


def test_recovery_and_the_hard_fraction_are_recovered(experiment: Experiment) -> None:
    found, planted = experiment.findings["add-tool"], PLANTED["add-tool"]

    assert found.p.interval.low <= planted.right <= found.p.interval.high
    assert planted.mends is not None
    assert found.r.interval.low <= planted.mends <= found.r.interval.high
    assert found.retries is not None
    assert found.retries.mixture is not None
    assert found.retries.mixture.interval.low <= planted.hard <= found.retries.mixture.interval.high
    assert found.retries.sentence.startswith("Tasks differ at 2 look-ups: ")
    assert found.culprit is not None
    assert found.culprit.name == "total"


def test_the_receipt_has_every_run_and_the_page_says_what_was_found(experiment: Experiment) -> None:
    findings = list(experiment.findings.values())
    answers: list[Any] = [{"kind": "openai", "listing": {"models": ["<script>alert(1)</script>"], "status": 200}}]
    document = json.loads(json.dumps(receipt(PLAN, experiment.graded, findings, answers)))
    assert document["plan"]["seed"] == PLAN.seed
    assert document["endpoint"] == answers
    assert {"longshift", "temporalio", "python"} <= document["versions"].keys()
    assert len(document["runs"]) == len(runs_of(PLAN))
    assert {run["digest"] for run in document["runs"]} == {row[3] for row in experiment.after.values()}
    first = document["runs"][0]
    assert first["total"] == sum(SHELF[name] for name in first["products"])

    pictures = draw(findings)
    assert set(pictures) == {"success", "errors", "retries"}
    assert all(
        one["svg"].lstrip().startswith(b"<?xml") and one["png"].startswith(b"\x89PNG") for one in pictures.values()
    )
    text = page(PLAN, experiment.graded, findings, answers, pictures)
    assert text.count("<img ") == 3
    assert "<script" not in text
    assert "look-up 2 stands out" in text


def test_a_folder_that_holds_another_experiment_is_refused(experiment: Experiment) -> None:
    keep(PLAN, experiment.folder)
    with pytest.raises(ExperimentRefused, match="holds an experiment with other options"):
        keep(PLAN.model_copy(update={"instances": 11}), experiment.folder)


def test_one_whose_parent_was_terminated_goes_on(tmp_path: Path) -> None:
    plan = PLAN.model_copy(update={"lengths": (1,), "retry_length": 1, "instances": 1, "attempts": 1})

    async def terminated() -> None:
        async with DevServer(tmp_path / "server", ui=False) as server:
            client = await connect_to(server)
            given = FanOut(plan=plan)
            parent = await client.start_workflow(Reliability.run, given, id=WORKFLOW, task_queue=QUEUE)
            await parent.terminate()

    asyncio.run(terminated())
    clerk = Scripted(plan.endpoint, planted)
    graded = asyncio.run(conduct(plan, tmp_path, clerk, ReplayConfig(turns=())))
    assert [one.planned for one in graded] == runs_of(plan)


def test_the_command_measures_an_endpoint_and_writes_what_it_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    given = task(5, 1, 1)
    turns = [
        {"calls": [{"id": "c1", "name": "stock_of", "arguments": {"product": given.products[0]}}], "output_tokens": 5},
        {"content": f"{given.total}", "output_tokens": 2},
    ]
    Path("turns.json").write_text(json.dumps(turns), encoding="utf-8")
    Path("longshift.toml").write_text('[endpoints.scripted]\nkind = "replay"\nfile = "turns.json"\n', encoding="utf-8")
    words = "lab reliability --endpoint scripted --lengths 1 --instances 1 --condition model-adds --attempts 1 --seed 5"

    ended = CliRunner().invoke(command_line, [*words.split(), "-o", "out"])
    assert ended.exit_code == 0, ended
    assert ended.stdout.startswith("1 shifts: COMPLETED 1\nmodel-adds: right 1 of 1 at 1\n")
    document = json.loads(Path("out/receipt.json").read_text(encoding="utf-8"))
    assert [run["right"] for run in document["runs"]] == [True]
    assert document["endpoint"][0]["kind"] == "replay"
    written = {file.name for file in Path("out").iterdir() if file.is_file()}
    assert {"report.html", "success.svg", "success.png", "errors.svg", "errors.png"} <= written

    nobody = words.replace("--endpoint scripted", "--endpoint http://127.0.0.1:9/v1 --model typo")
    assert CliRunner().invoke(command_line, [*nobody.split(), "-o", "never"]).exit_code == 2
    assert not Path("never").exists(), "what never began claims no folder"

    ended = CliRunner().invoke(command_line, [*words.split(), "--instances", "2", "-o", "out"])
    assert (ended.exit_code, "holds an experiment with other options" in ended.stderr) == (2, True)

    ended = CliRunner().invoke(command_line, [*words.split(), "-o", "out"])
    assert (ended.exit_code, "out has its receipt: the experiment has ended" in ended.stderr) == (0, True)
    assert json.loads(Path("out/receipt.json").read_text(encoding="utf-8")) == document

    with Path("longshift.toml").open("a", encoding="utf-8") as config:
        config.write("delay_seconds = 0.001\n")
    ended = CliRunner().invoke(command_line, [*words.split(), "-o", "out"])
    assert (ended.exit_code, "has another address or other settings" in ended.stderr) == (2, True)
