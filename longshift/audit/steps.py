"""Whether each step of a history follows from those before: the workflow asks for nothing that nothing gave it."""

from collections.abc import Iterator

from longshift.audit.history import History, Part, Place, Step
from longshift.contracts import CallModel, CloseRun, OpenedRun, OpenRun, RunResult, RunTool, SettledEffect
from longshift.limits import LimitsRefused
from longshift.messages import ToolCall, ToolMessage, arguments_digest
from longshift.run_input import RunInput
from longshift.status import CLOSED_WELL, Status
from longshift.turns import Turn


def first_problem(run_id: str, history: History) -> str | None:
    """The first thing in a history that cannot be, with the place where it stands; None where there is none."""
    for part in history.parts:
        if part.problem is not None:
            return f"{part.run}: {part.problem}"
    return next((text for way in (history.path, *history.ways) for text in _Way(run_id, way).problems()), None)


class _Way:
    """One way of a run, looked at from its beginning."""

    def __init__(self, run_id: str, parts: tuple[Part, ...]) -> None:
        self.run_id, self.parts = run_id, parts
        self.given: RunInput | None = parts[0].given if parts else None
        self.turns: dict[int, Turn] = {}
        self.number: int | None = None
        """Of the latest model call."""
        self.refused = False
        """The latest model call was not paid for."""
        self.due: dict[Place, int] = {}
        """The number of a call's next dispatch: above that of the one before, and above the ledger's fence."""
        first = parts[0].carried.state if parts and parts[0].carried else None
        if first is not None:
            self.number = first.model_calls + first.withdrawn

    def problems(self) -> Iterator[str]:
        """All of them, in the order of the steps."""
        for n, part in enumerate(self.parts):
            for step in part.steps:
                text = self._step(step, part)
                if text is not None:
                    yield f"event {step.number}: {text}"
            after = self.parts[n + 1] if n + 1 < len(self.parts) else None
            if after is not None and after.carried != part.hands_over:
                yield f"{after.run}: what it was handed is not what the part before it handed over"
            text = _end(part)
            if text is not None:
                yield f"{part.run}: {text}"

    def _step(self, step: Step, part: Part) -> str | None:
        request = step.request
        whose = step.tool.run_id if step.tool is not None else getattr(request, "run_id", self.run_id)
        if whose != self.run_id:
            return f"a step of another run, {whose[:80]}"
        if isinstance(request, OpenRun):
            return self._opening(request, step)
        if isinstance(request, CallModel):
            return self._model_call(request, step)
        if isinstance(request, CloseRun):
            return self._closing(request)
        return self._tool_call(step)

    def _opening(self, request: OpenRun, step: Step) -> str | None:
        if request.given != self.given:
            return "the run is opened with another input than it was started with"
        if not isinstance(step.returned, OpenedRun):
            return None
        given, opened = request.given, step.returned
        asked = opened.opening[-1].message if opened.opening else None
        if given.task is not None and (asked is None or opened.opening[-1].whole is None):
            if asked is None or asked.content != given.task:
                return "the transcript does not begin with what was asked for"
        elif given.messages and opened.opening[-1].whole is None and asked != given.messages[-1]:
            return "the transcript does not begin with the messages that were given"
        limits = opened.spec.agent.limits
        try:
            return None if limits.changed(given.limits) == limits else "the limits are not those that were given"
        except LimitsRefused as refused:
            return f"limits were accepted that are none: {refused}"

    def _model_call(self, request: CallModel, step: Step) -> str | None:
        before, refused = self.number, self.refused
        if not step.again:
            self.number = request.number
        follows = request.number == before if step.again else request.number == (before or 0) + 1
        if not follows and not (refused and request.number == before):  # so numbered earlier versions
            return f"model call {request.number} follows model call {before or 0}"
        failure = step.model_failure
        self.refused = failure is not None and failure.kind == "fund"
        if step.turn is not None:
            self.turns[request.number] = step.turn
        return None

    def _tool_call(self, step: Step) -> str | None:
        tool = step.tool
        assert tool is not None
        place = f"call {tool.position} of model call {tool.model_call}"
        turn = self.turns.get(tool.model_call)
        calls = turn.message.calls if turn is not None else ()
        if turn is None and self.parts[0].carried is None:
            return f"{place} is run, and that model call brought no turn"
        if turn is not None and not (tool.position < len(calls) and _same(calls[tool.position], tool.call)):
            return f"{place} is not what the model asked for"
        one = (tool.model_call, tool.position, tool.call.id)
        if isinstance(step.request, RunTool) and tool.dispatch != self.due.get(one, 0):
            return f"{place} is dispatched under the number {tool.dispatch} where {self.due.get(one, 0)} is due"
        fence = step.returned.fence or 0 if isinstance(step.returned, SettledEffect) else 0
        self.due[one] = max(tool.dispatch, fence) + 1
        ran = step.ran
        said = ran.observation.message if ran is not None else None
        if ran is not None and not (
            isinstance(said, ToolMessage) and (said.call_id, said.name) == (tool.call.id, tool.call.name)
        ):
            return f"{place} brought the observation of another call"
        return None

    def _closing(self, request: CloseRun) -> str | None:
        result = request.result
        if (result.messages, result.digest) != (request.head.length, request.head.digest):
            return "the result does not name the end of the transcript"
        if result.status is not Status.COMPLETED:
            return "only a COMPLETED run has an answer" if result.answer is not None else None
        turn = self.turns.get(self.number or 0)
        if turn is None or (turn.message.content, turn.reply.whole) != (result.answer, result.answer_whole):
            return "the answer is not the text of the last turn"
        return None


def _same(asked: ToolCall, run: ToolCall) -> bool:
    return (asked.id, asked.name, arguments_digest(asked)) == (run.id, run.name, arguments_digest(run))


def _end(part: Part) -> str | None:
    """What is wrong with how a part closed."""
    closing = [step for step in part.steps if isinstance(step.request, CloseRun)]
    recorded = closing[-1].request.result if closing and isinstance(closing[-1].request, CloseRun) else None
    if closing and part.steps[-1] is not closing[-1]:
        return "a step follows the recording of the end"
    result = part.result
    if result is None:
        return None
    if recorded is not None and _without_notes(result) != _without_notes(recorded):
        return "it ended with another result than was recorded"
    well = "COMPLETED" if result.status in CLOSED_WELL else "FAILED"
    return None if part.closed == well else f"it ended with {result.status} and closed as {part.closed}"


def _without_notes(result: RunResult) -> RunResult:
    """A result but for its notes: that the end could not be recorded is noted after the recording."""
    return result.model_copy(update={"notes": ()})
