"""What people answer to a run's question, read from whatever JSON arrived.

Each answer is one object with the call's id and, so that it counts for these arguments only, at least the first digits
of their digest: `{"call_id": "c1", "arguments_sha256": "5f2b9c01"}`. An answer that does not fit is refused with
MessageRefused, and changes nothing.
"""

from typing import Any

from pydantic import JsonValue

from longshift import jsontext
from longshift.inbox import MAX_REASON, MAX_TEXT_BYTES, MessageRefused, safe
from longshift.questions import MIN_DIGEST, AnswerKind, PersonsAnswer, QuestionKind
from longshift.state import RECENT_REQUESTS, RunState

OUTCOMES: dict[str, AnswerKind] = {"happened": "happened", "did_not_happen": "did_not_happen", "stop": "stop"}
"""What `resolve` takes as `outcome`."""
WORDS: dict[AnswerKind, str] = {
    "approved": "approved",
    "denied": "denied",
    "happened": "resolved: it happened",
    "did_not_happen": "resolved: it did not happen",
    "stop": "resolved: stop",
}
"""What a person reads of an answer that stands."""


def read_approval(state: RunState, args: tuple[Any, ...], now: float) -> PersonsAnswer:
    """A person's approval. Raises MessageRefused."""
    fields = _fields(state, "approval", args, {"reason"})
    return PersonsAnswer(call_id=fields["call_id"], kind="approved", reason=_reason(fields), at=now)


def read_denial(state: RunState, args: tuple[Any, ...], now: float) -> PersonsAnswer:
    """A person's denial, with its reason. Raises MessageRefused."""
    fields = _fields(state, "approval", args, {"reason"})
    reason = _reason(fields)
    if not reason.strip():
        raise MessageRefused("reason: say why, since the model reads it")
    return PersonsAnswer(call_id=fields["call_id"], kind="denied", reason=reason, at=now)


def read_resolution(state: RunState, args: tuple[Any, ...], now: float) -> PersonsAnswer:
    """A person's word on an unknown outcome: `outcome` is happened (with its `result`), did_not_happen or stop.

    Raises MessageRefused.
    """
    fields = _fields(state, "outcome", args, {"reason", "outcome", "result"})
    given = fields.get("outcome")
    kind = OUTCOMES.get(given) if isinstance(given, str) else None
    if kind is None:
        raise MessageRefused(f"outcome: must be one of {', '.join(OUTCOMES)}")
    if ("result" in fields) != (kind == "happened"):
        raise MessageRefused("result: give what the call returned with the outcome happened, and with no other")
    result = fields.get("result")
    try:
        jsontext.check([result])  # as deep as it will stand in an observation
        text = jsontext.canonical(result)
        jsontext.parse(text)  # what carried it here takes numbers that no observation may hold
        size = jsontext.size(text)
    except ValueError as error:
        raise MessageRefused(f"result: {error}") from None
    if size > MAX_TEXT_BYTES:
        raise MessageRefused(f"result: has {size} bytes, at most {MAX_TEXT_BYTES} are accepted")
    return PersonsAnswer(call_id=fields["call_id"], kind=kind, reason=_reason(fields), result=result, at=now)


def apply(state: RunState, answer: PersonsAnswer) -> str:
    """Take an answer; the words for it."""
    state.persons_answer = answer
    state.answered_calls.pop(answer.call_id, None)
    state.answered_calls[answer.call_id] = answer.kind
    while len(state.answered_calls) > RECENT_REQUESTS:
        del state.answered_calls[next(iter(state.answered_calls))]
    return WORDS[answer.kind]


def _fields(state: RunState, kind: QuestionKind, args: tuple[Any, ...], optional: set[str]) -> dict[str, Any]:
    """The fields of an answer that fits the question that is open."""
    given = args[0] if len(args) == 1 else None
    if not isinstance(given, dict):
        raise MessageRefused('call_id: send one object, like {"call_id": "c1", "arguments_sha256": "5f2b9c01"}')
    unknown = [name for name in given if name not in {"call_id", "arguments_sha256", *optional}]
    if unknown:
        raise MessageRefused(f"{safe(str(unknown[0])[:60])}: is not known here; leave it out")
    call_id, digest = given.get("call_id"), given.get("arguments_sha256")
    if not isinstance(call_id, str):
        raise MessageRefused("call_id: name the call that waits, as text")
    asked = state.question
    if asked is None or asked.call_id != call_id or state.persons_answer is not None:
        raise MessageRefused(f"call_id: {_why_not(state, call_id)}")
    if asked.kind != kind:
        remedy = "resolve it" if asked.kind == "outcome" else "approve or deny it"
        raise MessageRefused(f"call_id: this call waits for {_waits_for(asked.kind)}; {remedy}")
    if not isinstance(digest, str) or len(digest) < MIN_DIGEST:
        raise MessageRefused(
            f"arguments_sha256: give at least {MIN_DIGEST} digits of the digest of the arguments, as state shows it"
        )
    if not asked.arguments_sha256.startswith(digest):
        raise MessageRefused("arguments_sha256: the call that waits has other arguments; look at the state again")
    return given


def _why_not(state: RunState, call_id: str) -> str:
    """Why a call cannot be answered for now."""
    before = state.answered_calls.get(call_id)
    if before is not None:
        return f"this call was answered before ({WORDS[before]}); the first answer stands"
    if state.question is None or state.persons_answer is not None:
        return "no call of this run waits for a person now"
    return f"this call does not wait; {safe(state.question.call_id[:80])} waits for {_waits_for(state.question.kind)}"


def _waits_for(kind: QuestionKind) -> str:
    return "its outcome to be resolved" if kind == "outcome" else "approval"


def _reason(fields: dict[str, JsonValue]) -> str:
    given = fields.get("reason", "")
    if not isinstance(given, str):
        raise MessageRefused("reason: must be text")
    return safe(given)[:MAX_REASON]
