"""Effects: what becomes of one whose dispatch brought no observation to the run.

The rules of "at most once" as plain functions. The ledger's half stands in store/ledger.py: there a fence, a number
that only grows, decides which dispatch may begin.
"""

from dataclasses import dataclass
from typing import Literal

from longshift.admission import End
from longshift.agent import AgentSpec
from longshift.batches import Planned, refusal
from longshift.messages import ToolMessage
from longshift.observations import error, told
from longshift.questions import PersonsAnswer, Question, needs_approval, question
from longshift.status import Status

MAX_AGAIN = 5
"""How often an idempotent effect is dispatched again by itself before its outcome counts as unknown."""
MAX_HOW = 400
"""Characters kept of what is known of an unknown outcome."""


@dataclass(frozen=True)
class Missed:
    """A dispatch that brought no observation, as far as the platform can tell."""

    kind: Literal["unknown", "not_taken", "not_begun", "missing", "displaced"]
    """`unknown`: only the ledger can tell. The others surely ran no handler: no worker took it, or it was cancelled
    before one did; the journal could not take the `started` row; the worker has no such tool; its place in the ledger
    is another effect's."""
    how: str
    """What happened, in words."""


@dataclass(frozen=True)
class Again:
    """Dispatch it again, under the same operation id and a higher fence."""


def approval_question(item: Planned, now: float) -> Question | None:
    """What a person is asked before an effect may begin; None where it needs no approval."""
    if item.tool is None or not item.alone:
        return None
    why = needs_approval(item.tool.needs_approval, item.call)
    return None if why is None else question("approval", item.call, why, now)


def denied(item: Planned, answer: PersonsAnswer) -> ToolMessage:
    """The observation of an effect that a person did not approve."""
    return refusal(item.call, "denied", f"a person did not approve this call: {answer.reason}")


def after_unknown(
    agent: AgentSpec, item: Planned, how: str, again: int, now: float
) -> Again | Question | ToolMessage | End:
    """What becomes of an effect that may or may not have happened, by its tool and the agent's policy.

    Args:
        how: what is known, in words.
        again: how often it was dispatched again already.
    """
    name = item.call.name
    if item.tool is not None and item.tool.idempotent and again < MAX_AGAIN:
        return Again()
    text = f"{name} ({item.call.id}) may or may not have happened: {how}"[:MAX_HOW]
    if agent.unknown_outcome == "tell":
        return refusal(item.call, "outcome_unknown", f"{text}. Find out before you ask for it again.")
    if agent.unknown_outcome == "stop":
        return End(Status.OUTCOME_UNKNOWN, text)
    return question("outcome", item.call, text, now)


def resolution(answer: PersonsAnswer) -> str | None:
    """The content of the observation that a person's word makes of an unknown outcome; None: the run is to stop."""
    because = f": {answer.reason}" if answer.reason else ""
    if answer.kind == "happened":
        return told(answer.result, f"its outcome was lost; a person found that it happened{because}")
    if answer.kind == "did_not_happen":
        text = (
            f"its outcome was lost; a person found that it did not happen{because}. Ask for it again if it is needed."
        )
        return error("not_executed", text)
    return None


def stopped_by_person(item: Planned, answer: PersonsAnswer) -> End:
    """The end of a run that a person stopped over an unknown outcome."""
    because = f": {answer.reason}" if answer.reason else ""
    text = f"{item.call.name} ({item.call.id}) may or may not have happened, and a person stopped the run{because}"
    return End(Status.OUTCOME_UNKNOWN, text[:500])
