"""The commands with which a person lets a waiting run go on, as one types them into a shell."""

import shlex

from longshift.inert import inert
from longshift.questions import Question


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
