"""Kept histories of real runs still replay: a run that an earlier worker began, this one goes on with.

tests/histories/record.py says how they are recorded.
"""

from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer

from tests.histories.record import SCENES
from worker.plugin import longshift_plugin
from workflows.agent_run import AgentRun

HISTORIES = Path(__file__).parents[1] / "histories"
KEPT = sorted(file.stem for file in HISTORIES.glob("*.json"))


def test_every_scene_is_kept() -> None:
    parts = [name for name in KEPT if name.startswith("chain-")]
    assert len(parts) > 1
    assert (set(KEPT) - set(parts)) | {"chain"} == set(SCENES)


def kept(name: str) -> str:
    """A kept history as JSON."""
    return (HISTORIES / f"{name}.json").read_text(encoding="utf-8")


async def replay(history: str) -> None:
    """Replay one. Raises where the workflow as it is now would do something else."""
    replayer = Replayer(workflows=[AgentRun], plugins=[longshift_plugin(sandboxed=True)])
    await replayer.replay_workflow(WorkflowHistory.from_json("kept", history))


@pytest.mark.asyncio
@pytest.mark.parametrize("name", KEPT)
async def test_a_kept_history_replays(name: str) -> None:
    await replay(kept(name))


@pytest.mark.asyncio
async def test_a_history_that_this_workflow_would_not_have_made_does_not_replay() -> None:
    changed = kept("opening-shift").replace('"model-2"', '"model-7"')
    with pytest.raises(Exception, match="TMPRL1100"):
        await replay(changed)
