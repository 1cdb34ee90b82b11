"""The floor: what the same shift costs as a bare workflow. `python -m bench.floor ADDRESS QUEUE` is its worker.

Two activities a step. Their payloads are the new turn and the new observation, and nothing else is done: no limit, no
journal, no digest, no heartbeat, no message from outside. The worker is set up as Longshift's is.
"""

import asyncio
import sys
from datetime import timedelta

from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from bench import material

PATIENCE = timedelta(minutes=1)
"""Temporal wants one time-out for an activity."""


class Call(BaseModel):
    """One tool call."""

    id: str
    name: str
    arguments: dict[str, int]


class Turn(BaseModel):
    """One reply of the model."""

    content: str
    calls: list[Call]
    output_tokens: int


@activity.defn
async def call_model(number: int) -> Turn:
    """The authored turn of this number."""
    call = Call(id=material.call_id(number), name=material.TOOL, arguments={"number": number})
    return Turn(content=material.remark(number), calls=[call], output_tokens=material.OUTPUT_TOKENS)


@activity.defn
async def run_tool(call: Call) -> str:
    """The observation of a call."""
    return material.part(call.arguments["number"])


@workflow.defn(name="floor")
class Floor:
    """A model call and a tool call, so many times."""

    @workflow.run
    async def run(self, steps: int) -> str:
        """Do the steps; the last observation."""
        observation = ""
        for number in range(1, steps + 1):
            turn = await workflow.execute_activity(call_model, number, start_to_close_timeout=PATIENCE)
            for call in turn.calls:
                observation = await workflow.execute_activity(run_tool, call, start_to_close_timeout=PATIENCE)
        return observation


async def main(address: str, queue: str) -> None:
    """Work until killed."""
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[Floor],
        activities=[call_model, run_tool],
        max_cached_workflows=1000,
        max_concurrent_activities=100,
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=2),
    )
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
