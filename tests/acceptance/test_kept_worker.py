"""The worker that `up` and `demo` keep up, in folders as people have them."""

import asyncio
from pathlib import Path

import pytest

from client.local import KeptWorker, WorkerFailed
from tests.acceptance.commands import clean_environment

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]


async def test_files_in_the_working_directory_hide_nothing_of_the_workers_and_are_found_where_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for ours in ("worker.py", "activities.py"):
        (tmp_path / ours).write_text("raise SystemExit('this is not of Longshift')\n", encoding="utf-8")
    (tmp_path / "mine.py").write_text("", encoding="utf-8")
    (tmp_path / "longshift.toml").write_text('[agents.own]\nuse = "mine:agent"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    started_again = asyncio.Event()

    with pytest.raises(WorkerFailed, match="the module mine has no agent"):
        async with KeptWorker(
            clean_environment(), tmp_path / "worker.log", tell=lambda _: started_again.set()
        ) as worker:
            await worker.while_up(started_again.wait())
