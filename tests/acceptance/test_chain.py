"""A shift that continues as new is one shift to every command."""

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio.testing import WorkflowEnvironment

from tests.acceptance import warm
from tests.acceptance.commands import Up, clean_environment

pytestmark = [pytest.mark.asyncio, pytest.mark.slow]

STEPS = 9
"""Tool calls of a shift here."""
SHORT_HISTORY = "limit.historyCount.suggestContinueAsNew=20"
"""Has the server suggest to continue as new after three or four model calls."""


@pytest_asyncio.fixture
async def rolling(tmp_path: Path) -> AsyncIterator[tuple[Up, WorkflowEnvironment]]:
    """A server on which shifts continue as new every few steps, a worker, and the commands against them."""
    (tmp_path / "stock.py").write_text(
        "from longshift import tool\n@tool(kind='read')\ndef count(sku: int) -> int:\n    'Count.'\n    return sku\n"
    )
    turns = [{"calls": [{"name": "count", "arguments": {"sku": sku}}], "output_tokens": 1} for sku in range(STEPS)]
    (tmp_path / "turns.json").write_text(json.dumps([*turns, {"content": "Counted.", "output_tokens": 1}]))
    config = tmp_path / "longshift.toml"
    config.write_text(
        f'default_agent = "counter"\n[journal]\nurl = "sqlite:///{tmp_path}/journal.db"\n'
        '[endpoints.one]\nkind = "replay"\nfile = "turns.json"\ndelay_seconds = 0.1\n'
        '[agents.counter]\nsystem = "Count."\nendpoint = "one"\ntools = ["stock:count"]\n'
        "limits = { model_calls = 20, seconds = 120 }\n"
    )
    async with await WorkflowEnvironment.start_local(
        dev_server_existing_path=str(Path(sys.executable).parent / "temporal"),
        dev_server_extra_args=["--dynamic-config-value", SHORT_HISTORY],
    ) as server:
        env = clean_environment(TEMPORAL_ADDRESS=server.client.service_client.config.target_host)
        worker = await warm.start_child("worker", ["--config", str(config)], tmp_path / "worker.log", env)
        yield Up(config, env), server
        await worker.kill()


async def test_every_command_follows_a_chain_as_one_shift(rolling: tuple[Up, WorkflowEnvironment]) -> None:
    up, server = rolling
    caller = up("run", "Count all.", "--json").document
    run_id = up("start", "Count all.").out.split()[0]
    watched = up("watch", run_id)
    parts = [one async for one in server.client.list_workflows(f"WorkflowId = '{run_id}'")]
    assert len(parts) >= 3

    assert watched.code == 0
    began = [f"model call {number} began" for number in range(1, STEPS + 2)]
    assert [line for told in watched.out.splitlines() for line in began if told.endswith(line)] == began
    result = up("result", run_id, "--json").document
    for told in (result, caller):
        assert (told["status"], told["answer"]) == ("COMPLETED", "Counted.")
        assert (told["model_calls"], told["tool_calls"]) == (STEPS + 1, STEPS)
    first = min(part.start_time.timestamp() for part in parts)
    last = max(part.close_time.timestamp() for part in parts if part.close_time)
    state = up("state", run_id, "--json").document
    for seen in (state, *(one for one in up("list", "--json").document if one["run_id"] == run_id)):
        assert (seen["status"], seen["started_at"], seen["closed_at"]) == ("COMPLETED", first, last)
    assert sorted(one["run_id"] for one in up("list", "--json").document) == sorted([caller["run_id"], run_id])
    transcript = up("transcript", run_id, "--json").document["messages"]
    assert len(transcript) == result["messages"] == 2 + 2 * STEPS + 1
    observed = [json.loads(message["content"])["value"] for message in transcript if message["role"] == "tool"]
    assert observed == list(range(STEPS))
