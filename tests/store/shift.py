"""A run as its workflow and its activities drive the journal, in as few words as a test needs."""

from typing import Any

from longshift.agent import AgentSpec
from longshift.chain import Head, extend
from longshift.contracts import CallModel, CloseRun, Decision, EndpointFacts, Entry, RunResult, RunSpec, RunTool
from longshift.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    weigh,
)
from longshift.recording import record
from longshift.status import Status
from longshift.tools import Kind
from longshift.turns import Turn, Usage
from store.journal import Found, Fresh, Journal, Observed

SPEC = RunSpec(
    agent=AgentSpec(name="shop", system="Mind the shop."),
    endpoint=EndpointFacts(name="local", kind="replay", model="authored", timeout_seconds=5),
    heartbeat_seconds=2,
)
OPENING: tuple[Message, ...] = (SystemMessage(content="Mind the shop."), UserMessage(content="What is in stock?"))


async def made(url: str) -> None:
    """Let the journal at `url` be created, as the first worker does."""
    await (await Journal.open(url)).close()


def tool_message(call: ToolCall, content: str) -> ToolMessage:
    """An observation of `call`."""
    return ToolMessage(call_id=call.id, name=call.name, content=content)


def call(id_: str, name: str = "list_stock", **arguments: Any) -> ToolCall:
    """A call of a tool."""
    return ToolCall(id=id_, name=name, arguments=arguments)


class Shift:
    """What the workflow of one run knows, and its requests to the journal."""

    def __init__(self, journal: Journal, run_id: str = "shift-1") -> None:
        self.journal = journal
        self.run_id = run_id
        self.head = Head()
        self.messages: list[Message] = []
        self.entries: list[Entry] = []
        """Not yet known to stand in the journal."""
        self.number = 0
        self.now = 1000.0
        self.attempts = 0
        self.world = 1
        """The run of the workflow, of which a reset makes another."""

    def fork(self, journal: Journal | None = None) -> "Shift":
        """The same run from here on in another world, as after a reset."""
        other = Shift(journal or self.journal, self.run_id)
        other.head, other.number, other.now = self.head, self.number, self.now + 500
        other.world = self.world + 1
        other.messages, other.entries = list(self.messages), list(self.entries)
        return other

    async def open(self) -> "Shift":
        self.head = await self.journal.open_run(self.run_id, SPEC, OPENING, 1000.0)
        self.messages = list(OPENING)
        return self

    def add(self, message: Message, entry: Entry) -> None:
        """The workflow takes a message into the transcript."""
        self.entries.append(entry)
        self.messages.append(message)
        self.head = extend(self.head, weigh(message))

    def say(self, text: str) -> None:
        """The workflow makes a message of its own."""
        message = UserMessage(content=text)
        self.add(message, Entry(message=message))

    def request(self, number: int | None = None, decisions: tuple[Decision, ...] = ()) -> CallModel:
        """The request for the next model call, or for the one with `number`."""
        return CallModel(
            run_id=self.run_id,
            number=number or self.number + 1,
            reply=number or self.number + 1,
            head=self.head,
            entries=tuple(self.entries),
            decisions=decisions,
            output_tokens=100,
            estimate=7,
        )

    async def begin(self, request: CallModel) -> Found:
        """Have a worker begin a call; each time it is another attempt."""
        self.now += 1
        self.attempts += 1
        return await self.journal.begin_model_call(request, f"{self.world}/worker-{self.attempts}", self.now)

    async def settle(self, request: CallModel, message: AssistantMessage) -> bool:
        self.now += 1
        return await self.journal.settle_model_call(request, message, turn_of(message), self.now)

    async def turn(self, text: str, *calls: ToolCall) -> AssistantMessage:
        """A whole model call that is answered, and its turn in the transcript."""
        request = self.request()
        assert await self.begin(request) == Fresh()
        self.number, self.entries = request.number, []
        message = AssistantMessage(content=text, calls=calls)
        assert await self.settle(request, message)
        self.add(message, Entry(turn=self.number))
        return message

    def dispatch(self, position: int, asked: ToolCall) -> RunTool:
        """The request to run a call of the latest turn."""
        return RunTool(run_id=self.run_id, model_call=self.number, position=position, call=asked)

    async def observe(self, position: int, asked: ToolCall, content: str, kind: Kind = "read") -> Observed:
        """A whole tool call that is settled, and its observation in the transcript."""
        self.now += 1
        request = self.dispatch(position, asked)
        if kind == "effect":
            assert await self.journal.begin_effect(request, "worker-1", self.now, again=False)
        told = await self.journal.settle_tool_call(
            request, kind, "worker-1", Observed(tool_message(asked, content), 12, False), self.now, self.now
        )
        self.add(told.observation, Entry(call=(self.number, position)))
        return told

    async def step(self, text: str, asked: ToolCall, content: str, kind: Kind = "read") -> None:
        """One model call and the one tool call it asks for."""
        await self.turn(text, asked)
        await self.observe(0, asked, content, kind)

    def closing(self, status: Status = Status.COMPLETED, decisions: tuple[Decision, ...] = ()) -> CloseRun:
        """The request that ends the run here."""
        result = RunResult(
            run_id=self.run_id,
            status=status,
            detail="it is done",
            model_calls=self.number,
            messages=self.head.length,
            digest=self.head.digest,
        )
        return CloseRun(
            run_id=self.run_id, head=self.head, entries=tuple(self.entries), decisions=decisions, result=result
        )

    async def close(self) -> None:
        self.now += 1
        await self.journal.close_run(self.closing(), self.now)

    async def kinds(self) -> list[str]:
        """Kinds of the decisions in the journal."""
        return [decision.kind for decision in await self.journal.decisions(self.run_id)]


def turn_of(message: AssistantMessage) -> Turn:
    """The turn that `message` came in."""
    return Turn(
        reply=record(message),
        stop_reason="stop",
        usage=Usage(output_tokens=9, input_tokens=40),
        cost=3,
        milliseconds=80,
    )
