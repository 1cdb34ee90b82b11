"""Longshift's side of the shift of script.py: the agent, and the authored turns of its replay endpoint."""

import json
from pathlib import Path

from bench import script
from longshift import Agent, Limits, tool


@tool(kind="read", timeout_seconds=30)
async def read_part(number: int) -> str:  # async, as the floor's is: a thread for it would be the tool's own cost
    """Read one part of the log."""
    return script.part(number)


agent = Agent(
    name="bench",
    system=script.SYSTEM,
    endpoint="authored",
    tools=(read_part,),
    limits=Limits(
        model_calls=1_000_000,
        tool_calls=1_000_000,
        seconds=86_400,
        context_bytes=1_000_000_000,
        total_output_tokens=1_000_000_000,
    ),
)
"""The shop's defaults would end the shift after a few steps; repetition stays on, and no call is made twice."""


def write_turns(file: Path, steps: int) -> None:
    """Write the authored turns of a shift of `steps` steps and an answer, for a replay endpoint."""
    turns: list[dict[str, object]] = [
        {
            "content": script.remark(number),
            "calls": [{"id": script.call_id(number), "name": script.TOOL, "arguments": json.dumps({"number": number})}],
            "output_tokens": script.OUTPUT_TOKENS,
        }
        for number in range(1, steps + 1)
    ]
    turns.append({"content": script.ANSWER, "output_tokens": script.OUTPUT_TOKENS})
    file.write_text(json.dumps(turns), encoding="utf-8")
