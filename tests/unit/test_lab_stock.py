"""The experiment's tasks, their grades, its plan, and what the command refuses."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from client.main import longshift as command_line
from client.shifts import RUN_ID
from lab.experiment import ExperimentRefused, keep
from lab.formulas import EXTRA
from lab.plan import Plan, runs_of
from lab.stock import AGENTS, CONDITIONS, SHELF, Condition, Grade, Task, grade, products_in, task
from longshift import observations
from longshift.contracts import RunResult
from longshift.evidence import Trajectory
from longshift.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from longshift.run_input import read_input
from longshift.status import Status

DOCS = Path(__file__).parents[2] / "docs"
GIVEN = Task(("almond-cup", "banana-cup", "cherry-cup"))
TOTAL = GIVEN.total
PLAN = Plan(
    seed=1,
    lengths=(1, 4),
    instances=3,
    conditions=CONDITIONS,
    attempts=2,
    retry_length=4,
    endpoint="local",
    model="m",
    at_once=2,
)


def graded(asked: Sequence[str], answer: str | None, condition: Condition = "model-adds", given: Task = GIVEN) -> Grade:
    """The grade of a run that looked these up in turn and answered so; None: it came to no answer."""
    messages: list[Message] = [UserMessage(content=given.text)]
    for number, name in enumerate(asked):
        call = ToolCall(id=f"c{number}", name="stock_of", arguments={"product": name})
        known = name in SHELF
        content = observations.ok(SHELF[name]) if known else observations.error("not_found", "there is no such product")
        messages += [
            AssistantMessage(content="", calls=(call,)),
            ToolMessage(call_id=call.id, name=call.name, content=content),
        ]
    status = Status.COMPLETED if answer is not None else Status.MODEL_CALL_LIMIT
    result = RunResult(run_id="r", status=status, answer=answer, detail="it is done")
    return grade(given, condition, Trajectory(result, tuple(messages)))


def test_a_task_is_made_from_its_seed_and_can_be_read_back() -> None:
    assert task(1, 8, 3) == task(1, 8, 3)
    assert len({task(seed, 8, instance).products for seed in range(3) for instance in range(3)}) == 9
    made = task(1, 8, 3)
    assert made.text.split("\n")[0] == task(1, 1, 1).text.split("\n")[0]  # whatever the length
    assert not any(character.isdigit() for character in made.text)
    assert products_in(made.text) == list(made.products)
    assert len(set(made.products)) == 8
    assert made.total == sum(SHELF[name] for name in made.products)
    assert all(10 <= tubs <= 99 for tubs in SHELF.values())


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        (f"{TOTAL}", True),
        (f"The total is {TOTAL}.", True),
        (f"90 + 5 = {TOTAL}", True),
        (f"{TOTAL + 1}", False),
        (f"{TOTAL}, of which 3 are broken", False),
        ("All looked up.", False),
        (f"-{TOTAL}", False),
    ],
)
def test_the_total_is_the_last_number_of_the_answer(answer: str, right: bool) -> None:
    found = graded(GIVEN.products, answer)

    assert (found.total, found.right, found.first_error) == (right, right, None if right else 4)
    assert found.lookups == (True, True, True)


def test_thousands_may_be_set_apart() -> None:
    assert graded(GIVEN.products, "1,234").answered == 1234


@pytest.mark.parametrize("answer", ["0" * 5000, f"-{'9' * 19}", f"{TOTAL}\n1{',000' * 2000}"])
def test_a_number_that_is_no_count_of_units_is_no_total(answer: str) -> None:
    assert graded(GIVEN.products, answer).answered is None


def test_each_look_up_counts_by_what_came_back_and_not_by_its_order() -> None:
    missing = graded(["cherry-cup", "almond-cup"], f"{TOTAL}")
    assert (missing.lookups, missing.first_error) == ((True, False, True), 2)
    assert missing.outcomes == ((True,), (True,), (False,))
    assert not missing.right

    mended = graded(["almond-cup", "no-such-thing", "banana-cup", "almond-cup", "cherry-cup"], f"{TOTAL}")
    assert mended.outcomes == ((True,), (False,), (True,), (False,), (True,))
    assert mended.right


def test_the_look_ups_of_one_turn_stand_together() -> None:
    calls = [
        ToolCall(id=f"c{number}", name="stock_of", arguments={"product": name})
        for number, name in enumerate(("almond-cup", "nothing", "banana-cup"))
    ]
    refused = observations.error("not_found", "there is no such product")
    texts = (observations.ok(SHELF["almond-cup"]), refused, observations.ok(SHELF["banana-cup"]))
    messages: tuple[Message, ...] = (
        UserMessage(content=GIVEN.text),
        AssistantMessage(content="", calls=tuple(calls)),
        *(ToolMessage(call_id=c.id, name=c.name, content=text) for c, text in zip(calls, texts, strict=True)),
        AssistantMessage(content="9"),
    )
    result = RunResult(run_id="r", status=Status.COMPLETED, answer="9", detail="it is done")

    found = grade(GIVEN, "model-adds", Trajectory(result, messages))
    assert found.outcomes == ((True, False, True), (False,))
    assert found.lookups == (True, True, False)


def test_a_run_that_came_to_no_answer_has_no_total() -> None:
    for condition in CONDITIONS:
        assert graded(GIVEN.products, None, condition).answered is None


def test_where_the_program_adds_the_total_is_what_was_looked_up() -> None:
    assert graded(GIVEN.products, "done", "program-adds").right
    assert not graded(GIVEN.products[:2], f"{TOTAL}", "program-adds").total
    more = graded([*GIVEN.products, "date-cup"], "done", "program-adds")
    assert more.answered == TOTAL + SHELF["date-cup"]
    assert more.first_error == 4


def test_a_plan_has_the_same_runs_each_time_under_ids_that_can_be_used() -> None:
    runs = runs_of(PLAN)

    assert runs == runs_of(PLAN.model_copy())
    assert len(runs) == PLAN.runs == 3 * 3 * (1 + 2)
    assert runs_of(PLAN, 5, 8) == runs[5:8]
    assert len({run.run_id for run in runs}) == len(runs)
    assert all(RUN_ID.fullmatch(run.run_id) for run in runs)
    for run in runs:
        given = read_input((run.given(PLAN).model_dump(mode="json", exclude_none=True, exclude={"messages"}),))
        assert (given.task, given.agent, given.endpoint) == (run.task.text, run.condition, "local")
        assert AGENTS[run.condition].limits.changed(given.limits).model_calls >= 2 * run.length + 1
    assert {run.task for run in runs if (run.length, run.instance) == (4, 1)} == {task(1, 4, 1)}


@pytest.mark.parametrize(
    ("was", "told"),
    [
        ({"seed": 2}, "holds an experiment with other options, see .*plan.json; give those"),
        (
            {"endpoint_sha256": "b" * 64},
            "holds an experiment whose endpoint has another address or other settings; give",
        ),
        ({"endpoint_sha256": None}, "was made by a version that did not keep which endpoint it measured; give another"),
        ({"endpoint_sha256": None, "seed": 2}, "holds an experiment with other options, see .*plan.json; give those"),
    ],
)
def test_a_folder_is_refused_with_what_it_differs_in(was: dict[str, object], told: str, tmp_path: Path) -> None:
    given = PLAN.model_copy(update={"endpoint_sha256": "a" * 64})
    keep(given.model_copy(update=was), tmp_path)

    with pytest.raises(ExperimentRefused, match=f"^--output: {tmp_path} {told}"):
        keep(given, tmp_path)


def test_the_plan_of_a_receipt_that_an_earlier_version_wrote_is_read() -> None:
    receipt = json.loads((DOCS / "lab" / "needle-3" / "receipt.json").read_text(encoding="utf-8"))

    assert Plan.model_validate(receipt["plan"]).runs == len(receipt["runs"])


def test_a_plan_that_was_not_written_to_its_end_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def died(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", died)
        with pytest.raises(KeyboardInterrupt):
            keep(PLAN, tmp_path)
    keep(PLAN, tmp_path)
    assert json.loads((tmp_path / "plan.json").read_text(encoding="utf-8"))["seed"] == PLAN.seed


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--endpoint nowhere", "--endpoint: there is no endpoint nowhere; give a URL, or one of: authored"),
        ("--endpoint http://127.0.0.1:1/v1", "--model: name the model"),
        ("--endpoint ftp://127.0.0.1/v1 --model m", "--endpoint: must be an http or https URL"),
        ("--endpoint authored --model m", "--model: the endpoint authored plays authored turns"),
        ("--endpoint authored --lengths 1,x", "--lengths: give different whole numbers from 1 to 72"),
        ("--endpoint authored --lengths 2,2", "--lengths: give different whole numbers"),
        ("--endpoint authored --lengths 0,2", "--lengths: give different whole numbers"),
        ("--endpoint authored --condition nobody", "--condition: give some of model-adds, add-tool, program-adds"),
        ("--endpoint authored --instances 0", "--instances: give a whole number from 1 to 10000"),
        ("--endpoint authored --instances 10000", "--instances: that takes 210000 shifts, and 50000 are the most"),
        ("--endpoint authored --at-once 0", "--at-once: give a whole number from 1 to 200"),
        ("--endpoint authored --attempts 21", "--attempts: give a whole number from 1 to 20"),
        ("--endpoint authored --seed -1", "--seed: give a whole number from 0"),
        ("--endpoint authored --retry-length 3", "--retry-length: give one of the lengths: 1, 2, 4, 8"),
    ],
)
def test_the_command_refuses_what_cannot_be_measured(
    words: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(command_line, ["lab", "reliability", *words.split()])

    assert ended.exit_code == 2
    assert told in ended.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("package", ["scipy", "matplotlib"])
def test_what_is_missing_is_told_before_anything_is_run(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    ended = CliRunner().invoke(command_line, ["lab", "reliability", "--endpoint", "authored"])

    assert ended.exit_code == 2
    assert ended.output == f"Error: {package} is not installed; install {EXTRA}\n"
    assert list(tmp_path.iterdir()) == []
