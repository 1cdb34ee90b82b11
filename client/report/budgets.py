"""What a run used of its limits, over time. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from client.ending import charged
from client.report.records import Call, Records
from client.show import Budget
from longshift import jsontext
from longshift.agent import schemas_bytes
from longshift.context import heading, instruction
from longshift.contracts import RunResult
from longshift.limits import Limits, LimitsRefused, cents
from longshift.messages import UserMessage, weigh

Points = tuple[tuple[float, float], ...]
"""Times, in seconds since the run began, and the value from there on."""
MONEY = "model_budget_cents"
"""The limit that is no count."""


@dataclass(frozen=True)
class Series:
    """What was used of one limit, over time."""

    name: str
    used: Points
    limit: Points
    """Empty where there is no limit."""
    whole: bool = True
    """It is counted in whole numbers."""


def limits_over_time(records: Records) -> list[tuple[float, Limits]]:
    """The limits in force: since when, in seconds since the epoch, and which."""
    found = [(records.run.opened_at, records.agent.limits)]
    for decided in records.decisions:
        if decided.kind == "set_limits":
            changes = {name: _value(value) for name, value in decided.detail.items()}
            try:
                found.append((decided.at, found[-1][1].changed(changes)))
            except LimitsRefused:  # of a version that knows other limits
                continue
    return found


def over_time(records: Records) -> list[Series]:
    """What the run used of its limits, as the journal tells."""
    start, limits = records.run.opened_at, limits_over_time(records)
    calls = records.model_calls
    ended = {one.row.number: one.row.ended_at or one.row.started_at for one in calls}
    made = [
        one.started_at if one.started_at is not None else ended.get(one.model_call, start)
        for one in records.tool_calls
        if one.state not in (None, "fenced") or one.observation is not None
    ]
    money: list[tuple[float, int]] = [(one.row.started_at, one.row.estimate) for one in calls]
    money += [
        (one.row.ended_at, one.row.cost - one.row.estimate)
        for one in calls
        if one.row.ended_at is not None and one.row.cost is not None
    ]
    tokens = [(one.row.ended_at, charged(one.row)) for one in calls if one.row.ended_at is not None]
    spent = [(at, cents(value)) for at, value in _summed(money)]
    return [
        _series("model calls", start, _summed((one.row.started_at, 1) for one in calls), limits, "model_calls"),
        _series("tool calls", start, _summed((at, 1) for at in made), limits, "tool_calls"),
        _series("output tokens", start, _summed(tokens), limits, "total_output_tokens"),
        _series("US cents", start, spent, limits, MONEY),
        _series("context bytes", start, _contexts(records), limits, "context_bytes"),
    ]


def at_the_end(records: Records, result: RunResult | None, now: float) -> list[Budget]:
    """What the run had used of its limits in the end, or until now: by its result, where it has one.

    Args:
        now: seconds since the epoch, for a run that has no recorded end.
    """
    series = {one.name: one.used[-1][1] if one.used else 0 for one in over_time(records)}
    limits = limits_over_time(records)[-1][1]
    if result is not None:
        series["model calls"], series["tool calls"] = result.model_calls, result.tool_calls
        series["output tokens"], series["US cents"] = result.output_tokens, cents(result.exposure)
    passed = (records.run.closed_at or now) - records.run.opened_at
    working = result.working_seconds if result is not None else _worked(records)
    found = [
        Budget("model calls", series["model calls"], limits.model_calls),
        Budget("tool calls", series["tool calls"], limits.tool_calls),
        Budget("seconds", round(max(0.0, passed), 1), limits.seconds),
        Budget("output tokens", series["output tokens"], limits.total_output_tokens),
        Budget("US cents", series["US cents"], cents(limits.budget)),
        Budget("context bytes", series["context bytes"], limits.context_bytes),
    ]
    if limits.working_seconds is not None:
        found.insert(3, Budget("working seconds", round(working, 1), limits.working_seconds))
    return found


def _worked(records: Records) -> float:
    times = [one.row.milliseconds or 0 for one in records.model_calls]
    return sum(times + [one.milliseconds or 0 for one in records.tool_calls]) / 1000


def _contexts(records: Records) -> list[tuple[float, float]]:
    """Bytes that each model call was sent, with the tools' schemas, as its limit counts them."""
    sums = [0]
    for message in records.messages:
        sums.append(sums[-1] + message.bytes)
    schemas = schemas_bytes(records.agent.tools)
    found: list[tuple[float, float]] = []
    for call in records.model_calls:
        count, size = _sent(records.run.run_id, call, sums)
        found.append((call.row.started_at, 2 + size + max(0, count - 1) + schemas))
    return found


def _sent(run_id: str, call: Call, sums: Sequence[int]) -> tuple[int, int]:
    """Messages that a call was sent, and the bytes of their JSON."""
    last = len(sums) - 1
    length, excerpt = min(call.row.context_length, last), call.excerpt
    if excerpt is None:
        return length, sums[length]
    end = min(length if excerpt.until is None else excerpt.until, last)
    start, kept = min(excerpt.start, end), min(excerpt.kept.length, last)
    count, size = kept + end - start, sums[kept] + sums[end] - sums[start]
    if excerpt.exchanges:
        told = excerpt.summary.bytes if excerpt.summary else 0
        count, size = count + 1, size + weigh(UserMessage(content=heading(run_id, excerpt))).bytes + told
    if excerpt.until is not None:
        count, size = count + 1, size + weigh(UserMessage(content=instruction(excerpt.characters))).bytes
    return count, size


def _series(
    name: str, start: float, used: Iterable[tuple[float, float]], limits: Sequence[tuple[float, Limits]], field: str
) -> Series:
    limit = ((at - start, getattr(one, field)) for at, one in limits)
    return Series(name, tuple((at - start, value) for at, value in used), tuple(limit), field != MONEY)


def _summed(steps: Iterable[tuple[float, int]]) -> list[tuple[float, int]]:
    """The running sum of some steps, by time."""
    found: list[tuple[float, int]] = []
    for at, step in sorted(steps, key=lambda one: one[0]):
        found.append((at, (found[-1][1] if found else 0) + step))
    return found


def _value(text: JsonValue) -> JsonValue:
    """A limit's value, which decisions hold as Python's text of it."""
    words: Mapping[JsonValue, JsonValue] = {"None": None, "True": True, "False": False}
    if not isinstance(text, str) or text in words:
        return words.get(text, text) if isinstance(text, str) else text
    try:
        return jsontext.parse(text)
    except ValueError:
        return text
