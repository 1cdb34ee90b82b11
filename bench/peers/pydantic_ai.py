"""pydantic-ai with TemporalDurability, which took the place of TemporalAgent and writes the same history.

`python -m bench.peers.pydantic_ai ADDRESS QUEUE`. It continues as new where Temporal suggests it, as its documentation
shows: with the messages so far as the next run's input.
"""

import asyncio
import sys

from temporalio import workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from pydantic_ai import (
        Agent,
        ModelMessage,
        ModelResponse,
        RequestUsage,
        RunContext,
        TextPart,
        ToolCallPart,
        UsageLimits,
    )
    from pydantic_ai.durable_exec.temporal import PydanticAIPlugin, PydanticAIWorkflow, TemporalDurability
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from bench import script


def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """The authored turn that follows on a transcript."""
    number = sum(message.kind == "response" for message in messages) + 1
    steps = script.asked(str(messages[0].parts[-1].content))
    usage = RequestUsage(output_tokens=script.OUTPUT_TOKENS)
    if number > steps:
        return ModelResponse(parts=[TextPart(script.ANSWER)], usage=usage)
    call = ToolCallPart(script.TOOL, {"number": number}, tool_call_id=script.call_id(number))
    return ModelResponse(parts=[TextPart(script.remark(number)), call], usage=usage)


def go_on(context: RunContext[None]) -> None:
    """Continue as new."""
    workflow.continue_as_new(args=[0, context.messages])


agent = Agent(
    FunctionModel(reply),
    name="bench",
    instructions=script.SYSTEM,
    capabilities=[TemporalDurability(continue_as_new=go_on)],
)


@agent.tool_plain
async def read_part(number: int) -> str:
    """Read one part of the log."""
    return script.part(number)


@workflow.defn(name="pydantic_ai")
class Shift(PydanticAIWorkflow):
    """One run of the agent."""

    __pydantic_ai_agents__ = (agent,)

    @workflow.run
    async def run(self, steps: int, messages: list[ModelMessage] | None = None) -> str:
        """Do the steps, or go on with them; the answer."""
        result = await agent.run(
            None if messages else script.task(steps),
            message_history=messages,
            usage_limits=UsageLimits(request_limit=None),
        )
        return result.output


async def main(address: str, queue: str) -> None:
    """Work until killed."""
    client = await Client.connect(address, plugins=[PydanticAIPlugin()])
    await Worker(client, task_queue=queue, workflows=[Shift], **script.WORKER).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
