"""Change a running shift: stop, pause, resume, limits, tell."""

import uuid
from pathlib import Path

import click

from client import show
from client.commands.given import BadInput, is_relative, read_limits
from client.commands.session import Session, json_option, run_argument
from client.errors import ClientError
from longshift.limits import Limits


@click.command("stop")
@run_argument
@click.option("--now", is_flag=True, help="Also cancel a model call or a read in flight; an effect is left to finish.")
@click.option("--reason", metavar="TEXT", default="", help="Stands in the result and in the journal.")
@json_option
@click.pass_obj
def stop_command(config: Path | None, run_id: str, now: bool, reason: str, as_json: bool) -> None:
    """Stop the shift RUN before its next step. It needs no worker: the stop waits for one.

    \b
    Examples:
      longshift stop shop-20300101-090000-1f2e
      longshift stop shop-20300101-090000-1f2e --now --reason "wrong supplier"
    """
    mode = "now" if now else "graceful"
    with Session(config) as session:
        session.do(session.shifts.stop(run_id, mode="now" if now else "graceful", reason=reason))
        later = "" if as_json else _later(session, run_id)
    when = "at once" if now else "before its next step"
    show.sent(as_json, run_id, "stop", f"{run_id} is told to stop {when}{later}", mode=mode, reason=reason)


@click.command("pause")
@run_argument
@json_option
@click.pass_obj
def pause_command(config: Path | None, run_id: str, as_json: bool) -> None:
    """Let the shift RUN begin nothing further until it is resumed. Its deadline still runs.

    \b
    Example:
      longshift pause shop-20300101-090000-1f2e
    """
    with Session(config) as session:
        session.do(session.shifts.pause(run_id))
        later = "" if as_json else _later(session, run_id)
    show.sent(as_json, run_id, "pause", f"{run_id} is told to pause{later}; go on with: longshift resume {run_id}")


@click.command("resume")
@run_argument
@json_option
@click.pass_obj
def resume_command(config: Path | None, run_id: str, as_json: bool) -> None:
    """Let the paused shift RUN go on.

    \b
    Example:
      longshift resume shop-20300101-090000-1f2e
    """
    with Session(config) as session:
        session.do(session.shifts.resume(run_id))
        later = "" if as_json else _later(session, run_id)
    show.sent(as_json, run_id, "resume", f"{run_id} is told to go on{later}")


@click.command("limits")
@run_argument
@click.argument("changes", nargs=-1, required=True, metavar="NAME=VALUE...")
@json_option
@click.pass_obj
def limits_command(config: Path | None, run_id: str, changes: tuple[str, ...], as_json: bool) -> None:
    """Raise or lower limits of the shift RUN, from now on. NAME=+VALUE adds to what it is now.

    Without a worker the change waits for one. A limit set below what is used ends the shift at its next step.

    \b
    Examples:
      longshift limits shop-20300101-090000-1f2e seconds=+600
      longshift limits shop-20300101-090000-1f2e model_calls=20 tool_calls=+10
      longshift limits shop-20300101-090000-1f2e working_seconds=none on_limit=wait
    """
    read_limits([change for change in changes if not is_relative(change)])  # bad in any case: needs no server to say so
    with Session(config) as session:
        current = _current(session, run_id) if any(map(is_relative, changes)) else None
        wanted = read_limits(changes, current)
        applied = session.do(session.shifts.set_limits(run_id, wanted, request_id=uuid.uuid4().hex))
    if as_json:
        limits = applied.limits.model_dump(mode="json") if applied.limits else None
        outcome = {"limits": limits, "waits_for_worker": applied.waits_for_worker}
        show.document({"run_id": run_id, "changes": wanted, **outcome})
        return
    words = ", ".join(f"{name} = {show.value(value)}" for name, value in wanted.items())
    later = ""
    if applied.waits_for_worker:
        later = "; no worker answers now, so it applies when one comes"
    elif applied.limits is None:
        later = "; accepted; the agent's other limits are known once the run is opened"
    show.line(f"{run_id}: {words}{later}")


@click.command("tell")
@run_argument
@click.argument("text")
@json_option
@click.pass_obj
def tell_command(config: Path | None, run_id: str, text: str, as_json: bool) -> None:
    """Send TEXT to the shift RUN, as a user's message before its next model call.

    Without a worker the message waits for one.

    \b
    Example:
      longshift tell shop-20300101-090000-1f2e "Leave strawberry out, it is off the menu."
    """
    with Session(config) as session:
        told = session.do(session.shifts.tell(run_id, text, request_id=uuid.uuid4().hex))
    words = f"{run_id} gets the message before its next model call"
    if told.waits_for_worker:
        words += show.LATER
    show.sent(as_json, run_id, "tell", words, text=text, waits_for_worker=told.waits_for_worker)


def _later(session: Session, run_id: str) -> str:
    """What to add to a message's line where no worker answers now."""
    try:
        alone = session.do(session.shifts.state(run_id)).status == "NO_WORKER"
    except ClientError:  # the message is sent all the same
        return ""
    return show.LATER if alone else ""


def _current(session: Session, run_id: str) -> Limits:
    """The limits of a run now. Raises BadInput where they are not known."""
    found = session.do(session.shifts.state(run_id))
    if found.view and found.view.limits:
        return found.view.limits
    if found.closed_at:
        raise BadInput([f"{run_id}: has ended with {found.status}; its limits cannot be changed any more"])
    why = "no worker answers" if found.view is None else "the run is not opened yet"
    raise BadInput([f"{run_id}: what +VALUE would add to is not known, since {why}; give whole values"])
