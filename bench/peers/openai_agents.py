"""The OpenAI Agents SDK on Temporal. `python -m bench.peers.openai_agents ADDRESS QUEUE`.

Without tracing, which would go to a server of OpenAI's.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from agents import Agent, Model, ModelProvider, ModelResponse, RunConfig, Runner, Usage
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
    from temporalio.openai_agents import ModelActivityParameters, OpenAIAgentsPlugin
    from temporalio.openai_agents.workflow import activity_as_tool

    from bench import script


class Scripted(Model):
    """Gives the authored turn that follows on a transcript."""

    async def get_response(self, system_instructions: Any, input: Any, *given: Any, **more: Any) -> ModelResponse:
        """One turn."""
        opening = input if isinstance(input, str) else input[0]["content"]
        done = 0 if isinstance(input, str) else sum(item.get("type") == "function_call" for item in input)
        number, steps = done + 1, script.asked(opening)
        last = number > steps
        text = ResponseOutputText(
            text=script.ANSWER if last else script.remark(number), annotations=[], type="output_text"
        )
        message = ResponseOutputMessage(
            id=f"msg_{number}", content=[text], role="assistant", status="completed", type="message"
        )
        call = ResponseFunctionToolCall(
            arguments=json.dumps({"number": number}),
            call_id=script.call_id(number),
            name=script.TOOL,
            type="function_call",
        )
        usage = Usage(requests=1, output_tokens=script.OUTPUT_TOKENS, total_tokens=script.OUTPUT_TOKENS)
        return ModelResponse(output=[message] if last else [message, call], usage=usage, response_id=None)

    def stream_response(self, *given: Any, **more: Any) -> AsyncIterator[Any]:
        """Not asked for here."""
        raise NotImplementedError


class Provider(ModelProvider):
    """Knows the one model."""

    def get_model(self, model_name: str | None) -> Model:
        """The model."""
        return Scripted()


@activity.defn
async def read_part(number: int) -> str:
    """Read one part of the log."""
    return script.part(number)


@workflow.defn(name="openai_agents")
class Shift:
    """One run of the agent."""

    @workflow.run
    async def run(self, steps: int) -> str:
        """Do the steps; the answer."""
        agent = Agent(
            name="bench",
            instructions=script.SYSTEM,
            tools=[activity_as_tool(read_part, start_to_close_timeout=script.PATIENCE)],
        )
        config = RunConfig(tracing_disabled=True)
        result = await Runner.run(agent, script.task(steps), max_turns=steps + 1, run_config=config)
        return str(result.final_output)


async def main(address: str, queue: str) -> None:
    """Work until killed."""
    plugin = OpenAIAgentsPlugin(
        model_params=ModelActivityParameters(start_to_close_timeout=script.PATIENCE),
        model_provider=Provider(),
        add_temporal_spans=False,
    )
    client = await Client.connect(address, plugins=[plugin])
    await Worker(client, task_queue=queue, workflows=[Shift], activities=[read_part], **script.WORKER).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
