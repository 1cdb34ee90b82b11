"""Audit a shift, and make its journal anew."""

from pathlib import Path

import click

from client import show
from client.audit import document, exit_code, read_evidence
from client.audit_bundle import MAX_DIGEST, MIN_DIGEST, read_bundle, write_bundle
from client.audit_rebuilding import rebuild
from client.commands.given import BadInput, usable_runs
from client.commands.session import Session, json_option, run_argument
from longshift.audit.checks import Check
from longshift.audit.rebuilding import Rebuilt

WHOLE, NOT_WHOLE = 0, 1
"""Exit codes of a rebuild: the journal is whole, or bodies could not be made."""


def _digest(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    fits = given is None or MIN_DIGEST <= len(given) <= MAX_DIGEST
    if not fits or not set((given or "").lower()) <= set("0123456789abcdef"):
        raise BadInput([f"--digest: give the digest that --export printed, at least its first {MIN_DIGEST} hex digits"])
    return given


@click.command("audit")
@click.argument("run_id", metavar="[RUN]", required=False, callback=usable_runs)
@click.option("--export", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Write a bundle, too.")
@click.option("--bundle", type=click.Path(path_type=Path), metavar="FILE", help="Audit this bundle, and nothing else.")
@click.option("--digest", metavar="HEX", callback=_digest, help="What --export printed, to compare the bundle with.")
@json_option
@click.pass_obj
def audit_command(
    config: Path | None,
    run_id: str | None,
    export: Path | None,
    bundle: Path | None,
    digest: str | None,
    as_json: bool,
) -> int:
    """Check the shift RUN: its hash chain, its journal against its Temporal history, its counters, its effects.

    Each check tells the first difference. With --export what was checked is written to one file, which somebody else
    can audit with --bundle, without a server and without the journal. Exit codes: 0 all that could be checked held, 1
    something differs, 2 bad input.

    \b
    Examples:
      longshift audit shop-20300101-090000-1f2e
      longshift audit shop-20300101-090000-1f2e --export shift.json
      longshift audit --bundle shift.json --digest 5f2b9c01
    """
    if (run_id is None) == (bundle is None):
        raise BadInput(["RUN: give a shift's id, or a bundle with --bundle FILE; not both"])
    if bundle is not None:
        if export is not None:
            raise BadInput(["--export: a bundle is written of a shift's own records; give RUN instead of --bundle"])
        evidence, said, found = read_bundle(bundle, digest)
        checks = [*said, *evidence.checks()]
        return _tell(evidence.run_id, checks, as_json, found)
    if digest is not None:
        raise BadInput(["--digest: is compared with a bundle; give one with --bundle FILE"])
    assert run_id is not None
    with Session(config) as session:
        evidence = session.do(read_evidence(session.client, session.settings.journal.url, run_id))
    checks = evidence.checks()
    written = write_bundle(evidence, export) if export is not None else None
    return _tell(run_id, checks, as_json, written)


def _tell(run_id: str, checks: list[Check], as_json: bool, digest: str | None) -> int:
    code = exit_code(checks)
    if as_json:
        show.document(document(run_id, checks, digest))
        return code
    for check in checks:
        show.line(f"{check.verdict:11}  {check.name:11}  {check.text}")
    if digest is not None:
        show.line(f"digest of the bundle: {digest}")
    first = next((check for check in checks if check.verdict == "differs"), None)
    if first is not None:
        show.line(f"{run_id} differs, first in its {first.name}: {first.text}")
        return code
    unchecked = sum(check.verdict == "not checked" for check in checks)
    show.line(f"{run_id}: all that was checked held" + (f"; {unchecked} not checked" if unchecked else ""))
    return code


@click.group("journal")
def journal_command() -> None:
    """Mend the journal.

    \b
    Example:
      longshift journal rebuild shop-20300101-090000-1f2e
    """


@journal_command.command("rebuild")
@run_argument
@json_option
@click.pass_obj
def rebuild_command(config: Path | None, run_id: str, as_json: bool) -> int:
    """Make the journal's rows of the shift RUN from its Temporal history, row for row.

    Rows that follow from the history stay as they are, and so do those of effects, always. A body that was too large
    for the history is whole only in the journal: where it is gone there, too, its row says so and keeps size and
    digest; nothing is made up. Refused while the shift is at work. Exit codes: 0 the journal is whole, 1 bodies are
    missing, 2 bad input.

    \b
    Example:
      longshift journal rebuild shop-20300101-090000-1f2e
    """
    with Session(config) as session:
        made = session.do(rebuild(session.client, session.settings.journal.url, run_id))
    if as_json:
        show.document(_document(run_id, made))
    else:
        _show(run_id, made)
    return NOT_WHOLE if made.lost else WHOLE


def _document(run_id: str, made: Rebuilt) -> dict[str, object]:
    lost = {name: None if weight is None else weight.model_dump() for name, weight in made.lost.items()}
    return {
        "run_id": run_id,
        "kept": made.kept,
        "made": made.made,
        "removed": made.removed,
        "unexplained": made.unexplained,
        "lost": lost,
    }


def _show(run_id: str, made: Rebuilt) -> None:
    if not made.changed:
        show.line(f"{run_id}: the journal holds what follows from the history; nothing was changed")
    else:
        show.line(f"{run_id}: {made.made} rows made from the history, {made.kept} kept as they stood")
    for name in made.removed:
        show.line(f"replaced or removed: {name}")
    for name in made.unexplained:
        show.note(
            f"{name} follows from nothing in the history, and stays, since it may keep an effect from being made twice"
        )
    for name, weight in made.lost.items():
        known = "" if weight is None else f" ({weight.bytes} bytes, SHA-256 {weight.sha256})"
        show.note(f"{name}{known} was whole only in the journal, and is not there any more: the row is empty")
