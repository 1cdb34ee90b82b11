"""LangGraph with SQLite checkpoints. `python -m bench.peers.langgraph FOLDER CLOCK STEPS` does one shift.

A graph of a model and a tool node over MessagesState, as its documentation has it; `durability="sync"`, so that what a
step did is on the disk before the next begins, as it is with the others.
"""

import asyncio
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from bench import script
from bench.peers.alone import measure


@tool
async def read_part(number: int) -> str:
    """Read one part of the log."""
    return script.part(number)


def reply(messages: list[AnyMessage]) -> AIMessage:
    """The authored turn that follows on a transcript."""
    number = sum(message.type == "ai" for message in messages) + 1
    if number > script.asked(str(messages[1].content)):
        return AIMessage(script.ANSWER)
    call = {"name": script.TOOL, "args": {"number": number}, "id": script.call_id(number)}
    return AIMessage(script.remark(number), tool_calls=[call])


async def main(folder: str, clock: str, steps: str) -> None:
    """Do one shift."""
    async with AsyncSqliteSaver.from_conn_string(str(Path(folder) / "checkpoints.db")) as saver:

        async def shift(steps: int, tick: Callable[[], None]) -> str:
            async def model(state: MessagesState) -> MessagesState:
                tick()
                return {"messages": [reply(state["messages"])]}

            graph = StateGraph(MessagesState)
            graph.add_node("model", model)
            graph.add_node("tools", ToolNode([read_part]))
            graph.add_edge(START, "model")
            graph.add_conditional_edges("model", tools_condition)
            graph.add_edge("tools", "model")
            opening = [SystemMessage(script.SYSTEM), HumanMessage(script.task(steps))]
            result = await graph.compile(checkpointer=saver).ainvoke(
                {"messages": opening},
                {"configurable": {"thread_id": uuid4().hex}, "recursion_limit": 2 * steps + 2},
                durability="sync",
            )
            return str(result["messages"][-1].content)

        await measure(shift, Path(folder), Path(clock), int(steps))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
