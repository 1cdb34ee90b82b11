"""The journal: everything that happened in a run, in SQL, in the order in which its workflow confirmed it."""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Self

from longshift.chain import Head
from longshift.context import Excerpt
from longshift.contracts import CallModel, CloseRun, RunSpec, RunTool
from longshift.funds import Fund
from longshift.memory import Memory
from longshift.messages import AssistantMessage, Message, ToolCall
from longshift.tools import Kind
from longshift.turns import ModelFailure, Turn
from store import calls, funds, ledger, memory, rebuilding, runs, tool_calls, transcripts
from store.calls import Answered, Failed, Found, Fresh, Lost
from store.database import Database
from store.engine import open_database
from store.funds import Draw
from store.ledger import Begun, Fenced, Standing
from store.migrations import upgrade
from store.rebuilding import RunRows
from store.runs import RunFigures
from store.tables import DecisionRow, ModelCallRow, RunRow, ToolCallRow
from store.tool_calls import Observed
from store.transcripts import Difference, StoredMessage, TranscriptCache

__all__ = [
    "Answered",
    "Begun",
    "Difference",
    "Draw",
    "Failed",
    "Fenced",
    "Found",
    "Fresh",
    "Journal",
    "Lost",
    "Observed",
    "RunFigures",
    "Standing",
    "StoredMessage",
]

KNOWN_SPECS = 256
"""Specifications of runs that a journal keeps in memory; a worker has fewer runs at work."""


class Journal:
    """One connection of a process to the journal, safe to share between tasks.

    Every method is one transaction, and safe to repeat: what was done is not done again. Times are handed in, in
    seconds since the epoch.

    Every method raises store.errors.JournalUnavailable where the database cannot be used now, and
    store.errors.JournalMismatch where it does not hold what the workflow says it must.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._specs: OrderedDict[str, RunSpec] = OrderedDict()
        self._transcripts = TranscriptCache()

    @classmethod
    async def open(cls, url: str) -> Self:
        """The journal at `url`, its tables brought to this version. Close it in the end."""
        database = open_database(url)
        try:
            await database.write(upgrade)
        except BaseException:
            await database.close()
            raise
        return cls(database)

    async def close(self) -> None:
        """Finish what is under way and give all connections back."""
        await self._database.close()

    # A run, from its opening to its end.

    async def open_run(self, run_id: str, spec: RunSpec, opening: Sequence[Message], opened_at: float) -> Head:
        """Enter a run and the first messages of its transcript.

        The same again changes nothing and returns the same head; the specification that was entered first stands.
        Another time or another opening under the same id is a JournalMismatch: another run has it.
        """
        return await self._database.write(lambda c: runs.open_run(c, run_id, spec, opening, opened_at))

    async def spec(self, run_id: str) -> RunSpec:
        """What a run works with."""
        if run_id not in self._specs:
            self._specs[run_id] = await self._database.read(lambda c: runs.read_spec(c, run_id))
            while len(self._specs) > KNOWN_SPECS:
                self._specs.popitem(last=False)
        self._specs.move_to_end(run_id)
        return self._specs[run_id]

    async def transcript(self, run_id: str, head: Head, excerpt: Excerpt | None = None) -> list[Message]:
        """The whole messages up to `head`, every one proved by the chain that ends there; or what `excerpt` says is
        sent of them. Only that is read then: a transcript that outgrew its context may be of any length."""
        if excerpt is not None:
            self._transcripts.drop(run_id)
            return await self._database.read(lambda c: transcripts.read_excerpt(c, run_id, head, excerpt))
        known = self._transcripts.latest(run_id, head)
        if known.head != head:
            known = await self._database.read(lambda c: transcripts.read_transcript(c, run_id, known, head))
            self._transcripts.hold(run_id, known)
        return list(known.messages)

    async def close_run(self, request: CloseRun, now: float) -> None:
        """Append the last entries and enter the run's end."""
        await self._database.write(lambda c: runs.close_run(c, request, now))
        self._transcripts.drop(request.run_id)

    # Model calls.

    async def begin_model_call(self, request: CallModel, sender: str, now: float, draw: Draw | None = None) -> Found:
        """Append what is new in `request` to the transcript and the decisions, prove that the chain ends at its
        head, and enter the call as sent by `sender`, one execution of its activity.

        Fresh is this sender's to send, however often it asks. Answered and Failed tell what came of the very same call
        before; Lost, that nothing did, that the run went on without it, or that a later execution has sent it.

        Where a reset made the run go another way, what the journal holds of the old one from there on is replaced
        (but for rows of effects), and the decision `journal_rewritten` says so. What a fund paid for it stays paid.

        Args:
            draw: what a fund holds from now on for a fresh call; none: no fund pays.

        Raises store.errors.FundRefused, and changes nothing, where the fund has too little left.
        """
        begun, appended = await self._database.write(lambda c: calls.begin_model_call(c, request, sender, now, draw))
        if appended is not None:
            self._transcripts.grow(request.run_id, appended, request.head)
        return begun

    async def settle_model_call(self, request: CallModel, reply: AssistantMessage, turn: Turn, now: float) -> bool:
        """Enter the reply, whole, of a call that was begun. Returns False, and changes nothing, where the call's
        outcome stands already or its place is another's: then nobody may be told of this reply.

        A fund that holds money for the call is charged the turn's cost in its place; where no cost is known, it goes
        on holding it."""
        return await self._database.write(lambda c: calls.settle_model_call(c, request, reply, turn, now))

    async def fail_model_call(
        self, request: CallModel, failure: ModelFailure, now: float, *, never_sent: bool = False
    ) -> bool:
        """Enter the failure of a call that was begun; else as `settle_model_call`. A fund holds nothing more for one
        that surely reached no model, by its kind or by `never_sent`."""
        return await self._database.write(
            lambda c: calls.fail_model_call(c, request, failure, now, never_sent=never_sent)
        )

    async def recall(self, request: CallModel, calls: Sequence[ToolCall]) -> Memory:
        """What is remembered of these calls, which the turn of `request` asks for, in the workflow's place."""
        return await self._database.read(lambda c: memory.recall(c, request, calls))

    # Tool calls.

    async def tool_call(self, run_id: str, model_call: int, position: int) -> ToolCall:
        """A call as the model made it, with arguments that were too large for the history."""
        return await self._database.read(lambda c: tool_calls.tool_call(c, run_id, model_call, position))

    async def observation(self, run_id: str, model_call: int, position: int) -> Observed | None:
        """What the call at a place in a stored turn brought, where it is settled."""
        return await self._database.read(lambda c: tool_calls.observation(c, run_id, model_call, position))

    async def stored_observation(self, request: RunTool) -> Observed | None:
        """What this very call brought, where it is settled."""
        return await self._database.read(lambda c: tool_calls.stored_observation(c, request))

    async def settle_tool_call(
        self, request: RunTool, kind: Kind, attempt: str, observed: Observed, started: float, now: float
    ) -> Observed:
        """Enter what a call brought, unless it is settled already. Returns what stands then: tell the workflow that.

        A read, which was not entered as started, is entered here, with its attempt and when it `started`. An effect
        may be settled by any dispatch of it that was begun, also after another one was: they did the same operation.

        An outcome of an effect that is fenced is a JournalMismatch: no handler of it was allowed to run.
        """
        return await self._database.write(
            lambda c: tool_calls.settle_tool_call(c, request, kind, attempt, observed, started, now)
        )

    # Effects: one row each, under the key (run, model call, position, call id); `dispatch` is its fence.

    async def begin_effect(self, request: RunTool, attempt: str, now: float, *, again: bool) -> bool:
        """Enter a dispatch as started by `attempt`, one execution of its activity, before its handler runs. Returns
        False, and changes nothing, where the handler must not run. The same attempt is told the same again.

        It may where the effect has no row, or was given up under a lower dispatch. With `again`, for a tool that may
        be called again with the same operation id, also where a lower dispatch was begun and is not settled. Never
        where it is settled, this dispatch or a higher one was begun or given up, or the key belongs to another call.
        """
        return await self._database.write(lambda c: ledger.begin_effect(c, request, attempt, now, again=again))

    async def leave_unknown(self, request: RunTool, now: float, why: str) -> None:
        """Enter that the handler of this very dispatch is over and cannot say what came of it; `why`, in words.
        Changes nothing where the effect is settled, or another dispatch of it was begun or fenced."""
        await self._database.write(lambda c: ledger.leave_unknown(c, request, now, why))

    async def withdraw_effect(self, request: RunTool) -> None:
        """Enter that the handler of a dispatch which was entered as started was not begun, and now never is."""
        await self._database.write(lambda c: ledger.withdraw_effect(c, request))

    async def settle_effect(self, request: RunTool, now: float) -> Standing:
        """Find out what came of a dispatch whose outcome did not reach the workflow, and fence it: from now on neither
        it nor a lower one can begin.

        Observed: it is settled. Fenced: it was not run; the next dispatch needs a number above the fence's. Begun: it
        was begun, and its handler either may still run or is over, its outcome unknown.

        A key that belongs to another call is a JournalMismatch.
        """
        return await self._database.write(lambda c: ledger.settle_effect(c, request, now))

    async def effect(self, request: RunTool) -> Standing | None:
        """What stands of this very effect, as `settle_effect` tells it, and nothing fenced; None where no dispatch of
        it was begun or given up."""
        return await self._database.read(lambda c: ledger.read_effect(c, request))

    async def resolve_effect(self, request: RunTool, observed: Observed, now: float) -> Observed:
        """Enter what a person says came of an effect, unless it is settled already. Returns what stands then.

        An effect that is fenced, which was surely not run, or a key that belongs to another call is a JournalMismatch.
        """
        return await self._database.write(lambda c: ledger.resolve_effect(c, request, observed, now))

    # Funds.

    async def funds(self) -> list[Fund]:
        """All funds, by name."""
        return await self._database.read(funds.read_funds)

    async def set_fund(self, name: str, budget: int) -> Fund:
        """Give a fund a budget in micro-USD, and make it where there is none. Returns how it stands then; a budget
        below what is used lets no further call begin."""
        return await self._database.write(lambda c: funds.set_fund(c, name, budget))

    async def raise_fund(self, name: str, amount: int, request_id: str) -> Fund:
        """Add micro-USD to a fund's budget, once for each request id of the fund's last 50 raises. Returns how it
        stands then.

        Raises store.errors.FundRefused for an unknown fund, longshift.funds.AmountRefused for too large a budget.
        """
        return await self._database.write(lambda c: funds.raise_fund(c, name, amount, request_id))

    # For people, and for what people look with.

    async def run(self, run_id: str) -> RunRow | None:
        """One run."""
        return await self._database.read(lambda c: runs.read_run(c, run_id))

    async def figures(self, since: float) -> list[RunFigures]:
        """The runs that were opened since then, summed up, the earliest first."""
        return await self._database.read(lambda c: runs.read_figures(c, since))

    async def messages(self, run_id: str) -> list[StoredMessage]:
        """A run's confirmed messages, as they stand; `verify_chain` proves them."""
        return await self._database.read(lambda c: transcripts.read_messages(c, run_id))

    async def model_calls(self, run_id: str) -> list[ModelCallRow]:
        """A run's model calls, in order."""
        return await self._database.read(lambda c: runs.read_model_calls(c, run_id))

    async def tool_calls(self, run_id: str) -> list[ToolCallRow]:
        """A run's dispatched tool calls, in the order of the requests."""
        return await self._database.read(lambda c: runs.read_tool_calls(c, run_id))

    async def decisions(self, run_id: str) -> list[DecisionRow]:
        """A run's decisions, in the order of writing."""
        return await self._database.read(lambda c: runs.read_decisions(c, run_id))

    async def verify_chain(self, run_id: str) -> Difference | None:
        """Recompute every link of a run from its bodies. Returns the first row that differs, None if all is well."""
        return await self._database.read(lambda c: transcripts.verify_chain(c, run_id))

    async def rows(self, run_id: str) -> RunRows:
        """All rows of a run, by table and column, as they stand; funds are no run's own."""
        return await self._database.read(lambda c: rebuilding.read_rows(c, run_id))

    async def replace_rows(self, run_id: str, rows: RunRows, expected: RunRows) -> bool:
        """Let a run have these rows and no others, where it has the `expected` ones now. Returns whether it had, or has
        these already."""
        self._transcripts.drop(run_id)
        self._specs.pop(run_id, None)
        return await self._database.write(lambda c: rebuilding.replace_rows(c, run_id, rows, expected))
