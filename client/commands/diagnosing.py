"""Look whether all is there that shifts need: doctor."""

import asyncio
import contextlib
import sys
from pathlib import Path
from typing import TextIO

import click

from client import doctor, show
from client.commands.session import json_option
from client.findings import Finding
from client.inert import inert
from worker.problems import SettingsRefused
from worker.settings import Settings, load_settings

WELL, WRONG, REFUSED = 0, 1, 2
"""Exit codes."""
COLOURS = {"ok": "green", "note": "yellow", "wrong": "red", "skipped": "yellow"}


@click.command("doctor")
@click.option("--live", is_flag=True, help="Send each endpoint one short model call as well; it may be billed.")
@json_option
@click.pass_obj
def doctor_command(config: Path | None, live: bool, as_json: bool) -> int:
    """Check what shifts need, each thing by itself, and say what to do about what is wrong.

    The configuration, the Temporal server, its search attributes, workers, the journal, agents and their tools, keys
    (never shown), model endpoints (by their list of models: nothing is paid) and MCP servers. Nothing is changed. Run
    it where a worker runs, with the worker's environment.

    Exit codes: 0 nothing is wrong, 1 something is, 2 the configuration cannot be used.

    \b
    Examples:
      longshift doctor
      longshift doctor --live
      longshift --config shop.toml doctor --json
    """
    try:
        settings = load_settings(config)
    except SettingsRefused as error:
        found = [Finding("configuration", None, "wrong", problem) for problem in error.problems]
        _tell(found, as_json)
        return REFUSED
    where = str(settings.sources.file or "none, the defaults")
    found = asyncio.run(_look(Finding("configuration", None, "ok", where), settings, live, as_json))
    return WELL if doctor.well(found) else WRONG


async def _look(first: Finding, settings: Settings, live: bool, as_json: bool) -> list[Finding]:
    """Everything that is found, told as it is."""
    found = [first]
    if not as_json:
        _line(first)
    stdout = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):  # a user's module may print while it is imported, at any moment
        async for finding in doctor.findings(settings, live=live):
            found.append(finding)
            if not as_json:
                _line(finding, stdout)
    if as_json:
        _document(found)
    return found


def _tell(found: list[Finding], as_json: bool) -> None:
    if as_json:
        _document(found)
        return
    for finding in found:
        _line(finding)


def _document(found: list[Finding]) -> None:
    show.document({"well": doctor.well(found), "findings": [finding.document() for finding in found]})


def _line(found: Finding, to: TextIO | None = None) -> None:
    what = f"{found.check} {found.name}" if found.name else found.check
    click.echo(f"{click.style(f'{found.state:8}', fg=COLOURS[found.state])}{inert(what)}: {inert(found.text)}", file=to)
