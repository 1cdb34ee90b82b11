"""What crosses between client, workflow and activities: names, one request and one result for each activity.

A transcript never crosses: it goes by reference, as the head of its chain and the few entries that are new.
"""

from functools import lru_cache

from pydantic import Field, JsonValue, field_validator

from longshift import jsontext
from longshift.agent import AgentSpec
from longshift.chain import Head
from longshift.context import Excerpt
from longshift.limits import cents
from longshift.memory import Memory
from longshift.messages import AssistantMessage, Message, Payload, ToolCall, ToolMessage, Weight, usual
from longshift.recording import Recorded
from longshift.run_input import RunInput
from longshift.status import Status
from longshift.turns import Turn

WORKFLOW = "agent_run"
OPEN_RUN = "open_run"
CALL_MODEL = "call_model"
RUN_TOOL = "run_tool"
SETTLE_EFFECT = "settle_effect"
CLOSE_RUN = "close_run"
CHECK_ATTRIBUTES = "check_attributes"

STOP = "stop"
PAUSE = "pause"
RESUME = "resume"
SET_LIMITS = "set_limits"
TELL = "tell"
APPROVE = "approve"
DENY = "deny"
RESOLVE = "resolve"
STATE = "state"

DEADLINE = "deadline of the run"
"""Summary of the one timer that every run has; any other is a wait worth telling of."""

INPUT_REFUSED = "InputRefused"
"""Failure type of a run that could not start; not an end status, since no shift began."""
MODEL_FAILURE = "ModelFailure"
"""Failure type of a model call that brought no turn; its one detail is a longshift.turns.ModelFailure."""
TOOL_TRANSIENT = "ToolTransient"
"""Failure type of a read that may be tried again by the platform."""
TOOL_MISSING = "ToolMissing"
"""Failure type of a call of a tool that the run recorded and the worker does not have."""
TOOL_BROKE = "ToolBroke"
"""Failure type of a fault of Longshift's own while it ran a tool."""
JOURNAL_AWAY = "JournalUnavailable"
"""Failure type of work that the journal's absence kept from being begun."""
TOOLS_AWAY = "ToolsUnavailable"
"""Failure type of a run that waits for a server of its tools before it can begin."""
TOO_LATE = "DeadlinePassed"
"""Failure type of a run whose deadline, which only its agent knows, passed before it could be opened."""
PLACE_TAKEN = "PlaceTaken"
"""Failure type of an effect whose place in the ledger belongs to another one, made before the workflow was reset."""
JOURNAL_DIFFERS = "JournalMismatch"
"""Failure type of a journal that does not hold what the workflow carries."""
NO_SUCH_TOOL = (TOOL_MISSING, "NotFoundError")
"""Failure types of a tool call for which a worker has no tool; the last is Temporal's own, for one that does not know
the activity at all."""
TELLABLE = (TOOL_TRANSIENT, TOOL_MISSING, TOOL_BROKE)
"""Failure types whose message the model may read; others name what is the operator's, such as the journal."""
WORKER_SHUTDOWN = "WorkerShutdown"
"""Failure type, Temporal's own, of an activity that its worker's end cut off."""
RESULT_MISFIT = "ResultMisfit"
"""Failure type of an activity that came back with a result that is none of its own, as where somebody completed it by
hand."""
AGAIN = "-again-"
"""Stands in the id of an activity that hands out what was handed out before."""
OUTCOME_UNKNOWN = "OutcomeUnknown"
"""Failure type of an effect whose dispatch cannot say what came of it: it refused to run since it may have run before,
its time ran out, or its tool says so."""

TOOL_MARGIN = 5.0
"""Seconds beyond a tool's own time-out, which its activity keeps itself, for reading and writing the journal: so long
its worker may still record what it brought."""


class EndpointFacts(Payload):
    """What a workflow knows of an endpoint. No URL and no key: those are the worker's."""

    name: str
    kind: str
    model: str
    timeout_seconds: float


class ToolServer(Payload):
    """A server of tools as it was when the run started."""

    name: str
    """Its name in the worker's configuration."""
    version: str = ""
    """What it says of its own name and version."""
    tools_sha256: str
    """Digest of all the tools that it offered, allowed or not."""


class OpenRun(Payload):
    """Request of `open_run`: resolve the agent, begin the journal."""

    run_id: str
    started_at: float
    """Seconds since the epoch."""
    given: RunInput


class RunSpec(Payload):
    """What a run works with, fixed at its start and recorded."""

    agent: AgentSpec
    """The agent, with this run's limits."""
    endpoint: EndpointFacts
    heartbeat_seconds: float
    """After so long without a sign of life a worker counts as dead."""
    notes: tuple[str, ...] = ()
    """What a person should know at the start, such as a budget that can never bind."""
    fund: str | None = Field(None, exclude_if=usual(None))
    """Name of the fund that pays for its model calls, beside its own budget."""
    tool_servers: tuple[ToolServer, ...] = Field((), exclude_if=usual(()))
    """Where tools of the agent's come from that no function of the worker is."""


def spec_text(spec: RunSpec) -> str:
    """A specification as canonical JSON, as the journal has it."""
    return jsontext.canonical(spec.model_dump(mode="json"))


@lru_cache(maxsize=64)
def shared_spec(text: str) -> RunSpec:
    """The specification that such a text is. All runs of a worker that work with the same hold one, not one each."""
    return RunSpec.model_validate_json(text)


class OpenedRun(Payload):
    """Result of `open_run`."""

    spec: RunSpec
    opening: tuple[Recorded, ...]
    """The first messages of the transcript; they stand in the journal."""


class Entry(Payload):
    """One message that the transcript gained: by reference where an activity put its body into the journal, in full
    where the workflow made it."""

    turn: int | None = None
    """Number of the model call whose turn it is."""
    call: tuple[int, int] | None = None
    """Number of the model call and position of the tool call whose observation it is."""
    message: Message | None = None


class Decision(Payload):
    """Something decided about the run: an admission refused, a limit changed, a stop asked for."""

    number: int
    """Its running number in the run, from 1; the journal keeps each number once, so that sending again is harmless."""
    at: float
    """Seconds since the epoch, workflow time."""
    kind: str
    detail: dict[str, JsonValue] = Field(default_factory=dict)


class CallModel(Payload):
    """Request of `call_model`: append what is new, then send call `number`."""

    run_id: str
    number: int
    reply: int
    """Which reply of the run this will be, from 1: one more than replies came, turns or failures. A call whose worker
    was lost brought none."""
    head: Head
    """Where the journal's chain must end once `entries` are appended."""
    entries: tuple[Entry, ...] = ()
    decisions: tuple[Decision, ...] = Field((), exclude_if=usual(()))
    output_tokens: int
    """Output tokens allowed."""
    estimate: int = Field(0, exclude_if=usual(0))
    """Micro-USD reserved for the call."""
    context_bytes: int = Field(0, exclude_if=usual(0))
    """Bytes of the JSON of what is sent and of the tool schemas, in a run that a fund pays for: they bound what it may
    cost."""
    tools: bool = Field(True, exclude_if=usual(True))
    """False for a wrap-up and for a summary: no tools are offered."""
    excerpt: Excerpt | None = Field(None, exclude_if=usual(None))
    """What of the transcript is sent; None: all of it."""
    forgotten: Memory | None = None
    """What the journal is to remember of the run's calls from now on, since its state keeps it no longer."""
    resets: int | None = None
    """How often an effect has reset the counts of reads; set where the journal remembers calls of this run, which are
    then told with the turn that repeats them."""

    @property
    def asks_for_summary(self) -> bool:
        """Whether the call asks for a summary of what leaves the context; its text is no message of the transcript."""
        return self.excerpt is not None and self.excerpt.until is not None


class CalledModel(Payload):
    """Result of `call_model`."""

    turn: Turn
    recalled: Memory | None = None
    """What the journal remembers of the turn's calls."""
    refused: dict[int, str] = Field(default_factory=dict, exclude_if=usual({}))
    """Why arguments do not fit, by the position of the call: of effects about which a person would be asked in vain."""

    @field_validator("turn")
    @classmethod
    def _check(cls, turn: Turn) -> Turn:
        if not isinstance(turn.reply.message, AssistantMessage):
            raise ValueError("a turn's message is an assistant message")
        return turn


def operation_id(run_id: str, model_call: int, position: int, call_id: str) -> str:
    """The name under which the service outside hears of one tool call: the same for every dispatch of it."""
    return f"{run_id}/{model_call}/{position}/{call_id}"


class RunTool(Payload):
    """Request of `run_tool`: one tool call."""

    run_id: str
    model_call: int
    """Number of the model call that asked for it."""
    position: int
    """Its place in the batch, from 0."""
    call: ToolCall
    repeat_of: tuple[int, int] | None = None
    """Set where this exact call was made too often: the earlier call whose observation to tell. No handler runs."""
    dispatch: int = Field(0, exclude_if=usual(0))
    """The fence of an effect: how many dispatches of it were given up before this one. A dispatch under a lower number
    than the ledger holds starts nothing."""

    @property
    def operation_id(self) -> str:
        """What the handler of this call gets as its operation id, whichever dispatch it is."""
        return operation_id(self.run_id, self.model_call, self.position, self.call.id)


class RanTool(Payload):
    """Result of `run_tool`."""

    observation: Recorded
    milliseconds: int = 0
    """Wall time of the handler."""
    fatal: bool = Field(False, exclude_if=usual(False))
    """The tool says that nothing the model does can help."""

    @field_validator("observation")
    @classmethod
    def _check(cls, observation: Recorded) -> Recorded:
        if not isinstance(observation.message, ToolMessage):
            raise ValueError("an observation is a tool's message")
        return observation


class SettleEffect(Payload):
    """Request of `settle_effect`: find out what came of a dispatch whose outcome did not reach the workflow."""

    call: RunTool
    resolution: str | None = None
    """A person's word on it, as an observation's content: entered, unless the ledger has come to hold one."""
    patient: bool = Field(True, exclude_if=usual(True))
    """Whether to wait while the handler may still be at work; a run that must end does not."""


class SettledEffect(Payload):
    """Result of `settle_effect`: the observation that stands; or a fence, below which it was never and will never be
    run; or neither, and its outcome is unknown."""

    ran: RanTool | None = None
    fence: int | None = None
    """The fence that stands now; the next dispatch must have a higher number."""
    unknown: str | None = None
    """What is known of an unknown outcome, in words."""


class RunResult(Payload):
    """How a run ended. The same for every status."""

    run_id: str
    status: Status
    answer: str | None = None
    """Only with COMPLETED."""
    answer_whole: Weight | None = None
    """Set where the answer was too large for the history and stands here cut: its message is whole in the journal."""
    detail: str
    """A sentence that names the figures."""
    partial: str | None = None
    """What a run without an answer got to: the text of its wrap-up, or an answer that a user's message followed."""
    partial_whole: Weight | None = None
    """The same as `answer_whole`, of `partial`."""
    model_calls: int = 0
    withdrawn: int = Field(0, exclude_if=usual(0))
    """Model calls that have a number and do not count, since a fund did not pay for them."""
    tool_calls: int = 0
    output_tokens: int = 0
    exposure: int = 0
    """Micro-USD that admitted model calls may have cost."""
    messages: int = 0
    """Length of the transcript."""
    digest: str = ""
    """The latest link of the message chain."""
    unrun_calls: tuple[str, ...] = ()
    """Ids of calls in the last batch that have no observation."""
    unknown_calls: tuple[str, ...] = Field((), exclude_if=usual(()))
    """Those of them that may or may not have happened: effects that were dispatched and never settled."""
    working_seconds: float = 0
    notes: tuple[str, ...] = ()

    @property
    def head(self) -> Head:
        """Where the transcript's chain ends; where it begins, if there is none."""
        return Head(length=self.messages, digest=self.digest) if self.messages else Head()

    def document(self) -> dict[str, JsonValue]:
        """The result as the command line prints it; money also in US cents."""
        document: dict[str, JsonValue] = self.model_dump(mode="json", exclude={"exposure"})
        document["exposure_cents"] = cents(self.exposure)
        document["exposure_micro_usd"] = self.exposure
        return document


class CloseRun(Payload):
    """Request of `close_run`: append what is new and record the end. Its result is empty."""

    run_id: str
    head: Head
    entries: tuple[Entry, ...] = ()
    decisions: tuple[Decision, ...] = ()
    result: RunResult


class CheckAttributes(Payload):
    """Request of `check_attributes`: whether the server knows the search attributes of runs."""

    run_id: str


class CheckedAttributes(Payload):
    """Result of `check_attributes`."""

    known: bool = False
    told: bool = True
    """Whether the server said so. Where it did not, the run asks again with its next change."""
