"""What people see: plain lines, and tables and bars where stdout is a terminal. NO_COLOR is respected.

Whatever a model, a tool or another person wrote passes `inert` before it is shown; JSON is exact, and pure ASCII.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
from pydantic import JsonValue
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from client.answers import is_whole
from client.inert import inert, short
from client.shifts import Listed, RecordedCall, SentCall, Snapshot
from client.story import StoryLine
from longshift.contracts import RunResult
from longshift.jsontext import canonical
from longshift.limits import Limits, cents
from longshift.messages import AssistantMessage, Message, ToolMessage
from longshift.questions import Question
from longshift.remedies import commands, look
from longshift.status import Status

TASK = 10
"""Columns of a list's task below which another column is left out instead."""
ASKED = 100
"""Characters of a question in a list."""
BAR = 24
"""Columns of a bar at most."""
SHORTEST_BAR = 4
"""Columns that a bar needs, where figures leave room for one."""
NEARLY = 0.8
"""Share of a limit from which on its bar warns."""
COLOURS = {"RUNNING": "cyan", "WAITING": "yellow", "STUCK": "red", "NO_WORKER": "yellow", "COMPLETED": "green"}
"""Of a status; every other is an end that is not COMPLETED."""
REMEDIES = {
    "NO_WORKER": "no worker answers; start one with: longshift worker, or with the server: "
    "longshift up; what is sent to the shift waits for one"
}
"""What to do at a status."""
LATER = "; no worker answers now, so it waits for one"
"""Ends the line that tells that something was sent to a run at NO_WORKER."""
KINDS = {"turn": "cyan", "message": "magenta", "waiting": "yellow", "stuck": "red", "lost": "yellow", "note": "yellow"}
"""Colours of a story's lines, by kind."""


def document(content: Any) -> None:
    """One JSON document on one line."""
    click.echo(json.dumps(content))


def line(text: str) -> None:
    """One line of what was asked for, on stdout."""
    click.echo(inert(text))


def note(text: str) -> None:
    """A line beside what was asked for, on stderr."""
    click.secho(inert(text), err=True, dim=True)


def sent(as_json: bool, run_id: str, message: str, text: str, /, **given: JsonValue) -> None:
    """What was sent to a run: as a document, or in words."""
    if as_json:
        document({"run_id": run_id, "sent": message, **given})
    else:
        line(text)


def value(given: JsonValue) -> str:
    """A limit's value in words."""
    return "none" if given is None else f"{given:.10g}" if isinstance(given, float) else json.dumps(given).strip('"')


def step(told: StoryLine, *, err: bool = False) -> None:
    """One step of a shift, as it happens."""
    style = colour(told.text.split()[1].strip(":")) if told.kind == "ended" else KINDS.get(told.kind)
    click.echo(f"{clock(told.at)}  {click.style(told.text, fg=style)}", err=err)


def result(ended: RunResult) -> None:
    """How a run ended, in full."""
    status = click.style(ended.status, fg=colour(ended.status))
    click.echo(f"{'status':10}{status}: {inert(ended.detail)}")
    for name, text in (("answer", ended.answer), ("partial", ended.partial)):
        if text is not None:
            click.echo(f"{name:10}{_indented(text)}")
    click.echo(f"{'used':10}{_counters(ended)}")
    unrun = [call_id for call_id in ended.unrun_calls if call_id not in ended.unknown_calls]
    for name, ids in (("never ran", unrun), ("unknown", ended.unknown_calls)):
        if ids:
            why = "; may have happened: find out before it is done again" if name == "unknown" else ""
            click.echo(f"{name:10}{inert(', '.join(ids))}{why}")
    for text in ended.notes:
        click.echo(f"{'note':10}{inert(text)}")


def described(found: Listed) -> dict[str, Any]:
    """Where a run stands, as `--json` prints it."""
    fields = {name: getattr(found, name) for name in found.__dataclass_fields__}
    fields["question"] = found.question.model_dump(mode="json") if found.question else None
    if isinstance(found, Snapshot):
        fields["view"] = found.view.model_dump(mode="json") if found.view else None
        fields["result"] = found.result.document() if found.result else None
    return fields


def runs(found: Sequence[Listed]) -> None:
    """A list of runs, newest first."""
    header = ("run", "status", "agent", "started", "task")
    rows = [(run.run_id, run.status, run.agent, clock(run.started_at, date=True), _task(run)) for run in found]
    console = Console()
    if not console.is_terminal:
        for row in (header, *rows):
            click.echo("\t".join(inert(cell) for cell in row))
        return
    widths = [max(cell_len(inert(row[place])) for row in (header, *rows)) for place in range(len(header))]
    task = header.index("task")
    kept: tuple[int, ...] = tuple(range(len(header)))
    for name in ("agent", "started", "task"):  # run and status are always whole
        needed = sum(min(widths[place], TASK) if place == task else widths[place] for place in kept) + len(kept)
        if needed <= console.width:
            break
        kept = tuple(place for place in kept if header[place] != name)
    others = sum(widths[place] for place in kept if place != task) + len(kept)
    if task in kept:
        widths[task] = min(widths[task], console.width - others)
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold")
    for place in kept:
        table.add_column(header[place], no_wrap=True, overflow="ellipsis", width=widths[place])
    for row in rows:
        styles = ["" if name != "status" else colour(row[1]) for name in header]
        table.add_row(*(Text(inert(row[place]), style=styles[place]) for place in kept))
    console.width = max(console.width, others)  # a terminal narrower still wraps what it gets
    console.print(table)


def state(found: Snapshot) -> None:
    """Where a run stands."""
    console = Console()
    if console.is_terminal:
        console.print(facts(found), Text(), bars(found, console.width))
        return
    for name, text in _facts(found):
        click.echo(f"{name:16}{inert(text)}")
    for budget in budgets(found):
        click.echo(f"{budget.name:16}{budget.figures}")


def facts(found: Snapshot) -> Table:
    """Where a run stands, for a terminal."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in _facts(found):
        table.add_row(Text(name, style="bold"), Text(inert(text), style=colour(text) if name == "status" else ""))
    return table


def bars(found: Snapshot, width: int) -> Table:
    """A run's budgets for a terminal of `width` columns: as bars, where the figures leave room for them."""
    shown = budgets(found)
    words = sum(max(map(len, column), default=0) for column in ([b.name for b in shown], [b.figures for b in shown]))
    room = min(BAR, width - words - 4)  # two blanks, and two brackets: without colours a bar does not show its end
    table = Table.grid(padding=(0, 1, 0, 0))
    for budget in shown:
        table.add_row(Text(budget.name), *((_bar(budget, room),) if room >= SHORTEST_BAR else ()), Text(budget.figures))
    return table


def _bar(budget: "Budget", columns: int) -> RenderableType:
    if budget.limit is None:
        return Text()
    share = budget.used / budget.limit if budget.limit else float(budget.used > 0)
    style = "green" if share < NEARLY else "yellow" if share < 1 else "red"
    bar = Table.grid()
    bar.add_row(Text("["), ProgressBar(1, share, columns, complete_style=style, finished_style=style), Text("]"))
    return bar


def story_line(told: StoryLine) -> Text:
    """One step of a shift, for a terminal: cut where it is too long."""
    return Text(f"{clock(told.at)}  {told.text}", KINDS.get(told.kind, ""), no_wrap=True, overflow="ellipsis")


@dataclass(frozen=True)
class Budget:
    """What a run has used of one limit."""

    name: str
    used: float
    limit: float | None
    """None: no limit."""

    @property
    def figures(self) -> str:
        """Used and limit, such as `3 / 8`."""
        limit = "no limit" if self.limit is None else f"{self.limit:,.10g}"
        return f"{self.used:,.10g} / {limit}"


def budgets(found: Snapshot) -> list[Budget]:
    """A run's budgets, used and limit; none where no worker could say."""
    view = found.view
    if view is None:
        return []
    limits = view.limits or Limits()
    passed = max(0.0, time.time() - view.started_at)
    working = [Budget("working seconds", round(view.working_seconds, 1), limits.working_seconds)]
    return [
        Budget("model calls", view.model_calls, limits.model_calls),
        Budget("tool calls", view.tool_calls, limits.tool_calls),
        Budget("seconds", round(passed, 1), limits.seconds),
        Budget("context bytes", view.context_bytes, limits.context_bytes),
        Budget("output tokens", view.output_tokens, limits.total_output_tokens),
        Budget("US cents", cents(view.exposure), cents(limits.budget)),
        *(working if limits.working_seconds is not None else ()),
    ]


def summary(found: Snapshot) -> str:
    """A run's status, what it waits for or what keeps it, and its budgets in one line."""
    used = [f"{budget.name} {budget.figures}" for budget in budgets(found) if budget.name != "seconds"]
    why = "; ".join(text for text in (found.detail, found.stuck) if text)
    return ", ".join([f"{found.status}: {why}" if why else found.status, *used])


def transcript(messages: Sequence[Message]) -> None:
    """The messages of a run, in order."""
    for number, message in enumerate(messages, start=1):
        name = f" {message.name} ({message.call_id})" if isinstance(message, ToolMessage) else ""
        click.secho(f"{number} {message.role}{inert(name)}", bold=True)
        if message.content:
            click.echo(f"  {_indented(message.content, 2)}")
        for call in message.calls if isinstance(message, AssistantMessage) else ():
            given = call.malformed or json.dumps(call.arguments, ensure_ascii=False)
            click.echo(f"  -> {inert(f'{call.name} {given} ({call.id})')}")


def asking(found: Sequence[Listed]) -> None:
    """What runs ask a person, each with the commands that answer it."""
    if not found:
        line("no shift waits for an answer")
    for run in found:
        for name, text in (("run", run.run_id), ("task", run.goal), *_question(run)):
            click.echo(f"{name:16}{inert(text)}")
        click.echo()


def asked(run: Listed) -> dict[str, JsonValue]:
    """What a run asks, as `--json` prints it."""
    question = run.question
    return {
        "run_id": run.run_id,
        "agent": run.agent,
        "goal": run.goal,
        "question": question.model_dump(mode="json") if question else None,
        "look_first": look(run.run_id, question) if question and not is_whole(question) else None,
        "commands": [*commands(run.run_id, question)] if question else [],
    }


def model_call(call: SentCall) -> None:
    """What one model call was sent."""
    purpose = "" if call.purpose == "turn" else f", {call.purpose}"
    tools = ", ".join(tool.name for tool in call.tools) or "none"
    click.echo(f"model call {call.model_call}{purpose}: {call.state}, at most {call.output_tokens} output tokens")
    click.echo(inert(f"tools: {tools}"))
    transcript(call.messages)


def model_call_document(call: SentCall) -> dict[str, Any]:
    """The same, as `--json` prints it."""
    told = {"name", "description", "parameters"}
    return {
        **vars(call),
        "tools": [tool.model_dump(mode="json", include=told) for tool in call.tools],
        "messages": [message.model_dump(mode="json") for message in call.messages],
    }


def tool_call(call: RecordedCall) -> None:
    """One tool call, whole."""
    facts = (
        ("call", call.call_id),
        ("tool", call.name),
        ("state", call.state or "not in the ledger: it was not dispatched, or is a read under way"),
        ("dispatch", str(call.dispatch) if call.dispatch else None),
        ("note", call.note),
        ("asked for", f"by model call {call.model_call}, position {call.position}"),
        ("attempt", call.attempt),
        ("started", clock(call.started_at, date=True) if call.started_at is not None else None),
        ("settled", clock(call.settled_at, date=True) if call.settled_at is not None else None),
        ("took", f"{call.milliseconds / 1000:.3f} s" if call.milliseconds is not None else None),
        ("arguments", _arguments(call)),
        ("cut", "the model was given a part of the observation" if call.cut else None),
        ("observation", call.observation),
    )
    for name, text in facts:
        if text:
            click.echo(f"{name:16}{inert(text)}")


def _arguments(call: RecordedCall) -> str:
    if call.arguments is not None:
        return canonical(call.arguments)
    return call.malformed or f"not in the journal any more; SHA-256 {call.arguments_sha256}"


def _asks(question: Question) -> str:
    """What is asked, in one line."""
    what = "approve" if question.kind == "approval" else "what came of"
    return f"{what} {question.name} {question.arguments}?"


def _task(run: Listed) -> str:
    """A run's task in a list, after what it asks."""
    return f"asks: {short(_asks(run.question), ASKED)} {run.goal}" if run.question else run.goal


def _question(run: Listed) -> list[tuple[str, str]]:
    """What a run asks, as facts."""
    question = run.question
    if question is None:
        return []
    return [
        ("asks", _asks(question)),
        ("call", question.call_id),
        ("why", question.why),
        ("since", clock(question.asked_at, date=True)),
        *(() if is_whole(question) else (("look first", look(run.run_id, question)),)),
        *zip(("answer with", "or", "or"), commands(run.run_id, question), strict=False),
    ]


def _is_told_of(question: Question | None, detail: str) -> bool:
    """Whether what a run waits for is its question; it can be paused as well."""
    return question is not None and detail.endswith(f" {question.call_id}")


def _facts(found: Snapshot) -> list[tuple[str, str]]:
    view = found.view
    facts = (
        ("run", found.run_id),
        ("status", found.status),
        ("detail", None if _is_told_of(found.question, found.detail) else found.detail),
        *_question(found),
        *(("go on with", command) for command in others(found)),
        ("remedy", REMEDIES.get(found.status)),
        ("stuck", found.stuck),
        ("phase", view.phase if view else None),
        ("stop", view.stop if view else None),
        ("task", found.goal),
        ("agent", found.agent),
        ("endpoint", view.endpoint if view else None),
        ("fund", view.fund if view else None),
        ("used", _counters(found.result) if found.result else None),
    )
    return [(name, text) for name, text in facts if text]


def others(found: Snapshot) -> list[str]:
    """The commands that let a run go on, without those that answer what it asks."""
    asked = commands(found.run_id, found.question) if found.question else []
    return [command for command in (found.view.commands if found.view else ()) if command not in asked]


def _counters(ended: RunResult) -> str:
    return (
        f"{ended.model_calls} model calls, {ended.tool_calls} tool calls, {ended.output_tokens} output tokens, "
        f"{cents(ended.exposure)} cents, {ended.messages} messages"
    )


def colour(status: str) -> str:
    """The colour of a status."""
    return COLOURS.get(status, "red" if status in Status.__members__ else "white")


def _indented(text: str, columns: int = 10) -> str:
    return inert(text, multiline=True).replace("\n", "\n" + " " * columns)


def clock(at: float, *, date: bool = False) -> str:
    """Local time of `at`, seconds since the epoch."""
    return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S" if date else "%H:%M:%S")
