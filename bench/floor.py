"""The floor and the naive one, as bare workflows. `python -m bench.floor ADDRESS QUEUE` is a worker of both.

The floor is what the same shift costs with nothing done but the work: two activities a step, whose payloads are the
new turn and the new observation. No limit, no journal, no digest, no heartbeat, no message from outside. The naive one
is what one writes first: it hands the model call the whole transcript. The worker is set up as Longshift's is.
"""

import asyncio
import sys

from pydantic import BaseModel
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from bench import script


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


class Message(BaseModel):
    """One message of the naive transcript."""

    role: str
    content: str
    calls: list[Call] = []


@activity.defn
async def call_model(number: int) -> Turn:
    """The authored turn of this number."""
    call = Call(id=script.call_id(number), name=script.TOOL, arguments={"number": number})
    return Turn(content=script.remark(number), calls=[call], output_tokens=script.OUTPUT_TOKENS)


@activity.defn
async def ask_model(messages: list[Message]) -> Turn:
    """The authored turn that follows on a transcript."""
    return await call_model(sum(message.role == "assistant" for message in messages) + 1)


@activity.defn
async def run_tool(call: Call) -> str:
    """The observation of a call."""
    return script.part(call.arguments["number"])


@workflow.defn(name="floor")
class Floor:
    """A model call and a tool call, so many times."""

    @workflow.run
    async def run(self, steps: int) -> str:
        """Do the steps; the last observation."""
        observation = ""
        for number in range(1, steps + 1):
            turn = await workflow.execute_activity(call_model, number, start_to_close_timeout=script.PATIENCE)
            for call in turn.calls:
                observation = await workflow.execute_activity(run_tool, call, start_to_close_timeout=script.PATIENCE)
        return observation


@workflow.defn(name="naive")
class Naive:
    """The same, with the transcript as the model call's argument."""

    @workflow.run
    async def run(self, steps: int) -> str:
        """Do the steps; the last observation."""
        messages = [Message(role="system", content=script.SYSTEM), Message(role="user", content=script.task(steps))]
        for _ in range(steps):
            turn = await workflow.execute_activity(ask_model, messages, start_to_close_timeout=script.PATIENCE)
            messages.append(Message(role="assistant", content=turn.content, calls=turn.calls))
            for call in turn.calls:
                observation = await workflow.execute_activity(run_tool, call, start_to_close_timeout=script.PATIENCE)
                messages.append(Message(role="tool", content=observation))
        return messages[-1].content


async def main(address: str, queue: str) -> None:
    """Work until killed."""
    client = await Client.connect(address, data_converter=pydantic_data_converter)
    worker = Worker(
        client,
        task_queue=queue,
        workflows=[Floor, Naive],
        activities=[call_model, ask_model, run_tool],
        **script.WORKER,
    )
    await worker.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
