"""Plays authored turns against the plain functions of the core, in the order in which the workflow calls them.

No server, no clock, no activity: time moves by what the turns and the tools say they took, and messages arrive where a
test sends them. What is under test is the core alone, so the driver holds no rule of it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from typing import Any, Literal, TypeVar

from longshift import Agent, admission, answering, batches, effects, judgement, observations, validate_episode
from longshift.admission import Allowance, End, Hold
from longshift.agent import AgentSpec, schemas_bytes
from longshift.batches import Planned
from longshift.chain import Head, extend
from longshift.context import compose
from longshift.contracts import Entry, RunResult
from longshift.effects import Again
from longshift.inbox import apply_stop, read_limits, read_stop, read_tell
from longshift.judgement import Batch
from longshift.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage, weigh
from longshift.questions import PersonsAnswer, Question
from longshift.recording import record
from longshift.state import Answer, RunState
from longshift.status import Status
from longshift.tools import Tool, ToolContext
from longshift.turns import ModelFailure, Turn
from tests.unit.authored import failure

Verdict = TypeVar("Verdict")

START = 1_000_000.0
"""Seconds since the epoch at which every run starts."""
RUN_ID = "run-1"


@dataclass(frozen=True)
class Ran:
    """What a handler did."""

    content: str
    """The observation."""
    fatal: bool = False
    milliseconds: int = 0


Handler = Callable[[ToolCall], Ran]
Fate = Literal["ran", "unknown", "lost", "missing"]
"""What becomes of a dispatch of an effect: its observation comes, at once or by the ledger; it began, and nobody knows
what came of it; it surely never began; its worker has no such tool."""
Moment = Literal["start", "model", "tool", "hold", "back-off"]
Hook = Callable[["Driver", Moment], None]
"""Called where messages can arrive: before the first step, while a call is out, while the run waits."""


@dataclass
class Driver:
    """One run."""

    agent: AgentSpec
    turns: Iterable[Turn | ModelFailure]
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    opening: Sequence[Message] = (UserMessage(content="Begin."),)
    hook: Hook = lambda driver, moment: None
    fates: Mapping[str, Sequence[Fate]] = field(default_factory=dict)
    """What becomes of each dispatch of an effect, by its call's id; those after the last one run."""
    carry: bool = False
    """Each admission point reads the state back from its JSON, as continue-as-new does."""

    def __post_init__(self) -> None:
        self.now = START
        self.state = RunState(run_id=RUN_ID, started_at=START, limits=self.agent.limits)
        self.state.schemas_bytes = schemas_bytes(self.agent.tools)
        self.state.follow(self.agent.context)
        self.transcript: list[Message] = []
        self.dispatched: list[ToolCall] = []
        """Calls whose handler ran, in order."""
        self.ran_together: list[list[str]] = []
        """Call ids of each portion."""
        self.offered: list[Allowance] = []
        """What each model call was allowed."""
        self.sent: list[list[Message]] = []
        """What each model call was sent."""
        self.summaries: dict[int, str] = {}
        """The text of each summary, by the number of the call that brought it."""
        self.overcharged = 0
        """Micro-USD by which settled costs passed their estimates."""
        self._observed: dict[tuple[int, int], ToolMessage] = {}
        self._batch: Sequence[Planned] = ()
        self._done: set[str] = set()
        self._received = 0
        self._unknown: str | None = None
        self._due = iter(self.turns)
        for message in self.opening:
            self._append(message)
            if isinstance(message, AssistantMessage):
                self.state.use_ids(call.id for call in message.calls)

    # What people send.

    def stop(self, *args: Any) -> None:
        """A stop arrives."""
        apply_stop(self.state, read_stop(args))
        self._received += 1

    def pause(self, paused: bool = True) -> None:
        """A pause or a resume arrives."""
        self.state.paused = paused
        self._received += 1

    def set_limits(self, *args: Any) -> None:
        """A change of limits arrives. Raises MessageRefused."""
        changes, request_id = read_limits(args)
        if self.state.request_is_new(request_id):
            self.state.limits = self.state.limits.changed(changes)
            self._received += 1

    def tell(self, *args: Any) -> None:
        """A user's message arrives. Raises MessageRefused."""
        text, request_id = read_tell(self.state, args)
        if self.state.request_is_new(request_id):
            self.state.tells.append(text)
            self._received += 1

    def approve(self, *args: Any) -> None:
        """An approval arrives. Raises MessageRefused."""
        self._answered(answering.read_approval(self.state, args, self.now))

    def deny(self, *args: Any) -> None:
        """A denial arrives. Raises MessageRefused."""
        self._answered(answering.read_denial(self.state, args, self.now))

    def resolve(self, *args: Any) -> None:
        """A person's word on an unknown outcome arrives. Raises MessageRefused."""
        self._answered(answering.read_resolution(self.state, args, self.now))

    def _answered(self, answer: PersonsAnswer) -> None:
        answering.apply(self.state, answer)
        self._received += 1

    # What the workflow does.

    def run(self) -> RunResult:
        """Play the run to its end."""
        self.hook(self, "start")
        end: End | None = None
        while end is None:
            end = self._step()
        unrun = [item.call.id for item in self._batch if item.call.id not in self._done]
        unknown = [call_id for call_id in unrun if call_id == self._unknown]
        return judgement.conclude(self.state, end, unrun, unknown)

    def _step(self) -> End | None:
        allowance: Allowance | End = self._admitted(lambda: admission.before_model_call(self.state, self.now))
        if isinstance(allowance, End):
            return allowance
        state = self.state
        if allowance.summary is None:
            state.take_in((), allowance.window)
            for message in allowance.appending:
                self._append(message)
            state.wrapped_up = allowance.wrap_up is not None
        limits, estimate = state.limits, state.limits.estimate
        number = state.begin_model_call()
        self.offered.append(allowance)
        self.sent.append(self._sent(allowance))
        reply = self._call_model(allowance)
        if isinstance(reply, End):
            return reply
        self.overcharged += max(0, (reply.cost or 0) - estimate)
        if isinstance(reply, ModelFailure):
            return self._failed(reply, estimate, allowance.output_tokens)
        state.settle_turn(reply, estimate)
        refused = judgement.receive(state, reply, allowance.output_tokens, self.now)
        if refused:
            return refused
        if allowance.summary:
            self.summaries[number] = reply.message.content
            judgement.summarized(state, allowance.summary, reply, number, self.now)
            return None
        before = state.head
        if allowance.wrap_up:
            end = judgement.wrap_up(state, reply, allowance.wrap_up, limits, number)
            self._follow(reply, before)
            return end
        verdict: Answer | Batch | End = self._admitted(
            lambda: judgement.judge(self.state, self.agent, reply, number),
            lambda: admission.barred(self.state, self.now),
        )
        self._follow(reply, before)
        if isinstance(verdict, End):
            assert self.state.head == before, "a refused turn leaves the transcript as it was"
            return verdict
        if isinstance(verdict, Batch):
            return self._run_batch(verdict.planned, number)
        return judgement.answered(self.state, verdict, number)

    def _sent(self, allowance: Allowance) -> list[Message]:
        """What the activity sends, from the transcript."""
        excerpt = allowance.summary.excerpt if allowance.summary else self.state.excerpt
        if excerpt is None:
            return list(self.transcript)
        opening, rest = self.transcript[: excerpt.kept.length], self.transcript[excerpt.start :]
        summary = self.summaries[excerpt.summary.call] if excerpt.summary else ""
        return compose(RUN_ID, excerpt, opening, rest, summary)

    def _call_model(self, allowance: Allowance) -> Turn | ModelFailure | End:
        self.hook(self, "model")
        reply = next(self._due, None) or failure("no turn is left", transient=False)
        allowed = min(allowance.seconds, self.state.seconds_left(self.now))
        cut = reply.milliseconds / 1000 > allowed
        worked = int(allowed * 1000) if cut else reply.milliseconds
        self.now += allowed if cut else worked / 1000
        self.state.working_milliseconds += worked
        barred = self._barred_in_flight(cut)
        return barred or reply

    def _failed(self, reply: ModelFailure, estimate: int, allowed: int) -> End | None:
        self.state.settle_failure(reply, estimate, allowed)
        verdict = judgement.after_failure(self.state, reply, self.now)
        if isinstance(verdict, End):
            return admission.stopped(self.state) or verdict
        assert 0 <= verdict.seconds <= max(0.0, self.state.seconds_left(self.now))
        self.hook(self, "back-off")
        self.now += verdict.seconds
        return None

    def _run_batch(self, planned: Sequence[Planned], number: int) -> End | None:
        self._batch, self._done = planned, set()
        for portion in batches.portions(planned):
            first, count = portion[0], len(portion)
            self.state.question = effects.approval_question(first, self.now)
            barred: End | None = self._admitted(
                lambda count=count: admission.before_tool_call(self.state, self.now, count)  # type: ignore[misc]
            )
            answer = self.state.take_answer()
            if barred:
                return barred
            self.state.tool_calls += count
            self.ran_together.append([item.call.id for item in portion])
            if answer is not None and answer.kind == "denied":
                end = self._take(effects.denied(first, answer), first, number)
            elif first.alone:
                end = self._take(self._run_effect(first), first, number)
            else:
                end = self._run_portion(portion, number)
            if end:
                return end
        self._batch = ()
        return None

    def _run_portion(self, portion: Sequence[Planned], number: int) -> End | None:
        end: End | None = None
        longest, missing = 0, False
        self.hook(self, "tool")
        for item in portion:
            ran = self._ran(item)
            stopped = self._barred_in_flight(cut=False) if not item.observation else None
            longest = max(longest, 0 if stopped else ran.milliseconds)
            if not missing:
                ended = self._take(stopped or ran, item, number)
                end = end or ended
                missing = stopped is not None
        self._worked(longest)
        return end

    def _run_effect(self, item: Planned) -> Ran | ToolMessage | End:
        """Make an effect: each dispatch meets its fate; what is lost before it began is fenced and made afresh."""
        again = 0
        for fate in chain(self.fates.get(item.call.id, ()), repeat("ran")):
            self.hook(self, "tool")
            if fate == "ran":
                ran = self._ran(item)
                self._worked(ran.milliseconds)
                return ran
            if fate == "missing" and self._unknown != item.call.id:
                return batches.refusal(item.call, "unavailable", "no worker can run it")
            if fate == "unknown":
                self._worked(self._ran(item).milliseconds)
                self._unknown = item.call.id
            if self._unknown == item.call.id:
                step = effects.after_unknown(self.agent, item, "no reply", again, self.now)
                if not isinstance(step, Again):
                    return self._resolved(step, item) if isinstance(step, Question) else step
                again += 1
            barred = admission.barred(self.state, self.now)
            if barred:
                return barred
        raise AssertionError("an effect has no last dispatch")

    def _resolved(self, asked: Question, item: Planned) -> ToolMessage | End:
        self.state.question = asked
        barred: End | None = self._admitted(self._resolution_awaited)
        answer = self.state.take_answer()
        if barred:
            return barred
        assert answer is not None
        content = effects.resolution(answer)
        if content is None:
            return effects.stopped_by_person(item, answer)
        return ToolMessage(call_id=item.call.id, name=item.call.name, content=content)

    def _resolution_awaited(self) -> End | Hold | None:
        hold = admission.unanswered(self.state)
        return hold and (admission.barred(self.state, self.now) or hold)

    def _take(self, outcome: Ran | ToolMessage | End, item: Planned, number: int) -> End | None:
        if isinstance(outcome, End):
            return outcome
        message = ToolMessage(call_id=item.call.id, name=item.call.name, content=outcome.content)
        self._observed[number, item.position] = message
        ran = isinstance(outcome, Ran)
        self._append(message, Entry(call=(number, item.position)) if ran else None)
        self._done.add(item.call.id)
        fatal = isinstance(outcome, Ran) and outcome.fatal
        return End(Status.TOOL_FATAL, f"{item.call.name} says that nothing helps") if fatal else None

    def _worked(self, milliseconds: int) -> None:
        self.now += milliseconds / 1000
        self.state.working_milliseconds += milliseconds

    def _ran(self, item: Planned) -> Ran:
        if item.observation:
            return Ran(item.observation.content, item.fatal)
        if item.repeat_of:
            earlier = self._observed[item.repeat_of].content
            return Ran(observations.error("repeated", batches.told_again(earlier)))
        self.dispatched.append(item.call)
        handler = self.handlers.get(item.call.name, _echo)
        return handler(item.call)

    def _admitted(
        self, ask: Callable[[], Verdict | Hold], barred: Callable[[], End | None] = lambda: None
    ) -> Verdict | End:
        if self.carry:
            self.state = RunState.model_validate_json(self.state.model_dump_json())
        answer: Verdict | End | Hold = ask()
        if isinstance(answer, Hold):
            answer = barred() or answer
        while isinstance(answer, Hold):
            before = self._received
            self.hook(self, "hold")
            if self._received == before:  # nothing came until the deadline
                self.now += max(0.0, self.state.seconds_left(self.now))
            answer = barred() or ask()
        return answer

    def _barred_in_flight(self, cut: bool) -> End | None:
        if self.state.stop is not None and self.state.stop.mode == "now":
            return admission.stopped(self.state)
        return admission.out_of_time(self.state, self.now) if cut else None

    def _append(self, message: Message, entry: Entry | None = None) -> None:
        """Append what was observed or told; large messages stand cut in the history and whole in the transcript."""
        if entry:
            self.state.append_recorded(record(message), entry)
        else:
            self.state.append_message(message)
        self.transcript.append(message)

    def _follow(self, reply: Turn, before: Head) -> None:
        """Keep the transcript beside the state: whether the core took the reply in shows in the head."""
        if self.state.head != before:
            self.transcript.append(reply.message)

    def chain(self) -> Head:
        """The head recomputed from the transcript."""
        head = Head()
        for message in self.transcript:
            head = extend(head, weigh(message))
        return head


def checked(driver: Driver) -> RunResult:
    """Play a run, and hold its transcript against the result."""
    result = driver.run()
    report = validate_episode(driver.transcript)
    assert report.problem is None, report.problem
    assert report.unanswered == result.unrun_calls
    assert (result.messages, result.digest) == (driver.chain().length, driver.chain().digest)
    assert (result.answer is not None) == (result.status is Status.COMPLETED)
    return result


def _echo(made: ToolCall) -> Ran:
    return Ran(observations.ok(made.arguments))


def handlers_of(declared: Agent) -> dict[str, Handler]:
    """Handlers that run an agent's own tools, all of them synchronous."""
    return {tool.spec.name: _handler(tool) for tool in declared.tools}


def _handler(tool: Tool[..., Any]) -> Handler:
    async def here(work: Callable[[], str]) -> str:
        return work()

    def run(made: ToolCall) -> Ran:
        context = ToolContext(run_id=RUN_ID, call_id=made.id, operation_id=made.id)
        seen = asyncio.run(observations.observe(tool, made.arguments, context, here))
        return Ran(seen.content, fatal=seen.kind == "fatal")

    return run
