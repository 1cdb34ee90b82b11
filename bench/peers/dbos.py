"""DBOS with SQLite. `python -m bench.peers.dbos FOLDER CLOCK STEPS` does one shift.

A workflow with a step for each model call and each tool call, as its documentation has it. DBOS stores what a step
returns and not what it was given, so the model call gets the whole transcript.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dbos import DBOS

from bench import script
from bench.peers.alone import measure


@DBOS.step()
async def call_model(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The authored turn that follows on a transcript."""
    _tick[0]()
    number = sum(message["role"] == "assistant" for message in messages) + 1
    call = {"id": script.call_id(number), "name": script.TOOL, "arguments": {"number": number}}
    return {"role": "assistant", "content": script.remark(number), "calls": [call]}


@DBOS.step()
async def run_tool(call: dict[str, Any]) -> str:
    """The observation of a call."""
    return script.part(call["arguments"]["number"])


@DBOS.workflow()
async def work(steps: int) -> str:
    """Do the steps; the last observation."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": script.SYSTEM},
        {"role": "user", "content": script.task(steps)},
    ]
    for _ in range(steps):
        turn = await call_model(messages)
        messages.append(turn)
        for call in turn["calls"]:
            observation = await run_tool(call)
            messages.append({"role": "tool", "call_id": call["id"], "content": observation})
    return str(messages[-1]["content"])


_tick: list[Callable[[], None]] = [lambda: None]
"""Of the shift at work. A step is a function of the module, and an argument would be stored."""


async def _shift(steps: int, tick: Callable[[], None]) -> str:
    _tick[0] = tick
    handle = await DBOS.start_workflow_async(work, steps)
    return await handle.get_result()


async def main(folder: str, clock: str, steps: str) -> None:
    """Do one shift."""
    url = f"sqlite:///{Path(folder) / 'dbos.db'}"
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "WARNING", "run_admin_server": False})
    DBOS.launch()
    await measure(_shift, Path(folder), Path(clock), int(steps))
    DBOS.destroy()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
