"""The commands with which a person lets a waiting run go on, as one types them into a shell."""

import shlex

from longshift.admission import Hold
from longshift.inert import inert
from longshift.questions import Question
from longshift.status import Status

RAISED: dict[Status, str] = {
    Status.MODEL_CALL_LIMIT: "model_calls",
    Status.TOOL_LIMIT: "tool_calls",
    Status.CONTEXT_LIMIT: "context_bytes",
    Status.TOKEN_LIMIT: "total_output_tokens",
    Status.MODEL_COST_LIMIT: "model_budget_cents",
}
"""The limit to raise where a run waits at one."""


def going_on(run_id: str, hold: Hold, question: Question | None, fund: str | None) -> list[str]:
    """The commands that let a waiting run go on; none where no command does, as for a journal that is away.

    Args:
        question: what the run asks, if it does.
        fund: the fund that pays for its model calls, if one does.
    """
    if question is not None and hold.kind in ("approval", "outcome"):
        return commands(run_id, question)
    if hold.kind == "resume":
        return [f"longshift resume {_word(run_id)}"]
    if hold.kind == "fund" and fund is not None:
        return [f"longshift funds raise {_word(fund)} CENTS"]
    if hold.kind == "limit" and hold.status in RAISED:
        return [f"longshift limits {_word(run_id)} {RAISED[hold.status]}=VALUE"]
    return []


def look(run_id: str, question: Question) -> str:
    """The command that shows the whole arguments of the call that a question is about."""
    is_option = question.call_id.startswith("-")  # it would be read as one
    call_id = f"--call{'=' if is_option else ' '}{_word(question.call_id)}"
    return f"longshift transcript {_word(run_id)} {call_id}"


def commands(run_id: str, question: Question) -> list[str]:
    """The commands that answer a question."""
    is_option = question.call_id.startswith("-")  # it would be read as one
    if question.kind == "approval":
        ways = ["approve", "deny --reason TEXT"]
    else:
        ways = ["resolve --happened JSON", "resolve --did-not-happen", "resolve --stop"]
    named = f"{_word(run_id)} {_word(question.call_id)}"
    if is_option:
        return [f"longshift {way} -- {named}" for way in ways]
    words = [way.partition(" ") for way in ways]
    return [f"longshift {name} {named} {options}".rstrip() for name, _, options in words]


def _word(text: str) -> str:
    return shlex.quote(inert(text))
