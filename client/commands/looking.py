"""Look at shifts: list, state, watch, result, transcript."""

from pathlib import Path

import click

from client import show, watching
from client.commands.given import BadInput, usable_runs
from client.commands.session import COMPLETED, Session, exit_code, json_option, run_argument
from client.main import INTERRUPTED


@click.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True, help="Shifts to list at most.")
@json_option
@click.pass_obj
def list_command(config: Path | None, limit: int, as_json: bool) -> None:
    """List the latest shifts, newest first. Needs no worker.

    \b
    Examples:
      longshift list
      longshift list --limit 5 --json
    """
    with Session(config) as session:
        found = session.do(session.shifts.list(limit))
    if as_json:
        show.document([show.described(run) for run in found])
    else:
        show.runs(found)


@click.command("state")
@run_argument
@json_option
@click.pass_obj
def state_command(config: Path | None, run_id: str, as_json: bool) -> None:
    """Show where the shift RUN stands: what it does or waits for, and what it has used. Exit code 0 once it is found.

    \b
    Example:
      longshift state shop-20300101-090000-1f2e
    """
    with Session(config) as session:
        found = session.do(session.shifts.state(run_id))
    if as_json:
        show.document(show.described(found))
    else:
        show.state(found)


@click.command("watch")
@click.argument("run_id", metavar="[RUN]", required=False, callback=usable_runs)
@click.option("--all", "all_runs", is_flag=True, help="Follow all shifts that have not ended, as a list.")
@json_option
@click.pass_obj
def watch_command(config: Path | None, run_id: str | None, all_runs: bool, as_json: bool) -> int:
    """Follow the shift RUN until it ends, its budgets as bars. Ctrl-C ends the watching, not the shift.

    On a terminal, keys pause, resume and stop the shift, and approve or deny what it asks; q leaves. Where there is no
    terminal, or TERM is dumb, there is a line for each step and change.

    With --json there is one document a line, whenever something has changed, as `state` prints it, and with --all
    as `list` does.

    \b
    Examples:
      longshift watch shop-20300101-090000-1f2e
      longshift watch shop-20300101-090000-1f2e --json
      longshift watch --all
    """
    if (run_id is not None) == all_runs:
        raise BadInput(["RUN: give a shift's id, or --all; not both. See which there are with: longshift list"])
    with Session(config) as session:
        if run_id is None or all_runs:
            session.do(watching.watch_all(session.shifts, as_json))
            return COMPLETED
        status = session.do(watching.watch(session.shifts, run_id, as_json))
    return INTERRUPTED if status is None else exit_code(status)


@click.command("result")
@run_argument
@click.option("--wait", is_flag=True, help="Wait until the shift has ended.")
@json_option
@click.pass_obj
def result_command(config: Path | None, run_id: str, wait: bool, as_json: bool) -> int:
    """Print how the shift RUN ended. One that has not ended is refused, unless you --wait.

    \b
    Examples:
      longshift result shop-20300101-090000-1f2e
      longshift result shop-20300101-090000-1f2e --wait --json
    """
    with Session(config) as session:
        if not wait:
            found = session.do(session.shifts.state(run_id))
            if found.closed_at is None:
                raise BadInput([f"{run_id} has not ended, it is {found.status}; wait for its end with --wait"])
        ended = session.do(session.shifts.result(run_id))
    if as_json:
        show.document(ended.document())
    else:
        show.result(ended)
    return exit_code(ended.status)


@click.command("transcript")
@run_argument
@click.option("--call", "call_id", metavar="ID", help="Print this one tool call instead, its observation uncut.")
@click.option("--as-sent", metavar="CALL", type=click.IntRange(min=1), help="Print what this model call was sent.")
@json_option
@click.pass_obj
def transcript_command(
    config: Path | None, run_id: str, call_id: str | None, as_sent: int | None, as_json: bool
) -> None:
    """Print the messages of the shift RUN, from the journal; with --call one tool call, whole.

    What a model was given cut, with a marker, is whole here. With --as-sent it is what one model call was sent,
    exactly: without what had left the context, and with the marker or the summary that stood in its place.

    \b
    Examples:
      longshift transcript shop-20300101-090000-1f2e
      longshift transcript shop-20300101-090000-1f2e --json
      longshift transcript shop-20300101-090000-1f2e --call call-7
      longshift transcript shop-20300101-090000-1f2e --as-sent 12
    """
    if call_id is not None and as_sent is not None:
        raise BadInput(["--call and --as-sent show different things; give one of them"])
    with Session(config) as session:
        if call_id is not None:
            call = session.do(session.shifts.tool_call(run_id, call_id))
            if as_json:
                show.document(vars(call))
            else:
                show.tool_call(call)
            return
        if as_sent is not None:
            sent = session.do(session.shifts.sent(run_id, as_sent))
            if as_json:
                show.document(show.model_call_document(sent))
            else:
                show.model_call(sent)
            return
        messages = session.do(session.shifts.transcript(run_id))
    if as_json:
        show.document({"run_id": run_id, "messages": [message.model_dump(mode="json") for message in messages]})
    else:
        show.transcript(messages)
