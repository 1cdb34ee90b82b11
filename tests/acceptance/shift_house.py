"""What the crash tests stand on: a real server process, real worker processes, and a model and gates in the test's
own process. The test learns what is under way by events, and holds it back until it says otherwise."""

import asyncio
import json
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from temporalio.client import Client, WorkflowHandle

from client.shifts import Shifts
from longshift import validate_episode
from longshift.contracts import RunResult
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from longshift.run_input import RunInput
from longshift.status import Status
from store.journal import Journal
from tests.acceptance import warm
from tests.acceptance.house_agent import OUTSIDE
from tests.audits import differences
from worker.child import Child
from worker.dev_server import DevServer
from worker.plugin import longshift_plugin

HEARTBEAT_SECONDS = 2
"""Seconds after which a killed worker is noticed."""
RUN = "shift-1"
"""The id of a test's run, where it has a server of its own."""
QUEUE = "longshift"
"""And its task queue."""
TASK = "Look at a, b and c."
ANSWER = "All three were seen."
TURNS: tuple[Sequence[str] | str, ...] = (["a"], ["b", "c"], ANSWER)
"""What the model does in turn: look at things, at last answer."""
PATIENCE = 60.0
"""Seconds after which a test gives up waiting for its run."""


def transcript(turns: Sequence[Sequence[str] | str] = TURNS) -> list[Message]:
    """What a run's transcript is when nothing ever disturbed it."""
    messages: list[Message] = [SystemMessage(content="Look at everything."), UserMessage(content=TASK)]
    for turn in turns:
        if isinstance(turn, str):
            messages.append(AssistantMessage(content=turn))
            continue
        calls = tuple(ToolCall(id=f"call-{what}", name="look", arguments={"what": what}) for what in turn)
        messages.append(AssistantMessage(content="", calls=calls))
        for what in turn:
            content = f'{{"ok":true,"value":{{"seen":"{what}"}}}}'
            messages.append(ToolMessage(call_id=f"call-{what}", name="look", content=content))
    return messages


@dataclass
class Visit:
    """One connection of a worker to the outside."""

    came: asyncio.Event = field(default_factory=asyncio.Event)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    broken: asyncio.Event = field(default_factory=asyncio.Event)
    """The worker closed it, or died, before it was let go."""


class Outside:
    """A model that speaks chat completions, and the gates that workers' code visits.

    The n-th request to the model is the visit `model n`; it is answered by how many turns its transcript holds, so
    that a call that is made again gets the same turn. Any other visit has the name that the worker gave it.
    """

    def __init__(self) -> None:
        self.turns = TURNS
        self.requests: list[dict[str, Any]] = []
        """Bodies of the requests to the model, in order of arrival."""
        self.headers: list[str] = []
        """Their heads."""
        self.refusals: dict[int, bytes] = {}
        """Whole HTTP answers in place of a turn, by the number of the request."""
        self.visits: list[str] = []
        """Names of all visits, in order of arrival."""
        self.address = ""
        self._held: set[str] = set()
        self._by_name: defaultdict[str, Visit] = defaultdict(Visit)

    def hold(self, *names: str) -> None:
        """Let the first visit of each name wait until `let_go`."""
        self._held.update(names)

    def let_go(self, name: str) -> None:
        """Answer a held visit."""
        self._by_name[name].let_go.set()

    async def stop_at(self, name: str) -> None:
        """A visit from the test's own process."""
        visit = self._by_name[name]
        visit.came.set()
        if name in self._held:
            self._held.discard(name)
            await visit.let_go.wait()

    async def came(self, name: str) -> None:
        """Wait until a visit has arrived."""
        await _in_time(self._by_name[name].came)

    async def broken(self, name: str) -> None:
        """Wait until a held visit was given up by its worker."""
        await _in_time(self._by_name[name].broken)

    @asynccontextmanager
    async def open(self) -> AsyncIterator["Outside"]:
        """Serve while the body runs."""
        handlers: set[asyncio.Task[None]] = set()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            handlers.add(task)
            try:
                await self._serve(reader, writer)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                pass  # the worker was killed, as it should be in these tests, or the test is over
            finally:
                writer.close()
                handlers.discard(task)

        listener = await asyncio.start_server(handle, "127.0.0.1", 0)
        host, port = listener.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        try:
            yield self
        finally:
            listener.close()
            for task in list(handlers):
                task.cancel()
            await asyncio.gather(*handlers, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        name = unquote(head.split()[1].removeprefix("/"))
        answer = b""
        if name == "v1/chat/completions":
            size = next(line.split(":")[1] for line in head.splitlines() if line.lower().startswith("content-length:"))
            self.requests.append(json.loads(await reader.readexactly(int(size))))
            self.headers.append(head)
            number = len(self.requests)
            name = f"model {number}"
            answer = self.refusals.get(number) or self._turn(self.requests[-1])
        self.visits.append(name)
        visit = self._by_name[name]
        visit.came.set()
        if name in self._held:
            self._held.discard(name)
            await self._until_let_go(reader, visit)
        writer.write(answer)
        await writer.drain()

    async def _until_let_go(self, reader: asyncio.StreamReader, visit: Visit) -> None:
        let_go = asyncio.create_task(visit.let_go.wait())
        gone = asyncio.create_task(reader.read(1))
        try:
            await asyncio.wait((let_go, gone), return_when=asyncio.FIRST_COMPLETED)
            if not let_go.done():
                visit.broken.set()
                raise ConnectionResetError
        finally:
            let_go.cancel()
            gone.cancel()
            await asyncio.gather(let_go, gone, return_exceptions=True)

    def _turn(self, request: Mapping[str, Any]) -> bytes:
        turn = self.turns[sum(message["role"] == "assistant" for message in request["messages"])]
        message: dict[str, Any] = {"role": "assistant", "content": turn if isinstance(turn, str) else None}
        if not isinstance(turn, str):
            message["tool_calls"] = [
                {"id": f"call-{what}", "type": "function", "function": {"name": "look", "arguments": _arguments(what)}}
                for what in turn
            ]
        reason = "stop" if isinstance(turn, str) else "tool_calls"
        usage = {"prompt_tokens": 7, "completion_tokens": 3}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return http_answer(200, json.dumps({"id": "c", "choices": [choice], "usage": usage}))


def http_answer(status: int, body: str, **headers: str) -> bytes:
    """A whole HTTP answer."""
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body.encode())), "Connection": "close"}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in (lines | headers).items())
    return f"HTTP/1.1 {status} Status\r\n{head}\r\n{body}".encode()


def _arguments(what: str) -> str:
    return json.dumps({"what": what})


async def _in_time(event: asyncio.Event) -> None:
    async with asyncio.timeout(PATIENCE):
        await event.wait()


class House:
    """A folder with a configuration and a journal, a server, and the workers a test starts."""

    def __init__(
        self, folder: Path, server: DevServer, outside: Outside, *, run_id: str = RUN, queue: str = QUEUE
    ) -> None:
        self.folder = folder
        self.server = server
        self.outside = outside
        self.run_id = run_id
        self.queue = queue
        self.journal_url = f"sqlite:///{folder}/journal.db"
        self._workers: list[Child] = []
        self._write_config()

    def _write_config(self) -> None:
        (self.folder / "longshift.toml").write_text(
            f'default_agent = "looker"\ntask_queue = "{self.queue}"\n'
            f'[journal]\nurl = "{self.journal_url}"\n'
            f"[worker]\nheartbeat_seconds = {HEARTBEAT_SECONDS}\ngrace_seconds = 20\n"
            f'[endpoints.model]\nkind = "openai"\nurl = "http://{self.outside.address}/v1"\nmodel = "scripted"\n'
            '[agents.looker]\nuse = "tests.acceptance.house_agent:agent"\n',
            encoding="utf-8",
        )

    @property
    def log(self) -> Path:
        """What all workers printed."""
        return self.folder / "worker.log"

    async def worker(self, *gate: str, **environment: str) -> Child:
        """Start a worker process; with a `gate` (see gated_worker.py) one that stops there."""
        return await self.process("tests.acceptance.gated_worker" if gate else "worker", *gate, **environment)

    async def process(self, module: str, *arguments: str, **environment: str) -> Child:
        """Start a worker process that is this module."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LONGSHIFT_", "TEMPORAL_"))}
        given = {
            "TEMPORAL_ADDRESS": self.server.address,
            "LONGSHIFT_CONFIG": str(self.folder / "longshift.toml"),
            OUTSIDE: self.outside.address,
        }
        self._workers.append(await warm.start_child(module, arguments, self.log, kept | given | environment))
        return self._workers[-1]

    async def shifts(self) -> Shifts:
        """A client, connected anew: the server may have been away."""
        client = await Client.connect(self.server.address, plugins=[longshift_plugin()])
        return Shifts(client, self.queue, self.journal_url)

    async def workflow(self) -> WorkflowHandle[Any, Any]:
        """The run as Temporal knows it."""
        client = await Client.connect(self.server.address, plugins=[longshift_plugin()])
        return client.get_workflow_handle(self.run_id)

    async def start(self, **limits: Any) -> None:
        """Start the run."""
        shifts = await self.shifts()
        given = RunInput(agent="looker", task=TASK, limits={"seconds": 600.0, **limits})
        await shifts.start(given, run_id=self.run_id)

    async def result(self) -> RunResult:
        """The run's end."""
        shifts = await self.shifts()
        async with asyncio.timeout(PATIENCE):
            return await shifts.result(self.run_id)

    @asynccontextmanager
    async def journal(self) -> AsyncIterator[Journal]:
        """The workers' journal."""
        journal = await Journal.open(self.journal_url)
        try:
            yield journal
        finally:
            await journal.close()

    async def messages(self) -> list[Message]:
        """The transcript in the journal, once its chain is proved and nothing differs by an audit."""
        client = await Client.connect(self.server.address, plugins=[longshift_plugin()])
        async with self.journal() as journal:
            assert await journal.verify_chain(self.run_id) is None
            assert await differences(client, journal, self.run_id) == []
            return [stored.message for stored in await journal.messages(self.run_id)]

    async def ended_as_undisturbed(self, *, failed_calls: int = 0, told: Sequence[Message] = ()) -> RunResult:
        """Wait for the end, and hold it against the run that nothing disturbed.

        Args:
            failed_calls: model calls that were admitted and lost on the way; each was paid for at most once.
            told: messages that stand beyond those of an undisturbed run.
        """
        result = await self.result()
        messages = await self.messages()
        expected = transcript(self.outside.turns)
        assert (result.status, result.answer) == (Status.COMPLETED, ANSWER)
        assert [message for message in messages if message not in told] == expected
        report = validate_episode(messages)
        assert (report.problem, report.complete) == (None, True)
        assert result.messages == len(messages)
        assert result.model_calls == len([m for m in messages if m.role == "assistant"]) + failed_calls
        assert result.tool_calls == len([m for m in messages if m.role == "tool"])
        async with self.journal() as journal:
            run = await journal.run(self.run_id)
            states = [call.state for call in await journal.model_calls(self.run_id)]
        assert run is not None
        assert (run.digest, run.status) == (result.digest, "COMPLETED")
        assert states.count("failed") == failed_calls
        assert states.count("answered") == len(states) - failed_calls
        return result

    async def end(self) -> None:
        """End what still runs."""
        for worker in self._workers:
            await worker.kill()
