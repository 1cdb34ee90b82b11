"""Answering what runs ask people."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pydantic import JsonValue
from temporalio.client import Client

from client import sending
from client.errors import Refused
from client.inert import inert
from client.snapshots import snapshot
from longshift import answering, contracts, jsontext
from longshift.inbox import MessageRefused
from longshift.questions import PersonsAnswer, Question
from longshift.state import RunState

READ: Mapping[str, Callable[[RunState, tuple[Any, ...], float], PersonsAnswer]] = {
    contracts.APPROVE: answering.read_approval,
    contracts.DENY: answering.read_denial,
    contracts.RESOLVE: answering.read_resolution,
}
"""The rules of each answer, by the name of its message."""


@dataclass(frozen=True)
class Answered:
    """A person's answer was taken."""

    words: str | None
    """What stands, such as `approved`; None while the answer waits for a worker."""
    waits_for_worker: bool
    """No worker answered: the answer stands in the run's history as a signal, and counts when a worker comes, unless
    another one came first."""

    def told(self, answer: str) -> str:
        """What a person is told; `answer` is what was sent, such as `approve`."""
        if self.waits_for_worker:
            return f"the answer ({answer}) is sent; no worker answers now, so it counts when one comes"
        return self.words or answer


async def open_question(client: Client, run_id: str, call_id: str) -> Question:
    """What a run asks about one of its calls.

    Args:
        call_id: the call's id, or what is shown of it where it is not inert.

    Raises:
        Refused: the run asks nothing about that call now, and why.
        NoSuchRun: there is no such run.
    """
    seen = await snapshot(client, run_id)
    asked = seen.question
    if asked is not None and call_id in (asked.call_id, inert(asked.call_id)):
        return asked
    await sending.refuse_ended(client, run_id)
    for answered, words in seen.view.answered.items() if seen.view else ():
        if call_id in (answered, inert(answered)):
            raise Refused(
                f"call {inert(call_id)} of run {run_id} was answered before ({words}); the first answer stands"
            )
    waits = f"call {inert(asked.call_id)} does" if asked else "no call does"
    raise Refused(f"call {inert(call_id)} of run {run_id} does not wait for an answer now, {waits}; nothing was sent")


async def answer(
    client: Client, run_id: str, question: Question, name: str, given: Mapping[str, JsonValue]
) -> Answered:
    """Send an answer that counts for this question only.

    Args:
        name: of the message: approve, deny or resolve.
        given: its fields beside those that bind it to the question.

    Raises:
        Refused: the answer does not fit the question, or the question is not open any more; or the run has ended.
        NoSuchRun: there is no such run.
    """
    message = {"call_id": question.call_id, "arguments_sha256": question.arguments_sha256, **given}
    try:
        READ[name](RunState(run_id=run_id, started_at=0, question=question), (message,), 0)
    except MessageRefused as refused:
        raise Refused(str(refused)) from None
    words, waits = await sending.change(client, run_id, name, message, uuid4().hex, str)
    return Answered(words, waits_for_worker=waits)


def is_whole(question: Question) -> bool:
    """Whether a question has the whole arguments of its call, not the beginning of them."""
    return jsontext.sha256(question.arguments) == question.arguments_sha256
