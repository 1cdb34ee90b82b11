"""Answer what shifts ask a person: approvals, approve, deny, resolve."""

import sys
from pathlib import Path
from typing import Literal

import click
from pydantic import JsonValue

from client import show
from client.answers import is_whole
from client.commands.given import BadInput
from client.commands.session import Session, json_option, run_argument
from client.errors import NoJournal, Refused
from client.inert import inert
from client.shifts import Answered
from longshift import jsontext
from longshift.inbox import MAX_TEXT_BYTES
from longshift.questions import Question

call_argument = click.argument("call_id", metavar="CALL")
"""The argument CALL: what is answered is named, so that an answer cannot meet another question."""


@click.command("approvals")
@json_option
@click.pass_obj
def approvals_command(config: Path | None, as_json: bool) -> None:
    """List what shifts ask a person, the longest waiting first, with the commands that answer. Needs no worker.

    \b
    Examples:
      longshift approvals
      longshift approvals --json
    """
    with Session(config) as session:
        found = session.do(session.shifts.approvals())
    if as_json:
        show.document([show.asked(run) for run in found])
    else:
        show.asking(found)


@click.command("approve")
@run_argument
@call_argument
@click.option("--reason", metavar="TEXT", default="", help="Stands in the journal.")
@click.option("--yes", is_flag=True, help="Approve arguments too long for the question without being asked once more.")
@json_option
@click.pass_obj
def approve_command(config: Path | None, run_id: str, call_id: str, reason: str, yes: bool, as_json: bool) -> None:
    """Let the shift RUN make the effect CALL, which waits for approval, with the arguments that are shown.

    The whole arguments are shown first. Where the question has a part of them only, nobody can have read them: a
    terminal is asked once more, anything else must give --yes. What cannot be shown is not approved.

    Without a worker the answer waits for one.

    \b
    Examples:
      longshift approve shop-20300101-090000-1f2e call-7
      longshift approve shop-20300101-090000-1f2e call-7 --reason "the price is agreed"
    """
    with Session(config) as session:
        question = session.do(session.shifts.question(run_id, call_id))
        try:
            _show(run_id, question, session.do(session.shifts.arguments(run_id, question)))
        except (NoJournal, Refused) as error:
            whole = f"the whole arguments of {inert(call_id)} cannot be shown, so they are not approved"
            raise Refused(f"{whole}: {error}; nothing was sent") from None
        if not (yes or is_whole(question)):
            _ask_once_more()
        answered = session.do(session.shifts.approve(run_id, question, reason=reason))
    _tell(as_json, run_id, question, answered, "approve", reason)


@click.command("deny")
@run_argument
@call_argument
@click.option("--reason", metavar="TEXT", required=True, help="Why; the model reads it.")
@json_option
@click.pass_obj
def deny_command(config: Path | None, run_id: str, call_id: str, reason: str, as_json: bool) -> None:
    """Do not let the shift RUN make the effect CALL, which waits for approval. The model reads why, and goes on.

    Without a worker the answer waits for one.

    \b
    Example:
      longshift deny shop-20300101-090000-1f2e call-7 --reason "order 6, not 60"
    """
    if not reason.strip():
        raise BadInput(["--reason: is blank; say why, since the model reads it"])
    with Session(config) as session:
        question = _question(session, run_id, call_id)
        answered = session.do(session.shifts.deny(run_id, question, reason=reason))
    _tell(as_json, run_id, question, answered, "deny", reason)


@click.command("resolve")
@run_argument
@call_argument
@click.option("--happened", metavar="JSON", help="It happened, and returned this; @FILE or - for stdin reads it there.")
@click.option("--did-not-happen", is_flag=True, help="It did not happen; the model may ask for it again.")
@click.option("--stop", is_flag=True, help="Nobody knows: end the shift.")
@click.option("--reason", metavar="TEXT", default="", help="How you know; the model reads it.")
@json_option
@click.pass_obj
def resolve_command(
    config: Path | None,
    run_id: str,
    call_id: str,
    happened: str | None,
    did_not_happen: bool,
    stop: bool,
    reason: str,
    as_json: bool,
) -> None:
    """Say what came of the effect CALL of the shift RUN, whose outcome is unknown. Look outside first: what happened
    twice cannot be taken back.

    Without a worker the answer waits for one.

    \b
    Examples:
      longshift resolve shop-20300101-090000-1f2e call-7 --happened '{"order": 4711}'
      longshift resolve shop-20300101-090000-1f2e call-7 --happened @order.json
      longshift resolve shop-20300101-090000-1f2e call-7 --did-not-happen --reason "the supplier has no order"
      longshift resolve shop-20300101-090000-1f2e call-7 --stop
    """
    if (happened is not None) + did_not_happen + stop != 1:
        raise BadInput(["give one of --happened JSON, --did-not-happen and --stop"])
    result = None if happened is None else _json(happened)
    outcome: Literal["happened", "did_not_happen", "stop"]
    outcome = "stop" if stop else "did_not_happen" if did_not_happen else "happened"
    with Session(config) as session:
        question = _question(session, run_id, call_id)
        answered = session.do(session.shifts.resolve(run_id, question, outcome, result=result, reason=reason))
    _tell(as_json, run_id, question, answered, outcome, reason)


def _question(session: Session, run_id: str, call_id: str) -> Question:
    """The question about CALL, shown on stderr with its whole arguments, where there are any to be had, before it is
    answered."""
    question = session.do(session.shifts.question(run_id, call_id))
    try:
        _show(run_id, question, session.do(session.shifts.arguments(run_id, question)))
    except (NoJournal, Refused) as error:
        _show(run_id, question, f"{question.arguments} (cut here; {error})")
    return question


def _show(run_id: str, question: Question, arguments: str) -> None:
    show.note(f"{run_id} {question.call_id}: {question.name} {arguments}")


def _ask_once_more() -> None:
    """Have the person at the terminal confirm what was shown just now. Raises BadInput where there is none, Refused."""
    if not sys.stdin.isatty():
        raise BadInput(["--yes: the question shows a part of these arguments only; read them above, and give --yes"])
    if not click.confirm("Approve these arguments?", err=True):
        raise Refused("not approved; nothing was sent")


def _tell(as_json: bool, run_id: str, question: Question, answered: Answered, answer: str, reason: str) -> None:
    show.sent(
        as_json,
        run_id,
        answer,
        f"{run_id} {question.call_id}: {answered.told(answer)}",
        call_id=question.call_id,
        name=question.name,
        arguments_sha256=question.arguments_sha256,
        reason=reason,
        waits_for_worker=answered.waits_for_worker,
    )


def _json(given: str) -> JsonValue:
    """The JSON that an option gives: as it stands, in a file, or at stdin. Raises BadInput."""
    text: str | bytes = given
    try:
        if given == "-":
            text = sys.stdin.buffer.read(MAX_TEXT_BYTES + 1)
        elif given.startswith("@"):
            with Path(given[1:]).open("rb") as file:
                text = file.read(MAX_TEXT_BYTES + 1)
        if len(text) > MAX_TEXT_BYTES:
            raise BadInput([f"--happened: is longer than {MAX_TEXT_BYTES} bytes; give the part that the model needs"])
        return jsontext.parse(text)
    except OSError as error:
        raise BadInput([f"--happened: {given[1:200]} cannot be read: {error.strerror}"]) from None
    except jsontext.JsonRefused as error:
        raise BadInput([f"--happened: is no JSON: {error}; a text stands in quotes, such as '\"done\"'"]) from None
