"""A planted key is nowhere but in the request that it was made for."""

import base64
import json
from collections.abc import AsyncIterator

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import HistoryEvent

from longshift.status import Status
from tests.acceptance.shift_house import House, http_answer

KEY = "sk-planted-0123456789abcdefghijklmnop"
"""The key. Any eight characters of it in a row count as found."""
ECHO = json.dumps({"error": {"message": f"Incorrect API key provided: {KEY[:16]}", "headers": {"authorization": KEY}}})
"""The body of a server that repeats what it was sent."""


def leaks() -> list[bytes]:
    """What must not be found: every part of the key, plain, and in base64 wherever in a longer text it stood."""
    plain = [KEY[start : start + 8].encode() for start in range(len(KEY) - 7)]
    encoded = [base64.b64encode(b"\0" * pad + KEY.encode())[4:-4] for pad in range(3)]
    return plain + [text[start : start + 12] for text in encoded for start in range(len(text) - 11)]


def found_in(text: bytes) -> list[bytes]:
    """The parts of the key that stand in `text`."""
    return [leak for leak in leaks() if leak in text]


async def left_behind(house: House) -> AsyncIterator[tuple[str, bytes]]:
    """Everything that the run left anywhere, with a name for it."""
    workflow = await house.workflow()
    async for event in workflow.fetch_history_events():
        yield f"event {event.event_id}", event.SerializeToString()  # payloads are not compressed: their bytes show
    described = await workflow.describe()
    yield "description, memo and search attributes", described.raw_description.SerializeToString()
    for file in sorted(file for file in house.folder.rglob("*") if file.is_file()):
        yield str(file), file.read_bytes()  # the journal, the server's database, and all logs


def test_the_search_finds_the_key_plain_encoded_and_inside_a_payload() -> None:
    assert found_in(f"Bearer {KEY}".encode())
    for pad in range(3):
        assert found_in(base64.b64encode(b"x" * pad + KEY.encode()))
    event = HistoryEvent()
    event.workflow_execution_started_event_attributes.input.payloads.append(Payload(data=f'"{KEY[5:15]}"'.encode()))
    assert found_in(event.SerializeToString())


@pytest.mark.slow
@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("code", "status", "says"), [(500, Status.COMPLETED, ""), (401, Status.MODEL_FAILED, "api_key_env")]
)
async def test_a_planted_key_is_in_no_history_memo_journal_or_log(
    house: House, code: int, status: Status, says: str
) -> None:
    house.outside.refusals[2] = http_answer(code, ECHO, X_Echo=f"Bearer {KEY}", WWW_Authenticate=f'Bearer key="{KEY}"')
    worker = await house.worker(
        PLANTED_KEY=KEY, LONGSHIFT_ENDPOINTS__MODEL__API_KEY_ENV="PLANTED_KEY", LONGSHIFT_WORKER__LOG_LEVEL="debug"
    )
    await house.start()
    result = await house.result()
    assert await worker.stop(60) == 0

    assert result.status is status
    assert says in result.detail
    assert all(f"Bearer {KEY}" in head for head in house.outside.headers)
    searched = [name async for name, text in left_behind(house) if not found_in(text)]
    assert [name async for name, text in left_behind(house) if found_in(text)] == []
    assert any("journal.db" in name for name in searched)
    assert any("worker.log" in name for name in searched)
