"""Scripted models of the stock task, with error rates that are known: an experiment must find just these.

Each decides by what it reads, and by chance that is drawn anew from the seed and the run's id, so that it makes the
same errors in whatever process it plays.
"""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from temporalio import activity

from endpoints.config import ReplayCall, ReplayTurn
from lab.models import task_of
from lab.stock import products_in
from longshift.messages import AssistantMessage, Message, ToolMessage
from longshift.observations import read


@dataclass(frozen=True)
class Clerk:
    """Looks up one product a turn, adds, and answers."""

    seed: int = 0
    right: float = 1.0
    """That a look-up is right, if the one before it was."""
    mends: float | None = None
    """That it is right, if the one before it was not; None: it gives up after an error."""
    worst: int | None = None
    """The only look-up that can go wrong; None: any."""
    sums: float = 1.0
    """That an addition is right."""
    hard: float = 0.0
    """The share of the tasks that it always gets wrong."""

    def __call__(self, messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
        """The turn for what it reads."""
        chance = random.Random(f"{self.seed}/{activity.info().workflow_id}")
        task = task_of(messages)
        wanted = products_in(task)
        seen: list[int] = []
        well, tries = True, 0
        for message in (one for one in messages if isinstance(one, ToolMessage) and one.name == "stock_of"):
            body = read(message.content)
            well, tries = bool(body["ok"]), tries + 1
            chance.random()
            if body["ok"]:
                seen.append(int(str(body["value"])))
        if len(seen) < len(wanted) and (well or self.mends is not None):
            number = len(seen) + 1
            rate = self.right if well else self.mends
            slips = chance.random() >= (rate or 0) and self.worst in (None, number)
            return self._asks(messages, "stock_of", {"product": f"nothing-{tries}" if slips else wanted[number - 1]})
        total = sum(seen)
        if "add" in tools:
            done = [m for m in messages if isinstance(m, ToolMessage) and m.name == "add"]
            if len(done) < len(seen) - 1:
                so_far = int(str(read(done[-1].content)["value"])) if done else seen[0]
                return self._asks(messages, "add", {"a": so_far, "b": seen[len(done) + 1]})
        elif any(chance.random() >= self.sums for _ in range(len(seen) - 1)):
            total += 1
        if random.Random(f"{self.seed}/{task}").random() < self.hard:
            total += 10
        return ReplayTurn(content=f"The total is {total}.", output_tokens=5)

    def _asks(self, messages: Sequence[Message], name: str, arguments: dict[str, str | int]) -> ReplayTurn:
        turn = 1 + sum(isinstance(message, AssistantMessage) for message in messages)
        return ReplayTurn(calls=(ReplayCall(id=f"call-{turn}", name=name, arguments=dict(arguments)),), output_tokens=8)


PLANTED = {
    "model-adds": Clerk(right=0.4, worst=2),
    "add-tool": Clerk(right=0.75, mends=0.5, hard=0.35),
    "program-adds": Clerk(right=0.85),
}
"""What goes wrong under each condition: one look-up; any look-up, though it is mended, and the total of hard tasks; any
look-up."""


def planted(messages: Sequence[Message], tools: Collection[str]) -> ReplayTurn:
    """The turn of the clerk of the run's condition."""
    run_id = activity.info().workflow_id
    assert run_id is not None
    return PLANTED[run_id.rsplit("-", 3)[0]](messages, tools)
