"""The audit of a run: its journal and its history, each by itself and both against each other.

Pure: takes the facts of both sides and says what holds, what differs first, and what could not be looked at.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from longshift import jsontext
from longshift.audit.columns import Row, shown, stored
from longshift.audit.counters import counted
from longshift.audit.effects import open_effects
from longshift.audit.history import History
from longshift.audit.rows import Projection, project
from longshift.audit.sides import TABLES, Rows, Sides, bodies_of, home, is_count
from longshift.audit.steps import first_problem
from longshift.chain import Head, extend
from longshift.contracts import RunResult
from longshift.episode import validate_episode
from longshift.messages import Message, ToolMessage, Weight
from longshift.status import Status

Verdict = Literal["held", "differs", "not checked"]
_MESSAGE: TypeAdapter[Message] = TypeAdapter(Message)


@dataclass(frozen=True)
class Check:
    """One thing that was checked."""

    name: str
    verdict: Verdict
    text: str
    """What held, with figures; the first difference, with its row; or why it was not checked."""


def audit(
    run_id: str,
    history: History | None,
    journal: Rows | None,
    without: Mapping[str, str],
    since: History | None = None,
) -> list[Check]:
    """Check a run.

    Args:
        history: what Temporal holds of it; None where nothing can be read. Of a run at work, what came of its steps
            before the journal was read, and no later.
        journal: what the journal holds of it; None where nothing can be read.
        without: why a side is None, by its name, `history` or `journal`.
        since: of a run at work, the history with all that came later, by which it is checked by itself; None: the same.
    """
    return list(_Audit(Sides(run_id, history, journal), without, since or history).checks())


class _Audit:
    def __init__(self, sides: Sides, without: Mapping[str, str], since: History | None) -> None:
        self.sides, self.without, self.since = sides, without, since
        self.history, self.journal = sides.history, sides.journal
        self.bodies = bodies_of(self.journal) if self.journal is not None else {}

    def checks(self) -> Iterator[Check]:
        """All checks, in the order in which a person reads them."""
        yield self._history()
        yield self._chain()
        yield self._episode()
        for table in TABLES:
            yield self._table(table)
        yield self._counters()
        yield self._effects()

    # Each side by itself.

    def _history(self) -> Check:
        name = "history"
        history = self.since
        if history is None:
            return Check(name=name, verdict="not checked", text=self.without.get(name, "there is none"))
        found = first_problem(self.sides.run_id, history) or next(iter(self._projected(history).problems), None)
        if found is not None:
            return _differs(name, found)
        steps = sum(len(part.steps) for part in history.path)
        parts = len(history.path)
        text = f"{_count(steps, 'step')} in {_count(parts, 'part')}, each follows from those before"
        if history.ways:
            text += f"; {_count(len(history.ways), 'way')} left by a reset"
        if history.missing:
            text += f"; not checked: {_count(len(history.missing), 'part')} that the server keeps no longer"
        return _held(name, text)

    def _projected(self, history: History) -> Projection:
        """The rows that follow from the path of a history."""
        if history is self.history or not history.path:
            return self.sides.path
        return project(self.sides.run_id, history.path, history)

    def _chain(self) -> Check:
        name = "chain"
        if self.journal is None:
            return Check(name=name, verdict="not checked", text=self.without.get("journal", "there is no journal"))
        if self.sides.run is None:
            return self._no_rows(name)
        head = Head()
        rebuilt, gone = self.sides.lost, list[str]()
        for row in _ordered(self.journal.get("messages", ()), "number"):
            number, problem = row.get("number"), None
            if number != head.length:
                return _differs(name, f"message {head.length} is missing")
            text, lost = self.bodies.get(head.length), rebuilt.get(f"{home(row)} body")
            if text is not None:
                weight = Weight(bytes=jsontext.size(text), sha256=jsontext.sha256(text))
                problem = _wrong_message(row, text)
            elif lost is not None:
                weight = lost
                gone.append(str(number))
            else:
                return _differs(name, f"message {number}: its body is missing")
            after = extend(head, weight)
            if problem is None and (row.get("bytes"), row.get("digest")) != (weight.bytes, after.digest):
                problem = "its size or its link does not follow from its body and the link before it"
            if problem is not None:
                return _differs(name, f"message {number}: {problem}")
            head = after
        length, digest = self.sides.run.get("length"), self.sides.run.get("digest")
        if (head.length, head.digest) != (length, digest):
            said = f"the run is recorded with {shown(length)} that end in {shown(digest)[:14]}"
            return _differs(name, f"the links end after {_count(head.length, 'message')}, {said}")
        without = f"; known by digest alone since the journal was rebuilt: {', '.join(gone)}" if gone else ""
        return _held(name, f"{_count(head.length, 'message')}, each link recomputed{without}")

    def _episode(self) -> Check:
        name = "episode"
        messages = self._messages()
        if messages is None:
            return Check(name=name, verdict="not checked", text="neither side has the messages")
        report = validate_episode(messages)
        if report.problem is not None:
            return _differs(name, f"message {report.problem.index}: {report.problem.reason}")
        result = self._result()
        if result is not None and tuple(result.unrun_calls) != report.unanswered and result.messages == len(messages):
            said = ", ".join(map(shown, result.unrun_calls)) or "none"
            return _differs(name, f"the calls without an observation are {list(report.unanswered)}, said are: {said}")
        whole = result is not None and result.messages == len(messages)
        if result is not None and whole and result.status is Status.COMPLETED and not report.complete:
            return _differs(name, "the run is COMPLETED and its last message is no final answer")
        left = f", without an observation: {', '.join(map(shown, report.unanswered))}" if report.unanswered else ""
        return _held(name, f"{_count(len(messages), 'message')}, {'complete' if report.complete else 'open'}{left}")

    def _messages(self) -> list[Message] | None:
        """The transcript, as whole as it is there: what the journal lacks stands cut in the history."""
        count = len((self.journal or {}).get("messages", ())) or len(self.sides.path.messages)
        found: list[Message] = []
        for number in range(count):
            try:
                found.append(_MESSAGE.validate_json(self.bodies[number]))
            except (ValidationError, KeyError):
                if number not in self.sides.path.messages:
                    break
                found.append(self.sides.path.messages[number])
        return found or None

    # Both sides against each other.

    def _table(self, table: str) -> Check:
        name = table.replace("_", " ")
        if self.journal is None:
            return Check(name=name, verdict="not checked", text=self.without.get("journal", "there is no journal"))
        if self.history is None:
            return Check(name=name, verdict="not checked", text=self.without.get("history", "there is no history"))
        rows = self.journal.get(table, ())
        expected = {key: one for key, one in self.sides.path.rows.items() if key[0] == table}
        seen: set[tuple[Any, ...]] = set()
        for row in rows:
            key = (table, *(row.get(column) for column in TABLES[table]))
            problem = self.sides.own_decision(row) if table == "decisions" and row.get("ordinal") is None else None
            if table == "decisions" and row.get("ordinal") is None and problem is None:
                continue
            problem = problem or ("stands twice" if key in seen else self.sides.row(key, row))
            seen.add(key)
            if problem is not None:
                return _differs(name, f"{_place(key)}{problem}")
        missing = next((key for key, one in expected.items() if one.must and key not in seen), None)
        if missing is not None:
            return _differs(name, f"{_place(missing)}is missing")
        problem = self._numbered(rows) if table == "decisions" else None
        if problem is not None:
            return _differs(name, problem)
        if not rows and not expected:
            return _held(name, "none, as the history says")
        return _held(name, f"{_count(len(rows), 'row')} as the history says{self._unheard(table, rows)}")

    def _numbered(self, rows: Sequence[Row]) -> str | None:
        numbers = sorted(row["number"] if is_count(row.get("number")) else -1 for row in rows)
        gap = next((n for n, number in enumerate(numbers, 1) if n != number), None)
        return None if gap is None else f"decision {gap} is missing or has another number"

    def _unheard(self, table: str, rows: Sequence[Row]) -> str:
        """How many rows the history cannot prove."""
        sure = [
            one for one in self.sides.path.rows.values() if one.table == table and one.must and len(one.variants) == 1
        ]
        keys = {(table, *(row.get(column) for column in TABLES[table])) for row in rows}
        unsure = len(keys - {(one.table, *one.key) for one in sure})
        return f"; of {unsure} the workflow never heard what came of it" if unsure > 0 and table != "decisions" else ""

    def _counters(self) -> Check:
        name = "counters"
        if self.since is None or not self.since.path:
            return Check(name=name, verdict="not checked", text=self.without.get("history", "there is no history"))
        places = 0
        for place, sums, said in counted(self.since.path, self.since.result):
            problem = sums.differing(said)
            if problem is not None:
                return _differs(name, f"{place}: {problem}")
            places += 1
        if not places:
            return Check(name=name, verdict="not checked", text="the run has no result that says what they are")
        result = self.since.result
        if result is None:
            return _held(name, f"at {_count(places, 'place')}")
        text = (
            f"{result.model_calls} model calls, {result.tool_calls} tool calls, {result.output_tokens} output tokens, "
        )
        return _held(name, f"{text}{result.exposure} micro-USD follow from the steps")

    def _effects(self) -> Check:
        name = "effects"
        rows = (self.journal or {}).get("tool_calls")
        effects = [row for row in rows or () if row.get("kind") == "effect"]
        if rows is None:
            return Check(name=name, verdict="not checked", text=self.without.get("journal", "there is no journal"))
        found = open_effects(effects, self._result(), self._told(), self.history)
        if found.unsaid:
            return _differs(name, found.unsaid)
        if not effects:
            return _held(name, "none was begun")
        known = sum(row.get("state") in ("settled", "fenced") for row in effects)
        said = f"; said to be unknown: {', '.join(found.said)}" if found.said else ""
        out = f"; at work, or not settled yet: {', '.join(found.at_work)}" if found.at_work else ""
        return _held(name, f"{known} of {len(effects)} settled or surely not made{said}{out}")

    def _told(self) -> Mapping[str, str]:
        """The observations of the transcript, by call."""
        messages = self._messages() or []
        return {stored(one.call_id): one.content for one in messages if isinstance(one, ToolMessage)}

    def _result(self) -> RunResult | None:
        if self.history is not None:
            return self.history.result
        recorded = self.sides.run.get("result") if self.sides.run else None
        try:
            return RunResult.model_validate_json(recorded) if recorded else None
        except (ValidationError, TypeError):
            return None

    def _no_rows(self, name: str) -> Check:
        if self.history is not None and self.history.spec is None:
            return _held(name, "nothing is in the journal of a run that was never opened")
        return _differs(
            name, "the journal holds nothing of this run; longshift journal rebuild makes it from the history"
        )


def _wrong_message(row: Row, text: str) -> str | None:
    try:
        message = _MESSAGE.validate_json(text)
    except ValidationError:
        return "its body is no message"
    return None if row.get("role") == message.role else "its role is not its body's"


def _ordered(rows: Sequence[Row], column: str) -> list[Row]:
    return sorted(rows, key=lambda row: row[column] if is_count(row.get(column)) else -1)


def _place(key: tuple[Any, ...]) -> str:
    words = " ".join(str(one) if not isinstance(one, str) or len(one) <= 60 else f"{one[:57]}..." for one in key[1:])
    return f"row {words}: " if words else "the row: "


def _held(name: str, text: str) -> Check:
    return Check(name=name, verdict="held", text=text)


def _differs(name: str, text: str) -> Check:
    return Check(name=name, verdict="differs", text=text)


def _count(number: int, name: str) -> str:
    plural = f"{name[:-1]}ies" if name.endswith("dy") else f"{name}s"
    return f"{number} {name if number == 1 else plural}"
