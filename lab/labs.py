"""The labs: what each proves, the runs it takes, and the figures that must come out.

A figure is measured on what came of the runs; what it is held against stands in the lab, or is computed without the
loop.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue

from lab import models, tools
from lab.baselines import one_shot, unguarded
from lab.models import OPERATION, OPERATIONS
from lab.trials import Came, Trial, conduct
from longshift import ArgumentsRefused, Status, observations, validate_episode
from longshift.jsontext import size
from longshift.messages import AssistantMessage, Message, SystemMessage, ToolMessage, UserMessage, text_of

AllThatCame = Mapping[str, Came]
Row = dict[str, JsonValue]


@dataclass(frozen=True)
class Figure:
    """One figure of a lab."""

    name: str
    expected: Any
    """A JSON value, as the next."""
    measured: Any

    @property
    def holds(self) -> bool:
        """Whether what was measured is what must come out; as JSON, in which true is not 1."""
        return self.expected == self.measured and isinstance(self.expected, bool) == isinstance(self.measured, bool)


@dataclass(frozen=True)
class Lab:
    """One lab."""

    name: str
    """What it is called on the command line."""
    title: str
    proves: str
    """What it proves, in a sentence."""
    trials: Mapping[str, Trial]
    """The runs it takes, by name."""
    figures: Callable[[AllThatCame], list[Figure]]
    """The figures, from what came of them."""
    rows: Callable[[AllThatCame], list[Row]] = lambda came: []
    """What is reported beside them, as a table."""


@dataclass(frozen=True)
class Finding:
    """What came of a lab."""

    lab: Lab
    figures: Sequence[Figure]
    rows: Sequence[Row]

    @property
    def holds(self) -> bool:
        """Whether every figure came out as it must."""
        return all(figure.holds for figure in self.figures)

    def document(self) -> dict[str, Any]:
        """The finding as `--json` prints it."""
        return {
            "name": self.lab.name,
            "title": self.lab.title,
            "proves": self.lab.proves,
            "holds": self.holds,
            "figures": [{**vars(figure), "holds": figure.holds} for figure in self.figures],
            "rows": list(self.rows),
        }


async def perform(labs: Sequence[Lab]) -> list[Finding]:
    """Perform labs, all on one server and one worker.

    Raises:
        ServerFailed: the server does not start.
        WorkerFailed: a run did not come to its end.
    """
    trials = {f"{lab.name}: {name}": trial for lab in labs for name, trial in lab.trials.items()}
    all_that_came = await conduct(trials)
    found = []
    for lab in labs:
        came = {name: all_that_came[f"{lab.name}: {name}"] for name in lab.trials}
        found.append(Finding(lab, lab.figures(came), lab.rows(came)))
    return found


# Three deaths.

TASK, RESULT, CAP = "Start with 5, add 3, multiply 4. Say the result.", "32", 4
UNGUARDED_STEPS = 6
DEATHS = {
    "stop": Trial(tools.calculator, TASK, models.calculating),
    "unknown tool": Trial(tools.calculator, TASK, models.misnaming),
    "never done": Trial(tools.calculator, TASK, models.restless, {"model_calls": CAP}),
}


def _deaths(came: AllThatCame) -> list[Figure]:
    loose = unguarded(tools.calculator, TASK, models.calculating, UNGUARDED_STEPS)
    guarded, unknown, never = (came[name].result for name in DEATHS)
    errors = _errors(came["unknown tool"].transcript)
    offered = [tool.spec.name for tool in tools.calculator.tools]
    return [
        Figure("stop ignored: steps of the unguarded loop", UNGUARDED_STEPS, loose.steps),
        Figure("stop ignored: its answer", None, loose.answer),
        Figure("stop heeded: steps", 3, guarded.model_calls),
        Figure("stop heeded: answer", RESULT, guarded.answer),
        Figure("unknown tool: the unguarded loop dies of", "KeyError", _death(models.misnaming)),
        Figure("unknown tool: error observations", 1, len(errors)),
        Figure("unknown tool: the error names every tool", True, _names_all(errors, offered)),
        Figure("unknown tool: steps", 4, unknown.model_calls),
        Figure("unknown tool: answer", RESULT, unknown.answer),
        Figure("never done: steps", CAP, never.model_calls),
        Figure("never done: answer", None, never.answer),
        Figure("never done: status", Status.MODEL_CALL_LIMIT.value, never.status.value),
        Figure("never done: said so", True, f"{CAP} of {CAP} model calls" in never.detail),
    ]


def _names_all(errors: Sequence[str], names: Sequence[str]) -> bool:
    """Whether there are errors, and each has all the names."""
    return bool(errors) and all(name in error for error in errors for name in names)


def _death(model: models.Model) -> str | None:
    """What an unguarded loop dies of; None where it does not."""
    try:
        unguarded(tools.calculator, TASK, model, UNGUARDED_STEPS)
    except Exception as error:
        return type(error).__name__
    return None


# One shot against the loop.

SUMS = {
    "one operation": "Start with 6, multiply 7.",
    "two operations": "Start with 5, add 3, multiply 4.",
    "three operations": "Start with 2, multiply 9, add 5, multiply 3.",
    "four operations": "Start with 7, add 6, multiply 2, add 1, multiply 5.",
}


def _one_shot(came: AllThatCame) -> list[Figure]:
    shot = {name: one_shot(tools.calculator, task, models.calculating).answer for name, task in SUMS.items()}
    looped = {name: came[name].result.answer for name in SUMS}
    right = {name: _computed(task) for name, task in SUMS.items()}
    return [
        Figure("one shot: right of 4", 1, sum(shot[name] == right[name] for name in SUMS)),
        Figure("loop: right of 4", 4, sum(looped[name] == right[name] for name in SUMS)),
    ]


def _computed(task: str) -> str:
    """The result of a sum, without any model."""
    value = int(task.removeprefix("Start with ").split(",")[0])
    for name, number in OPERATION.findall(task):
        value = OPERATIONS[name](value, int(number))
    return str(value)


# The lying tool.

STOCK_TAKERS = (models.trusting, models.checking)
LIES = {sku: Trial(tools.stock_taker, sku, STOCK_TAKERS[n % 2]) for n, sku in enumerate(tools.SHELF)}


def _lying(came: AllThatCame) -> list[Figure]:
    answers = {sku: one.result.answer for sku, one in came.items()}
    said = {sku: tubs + tools.LIE for sku, tubs in tools.SHELF.items()}
    noticed = sum(answers[sku] == models.noticed(sku, said[sku], tubs) for sku, tubs in tools.SHELF.items())
    accepted = sum(answers[sku] == models.accepted(sku, said[sku]) for sku in tools.SHELF)
    episodes = [validate_episode(one.transcript) for one in came.values()]
    return [
        Figure("cases", 8, len(came)),
        Figure("noticed", 4, noticed),
        Figure("accepted", 4, accepted),
        Figure("valid, complete episodes", 8, sum(report.valid and report.complete for report in episodes)),
    ]


# The malformed call.

GOOD: Row = {"sku": "SKU-FIG", "quantity": 6}
MALFORMED: Mapping[str, Row] = {
    "of another type": {"sku": "SKU-FIG", "quantity": "six"},
    "missing": {"sku": "SKU-FIG"},
    "too many": {"sku": "SKU-FIG", "quantity": 6, "colour": "red"},
    "out of range": {"sku": "SKU-FIG", "quantity": 0},
    "null": {"sku": None, "quantity": 6},
    "a fraction": {"sku": "SKU-FIG", "quantity": 6.5},
}
MALFORMING = {
    name: Trial(
        tools.drafter,
        "Draft 6 of SKU-FIG.",
        models.malforming(bad, None if n % 2 else GOOD),
        {"model_calls": CAP, "repeats": 0},  # else a repetition would end it before the cap
    )
    for n, (name, bad) in enumerate(MALFORMED.items())
}


def _malformed(came: AllThatCame) -> list[Figure]:
    told = sum(_errors(_sent(came[name], 2)) == [_refusal(bad)] for name, bad in MALFORMED.items())
    recovered = sum(_kinds(one) == ["invalid_arguments", "ok"] and _ended(one, 3) for one in came.values())
    repeated = sum(
        _kinds(one) == ["invalid_arguments"] * CAP
        and one.result.status is Status.MODEL_CALL_LIMIT
        and one.result.model_calls == CAP
        for one in came.values()
    )
    return [
        Figure("cases", 6, len(came)),
        Figure("the error reached the model verbatim", 6, told),
        Figure("recovered on attempt two", 3, recovered),
        Figure(f"repeated until the cap of {CAP} calls", 3, repeated),
    ]


def _refusal(bad: Row) -> str | None:
    """What the tool itself says of bad arguments; None where it takes them."""
    try:
        tools.draft.validate(bad)
    except ArgumentsRefused as refused:
        return str(refused)
    return None


def _ended(one: Came, calls: int) -> bool:
    return one.result.status is Status.COMPLETED and one.result.model_calls == calls


# Verbatim.

NOTED = {"note": Trial(tools.reader, "Read the note.", models.reading)}


def _verbatim(came: AllThatCame) -> list[Figure]:
    one = came["note"]
    observed = [message.content for message in _sent(one, 2) if isinstance(message, ToolMessage)]
    kept = [message.content for message in one.transcript if isinstance(message, ToolMessage)]
    values = [observations.read(content)["value"] for content in observed]
    return [
        Figure("what the next model call reads", [tools.NOTE], values),
        Figure("its text, to the byte", [observations.ok(tools.NOTE)], observed),
        Figure("what the journal keeps", observed, kept),
        Figure("the answer that repeats it", tools.NOTE, one.result.answer),
    ]


# What context costs.

STEPS, EVERY = 40, 5
COUNTED = {
    "forty steps": Trial(
        tools.calculator,
        "Count.",
        models.adding_up_to(STEPS - 1),
        {"model_calls": STEPS, "tool_calls": STEPS, "context_bytes": 1_000_000},
    )
}


def _context(came: AllThatCame) -> list[Figure]:
    one = came["forty steps"]
    resent = [_entries(messages) for messages in one.sent]
    # Without the loop: each call is sent the opening and two messages of each step before it.
    opening = sum(isinstance(item, SystemMessage | UserMessage) for item in one.transcript)
    prefixes = [_bytes(one.transcript[: opening + 2 * step]) for step in range(STEPS)]
    return [
        Figure("steps", STEPS, len(one.sent)),
        Figure("entries of earlier steps sent again", math.comb(STEPS, 2), sum(resent)),
        Figure("entries sent again in the last step", STEPS - 1, _entries(_sent(one, STEPS))),
        Figure("bytes sent: those of every prefix of the transcript", sum(prefixes), sum(map(_bytes, one.sent))),
    ]


def _by_step(came: AllThatCame) -> list[Row]:
    sent = came["forty steps"].sent
    shown = [step for step in range(1, len(sent) + 1) if step == 1 or step % EVERY == 0]
    rows: list[Row] = [
        {"step": step, "entries sent again": _entries(sent[step - 1]), "bytes sent": _bytes(sent[step - 1])}
        for step in shown
    ]
    entries, weight = sum(map(_entries, sent)), sum(map(_bytes, sent))
    return [*rows, {"step": "all", "entries sent again": entries, "bytes sent": weight}]


def _entries(messages: Sequence[Message]) -> int:
    """Earlier steps among the messages: an entry is a turn with its observation."""
    return sum(isinstance(message, AssistantMessage) for message in messages)


def _bytes(messages: Sequence[Message]) -> int:
    return sum(size(text_of(message)) for message in messages)


def _sent(one: Came, model_call: int) -> Sequence[Message]:
    """What a model call was sent; nothing where there was none."""
    return one.sent[model_call - 1] if len(one.sent) >= model_call else ()


def _kinds(one: Came) -> list[str]:
    """What came of a run's tool calls, in order."""
    return [observations.kind_of(item.content) for item in one.transcript if isinstance(item, ToolMessage)]


def _errors(messages: Sequence[Message]) -> list[str]:
    """The messages of the errors among observations."""
    observed = [message.content for message in messages if isinstance(message, ToolMessage)]
    return [observations.message_of(content) for content in observed if observations.kind_of(content) != "ok"]


LABS = (
    Lab(
        "deaths",
        "three deaths",
        "A loop must end when the model has ended, survive a tool that does not exist, and tell of its cap.",
        DEATHS,
        _deaths,
    ),
    Lab(
        "one-shot",
        "one shot against the loop",
        "What a model cannot do in one go, it does step by step, each on what the last one came to.",
        {name: Trial(tools.calculator, task, models.calculating) for name, task in SUMS.items()},
        _one_shot,
    ),
    Lab(
        "lying-tool",
        "lying tool",
        "A valid episode is no true one: only an agent that checks notices a tool that lies.",
        LIES,
        _lying,
    ),
    Lab(
        "malformed",
        "malformed call",
        "Bad arguments come back as the tool's own words: who reads them recovers, and the cap ends the others.",
        MALFORMING,
        _malformed,
    ),
    Lab(
        "verbatim",
        "verbatim",
        "What a tool returns reaches the next model call unchanged, new lines, pipes and all.",
        NOTED,
        _verbatim,
    ),
    Lab(
        "context-cost",
        "context cost",
        "Each step sends all earlier ones again, so what a run sends grows with the square of its steps.",
        COUNTED,
        _context,
        _by_step,
    ),
)
"""All labs, in the order of `lab all`."""
