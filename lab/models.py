"""The scripted models: each is a function from what it is sent, and the tools it is offered, to its turn.

None of them knows what will be observed: they act on what they read. So a figure of a lab comes from the loop that
carried it to them.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from endpoints.config import ReplayCall, ReplayTurn
from longshift.messages import AssistantMessage, Message, ToolMessage, UserMessage
from longshift.observations import read

Model = Callable[[Sequence[Message], Collection[str]], ReplayTurn]
"""Takes the messages and the names of the tools offered."""

OPERATION = re.compile(r"(add|multiply) (\d+)")
OPERATIONS: Mapping[str, Callable[[int, int], int]] = {"add": int.__add__, "multiply": int.__mul__}
IN_ITS_HEAD = 1
"""Operations that the calculator can do without a tool, before it loses count."""
WRONG = "_numbers"
"""What `misnaming` adds to a tool's name, until it is told the names there are."""


def calculating(messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
    """Does the operations of its task, one a turn, each on what the one before it came to, and says the last result.
    Where no tool is offered it must answer at once, and answers what it can do in its head."""
    task = task_of(messages)
    start = re.search(r"\d+", task)
    value, operations = int(start[0]) if start else 0, OPERATION.findall(task)
    if not tools:
        for name, number in operations[:IN_ITS_HEAD]:
            value = OPERATIONS[name](value, int(number))
        return _saying(str(value))
    results = _values(messages)
    if len(results) == len(operations):
        return _saying(str(results[-1]))
    name, number = operations[len(results)]
    return _asking(messages, name, {"a": results[-1] if results else value, "b": int(number)})


def misnaming(messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
    """The same, but it has the names of the tools wrong until an error names them."""
    turn = calculating(messages, tools)
    if not turn.calls or any(turn.calls[0].name in message for message in _errors(messages)):
        return turn
    wrong = turn.calls[0].model_copy(update={"name": turn.calls[0].name + WRONG})
    return turn.model_copy(update={"calls": (wrong,)})


def restless(messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
    """Adds 1 to what it has, and is never done."""
    return _asking(messages, "add", {"a": ([0, *_values(messages)])[-1], "b": 1})


def adding_up_to(last: int) -> Model:
    """Adds 1 until it has come to `last`, and says so."""

    def model(messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
        values = _values(messages)
        return _saying(str(last)) if values and values[-1] >= last else restless(messages, tools)

    return model


def accepted(sku: str, recorded: JsonValue) -> str:
    """What a stock-taker says who takes the record's word."""
    return f"{sku}: {recorded} tubs"


def noticed(sku: str, recorded: JsonValue, counted: JsonValue) -> str:
    """What one says who saw that the record lies."""
    return f"{sku}: the record says {recorded} tubs, the shelf has {counted}"


def trusting(messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
    """Reads the record of the product that the task names, and believes it."""
    sku = task_of(messages)
    recorded = _values(messages, "stock_record")
    if not recorded:
        return _asking(messages, "stock_record", {"sku": sku})
    return _saying(accepted(sku, recorded[0]))


def checking(messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
    """Reads the record, counts the shelf, and says where they differ."""
    sku = task_of(messages)
    recorded, counted = _values(messages, "stock_record"), _values(messages, "count_shelf")
    if not recorded:
        return _asking(messages, "stock_record", {"sku": sku})
    if not counted:
        return _asking(messages, "count_shelf", {"sku": sku})
    if recorded[0] == counted[0]:
        return _saying(accepted(sku, recorded[0]))
    return _saying(noticed(sku, recorded[0], counted[0]))


def malforming(bad: Mapping[str, JsonValue], good: Mapping[str, JsonValue] | None) -> Model:
    """Drafts with bad arguments.

    Args:
        bad: what it gives at first.
        good: what it gives once an error has told it that `bad` was refused; None: it repeats itself.
    """

    def model(messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
        values = _values(messages)
        if values:
            return _saying(str(values[-1]))
        return _asking(messages, "draft", dict(good if good is not None and _errors(messages) else bad))

    return model


def reading(messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
    """Reads the note and says it, word for word."""
    values = _values(messages)
    return _saying(str(values[-1])) if values else _asking(messages, "shelf_note", {})


def task_of(messages: Sequence[Message]) -> str:
    """The task that the messages begin with."""
    return next(message.content for message in messages if isinstance(message, UserMessage))


def _values(messages: Sequence[Message], tool: str | None = None) -> list[Any]:
    """What the tools, or one of them, returned."""
    seen = [m for m in messages if isinstance(m, ToolMessage) and tool in (None, m.name)]
    return [body["value"] for body in (read(message.content) for message in seen) if body["ok"]]


def _errors(messages: Sequence[Message]) -> list[str]:
    """The messages of the errors that were observed."""
    bodies: list[Any] = [read(message.content) for message in messages if isinstance(message, ToolMessage)]
    return [body["error"]["message"] for body in bodies if not body["ok"]]


def _saying(text: str) -> ReplayTurn:
    return ReplayTurn(content=text, output_tokens=len(text.split()))


def _asking(messages: Sequence[Message], name: str, arguments: dict[str, Any]) -> ReplayTurn:
    turn = 1 + sum(isinstance(message, AssistantMessage) for message in messages)
    return ReplayTurn(calls=(ReplayCall(id=f"call-{turn}", name=name, arguments=arguments),), output_tokens=8)
