"""The labs, performed once on one server and one worker: their figures, and that each can fail."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from click.testing import CliRunner

import lab.command
import lab.labs
from client.main import longshift as command_line
from lab import models
from lab.labs import LABS, Finding
from lab.trials import Came, Trial, conduct
from longshift import observations
from longshift.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage

pytestmark = pytest.mark.slow

BY_NAME = {one.name: one for one in LABS}
FIGURES: dict[str, dict[str, Any]] = {
    "deaths": {
        "stop ignored: steps of the unguarded loop": 6,
        "stop ignored: its answer": None,
        "stop heeded: steps": 3,
        "stop heeded: answer": "32",
        "unknown tool: the error names every tool": True,
        "unknown tool: steps": 4,
        "unknown tool: answer": "32",
        "never done: steps": 4,
        "never done: answer": None,
        "never done: said so": True,
    },
    "one-shot": {"one shot: right of 4": 1, "loop: right of 4": 4},
    "lying-tool": {"cases": 8, "noticed": 4, "accepted": 4, "valid, complete episodes": 8},
    "malformed": {
        "cases": 6,
        "the error reached the model verbatim": 6,
        "recovered on attempt two": 3,
        "repeated until the cap of 4 calls": 3,
    },
    "verbatim": {"what the next model call reads": ["aisle | tubs\n4 | 12\n\n| counted twice |\n"]},
    "context-cost": {"steps": 40, "entries of earlier steps sent again": 780},
}
"""What must come out, whatever the labs themselves think of it."""


@dataclass(frozen=True)
class Performed:
    """All labs, performed by the command."""

    code: int
    document: dict[str, Any]
    came: dict[str, Came]

    def of(self, name: str) -> dict[str, Came]:
        """What came of the runs of one lab."""
        return {trial: self.came[f"{name}: {trial}"] for trial in BY_NAME[name].trials}


@pytest.fixture(scope="module")
def performed() -> Performed:
    """`longshift lab all --json`, with what it saw."""
    came: dict[str, Came] = {}

    async def seen(trials: Mapping[str, Trial]) -> dict[str, Came]:
        came.update(await conduct(trials))
        return came

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(lab.labs, "conduct", seen)
        ended = CliRunner().invoke(command_line, ["lab", "all", "--json"], standalone_mode=False)
    assert ended.exception is None, ended
    return Performed(ended.return_value, json.loads(ended.stdout), came)


def test_all_labs_hold_and_the_command_ends_with_zero(performed: Performed) -> None:
    differing = [figure for one in performed.document["labs"] for figure in one["figures"] if not figure["holds"]]
    assert differing == []
    assert (performed.code, performed.document["holds"]) == (0, True)


@pytest.mark.parametrize("name", FIGURES)
def test_the_figures_of_a_lab_are_the_stated_ones(performed: Performed, name: str) -> None:
    (found,) = [one for one in performed.document["labs"] if one["name"] == name]
    measured = {figure["name"]: figure["measured"] for figure in found["figures"]}

    assert measured.items() >= FIGURES[name].items()


def test_the_cost_of_context_is_told_by_step(performed: Performed) -> None:
    rows = performed.document["labs"][-1]["rows"]

    assert [row["step"] for row in rows] == [1, 5, 10, 15, 20, 25, 30, 35, 40, "all"]
    assert [row["entries sent again"] for row in rows] == [0, 4, 9, 14, 19, 24, 29, 34, 39, 780]
    sizes = [row["bytes sent"] for row in rows[:-1]]
    assert sizes == sorted(set(sizes))
    assert rows[-1]["bytes sent"] > 10 * sizes[-1]


def answering(answer: str | None) -> Callable[[Came], Came]:
    """The run as if it had ended with this answer."""
    return lambda came: replace(came, result=came.result.model_copy(update={"answer": answer}))


def rewritten(change: Callable[[str], str]) -> Callable[[Came], Came]:
    """The run as if its observations had been rewritten on their way to the model."""

    def each(message: Message) -> Message:
        return (
            message.model_copy(update={"content": change(message.content)})
            if isinstance(message, ToolMessage)
            else message
        )

    return lambda came: replace(came, sent=tuple(tuple(map(each, messages)) for messages in came.sent))


def unnamed(came: Came) -> Came:
    """The run as if the error had not named the tools."""
    vague = observations.error("unknown_tool", "no such tool")
    return replace(
        came,
        transcript=tuple(
            one.model_copy(update={"content": vague})
            if isinstance(one, ToolMessage) and observations.kind_of(one.content) != "ok"
            else one
            for one in came.transcript
        ),
    )


def summarized(came: Came) -> Came:
    """The run as if its last call had been sent less than the whole."""
    return replace(came, sent=(*came.sent[:-1], came.sent[-1][:2] + came.sent[-1][4:]))


@pytest.mark.parametrize(
    ("name", "trial", "change", "figure"),
    [
        ("deaths", "stop", answering(None), "stop heeded: answer"),
        ("deaths", "unknown tool", unnamed, "unknown tool: the error names every tool"),
        ("deaths", "never done", answering("32"), "never done: answer"),
        ("one-shot", "three operations", answering("32"), "loop: right of 4"),
        ("lying-tool", "SKU-BANANA", answering("SKU-BANANA: 14 tubs"), "noticed"),
        ("malformed", "missing", rewritten(lambda text: text.replace("did not run", "failed")), "the error reached"),
        ("malformed", "of another type", unnamed, "recovered on attempt two"),
        ("verbatim", "note", rewritten(lambda text: text.replace("\\n", " ")), "what the next model call reads"),
        ("verbatim", "note", rewritten(lambda text: text.replace("|", "\\u007c")), "its text, to the byte"),
        ("context-cost", "forty steps", summarized, "entries of earlier steps sent again"),
    ],
)
def test_a_lab_fails_where_its_runs_had_come_out_otherwise(
    performed: Performed, name: str, trial: str, change: Callable[[Came], Came], figure: str
) -> None:
    came = performed.of(name)
    figures = BY_NAME[name].figures({**came, trial: change(came[trial])})

    assert [one.name for one in figures if one.name.startswith(figure) and not one.holds]


def test_a_figure_that_differs_is_told_and_the_command_ends_with_one(
    performed: Performed, monkeypatch: pytest.MonkeyPatch
) -> None:
    verbatim = BY_NAME["verbatim"]
    came = {"note": answering("something\x1b[2J else")(performed.of("verbatim")["note"])}

    async def otherwise(labs: object) -> list[Finding]:
        return [Finding(verbatim, verbatim.figures(came), ())]

    monkeypatch.setattr(lab.command, "perform", otherwise)
    ended = CliRunner().invoke(command_line, ["lab", "verbatim"], standalone_mode=False)

    assert ended.return_value == 1
    assert ended.output.startswith(f"verbatim: {verbatim.proves}\n")
    assert [line.split("\t")[0].strip() for line in ended.output.splitlines()[2:6]] == ["holds"] * 3 + ["differs"]
    assert "\x1b" not in ended.output
    assert ended.output.endswith("\n4 figures, 1 of them not as they must be\n")


@pytest.mark.parametrize(
    ("counted", "answer"), [(7, models.accepted("SKU-FIG", 7)), (5, models.noticed("SKU-FIG", 7, 5))]
)
def test_an_agent_that_checks_notices_a_lie_by_what_it_reads(counted: int, answer: str) -> None:
    messages: list[Message] = [UserMessage(content="SKU-FIG")]
    for number, (name, value) in enumerate({"stock_record": 7, "count_shelf": counted}.items()):
        (call,) = models.checking(messages, ()).calls
        assert (call.name, call.arguments) == (name, {"sku": "SKU-FIG"})
        asked = ToolCall(id=str(number), name=name, arguments={"sku": "SKU-FIG"})
        messages.append(AssistantMessage(content="", calls=(asked,)))
        messages.append(ToolMessage(call_id=asked.id, name=name, content=observations.ok(value)))

    assert models.checking(messages, ()).content == answer
