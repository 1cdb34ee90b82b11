"""The rows of tool calls that follow from a history: what the ledger of effects must hold, and what it may.

One row is shared by all ways of a run: a reset leaves the rows of effects as they are.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longshift import contracts, observations
from longshift.audit.columns import Column, among, body, fixed, free, moment, parsed
from longshift.audit.history import NOT_TAKEN, History, Place, Step, Steps
from longshift.contracts import RanTool, RunSpec, RunTool, SettledEffect, SettleEffect
from longshift.executions import undated, without_date
from longshift.messages import ToolMessage, arguments_digest, text_of
from longshift.tools import Kind

PERSON = "a person"
"""Who entered an outcome that a person told."""
REBUILT = "rebuilt from the history, which does not say what came of it"
"""The note of an effect that may have happened, in a row made from a history."""
NOTHING = fixed(None)


@dataclass(frozen=True)
class ToolRow:
    """What a history says of the row of a call, as longshift.audit.columns.Expected has it."""

    must: bool
    variants: tuple[Mapping[str, Column], ...]
    made_anew: bool = True


def tool_rows(run_id: str, spec: RunSpec, history: History) -> Iterator[tuple[Place, ToolRow]]:
    """Each row, with its key."""
    found: dict[Place, ToolRow] = {}
    for (place, _), steps in _by_call(history).items():
        row = _Call(run_id, spec, history, place, steps).row()
        if row is not None:
            # Two calls of one id at one place are of two ways: the first that was entered has it.
            key = (place[0], place[1], fixed(place[2]).value)
            other = found.get(key, ToolRow(False, (), False))
            must, made_anew = other.must or row.must, other.made_anew or row.made_anew
            found[key] = ToolRow(must, (*other.variants, *row.variants), made_anew)
    yield from found.items()


def _by_call(history: History) -> dict[tuple[Place, str], list[tuple[Step, str]]]:
    """The steps of each call, of all ways, in order, with the Temporal runs they are of. What a reset copied stands
    there once, as of the run that it was copied from."""
    found: dict[tuple[Place, str], dict[tuple[int, float, str], tuple[Step, str]]] = {}
    for part in history.parts:
        for place, steps in Steps.of([part]).tools.items():
            for step in steps:
                assert step.tool is not None
                call = step.tool.call
                steps_of = found.setdefault((place, f"{call.name} {arguments_digest(call)}"), {})
                one = (step.number, step.at, step.id)
                known = steps_of.get(one)
                steps_of[one] = (known[0] if known is not None and known[0].done else step, part.run)
    return {key: sorted(steps.values(), key=lambda one: one[0].at) for key, steps in found.items()}


class _Call:
    """What is known of one call."""

    def __init__(
        self, run_id: str, spec: RunSpec, history: History, place: Place, steps: Sequence[tuple[Step, str]]
    ) -> None:
        self.run_id, self.spec, self.history, self.place = run_id, spec, history, place
        self.steps = [step for step, _ in steps]
        self.runs = [run for _, run in steps]
        tools = [step.tool for step in self.steps if step.tool is not None]
        self.tool: RunTool = tools[-1]
        self.settled = [step.returned for step in self.steps if isinstance(step.returned, SettledEffect)]
        self.highest = max(tool.dispatch for tool in tools)
        self.recorded = next((one for one in spec.agent.tools if one.name == self.tool.call.name), None)
        read = self.tool.repeat_of is not None or (self.recorded is not None and self.recorded.kind == "read")
        self.kind: Kind = "read" if read else "effect"

    def row(self) -> ToolRow | None:
        """What the row may be; None where there is none by this history."""
        ran = [step.ran for step in self.steps if step.ran is not None]
        if ran:
            return ToolRow(True, (self._with("settled", self._outcome(ran[-1])),))
        begun = [step for step in self.steps if isinstance(step.request, RunTool) and not self._surely_not(step)]
        if self.kind == "read":
            late = self._with("settled", self._late())
            return ToolRow(False, (late,), made_anew=False) if begun else None
        asked = [step for step in self.steps if isinstance(step.returned, SettledEffect)]
        last = asked[-1] if asked else None
        after = [step for step in begun if last is None or step.at > last.at]
        fenced = isinstance(last.returned, SettledEffect) and last.returned.unknown is None if last else False
        if fenced and not after:
            return ToolRow(True, (self._with("fenced", {}),))
        if not begun and last is None:
            return None
        states = (self._with("unknown", {}), self._with("started", {}), self._with("settled", self._late()))
        never_ran = last is None and all(step.journal_away for step in begun)
        return ToolRow(last is not None, (*states, self._with("fenced", {})), made_anew=not never_ran)

    def _surely_not(self, step: Step) -> bool:
        """Whether a dispatch surely wrote no row."""
        never = (contracts.PLACE_TAKEN, *contracts.NO_SUCH_TOOL)
        if step.failed is None:
            return False
        return step.failed.type in never or (self.kind == "effect" and step.failed.type == NOT_TAKEN)

    def _with(self, state: str, outcome: Mapping[str, Column]) -> dict[str, Column]:
        """The columns of a row in a state."""
        call, at = self.tool.call, self.steps[0].at
        over = state in ("settled", "unknown")
        nothing = {"body": NOTHING, "whole": NOTHING, "fatal": fixed(False), "milliseconds": NOTHING}
        return {
            "run_id": fixed(self.run_id),
            "model_call": fixed(self.place[0]),
            "position": fixed(self.place[1]),
            "call_id": fixed(self.place[2]),
            "name": fixed(call.name),
            "arguments_sha256": fixed(arguments_digest(call)),
            "kind": fixed(self.kind),
            "state": fixed(state),
            "dispatch": self._dispatch(),
            **nothing,
            **outcome,
            "note": self._note(state),
            "attempt": self._attempt(state),
            "started_at": moment(at),
            "settled_at": moment(self.steps[-1].ended_at or at) if over else NOTHING,
        }

    def _dispatch(self) -> Column:
        """The fence: no higher than any dispatch that was asked for, no lower than what the ledger told."""
        low, high = max((one.fence or 0 for one in self.settled), default=0), self.highest
        if low >= high:
            return fixed(max(low, high))
        return among(list(range(low, high + 1)), high)

    def _outcome(self, ran: RanTool) -> dict[str, Column]:
        """What was told the workflow."""
        recorded, message = ran.observation, ran.observation.message
        text = None if recorded.whole else text_of(message)
        content = message.content if isinstance(message, ToolMessage) and text is not None else None
        return {
            "body": body(recorded.weight, text),
            "whole": self._whole(content),
            "fatal": fixed(ran.fatal),
            "milliseconds": fixed(ran.milliseconds),
        }

    def _late(self) -> dict[str, Column]:
        """What a worker entered that the workflow did not hear of."""
        return {
            "body": parsed(ToolMessage),
            "whole": free(None, str, "a text", none=True),
            "fatal": FLAG,
            "milliseconds": free(0, int, "a number"),
        }

    def _whole(self, content: str | None) -> Column:
        """What the tool returned, where the model got it cut. The history has only what the cut shows of it."""
        room = self.recorded.max_bytes if self.recorded is not None else 0

        def fits(given: Any) -> bool:
            if given is None:
                return content is None or not _is_cut(content)
            if not isinstance(given, str):
                return False
            try:
                return content is None or (given != content and observations.cut(given, room) == content)
            except ValueError:
                return False

        cut = content is not None and _is_cut(content)
        return Column(fits, None, "what was cut", free=True, lost=True) if cut or content is None else NOTHING

    def _note(self, state: str) -> Column:
        """Why the outcome was unknown, where a worker said so."""
        if self.kind == "read" or state == "fenced":
            return NOTHING if self.kind == "read" else free(None, str, "a text", none=True)
        told: list[str] = []
        silent, latest = False, None
        for step in self.steps:
            if isinstance(step.request, RunTool):
                latest = None  # a dispatch that begins takes the words of the one before away
            if isinstance(step.returned, SettledEffect) and step.returned.unknown is not None:
                latest = step.returned.unknown
            elif step.failed is not None and step.failed.type == contracts.OUTCOME_UNKNOWN:
                latest = step.failed.message
            elif isinstance(step.request, RunTool) and not step.done and not self._surely_not(step):
                silent = True  # its worker may have said so to the journal alone
            told += [latest] if latest is not None else []
        if silent:
            return free(REBUILT if state == "unknown" else None, str, "a text", none=state != "unknown")
        if state == "unknown":
            return among([*told, REBUILT], told[-1] if told else REBUILT)
        return among([None, *told, REBUILT], latest) if told else NOTHING

    def _attempt(self, state: str) -> Column:
        """Who entered it: an attempt that the history knows of, or a person."""
        ids = dict.fromkeys(step.id for step in self.steps)
        names = [undated(part.run, one) for part in self.history.parts for one in ids]
        made = self._made_by()
        if any(_resolves(step) for step in self.steps):
            names.append(PERSON)
        if self.kind == "effect" and state in ("fenced", "started", "unknown"):
            names.append("")
        if self.history.missing:
            return free(made, str, "an attempt")
        return attempts(names, "" if state == "fenced" else made)

    def _made_by(self) -> str:
        """Who entered it, as far as the steps tell: a person, or the latest dispatch."""
        if any(_resolves(step) and step.ran is not None for step in self.steps):
            return PERSON
        dispatches = [n for n, step in enumerate(self.steps) if isinstance(step.request, RunTool)]
        latest = dispatches[-1] if dispatches else 0
        return undated(self.runs[latest], self.steps[latest].id)


def attempts(names: Sequence[str], made: str) -> Column:
    """One of some executions, whenever it began."""
    known = among(list(dict.fromkeys(names)), made)
    return replace(known, fits=lambda given: isinstance(given, str) and known.fits(without_date(given)))


FLAG = Column(lambda given: isinstance(given, bool), False, "a flag", free=True)
"""True or false, not told the workflow."""


def _resolves(step: Step) -> bool:
    """Whether it enters a person's word."""
    return isinstance(step.request, SettleEffect) and step.request.resolution is not None


def _is_cut(content: str) -> bool:
    """Whether an observation was cut for the model."""
    return "[cut here: " in content and "the whole is in the journal]" in content
