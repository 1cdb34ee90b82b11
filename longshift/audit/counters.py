"""The counters of a run, counted anew from the steps of its history.

What a run's last step counted depends on the moment at which the run was to end, which no step tells. There the
counters have a lower and an upper bound; before it they are exact.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from longshift.audit.history import Part, Step, Steps
from longshift.batches import MAX_SIDE_BY_SIDE
from longshift.chain import Head
from longshift.contracts import CallModel, CloseRun, Entry, RunResult
from longshift.messages import ToolMessage
from longshift.state import RunState
from longshift.status import Status
from longshift.turns import ModelFailure, Turn, charged

CUT_SHORT = (Status.TIME_LIMIT, Status.STOP_REQUESTED, Status.INVALID_USAGE)
"""Ends that may leave the last model call's reply uncounted."""


@dataclass(frozen=True)
class Count:
    """A counter, as far as the steps tell it."""

    least: int = 0
    most: int = 0

    def plus(self, amount: int) -> "Count":
        """With so much more."""
        return Count(self.least + amount, self.most + amount)

    def maybe(self, amount: int) -> "Count":
        """With so much more, or not."""
        return Count(self.least + min(0, amount), self.most + max(0, amount))

    def __str__(self) -> str:
        """As people read it."""
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"


@dataclass(frozen=True)
class Counters:
    """What a run has used."""

    model_calls: Count = Count()
    withdrawn: Count = Count()
    tool_calls: Count = Count()
    output_tokens: Count = Count()
    exposure: Count = Count()
    """Micro-USD."""

    def differing(self, said: Mapping[str, int]) -> str | None:
        """The first of these figures that does not follow, in words."""
        for name, figure in said.items():
            counted: Count = getattr(self, name)
            if not counted.least <= figure <= counted.most:
                return f"{name} is {figure}, the steps of the run add up to {counted}"
        return None


FIGURES = ("model_calls", "withdrawn", "tool_calls", "output_tokens", "exposure")


def figures(of: RunResult | RunState) -> dict[str, int]:
    """What a result, or a state that is carried on, says of the counters."""
    return {name: getattr(of, name) for name in FIGURES}


def counted(parts: Sequence[Part], result: RunResult | None) -> Iterator[tuple[str, Counters, dict[str, int]]]:
    """The counters at each place where the workflow says what they are: at the end of each part, and of the run.

    Yields the place in words, what the steps add up to, and what is said there.
    """
    first = parts[0].carried
    base = Counters()
    if first is not None:
        base = Counters(**{name: Count(figure, figure) for name, figure in figures(first.state).items()})
    for n, part in enumerate(parts):
        last = n == len(parts) - 1
        if part.hands_over is not None:
            base = _after(base, parts[: n + 1], part, None)
            said = figures(part.hands_over.state)
            yield f"where part {n + 1} handed over", base, said
            base = Counters(**{name: Count(figure, figure) for name, figure in said.items()})
        elif last and result is not None:
            yield "at the end", _after(base, parts, part, result), figures(result)


def _after(base: Counters, parts: Sequence[Part], part: Part, result: RunResult | None) -> Counters:
    """The counters after a part; `result` where the run ended in it."""
    found, transcript = base, _transcript(parts, part)
    taken = {entry.turn for entry in transcript}
    admissions = _admissions(part)
    for n, steps in enumerate(admissions):
        ended = result is not None and n == len(admissions) - 1 and result.status in CUT_SHORT
        found = _with_model_call(found, steps, ended and _number(steps) not in taken)
    return replace(found, tool_calls=_tool_calls(base.tool_calls, transcript, part, result))


def _number(steps: Sequence[Step]) -> int:
    request = steps[-1].request
    assert isinstance(request, CallModel)
    return request.number


def _admissions(part: Part) -> list[list[Step]]:
    """The steps of each admitted model call: it may have been handed out again and again."""
    found: list[list[Step]] = []
    for step in part.steps:
        if isinstance(step.request, CallModel):
            if step.again and found:
                found[-1].append(step)
            else:
                found.append([step])
    return found


def _with_model_call(base: Counters, steps: Sequence[Step], cut_short: bool) -> Counters:
    """With one admitted model call; `cut_short`: the last one, whose reply the end may have left uncounted."""
    request, last = steps[-1].request, steps[-1]
    assert isinstance(request, CallModel)
    found = replace(base, model_calls=base.model_calls.plus(1), exposure=base.exposure.plus(request.estimate))
    failure = last.model_failure
    if last.turn is not None:
        cost, tokens = _of_turn(last.turn, request.output_tokens)
        found = replace(found, exposure=found.exposure.plus(0 if cost is None else cost - request.estimate))
        counted_tokens = found.output_tokens.maybe(tokens) if cut_short else found.output_tokens.plus(tokens)
        return replace(found, output_tokens=counted_tokens)
    if failure is None:
        return found
    if failure.kind == "fund":
        return _withdrawn(found, request.estimate, cut_short)
    cost, tokens = _of_failure(failure, request.output_tokens)
    more = 0 if cost is None else cost - request.estimate
    if cut_short:
        return replace(found, exposure=found.exposure.maybe(more), output_tokens=found.output_tokens.maybe(tokens))
    return replace(found, exposure=found.exposure.plus(more), output_tokens=found.output_tokens.plus(tokens))


def _withdrawn(found: Counters, estimate: int, cut_short: bool) -> Counters:
    """Without a call that its fund did not pay for. (Runs of earlier versions do not count those.)"""
    taken = (-1, -estimate)
    calls, money = (
        (found.model_calls.maybe(taken[0]), found.exposure.maybe(taken[1]))
        if cut_short
        else (found.model_calls.plus(taken[0]), found.exposure.plus(taken[1]))
    )
    return replace(found, model_calls=calls, exposure=money, withdrawn=found.withdrawn.maybe(1))


def _of_turn(turn: Turn, allowed: int) -> tuple[int | None, int]:
    """Cost and output tokens that a turn is charged."""
    return turn.cost, charged(turn.usage, allowed if turn.allowed is None else turn.allowed)


def _of_failure(failure: ModelFailure, allowed: int) -> tuple[int | None, int]:
    used = failure.usage.output_tokens if failure.usage is not None else None
    return failure.cost, min(used, allowed) if used is not None else 0


def _tool_calls(base: Count, transcript: Sequence[Entry], part: Part, result: RunResult | None) -> Count:
    """Tool calls that were admitted: those that were observed, and those that were under way at the end."""
    steps, observed = Steps.of([part]), _observed(transcript)
    dispatched: dict[int, set[int]] = {}
    for model_call, position, _ in steps.tools:
        dispatched.setdefault(model_call, set()).add(position)
    found, unrun = base, len(result.unrun_calls) if result is not None else 0
    batches = [number for number in observed if number in steps.calls]
    for number in batches:
        found = found.plus(observed[number])
        if unrun and number == batches[-1]:
            under_way = len([one for one in dispatched.get(number, ()) if one >= observed[number]])
            found = Count(found.least + under_way, found.most + min(unrun, MAX_SIDE_BY_SIDE))
    return found


def _observed(transcript: Sequence[Entry]) -> dict[int, int]:
    """How many observations follow each turn."""
    found: dict[int, int] = {}
    number = None
    for entry in transcript:
        if entry.turn is not None:
            number = entry.turn
            found[number] = 0
        elif number is not None and (entry.call is not None or isinstance(entry.message, ToolMessage)):
            found[number] += 1
    return found


def _transcript(parts: Sequence[Part], part: Part) -> list[Entry]:
    """All entries up to the end of a part in the order of their numbers, each once."""
    found: dict[int, Entry] = {}
    for step in (step for one in parts for step in one.steps):
        if isinstance(step.request, CallModel | CloseRun):
            found |= _numbered(step.request.head, step.request.entries)
    if part.hands_over is not None:
        found |= _numbered(part.hands_over.state.head, part.hands_over.state.entries)
    return [found[number] for number in sorted(found)]


def _numbered(head: Head, entries: Sequence[Entry]) -> dict[int, Entry]:
    return dict(enumerate(entries, head.length - len(entries)))
