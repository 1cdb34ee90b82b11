"""The shift that is measured: each step is one turn with one call of a read, whose observation is 1 KB."""

import json
from pathlib import Path

from longshift import Agent, Limits, tool

OBSERVATION_BYTES = 1024
"""Bytes of what a step brings back."""
REMARK_BYTES = 400
"""Bytes of text in a turn: a few sentences, so that the floor's step weighs 2.9 KB."""
OUTPUT_TOKENS = 120
"""Output tokens that a turn reports."""
TOOL = "read_part"
TASK = "Read the log part by part, then say what you found."
ANSWER = "The log holds nothing unusual."


def remark(number: int) -> str:
    """The text of turn `number`, beside its call."""
    return _repeated(f"Part {number} of the log comes next. ", REMARK_BYTES)


def call_id(number: int) -> str:
    """The id of the call in turn `number`, as long as ids of providers are."""
    return f"call_{number:019d}"


def part(number: int) -> str:
    """What the tool returns for one part of the log."""
    return _repeated(f"part {number}: 200 GET /index.html; ", OBSERVATION_BYTES)


def _repeated(text: str, size: int) -> str:
    return (text * (size // len(text) + 1))[:size]


@tool(kind="read", timeout_seconds=30)
async def read_part(number: int) -> str:  # async, as the floor's is: a thread for it would be the tool's own cost
    """Read one part of the log."""
    return part(number)


agent = Agent(
    name="bench",
    system="Read what you are asked to read.",
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
            "content": remark(number),
            "calls": [{"id": call_id(number), "name": TOOL, "arguments": json.dumps({"number": number})}],
            "output_tokens": OUTPUT_TOKENS,
        }
        for number in range(1, steps + 1)
    ]
    turns.append({"content": ANSWER, "output_tokens": OUTPUT_TOKENS})
    file.write_text(json.dumps(turns), encoding="utf-8")
