"""The journal made anew from the history of a real run, row for row; and what cannot be made says so."""

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest
from temporalio.client import Client

from client import audit_rebuilding
from client.audit import read_rows
from client.audit_reading import Recording, read_recording
from client.audit_rebuilding import rebuild
from client.errors import NoSuchRun, Refused
from client.shifts import Shifts
from longshift import contracts
from longshift.audit.sides import REBUILT, Rows
from longshift.contracts import RunResult
from longshift.executions import without_date
from longshift.messages import weigh
from longshift.status import Status
from longshift.tools import ToolOutcomeUnknown
from store.journal import Journal
from tests.workflows.raw_runs import ended, given, started, until_waiting
from tests.workflows.running import PARROT, Script, call, shop_open
from tests.workflows.suppliers import ONE_EFFECT, Supplier, asked, begun
from tests.workflows.test_audit import LONG, audited, change, written

pytestmark = pytest.mark.asyncio(loop_scope="session")

BY_CLOCK = {"closed_at", "started_at", "ended_at", "settled_at"}
"""What only a worker's clock said: a row made from the history has the server's time of the step instead."""
TABLES = ("runs", "messages", "model_calls", "tool_calls", "decisions", "remembered")


@contextlib.contextmanager
def database(journal_url: str) -> Iterator[sqlite3.Connection]:
    """The journal's file."""
    with contextlib.closing(sqlite3.connect(journal_url.removeprefix("sqlite:///"))) as opened, opened:
        yield opened


def empty(journal_url: str) -> None:
    """Lose all rows."""
    with database(journal_url) as opened:
        for table in TABLES:
            opened.execute(f"DELETE FROM {table}")


def undated(name: str, value: Any) -> Any:
    """Who sent or began something, without when the attempt began."""
    return without_date(value) if name in ("sender", "attempt") else value


def comparable(rows: Rows) -> dict[str, list[dict[str, Any]]]:
    """Rows without what only a clock said, and without the decision that they were made anew."""
    return {
        table: [
            {name: undated(name, value) for name, value in row.items() if name not in BY_CLOCK}
            for row in of_table
            if row.get("kind") != REBUILT
        ]
        for table, of_table in rows.items()
    }


async def test_an_empty_journal_gets_every_row_again(client: Client, queue: str, journal_url: str) -> None:
    supplier = Supplier(None, ToolOutcomeUnknown("no reply"))
    turns = (
        [call("c1", "place", sku="a"), call("e1", "echo", text="x")],
        [call("c2", "place", sku="b"), call("no", "no_such_tool")],
        "Done.",
    )
    async with shop_open(client, queue, journal_url, supplier.agent(), Script(*turns)):
        handle = await begun(client, queue)
        question = await asked(handle)
        answer = {
            "call_id": question.call_id,
            "arguments_sha256": question.arguments_sha256,
            "outcome": "did_not_happen",
        }
        await handle.execute_update(contracts.RESOLVE, answer)
        await ended(handle)
    before = await read_rows(journal_url, queue)
    empty(journal_url)
    made = await rebuild(client, journal_url, queue)
    after = await read_rows(journal_url, queue)
    assert comparable(after) == comparable(before)
    assert made.lost == {}
    assert after["decisions"][-1]["kind"] == REBUILT
    assert await audited(client, journal_url, queue) == {}
    assert not (await rebuild(client, journal_url, queue)).changed
    journal = await Journal.open(journal_url)
    assert await journal.verify_chain(queue) is None
    await journal.close()


async def test_a_body_that_was_whole_only_in_the_journal_is_left_out_and_told_of(
    client: Client, queue: str, journal_url: str
) -> None:
    run_id = await written(client, queue, journal_url)
    journal = await Journal.open(journal_url)
    long = [weigh(stored.message) for stored in await journal.messages(run_id)]
    empty(journal_url)
    made = await rebuild(client, journal_url, run_id)
    assert {name: weight for name, weight in made.lost.items() if weight is not None} == {
        "model_calls 1 body": long[2],
        "model_calls 3 body": long[8],
        "tool_calls 1 1 e1 body": long[4],
    }
    assert {name for name, weight in made.lost.items() if weight is None} == {
        "tool_calls 1 0 r1 whole",
        "tool_calls 1 1 e1 whole",
    }
    rows = await read_rows(journal_url, run_id)
    assert [row["body"] for row in rows["model_calls"] if row["number"] in (1, 3)] == [None, None]
    assert json.loads(rows["decisions"][-1]["detail"])["lost"].keys() == made.lost.keys()
    difference = await journal.verify_chain(run_id)
    assert difference is not None
    assert "body is missing" in difference.reason
    assert await audited(client, journal_url, run_id) == {}
    again = await rebuild(client, journal_url, run_id)
    assert not again.changed
    assert again.lost == made.lost, "the journal is no more whole than it was"
    await journal.close()


async def test_rows_that_were_changed_are_mended_and_whole_bodies_that_stand_are_kept(
    client: Client, queue: str, journal_url: str
) -> None:
    run_id = await written(client, queue, journal_url)
    before = await read_rows(journal_url, run_id)
    change(journal_url, "UPDATE model_calls SET cost = 5, body = body WHERE number = 1")
    change(journal_url, "UPDATE messages SET digest = 'no' WHERE number = 3")
    change(journal_url, "UPDATE tool_calls SET milliseconds = 99999 WHERE call_id = 'n1'")
    change(journal_url, "DELETE FROM decisions WHERE number = 1")
    with database(journal_url) as opened:
        opened.execute("INSERT INTO messages SELECT run_id, 99, role, body, turn, call_model, call_position, call_id, "
                       "bytes, digest FROM messages WHERE number = 1")  # fmt: skip
    made = await rebuild(client, journal_url, run_id)
    assert set(made.removed) == {"model_calls 1", "messages 3", "messages 99", "tool_calls 2 0 n1"}
    assert made.lost == {}
    after = await read_rows(journal_url, run_id)
    for table in ("runs", "messages", "model_calls", "tool_calls"):
        assert after[table] == before[table]
    assert comparable(after) == comparable(before)
    assert await audited(client, journal_url, run_id) == {}


async def test_rows_of_effects_are_never_removed(client: Client, queue: str, journal_url: str) -> None:
    run_id = await written(client, queue, journal_url)
    with database(journal_url) as opened:
        opened.execute(
            "INSERT INTO tool_calls (run_id, model_call, position, call_id, name, arguments_sha256, kind, state, "
            "dispatch, fatal, attempt, started_at) "
            "VALUES (?, 7, 0, 'z', 'note', 'a', 'effect', 'started', 0, 0, 'x', 1)",
            (run_id,),
        )
    made = await rebuild(client, journal_url, run_id)
    assert (made.unexplained, made.removed, made.changed) == (["tool_calls 7 0 z"], [], False)
    change(journal_url, "UPDATE runs SET detail = 'x'")
    made = await rebuild(client, journal_url, run_id)
    assert (made.unexplained, made.removed) == (["tool_calls 7 0 z"], ["runs"])
    assert "tool calls" in await audited(client, journal_url, run_id)


async def test_an_effect_of_a_rebuilt_journal_is_not_made_again(client: Client, queue: str, journal_url: str) -> None:
    """The run waits for a person when its journal is lost; the ledger that is made from the history holds."""
    supplier = Supplier(ToolOutcomeUnknown("no reply"))
    async with shop_open(client, queue, journal_url, supplier.agent(), Script(*ONE_EFFECT)):
        handle = await begun(client, queue)
        question = await asked(handle)
        empty(journal_url)
        await rebuild(client, journal_url, queue)
        assert await audited(client, journal_url, queue) == {}
        answer = {"call_id": question.call_id, "arguments_sha256": question.arguments_sha256, "outcome": "happened"}
        await handle.execute_update(contracts.RESOLVE, answer | {"result": "PO-1"})
        end = await ended(handle)
    assert (end.status, len(supplier.orders)) == (Status.COMPLETED, 1)
    assert await audited(client, journal_url, queue) == {}
    rows = (await read_rows(journal_url, queue))["tool_calls"]
    assert [(row["state"], row["attempt"]) for row in rows] == [("settled", "a person")]


async def test_a_paused_run_goes_on_with_a_rebuilt_journal_and_one_at_work_is_refused(
    client: Client, shifts: Shifts, queue: str, journal_url: str
) -> None:
    model = Script([call("c1", "echo", text="a")], "Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue, given(seconds=600.0))
        await model.asked(1)
        with pytest.raises(Refused, match=f"at work.*longshift pause {queue}"):
            await rebuild(client, journal_url, queue)
        await handle.signal(contracts.PAUSE)
        model.let_go(1)
        await until_waiting(handle, "paused")
        empty(journal_url)
        await rebuild(client, journal_url, queue)
        await handle.signal(contracts.RESUME)
        end: RunResult = await ended(handle)
    assert (end.status, end.messages) == (Status.COMPLETED, 5)
    assert await audited(client, journal_url, queue) == {}


async def test_a_run_that_needs_a_body_that_is_lost_ends_and_says_which(
    client: Client, queue: str, journal_url: str
) -> None:
    model = Script([call("e1", "echo", text=LONG)], "Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue, given(context_bytes=200_000, seconds=600.0))
        await model.asked(1)
        await handle.signal(contracts.PAUSE)
        model.let_go(1)
        await until_waiting(handle, "paused")
        empty(journal_url)
        made = await rebuild(client, journal_url, queue)
        assert "model_calls 1 body" in made.lost
        await handle.signal(contracts.RESUME)
        end: RunResult = await ended(handle)
    assert end.status is Status.MODEL_FAILED
    assert "of model call 1" in end.detail
    assert "is not in the journal" in end.detail


async def test_a_run_that_nobody_knows_or_that_never_began_has_nothing_to_rebuild(
    client: Client, queue: str, journal_url: str
) -> None:
    with pytest.raises(NoSuchRun):
        await rebuild(client, journal_url, f"{queue}-unknown")
    async with shop_open(client, queue, journal_url, PARROT, Script("Done.")):
        handle = await started(client, queue, given(seconds=-1))
        with contextlib.suppress(Exception):
            await handle.result()
    with pytest.raises(Refused, match="was never opened"):
        await rebuild(client, journal_url, queue)


async def test_nothing_is_changed_where_the_run_has_gone_on_meanwhile(
    client: Client, queue: str, journal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    supplier = Supplier(ToolOutcomeUnknown("no reply"))
    async with shop_open(client, queue, journal_url, supplier.agent(), Script(*ONE_EFFECT)):
        handle = await begun(client, queue)
        await asked(handle)

        async def read_before_it_went_on(client: Client, run_id: str) -> Recording:
            found = await read_recording(client, run_id)
            await handle.signal(contracts.PAUSE)
            return found

        monkeypatch.setattr(audit_rebuilding, "read_recording", read_before_it_went_on)
        change(journal_url, "UPDATE runs SET detail = 'x'")
        with pytest.raises(Refused, match="it has gone on"):
            await rebuild(client, journal_url, queue)
        assert [row["detail"] for row in (await read_rows(journal_url, queue))["runs"]] == ["x"]
        await handle.terminate()


async def test_nothing_is_changed_where_a_worker_has_written_meanwhile(
    client: Client, queue: str, journal_url: str
) -> None:
    run_id = await written(client, queue, journal_url)
    journal = await Journal.open(journal_url)
    seen = await journal.rows(run_id)
    change(journal_url, "UPDATE runs SET detail = 'meanwhile'")
    assert not await journal.replace_rows(run_id, {}, seen)
    assert (await journal.rows(run_id))["messages"] == seen["messages"]
    await journal.close()
