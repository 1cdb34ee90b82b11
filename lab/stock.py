"""The experiment's task: look up the stock of n products and say how many units that is in all. Made from a seed, done
under three conditions, graded step by step. Pure.
"""

import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from lab.tools import add
from longshift import Agent, ToolNotFound, tool
from longshift.evidence import Trajectory
from longshift.messages import AssistantMessage
from longshift.status import Status

Condition = Literal["model-adds", "add-tool", "program-adds"]
"""Who adds: the model in its head, the model with a tool, or the program, which adds what the look-ups returned."""
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
FLAVOURS = (
    "almond",
    "banana",
    "cherry",
    "date",
    "espresso",
    "fig",
    "ginger",
    "hazelnut",
    "kiwi",
    "lemon",
    "mango",
    "nougat",
)
SIZES = ("cup", "tub", "tray", "pail", "box", "bar")


def _tubs(sku: str) -> int:
    """Between 10 and 99: two digits each, so that every addition is as hard as another."""
    return 10 + int.from_bytes(hashlib.sha256(sku.encode()).digest()[:4]) % 90


SHELF = {f"{flavour}-{size}": _tubs(f"{flavour}-{size}") for flavour, size in product(FLAVOURS, SIZES)}
"""Units in stock, by product."""
LONGEST = len(SHELF)
"""Products that a task can have at most."""
MOST_DIGITS = 18
"""Of a total, as 64 bits hold them; a model that repeats a digit without end says no total, and Python reads only
4300."""


@tool(kind="read")
def stock_of(product: str) -> int:
    """How many units of a product are in stock."""
    if product not in SHELF:
        raise ToolNotFound(f"there is no product {product!r}; write it exactly as the task does")
    return SHELF[product]


def _agent(condition: Condition, system: str) -> Agent:
    return Agent(
        name=condition,
        system=f"You take stock. Look up every product of the task with the tool stock_of, one call for each. {system}",
        endpoint="measured",
        tools=(stock_of, add) if condition == "add-tool" else (stock_of,),
        malformed_calls="observe",
    )


AGENTS: dict[str, Agent] = {
    "model-adds": _agent(
        "model-adds", "Then add up what was returned and answer with the total, as a number and nothing else."
    ),
    "add-tool": _agent(
        "add-tool",
        "Add up what was returned with the tool add, two numbers at a time. Then answer with the total, as a number "
        "and nothing else.",
    ),
    "program-adds": _agent(
        "program-adds", "Do not add anything: the program does. Once all are looked up, answer with the word done."
    ),
}
"""The agent of each condition, by its name."""


@dataclass(frozen=True)
class Task:
    """Products to look up."""

    products: tuple[str, ...]

    @property
    def text(self) -> str:
        """The task as the model reads it: the same words at every length, and no number that might be taken for a
        product."""
        lines = "\n".join(f"- {name}" for name in self.products)
        return f"How many units of the following are in stock in all?\n{lines}"

    @property
    def total(self) -> int:
        """What is right."""
        return sum(SHELF[name] for name in self.products)


def task(seed: int, length: int, instance: int) -> Task:
    """The task of a number, the same for every condition and attempt."""
    return Task(tuple(random.Random(f"{seed}/{length}/{instance}").sample(sorted(SHELF), length)))


def products_in(text: str) -> list[str]:
    """The products that a task's text asks for, in order."""
    return re.findall(r"^- (\S+)$", text, re.MULTILINE)


@dataclass(frozen=True)
class Grade:
    """How a run did, step by step."""

    lookups: tuple[bool, ...]
    """Of each product, in the order of the task: whether it was looked up and the stock came back."""
    total: bool
    """Whether the total is exactly right."""
    answered: int | None
    """The total that came out; None where there is none."""
    outcomes: tuple[tuple[bool, ...], ...]
    """Of each turn that looked up, of each of its look-ups: whether it brought the stock of a product that was still
    missing. A run that ends with products missing has one more turn, which failed: the call it did not make."""

    @property
    def right(self) -> bool:
        """Every step right."""
        return all(self.lookups) and self.total

    @property
    def first_error(self) -> int | None:
        """The first step that is wrong: a look-up, from 1, or the step after the last of them, which is the total;
        None where none is."""
        steps = (*self.lookups, self.total)
        return None if all(steps) else steps.index(False) + 1


def grade(given: Task, condition: Condition, trajectory: Trajectory) -> Grade:
    """Grade a run by what its tools observed and what it answered.

    The total is the last whole number of the answer. Where the program adds, it is the sum over the products that were
    looked up, wanted or not. A run that came to no answer has none, nor has one whose number is longer than any total.
    """
    looked_up: dict[str, int] = {}
    turn_of = {
        call.id: number
        for number, message in enumerate(trajectory.messages)
        if isinstance(message, AssistantMessage)
        for call in message.calls
    }
    turns: dict[int, list[bool]] = defaultdict(list)
    for call, body in trajectory.observed():
        if call.name != stock_of.spec.name:
            continue
        name = call.arguments.get("product")
        came = body["ok"] and isinstance(name, str)
        turns[turn_of[call.id]].append(came and name in given.products and name not in looked_up)
        if came:
            looked_up[str(name)] = body["value"]
    lookups = tuple(name in looked_up for name in given.products)
    if not all(lookups):
        turns[len(trajectory.messages)].append(False)
    answered = _answered(condition, trajectory, looked_up)
    return Grade(lookups, answered == given.total, answered, tuple(map(tuple, turns.values())))


def _answered(condition: Condition, trajectory: Trajectory, looked_up: dict[str, int]) -> int | None:
    if trajectory.result.status is not Status.COMPLETED:
        return None
    if condition == "program-adds":
        return sum(looked_up.values())
    numbers: Sequence[str] = re.findall(r"-?\d+", re.sub(r"(?<=\d),(?=\d{3}\b)", "", trajectory.result.answer or ""))
    last = numbers[-1] if numbers else ""
    return int(last) if 0 < len(last.removeprefix("-")) <= MOST_DIGITS else None
