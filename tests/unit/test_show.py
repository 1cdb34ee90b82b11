"""What people see, on terminals of several widths."""

import click
import pytest

from client import show
from client.ending import shown
from client.shifts import Listed

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


def test_a_journal_is_shown_without_its_password() -> None:
    assert shown("postgresql://me:p@ss:word@db/x?password=y") == "postgresql://me:***@db/x"
