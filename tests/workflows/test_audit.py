"""Audits of real runs: nothing is said of a sound one, and what was changed is found, in a row, a history, a bundle."""

import base64
import contextlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.common.v1 import Payload, WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowFailureError
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from client.audit import Evidence, read_evidence
from client.audit_bundle import read_bundle, write_bundle
from client.errors import NoSuchRun, Refused, Unreadable
from longshift import Agent, contracts, tool
from longshift.audit.checks import Check
from longshift.status import Status
from longshift.tools import ToolOutcomeUnknown
from tests.workflows.raw_runs import Handle, ended, given, started
from tests.workflows.running import GIVEN, PARROT, Script, activities_of, call, echo, shop_open
from tests.workflows.suppliers import ONE_EFFECT, Supplier, asked, begun
from worker.plugin import PayloadConverter
from workflows.agent_run import AgentRun

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG = "A long text. " * 1000
"""More than a history keeps of a message."""


@tool(kind="read", max_bytes=2000)
def recite(lines: int) -> str:
    """Recite a poem, which is cut for the model."""
    return "\n".join(f"line {n} of a poem" for n in range(lines))


@tool
def note(text: str) -> str:
    """Write a note."""
    return f"noted {text}"


SCRIBE = Agent(name="parrot", system="Write.", endpoint="scripted", tools=(echo, recite, note))
TURNS = (
    [call("r1", "recite", lines=400), call("e1", "echo", text=LONG)],
    [call("n1", "note", text="a"), call("x1", "no_such_tool")],
    LONG,
)
"""Large bodies of each kind, an observation cut for the model, an effect, an unknown tool."""


async def written(client: Client, queue: str, journal_url: str) -> str:
    """A run of the scribe, to its end."""
    limits = {"context_bytes": 200_000}
    async with shop_open(client, queue, journal_url, SCRIBE, Script(*TURNS)):
        await ended(await started(client, queue, given(**limits)))
    return queue


def differing(checks: Sequence[Check]) -> dict[str, str]:
    """What differs, by the name of the check."""
    return {check.name: check.text for check in checks if check.verdict == "differs"}


async def audited(client: Client, journal_url: str, run_id: str) -> dict[str, str]:
    """What differs in a run."""
    return differing((await read_evidence(client, journal_url, run_id)).checks())


def change(journal_url: str, statement: str) -> None:
    """Change rows as somebody could who can write to the database."""
    with contextlib.closing(sqlite3.connect(journal_url.removeprefix("sqlite:///"))) as database, database:
        assert database.execute(statement).rowcount == 1, statement


def backup(journal_url: str) -> sqlite3.Connection:
    """The journal as it is now."""
    kept = sqlite3.connect(":memory:")
    with contextlib.closing(sqlite3.connect(journal_url.removeprefix("sqlite:///"))) as database:
        database.backup(kept)
    return kept


def restore(journal_url: str, kept: sqlite3.Connection) -> None:
    """Put a journal back as it was."""
    with contextlib.closing(sqlite3.connect(journal_url.removeprefix("sqlite:///"))) as database:
        kept.backup(database)


async def test_a_sound_run_with_large_bodies_holds_in_every_check(client: Client, queue: str, journal_url: str) -> None:
    found = await read_evidence(client, journal_url, await written(client, queue, journal_url))
    assert {(check.name, check.verdict) for check in found.checks() if check.verdict != "held"} == set()
    assert found.journal is not None
    assert any(row["whole"] for row in found.journal["tool_calls"])


CHANGED_ROWS = {
    "a body": (
        "UPDATE messages SET body = replace(body, 'something', 'nothing') WHERE number = 1", "chain", "message 1:"
    ),
    "a large reply": (
        "UPDATE model_calls SET body = replace(body, 'long', 'song') WHERE number = 3", "chain", "message 8:"
    ),
    "a reply's cost": ("UPDATE model_calls SET cost = 7 WHERE number = 2", "model calls", "row 2: cost is 7"),
    "an observation": (
        "UPDATE tool_calls SET body = replace(body, 'noted', 'forgot') WHERE call_id = 'n1'", "chain", "message 6:"
    ),
    "what was cut of an observation": (
        "UPDATE tool_calls SET whole = replace(whole, 'line 3 ', 'line 4 ') WHERE call_id = 'r1'",
        "tool calls",
        "row 1 0 r1: whole is",
    ),
    "an effect's state": (
        "UPDATE tool_calls SET state = 'started', body = NULL, settled_at = NULL WHERE call_id = 'n1'",
        "effects",
        "the call 'n1' may or may not have happened, and the run does not say so",
    ),
    "a link": ("UPDATE messages SET digest = 'ab' || substr(digest, 3) WHERE number = 4", "chain", "message 4:"),
    "the result": (
        "UPDATE runs SET result = replace(result, '\"tool_calls\":4', '\"tool_calls\":5')", "runs", "the row: result is"
    ),
    "a decision": ("DELETE FROM decisions WHERE number = 1", "decisions", "is missing"),
}  # fmt: skip
"""What is changed; the check that finds it, and what it says."""


async def test_a_changed_row_is_named_whatever_it_is(client: Client, queue: str, journal_url: str) -> None:
    run_id = await written(client, queue, journal_url)
    kept = backup(journal_url)
    for name, (statement, check, text) in CHANGED_ROWS.items():
        change(journal_url, statement)
        found = await audited(client, journal_url, run_id)
        assert check in found, (name, found)
        assert text in found[check], (name, found)
        restore(journal_url, kept)
    assert await audited(client, journal_url, run_id) == {}


async def test_a_changed_history_is_found(client: Client, queue: str, journal_url: str) -> None:
    found = await read_evidence(client, journal_url, await written(client, queue, journal_url))
    assert found.recording is not None
    run = found.recording.runs[0]
    said = {
        '"noted a"': ('"noted b"', "history"),
        "no_such_tool": ("another_tool", "history"),
        '"output_tokens": 7': ('"output_tokens": 8', "counters"),
        "Say something.": ("Say nothing.", "history"),
    }
    for old, (new, check) in said.items():
        events = []
        for event in run.events:
            text = json.dumps(event.values)
            quoted = [old, json.dumps(json.dumps(old.strip('"')))[1:-1]]
            for one in quoted:
                text = text.replace(one, new if one == old else json.dumps(json.dumps(new.strip('"')))[1:-1])
            events.append(
                replace(event, values=tuple(json.loads(text))) if event.number == _first(run.events, old) else event
            )
        changed = replace(found.recording, runs=(replace(run, events=tuple(events)),))
        assert check in differing(replace(found, recording=changed).checks()), old


def _first(events: Sequence[Any], text: str) -> int:
    """The first event whose payloads hold a text, whatever it is quoted by."""
    plain = text.strip('"').replace("\\", "")
    return next(int(event.number) for event in events if plain in json.dumps(event.values).replace("\\", ""))


async def test_a_run_at_work_holds_and_says_what_is_not_settled(client: Client, queue: str, journal_url: str) -> None:
    supplier = Supplier(ToolOutcomeUnknown("no reply"))
    async with shop_open(client, queue, journal_url, supplier.agent(), Script(*ONE_EFFECT)):
        handle = await begun(client, queue)
        await asked(handle)
        checks = (await read_evidence(client, journal_url, queue)).checks()
        await handle.terminate("enough")
        after = (await read_evidence(client, journal_url, queue)).checks()
    for found in (checks, after):
        assert differing(found) == {}
        assert found[-1].text.endswith("at work, or not settled yet: 'c1'")
        assert [check.name for check in found if check.verdict == "not checked"] == ["counters"]


async def test_a_model_call_that_is_out_is_no_difference(client: Client, queue: str, journal_url: str) -> None:
    model = Script("Done.", held=[1])
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue)
        await model.asked(1)
        assert await audited(client, journal_url, queue) == {}
        model.let_go(1)
        await ended(handle)


async def reset(client: Client, handle: Handle, task: int) -> None:
    """Reset a run to one of its workflow tasks."""
    tasks = [
        event.event_id
        async for event in client.get_workflow_handle(handle.id).fetch_history_events()
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
    ]
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=handle.id),
            workflow_task_finish_event_id=tasks[task],
            reason="another way",
            request_id=f"{handle.id}-{task}",
        )
    )


async def test_a_run_that_was_reset_and_went_another_way_holds(client: Client, queue: str, journal_url: str) -> None:
    """Rows of the way that was left, of effects and decisions, are explained by its history."""
    supplier = Supplier()
    turns = (*ONE_EFFECT[:1], [call("e1", "echo", text="a")], "Done.")
    async with shop_open(client, queue, journal_url, supplier.agent(), Script(*turns)):
        handle = await begun(client, queue)
        await ended(handle)
    other = (*ONE_EFFECT[:1], [call("e2", "echo", text="b")], "Done otherwise.")
    async with shop_open(client, queue, journal_url, supplier.agent(), Script(*other)):
        await reset(client, handle, 3)
        await ended(client.get_workflow_handle(queue, result_type=contracts.RunResult))
        found = await read_evidence(client, journal_url, queue)
        checks = found.checks()
        await reset(client, handle, 1)
        await ended(client.get_workflow_handle(queue, result_type=contracts.RunResult))
        again = (await read_evidence(client, journal_url, queue)).checks()
    assert differing(checks) == differing(again) == {}
    assert "left by a reset" in checks[0].text
    assert len(supplier.orders) == 1
    change(journal_url, "UPDATE tool_calls SET name = 'another' WHERE call_id = 'c1'")
    assert "tool calls" in await audited(client, journal_url, queue)


async def test_a_reset_to_the_beginning_after_a_lower_allowance_goes_the_way_it_went(
    client: Client, queue: str, journal_url: str
) -> None:
    """It is opened anew with the time at which it was started, and what it was answered is judged by what it was sent
    with: the platform hands it the lower limit at once, as it does with all that came after the point of a reset."""
    model = Script([call("e1", "echo", text="a")], "Done.", held=[2])  # seven tokens for each
    async with shop_open(client, queue, journal_url, PARROT, model):
        handle = await started(client, queue, given(output_tokens=100))
        await model.asked(2)
        await handle.signal(contracts.SET_LIMITS, {"output_tokens": 5, "estimated_call_cents": 2})
        model.let_go(2)
        first = await ended(handle)
        await reset(client, handle, 0)
        again = await ended(client.get_workflow_handle(queue, result_type=contracts.RunResult))
        assert await audited(client, journal_url, queue) == {}
    assert (first.status, again.status, again.answer) == (Status.COMPLETED, Status.COMPLETED, "Done.")
    assert (first.output_tokens, again.output_tokens) == (14, 14)
    assert len(model.requests) == 2


async def test_what_a_chain_of_runs_hands_to_the_journal_is_checked(
    rolling_server: Any, queue: str, journal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("longshift.state.KEPT", 2)
    client = rolling_server.client
    turns = [[call(f"c{n}", "echo", text=str(n))] for n in range(7)]
    async with shop_open(client, queue, journal_url, PARROT, Script(*turns, "Done.")):
        await ended(await started(client, queue, given(model_calls=20)))
    found = await read_evidence(client, journal_url, queue)
    checks = found.checks()
    assert differing(checks) == {}
    assert found.recording is not None
    assert len(found.recording.runs) > 1
    assert found.journal is not None
    assert len(found.journal["remembered"]) > 4
    change(journal_url, "UPDATE remembered SET resets = 3 WHERE key = 'id c0'")
    assert list(await audited(client, journal_url, queue)) == ["remembered"]


async def test_what_cannot_be_looked_at_is_said_and_an_unknown_run_is_refused(
    client: Client, queue: str, journal_url: str
) -> None:
    run_id = await written(client, queue, journal_url)
    nowhere = journal_url.replace("journal.db", "nowhere.db")
    checks = (await read_evidence(client, nowhere, run_id)).checks()
    assert differing(checks) == {}
    unchecked = {check.name: check.text for check in checks if check.verdict == "not checked"}
    assert {"chain", "messages", "effects"} <= set(unchecked)
    assert "there is no journal" in unchecked["chain"]
    with pytest.raises(NoSuchRun):
        await read_evidence(client, journal_url, f"{run_id}-unknown")
    other = await client.start_workflow("none_of_ours", id=f"{run_id}-other", task_queue=f"{queue}-nobody")
    with pytest.raises(NoSuchRun):
        await read_evidence(client, journal_url, other.id)
    await other.terminate()
    change(journal_url, "UPDATE runs SET run_id = 'gone'")
    assert "the row: is missing" in (await audited(client, journal_url, run_id))["runs"]
    for table in ("messages", "model_calls", "tool_calls", "decisions"):
        with contextlib.closing(sqlite3.connect(journal_url.removeprefix("sqlite:///"))) as database, database:
            database.execute(f"UPDATE {table} SET run_id = 'gone'")
    gone = (await read_evidence(client, journal_url, "gone")).checks()
    assert differing(gone).keys() <= {"chain", "episode"}, "only the journal is left"
    assert "keeps it no longer" in gone[0].text


# Bundles.


async def test_a_bundle_is_audited_without_server_and_journal_with_the_same_words(
    client: Client, queue: str, journal_url: str, tmp_path: Path
) -> None:
    found = await read_evidence(client, journal_url, await written(client, queue, journal_url))
    file = tmp_path / "bundle.json"
    digest = write_bundle(found, file)
    again, said, same = read_bundle(file, digest[:10].upper())
    assert again.checks() == found.checks()
    assert (same, {check.verdict for check in said}) == (digest, {"held"})
    assert [check.verdict for check in read_bundle(file)[1]] == ["held", "not checked"]
    assert differing(read_bundle(file, "0" * 64)[1]).keys() == {"digest"}


async def test_a_changed_bundle_is_found_also_with_a_digest_that_fits(
    client: Client, queue: str, journal_url: str, tmp_path: Path
) -> None:
    found = await read_evidence(client, journal_url, await written(client, queue, journal_url))
    file, forged = tmp_path / "bundle.json", tmp_path / "forged.json"
    digest = write_bundle(found, file)
    content = json.loads(file.read_text(encoding="utf-8"))
    content["journal"]["messages"][1]["bytes"] += 1
    forged.write_text(json.dumps(content), encoding="utf-8")
    assert differing(read_bundle(forged)[1]).keys() == {"bundle"}

    changed = Evidence(found.run_id, found.recording, found.known, content["journal"])
    write_bundle(changed, forged)
    evidence, said, _ = read_bundle(forged)
    assert differing(said) == {}
    assert differing(evidence.checks()).keys() == {"chain", "messages"}
    assert differing(read_bundle(forged, digest)[1]).keys() == {"digest"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "is no bundle of an audit"),
        ('{"run_id": 3}', "is no bundle of an audit"),
    ],
)
async def test_what_is_no_bundle_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "bundle.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(Refused, match=said):
        read_bundle(file)
    with pytest.raises(Refused, match="cannot be read"):
        read_bundle(tmp_path / "missing.json")


async def test_a_bundle_of_a_later_format_is_refused(
    client: Client, queue: str, journal_url: str, tmp_path: Path
) -> None:
    async with shop_open(client, queue, journal_url, PARROT, Script("Done.")):
        await ended(await started(client, queue))
    file = tmp_path / "bundle.json"
    write_bundle(await read_evidence(client, journal_url, queue), file)
    content = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(content | {"longshift_audit_bundle": 2}), encoding="utf-8")
    with pytest.raises(Refused, match="has the format 2, this version reads 1"):
        read_bundle(file)


# Encrypted histories.


class Turned(PayloadCodec):
    """Stands for encryption: nothing is read without it."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Hide payloads."""
        return [
            Payload(metadata={"encoding": b"turned"}, data=base64.b64encode(p.SerializeToString())[::-1])
            for p in payloads
        ]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        """Show them again."""
        return [Payload.FromString(base64.b64decode(p.data[::-1])) for p in payloads]


async def test_a_history_that_a_codec_hides_is_audited_with_the_codec_and_refused_without(
    client: Client, queue: str, journal_url: str
) -> None:
    converter = DataConverter(payload_converter_class=PayloadConverter, payload_codec=Turned())
    hidden = Client(client.service_client, namespace=client.namespace, data_converter=converter)
    async with (
        activities_of(journal_url, PARROT, Script([call("c1", "echo", text="a")], "Done.")) as activities,
        Worker(
            hidden,
            task_queue=queue,
            workflows=[AgentRun],
            activities=activities,
            workflow_runner=UnsandboxedWorkflowRunner(),
        ),
    ):
        await ended(await started(hidden, queue, GIVEN))
    found = await read_evidence(hidden, journal_url, queue)
    assert differing(found.checks()) == {}
    assert all(check.verdict == "held" for check in found.checks())
    with pytest.raises(Unreadable, match="use the codec and the key of the workers"):
        (await read_evidence(client, journal_url, queue)).checks()


async def test_a_run_whose_id_was_taken_for_another_one_holds(client: Client, queue: str, journal_url: str) -> None:
    """Not by the client, which refuses it, but from the Temporal UI: the journal knows the id, and nothing begins."""
    turns = ([call("c1", "echo", text="a")], "Done.")
    async with shop_open(client, queue, journal_url, PARROT, Script(*turns)):
        await ended(await started(client, queue))
        with pytest.raises(WorkflowFailureError):
            await ended(await started(client, queue))
    assert await audited(client, journal_url, queue) == {}
