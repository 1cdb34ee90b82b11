"""What people see, on terminals of several widths."""

import click
import pytest
from pydantic import JsonValue

from client import show
from client.ending import shown
from client.shifts import Listed, Snapshot
from longshift.contracts import RunResult
from longshift.messages import ToolCall
from longshift.questions import MAX_SHOWN, Question, question
from longshift.remedies import commands, look
from longshift.status import Status

RUN_ID = "shop-20300101-090000-1f2e"


@pytest.mark.parametrize(
    ("columns", "headers"),
    [
        ("200", ["run", "status", "agent", "started", "task"]),
        ("80", ["run", "status", "agent", "started", "task"]),
        ("60", ["run", "status", "task"]),
        ("45", ["run", "status"]),
        ("30", ["run", "status"]),
    ],
)
def test_a_list_has_run_and_status_whole_at_any_width_and_cuts_the_task_first(
    columns: str, headers: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": columns}.items():
        monkeypatch.setenv(name, value)
    task = "Prepare replenishment drafts from current stock, for all that is low."
    run = Listed(RUN_ID, "STOP_REQUESTED", "", "shop", task, 0.0, 1.0, None)

    show.runs([run])

    header, row = click.unstyle(capsys.readouterr().out).splitlines()
    assert header.split() == headers
    assert row.split()[:2] == [RUN_ID, "STOP_REQUESTED"]
    assert len(row.rstrip()) <= max(int(columns), len(f"{RUN_ID} STOP_REQUESTED"))
    if "task" in headers:
        assert "Prepare r" in row


CALL = ToolCall(id="call-7", name="place_order", arguments={"sku": "SKU-VANILLA\x1b[2J", "quantity": 6})
APPROVAL = question("approval", CALL, "place_order always needs approval", 0.0)
OUTCOME = question("outcome", CALL, "place_order (call-7) may or may not have happened: its worker died", 0.0)


def waiting(asked: Question) -> Listed:
    """A run that asks something."""
    return Listed(
        RUN_ID,
        "WAITING",
        f"asked: longshift approve or deny {RUN_ID} call-7",
        "buyer",
        "Order vanilla.",
        0.0,
        None,
        None,
        asked,
    )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            APPROVAL,
            [
                'approve place_order {"quantity":6,"sku":"SKU-VANILLA\\u001b[2J"}?',
                "place_order always needs approval",
                f"longshift approve {RUN_ID} call-7\n",
                f"longshift deny {RUN_ID} call-7 --reason TEXT\n",
            ],
        ),
        (
            OUTCOME,
            [
                "what came of place_order",
                "may or may not have happened: its worker died",
                f"longshift resolve {RUN_ID} call-7 --happened JSON\n",
                f"longshift resolve {RUN_ID} call-7 --did-not-happen\n",
                f"longshift resolve {RUN_ID} call-7 --stop\n",
            ],
        ),
    ],
)
def test_what_a_run_asks_is_shown_in_approvals_state_and_list_and_with_the_commands_that_answer(
    asked: Question, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    run = waiting(asked)

    show.asking([run])
    listed = capsys.readouterr().out
    show.state(Snapshot(**vars(run)))
    state = capsys.readouterr().out
    show.runs([run])
    row = capsys.readouterr().out.splitlines()[1]

    for text in (listed, state):
        assert all(word in text for word in words)
        assert "asked: " not in text
    assert f"asks: {words[0]}" in row
    assert row.endswith("Order vanilla.")
    assert "\x1b" not in listed + state + row


@pytest.mark.parametrize(
    ("call_id", "words"),
    [
        ("x; rm -rf ~", f"longshift approve {RUN_ID} 'x; rm -rf ~'"),
        ("--json", f"longshift approve -- {RUN_ID} --json"),
        ("-a b", f"longshift approve -- {RUN_ID} '-a b'"),
        ("a\x1b[2J", f"longshift approve {RUN_ID} 'a\\x1b[2J'"),
    ],
)
def test_the_command_that_answers_names_any_call_as_one_word_of_a_shell(call_id: str, words: str) -> None:
    assert commands(RUN_ID, APPROVAL.model_copy(update={"call_id": call_id}))[0] == words


@pytest.mark.parametrize("given", ["short", "long"])
def test_a_question_that_has_a_part_of_the_arguments_only_names_the_command_that_shows_them_first(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments: dict[str, JsonValue] = {"sku": "SKU-VANILLA", "remark": "x" * (MAX_SHOWN if given == "long" else 1)}
    run = waiting(question("approval", CALL.model_copy(update={"arguments": arguments}), "always", 0.0))
    first = f"longshift transcript {RUN_ID} --call call-7"

    show.asking([run])
    listed = capsys.readouterr().out

    if given == "long":
        assert listed.index(first) < listed.index("longshift approve")
        assert show.asked(run)["look_first"] == first
    else:
        assert "transcript" not in listed
        assert show.asked(run)["look_first"] is None


def test_the_command_that_shows_a_call_names_any_call_as_one_word_of_a_shell() -> None:
    asked = APPROVAL.model_copy(update={"call_id": "-a b"})
    assert look(RUN_ID, asked) == f"longshift transcript {RUN_ID} --call='-a b'"


def test_a_result_names_the_calls_that_may_have_happened_apart_from_those_that_never_ran(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show.result(
        RunResult(
            run_id=RUN_ID,
            status=Status.OUTCOME_UNKNOWN,
            detail="the worker died",
            unrun_calls=("a", "b"),
            unknown_calls=("a",),
        )
    )

    lines = capsys.readouterr().out.splitlines()
    assert "never ran b" in lines
    assert "unknown   a; may have happened: find out before it is done again" in lines


def test_a_journal_is_shown_without_its_password() -> None:
    assert shown("postgresql://me:p@ss:word@db/x?password=y") == "postgresql://me:***@db/x"
