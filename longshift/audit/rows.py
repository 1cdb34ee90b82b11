"""The journal that follows from a history: every row, with what the history fixes of it.

An audit holds the rows of a journal against these, and a rebuild writes them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from longshift.audit.columns import Column, Expected, among, body, document, fixed, free, moment, parsed, written
from longshift.audit.history import History, Part, Steps
from longshift.audit.tools import attempts, tool_rows
from longshift.chain import GENESIS, Head, extend
from longshift.contracts import CallModel, CloseRun, Decision, Entry, OpenRun, RunSpec
from longshift.executions import undated
from longshift.funds import NEVER_SENT
from longshift.memory import SEEN
from longshift.messages import AssistantMessage, Message, text_of
from longshift.recording import Recorded
from longshift.turns import ModelFailure, Turn, Usage

NOT_USED = "the reply is not used"
"""Ends the report of a worker whose call was given up before its reply came, or before it could send it; the row is
then another's."""
NOTHING = fixed(None)


@dataclass
class Projection:
    """The rows that follow from one way of a run."""

    rows: dict[tuple[Any, ...], Expected] = field(default_factory=dict)
    """By table and key."""
    problems: list[str] = field(default_factory=list)
    """Where the workflow's own chain does not follow from its own steps."""
    head: Head = field(default_factory=Head)
    """Where the chain ends."""
    messages: dict[int, Message] = field(default_factory=dict)
    """The transcript as the history has it: large messages stand there cut."""

    def add(
        self, table: str, key: tuple[Any, ...], must: bool, *variants: Mapping[str, Column], made_anew: bool = True
    ) -> None:
        """Enter a row. One that was entered before stays, and is sure once it is sure."""
        before = self.rows.get((table, *key))
        if before is not None:
            must, variants = must or before.must, before.variants
        self.rows[table, *key] = Expected(table, key, must, variants, made_anew)


def project(run_id: str, parts: Sequence[Part], history: History) -> Projection:
    """The rows that follow from a way.

    Args:
        parts: the way, from its beginning.
        history: all ways: rows of effects are shared by them.
    """
    return _Projecting(run_id, parts, history).all()


class _Projecting:
    def __init__(self, run_id: str, parts: Sequence[Part], history: History) -> None:
        self.run_id, self.parts, self.history = run_id, parts, history
        self.steps = Steps.of(parts)
        self.out = Projection()
        first = parts[0]
        self.carried = first.carried.state if first.carried else None
        spec = first.carried.spec if first.carried else self.steps.opened.spec if self.steps.opened else None
        self.spec: RunSpec | None = spec
        self.elsewhere = _requests_elsewhere(parts, history)
        self.links: dict[int, str | None] = {0: GENESIS}
        self.observations: dict[tuple[int, int], Recorded] = {}
        self.turns: dict[int, Turn] = {}
        self.runs = [part.run for part in history.parts]
        self.attempts: dict[int, dict[str, str]] = {}
        """Of each model call the ids of its activities, with the Temporal runs they are of."""
        self.asked: dict[int, list[CallModel]] = {}
        """Of each model call the requests for it, on all ways."""
        for run, steps in ((part.run, part.steps) for part in history.parts):
            for step in steps:
                if isinstance(step.request, CallModel):
                    self.attempts.setdefault(step.request.number, {})[step.id] = run
                    self.asked.setdefault(step.request.number, []).append(step.request)
        for step in (step for tried in self.steps.calls.values() for step in tried):
            if step.turn is not None and isinstance(step.request, CallModel):
                self.turns[step.request.number] = step.turn
        for (model_call, position, _), tried in self.steps.tools.items():
            for step in tried:
                if step.ran is not None:
                    self.observations[model_call, position] = step.ran.observation

    def all(self) -> Projection:
        """Project."""
        if self.spec is None:
            return self.out
        if self.carried is not None:
            self._known(self.carried.head)
            self.out.head = self.carried.head
        for number, recorded in enumerate(self.steps.opened.opening if self.steps.opened else ()):
            self._message(number, Entry(message=recorded.message), recorded, must=True)
            self.out.head = extend(self.out.head, recorded.weight)
        sent = [step for part in self.parts for step in part.steps if isinstance(step.request, CallModel | CloseRun)]
        sure = max((n for n, step in enumerate(sent) if step.entered), default=-1)
        heads: list[tuple[Head, bool]] = [(self.out.head, True)]
        for n, step in enumerate(sent):
            assert isinstance(step.request, CallModel | CloseRun)
            if step.not_entered:
                continue
            self._entries(step.request, must=n <= sure)
            self._decisions(step.request.decisions, must=step.entered and not self._walked_before(step.request))
            heads.append((step.request.head, step.entered))
        for number in self.steps.calls:
            self._model_call(number)
        for key, row in tool_rows(self.run_id, self.spec, self.history):
            self.out.add("tool_calls", key, row.must, *row.variants, made_anew=row.made_anew)
        self._run(heads)
        return self.out

    def _walked_before(self, request: CallModel | CloseRun) -> bool:
        """Whether another way asked for the very same: the journal then has it done already and enters nothing more."""
        return any(_is_twin(other, request) for other in self.elsewhere.get(request.head, ()))

    def _known(self, head: Head) -> None:
        """The workflow says where the chain stands."""
        before = self.links.get(head.length)
        if before is not None and before != head.digest:
            self.out.problems.append(
                f"the chain after message {head.length - 1}: the workflow says {head.digest[:12]}, its own steps give "
                f"{before[:12]}"
            )
        self.links[head.length] = head.digest

    # Messages.

    def _entries(self, request: CallModel | CloseRun, must: bool) -> None:
        start = request.head.length - len(request.entries)
        if self.carried is None and start > self.out.head.length:
            self.out.problems.append(f"message {self.out.head.length} is never handed to the journal")
        for number, entry in enumerate(request.entries, start):
            self._message(number, entry, self._recorded(entry), must)
        self._known(request.head)
        self.out.head = request.head

    def _recorded(self, entry: Entry) -> Recorded | None:
        """The message of an entry; None where it came before what is left of the history."""
        found: Recorded | None = None
        if entry.turn is not None:
            found = self.turns[entry.turn].reply if entry.turn in self.turns else None
        elif entry.call is not None:
            found = self.observations.get(entry.call)
        elif entry.message is not None:
            return Recorded(message=entry.message)
        if found is None and self.carried is None:
            self.out.problems.append(f"an entry names {_place(entry)}, which brought nothing")
        return found

    def _message(self, number: int, entry: Entry, recorded: Recorded | None, must: bool) -> None:
        weight, before = recorded.weight if recorded else None, self.links.get(number)
        if recorded is not None:
            self.out.messages[number] = recorded.message
        after = None
        if weight is not None and before is not None:
            after = extend(Head(length=number, digest=before), weight).digest
            known = self.links.get(number + 1)
            if known is not None and known != after:
                self.out.problems.append(f"the chain after message {number} does not follow from the message")
        self.links[number + 1] = after or self.links.get(number + 1)
        self.out.add("messages", (number,), must, self._message_columns(number, entry, recorded, after))

    def _message_columns(
        self, number: int, entry: Entry, recorded: Recorded | None, after: str | None
    ) -> dict[str, Column]:
        message = recorded.message if recorded else None
        columns = {"run_id": fixed(self.run_id), "number": fixed(number)}
        role = "assistant" if entry.turn is not None else "tool" if entry.call is not None else None
        columns["role"] = fixed(role or (message.role if message else None))
        columns["body"] = NOTHING
        if entry.message is not None and recorded is not None:
            columns["body"] = _body(recorded)
        columns["turn"] = fixed(entry.turn)
        columns["call_model"] = fixed(entry.call[0] if entry.call else None)
        columns["call_position"] = fixed(entry.call[1] if entry.call else None)
        call_id = getattr(message, "call_id", None) if entry.call else None
        unknown = entry.call is not None and recorded is None
        columns["call_id"] = free(None, str, "a call's id") if unknown else fixed(call_id)
        columns["bytes"] = fixed(recorded.weight.bytes) if recorded else free(None, int, "a size")
        columns["digest"] = fixed(after) if after else free(None, str, "a link")
        return columns

    # Model calls.

    def _model_call(self, number: int) -> None:
        steps = self.steps.calls[number]
        request = steps[-1].request
        assert isinstance(request, CallModel)
        tried = [step for step in steps if not step.not_entered]
        if not tried:
            return
        at = tried[0].at
        # Another way may have asked for the very same with other limits: what was entered first stands.
        same = [request, *(one for one in self.asked[number] if _is_twin(one, request))]
        base = {
            "run_id": fixed(self.run_id),
            "number": fixed(number),
            "context_length": fixed(request.head.length),
            "context_digest": fixed(request.head.digest),
            "excerpt": document(request.excerpt),
            "tools": fixed(request.tools),
            "allowed": among(list(dict.fromkeys(one.output_tokens for one in same)), request.output_tokens),
            "estimate": among(list(dict.fromkeys(one.estimate for one in same)), request.estimate),
        }
        least = min(one.estimate for one in same)
        last = {"sender": self._sender(number), "started_at": moment(at)}
        for step in reversed(tried):
            turn, failure = step.turn, step.model_failure
            if step.journal_away or (failure is not None and failure.message.endswith(NOT_USED)):
                continue
            if turn is not None or failure is not None:
                outcome = self._answered(turn) if turn is not None else _failed(failure)
                paid = self._paid(least, failure)
                made = base | outcome | last | {"ended_at": moment(step.ended_at or at)} | paid
                self.out.add("model_calls", (number,), True, made)
                break
        else:
            variants = [base | outcome | last | self._paid(0, None, told=False) for outcome in _unreported(at)]
            sure, away = any(step.entered for step in tried), all(step.journal_away for step in tried)
            self.out.add("model_calls", (number,), sure, *variants, made_anew=not away)
        if request.forgotten is not None:
            self._remembered(request, any(step.entered for step in tried))

    def _sender(self, number: int) -> Column:
        """Who sent it: an attempt that the history knows of."""
        names = [undated(run, name) for run in self.runs for name in self.attempts[number]]
        first, run = next(iter(self.attempts[number].items()))
        if self.history.missing:
            return free(undated(run, first), str, "an attempt")
        return attempts(names, undated(run, first))

    def _answered(self, turn: Turn) -> dict[str, Column]:
        return {
            "state": fixed("answered"),
            "body": _body(turn.reply),
            "stop_reason": fixed(turn.stop_reason),
            "output_tokens": fixed(turn.usage.output_tokens),
            "input_tokens": fixed(turn.usage.input_tokens),
            "usage": document(turn.usage),
            "cost": fixed(turn.cost),
            "milliseconds": fixed(turn.milliseconds),
            "failure": NOTHING,
            **({} if turn.allowed is None else {"allowed": fixed(turn.allowed)}),
        }

    def _paid(self, least: int, failure: ModelFailure | None, *, told: bool = True) -> dict[str, Column]:
        """What of the run's fund was held for it. A call that no worker could send has none."""
        assert self.spec is not None
        if self.spec.fund is None:
            return {"fund": NOTHING, "reserved": among([0, None], 0)}  # earlier versions wrote nothing
        if failure is not None and failure.cost is None and failure.kind in NEVER_SENT:
            return {"fund": among([self.spec.fund, None], self.spec.fund), "reserved": among([0, None], 0)}
        maybe = not told or (failure is not None and failure.kind in ("lost", "internal"))
        nothing = among([0, None], 0)  # where it was not sent, which such a failure does not tell

        def held(given: Any) -> bool:
            amount = isinstance(given, int) and not isinstance(given, bool) and given >= least
            return amount or (maybe and nothing.fits(given))

        return {
            "fund": among([self.spec.fund, None], self.spec.fund) if maybe else fixed(self.spec.fund),
            "reserved": Column(held, least, f"at least {least}", free=True),
        }

    def _remembered(self, request: CallModel, must: bool) -> None:
        assert request.forgotten is not None
        resets = fixed(request.resets or 0)
        seen: dict[str, Column] = {f"id {call_id}": NOTHING for call_id in request.forgotten.ids}
        for key, was in request.forgotten.seen.items():
            seen[f"call {key}"] = fixed(SEEN.dump_json(was).decode())
        for key, column in seen.items():
            name = fixed(key)
            columns = {"run_id": fixed(self.run_id), "key": name, "handed_with": fixed(request.number)}
            self.out.add("remembered", (name.value, request.number), must, columns | {"resets": resets, "seen": column})

    # Decisions, and the run itself.

    def _decisions(self, decisions: Iterable[Decision], must: bool) -> None:
        for one in decisions:
            columns = {
                "run_id": fixed(self.run_id),
                "number": free(None, int, "a number"),
                "ordinal": fixed(one.number),
                "at": fixed(one.at),
                "kind": fixed(one.kind),
                "detail": written(to_json(one.detail, inf_nan_mode="null").decode()),
            }
            self.out.add("decisions", (one.number, one.at), must, columns)

    def _run(self, heads: Sequence[tuple[Head, bool]]) -> None:
        assert self.spec is not None
        requests = [step.request for part in self.history.parts for step in part.steps]
        opened = [request.started_at for request in requests if isinstance(request, OpenRun)]
        started = self.carried.started_at if self.carried else opened[0] if opened else 0.0
        base = {
            "run_id": fixed(self.run_id),
            "agent": fixed(self.spec.agent.name),
            "endpoint": fixed(self.spec.endpoint.name),
            "model": fixed(self.spec.endpoint.model),
            "opened_at": among(list(dict.fromkeys([started, *opened])), started),
            "spec": document(self.spec),
        }
        sure = max(n for n, (_, entered) in enumerate(heads) if entered)
        closing = self.steps.closing
        variants: list[dict[str, Column]] = []
        if closing is not None:
            assert isinstance(closing.request, CloseRun)
            result = closing.request.result
            ended = {
                "closed_at": moment(closing.ended_at or closing.at),
                "status": fixed(result.status.value),
                "detail": fixed(result.detail),
                "result": document(result),
            }
            variants.append(base | ended | _ends(closing.request.head))
        if closing is None or not closing.done:
            still = dict.fromkeys(("closed_at", "status", "detail", "result"), NOTHING)
            ends = dict.fromkeys((head.length, head.digest) for head, _ in reversed(heads[sure:]))
            variants += [base | still | _ends(Head(length=length, digest=digest)) for length, digest in ends]
        self.out.add("runs", (), True, *variants)


def _requests_elsewhere(parts: Sequence[Part], history: History) -> dict[Head, list[CallModel | CloseRun]]:
    """What other ways than this one asked of the journal, by where its chain was to end. What a reset copied is no
    other way's."""
    own = {part.run for part in parts}
    others = [part for part in history.parts if part.run not in own]
    copied = {(step.number, step.at) for part in parts for step in part.steps} if others else set()
    found: dict[Head, list[CallModel | CloseRun]] = {}
    for step in (step for part in others for step in part.steps if (step.number, step.at) not in copied):
        if isinstance(step.request, CallModel | CloseRun):
            found.setdefault(step.request.head, []).append(step.request)
    return found


def _is_twin(one: object, other: object) -> bool:
    """Whether the journal takes two requests for one."""
    if isinstance(one, CallModel) and isinstance(other, CallModel):
        return (one.number, one.head, one.excerpt) == (other.number, other.head, other.excerpt)
    if isinstance(one, CloseRun) and isinstance(other, CloseRun):
        return (one.head, one.result) == (other.head, other.result)
    return False


def _ends(head: Head) -> dict[str, Column]:
    return {"length": fixed(head.length), "digest": fixed(head.digest)}


def _body(recorded: Recorded) -> Column:
    return body(recorded.weight, None if recorded.whole else text_of(recorded.message))


def _failed(failure: ModelFailure | None) -> dict[str, Column]:
    assert failure is not None
    usage = failure.usage or Usage()
    return {
        "state": fixed("failed"),
        "body": NOTHING,
        "stop_reason": NOTHING,
        "output_tokens": fixed(usage.output_tokens),
        "input_tokens": fixed(usage.input_tokens),
        "usage": NOTHING,
        "cost": fixed(failure.cost),
        "milliseconds": fixed(failure.milliseconds),
        "failure": document(failure),
    }


def _unreported(at: float) -> list[dict[str, Column]]:
    """What may stand of a call whose outcome never reached the workflow: nothing of it, or what its worker entered."""
    names = ("body", "stop_reason", "output_tokens", "input_tokens", "usage", "cost", "milliseconds", "failure")
    nothing, number = dict.fromkeys(names, NOTHING), free(None, int, "a number", none=True)
    figures = dict.fromkeys(("output_tokens", "input_tokens", "cost", "milliseconds"), number)
    answered = {"body": parsed(AssistantMessage), "stop_reason": free(None, str, "a word"), "usage": parsed(Usage)}
    return [
        {"state": fixed("sent"), **nothing, "ended_at": NOTHING},
        {"state": fixed("answered"), **nothing, **figures, **answered, "ended_at": moment(at)},
        {"state": fixed("failed"), **nothing, **figures, "failure": parsed(ModelFailure), "ended_at": moment(at)},
    ]


def _place(entry: Entry) -> str:
    if entry.turn is not None:
        return f"the turn of model call {entry.turn}"
    return f"call {entry.call[1]} of model call {entry.call[0]}" if entry.call else "no turn, call or message"
