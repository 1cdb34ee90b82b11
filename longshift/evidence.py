"""Evidence: what a shift's records prove of it, as checks that an agent declares.

A status says how the exchange ended, not that the answer is right. A check judges a trajectory by what tools observed,
never by what the model says of itself, and says beside its verdict what it looked at and what it cannot know.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from longshift.episode import validate_episode
from longshift.messages import AssistantMessage, Message, ToolCall, ToolMessage
from longshift.observations import read
from longshift.tools import DeclarationRefused

if TYPE_CHECKING:
    from longshift.contracts import RunResult  # which imports the agents, which import this

CHECK_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
SHOWN = 300
"""Characters shown of what went wrong in a check."""


@dataclass(frozen=True)
class Trajectory:
    """A shift that has ended: how, and all its messages."""

    result: "RunResult"
    """Its status and counters."""
    messages: tuple[Message, ...]
    """Its transcript, whole."""

    def observed(self) -> list[tuple[ToolCall, dict[str, Any]]]:
        """Each tool call with its observation, in order; calls that never ran are left out."""
        calls = self._calls()
        return [(calls[item.call_id], read(item.content)) for item in self.messages if isinstance(item, ToolMessage)]

    def values(self, tool: str) -> list[Any]:
        """What the tool of this registered name returned, in order; calls that failed are left out."""
        return [body["value"] for call, body in self.observed() if call.name == tool and body["ok"]]

    def errors(self, tool: str) -> list[Any]:
        """The errors of the tool of this registered name, in order: `kind` and `message` of each."""
        return [body["error"] for call, body in self.observed() if call.name == tool and not body["ok"]]

    def unanswered(self, *tools: str) -> list[str]:
        """Ids of the effects of these registered names that may have happened, and of which no observation tells. One
        whose request is in no message, as where the shift was terminated, may be any tool's, and is among them."""
        calls = self._calls()
        told = {item.call_id for item in self.messages if isinstance(item, ToolMessage)}
        open_ = [call_id for call_id in self.result.unknown_calls if call_id not in told]
        return [call_id for call_id in open_ if call_id not in calls or calls[call_id].name in tools]

    def _calls(self) -> dict[str, ToolCall]:
        return {call.id: call for item in self.messages if isinstance(item, AssistantMessage) for call in item.calls}


@dataclass(frozen=True)
class Verdict:
    """What a check finds."""

    passed: bool
    sentence: str
    """Why, with the figures."""


@dataclass(frozen=True, eq=False)
class EvidenceCheck:
    """A declared check."""

    name: str
    looks_at: str
    """What it looks at, in words."""
    cannot_know: str
    """What it cannot know, in words: where a pass proves nothing."""
    judge: Callable[[Trajectory], Verdict]
    """The function as it was written."""


def evidence_check(
    *, looks_at: str, cannot_know: str, name: str | None = None
) -> Callable[[Callable[[Trajectory], Verdict]], EvidenceCheck]:
    """Make a function from a Trajectory to a Verdict a check that an agent can declare.

    Args:
        looks_at: what it looks at, in words.
        cannot_know: what it cannot know, in words.
        name: what it is called in reports, if not the function's name.

    Raises:
        DeclarationRefused: a text is blank, or the name cannot be used.
    """

    def declare(judge: Callable[[Trajectory], Verdict]) -> EvidenceCheck:
        called = name if name is not None else getattr(judge, "__name__", "")
        if not CHECK_NAME.fullmatch(called):
            rule = "give one of 1 to 64 lower-case letters, digits or _, with @evidence_check(name=...)"
            raise DeclarationRefused(f"check {called!r}: cannot be the name of a check; {rule}")
        for option, text in (("looks_at", looks_at), ("cannot_know", cannot_know)):
            if not isinstance(text, str) or not text.strip():
                raise DeclarationRefused(f"check {called}: {option} is blank; say it in a sentence")
        return EvidenceCheck(called, looks_at, cannot_know, judge)

    return declare


@dataclass(frozen=True)
class Graded:
    """A check, and what it found."""

    check: EvidenceCheck
    verdict: Verdict


def grade(checks: Sequence[EvidenceCheck], trajectory: Trajectory) -> list[Graded]:
    """Judge a shift by each check. Only a valid episode is judged: of another one every check fails, and says why.

    A check that raises, or returns no verdict, did not pass. Raises nothing itself.
    """
    problem = validate_episode(trajectory.messages).problem
    if problem is not None:
        broken = Verdict(False, f"message {problem.index} breaks the episode: {problem.reason}")
        return [Graded(check, broken) for check in checks]
    return [Graded(check, _judged(check, trajectory)) for check in checks]


def _judged(check: EvidenceCheck, trajectory: Trajectory) -> Verdict:
    try:
        verdict: object = check.judge(trajectory)
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())[:SHOWN]
        return Verdict(False, f"the check itself failed with {type(error).__name__}: {said}")
    if not isinstance(verdict, Verdict) or not isinstance(verdict.passed, bool):
        return Verdict(False, f"the check itself failed: it returned {type(verdict).__name__} instead of a Verdict")
    return verdict
