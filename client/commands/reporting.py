"""Make a report of a shift, or of the shifts of some days."""

import asyncio
import time
from pathlib import Path

import click

from client import show
from client.commands.given import UNITS, BadInput, since_seconds, usable_runs
from client.commands.session import json_option
from worker.settings import load_settings

FOR_ALL = "longshift-report.html"
"""Where the report of many shifts is written, unless another file is named."""
SINCE = "7d"
"""How far the report of many shifts reaches back, unless it is said."""


@click.command("report")
@click.argument("run_id", metavar="[RUN]", required=False, callback=usable_runs)
@click.option("--all", "of_all", is_flag=True, help="Report on all shifts that began since --since.")
@click.option(
    "--since", callback=since_seconds, metavar="TIME", help=f"How far --all reaches back, such as 12h; else {SINCE}."
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Where to write the page."
)
@json_option
@click.pass_obj
def report_command(
    config: Path | None, run_id: str | None, of_all: bool, since: int | None, output: Path | None, as_json: bool
) -> None:
    """Write a report of the shift RUN as one HTML file that needs nothing else, to read, to print and to hand on.

    What was asked, how it ended and why, its budgets over time, a timeline, effects with their operation ids, the
    audit's verdict and the whole transcript. With --all: how the shifts of some days ended, what they spent, how many
    steps they took, which limits bound. The file is RUN.html here, or the one that --output names; one that stands
    there is replaced. An ended shift is reported without a server, too, from the journal. Exit code 0 once the page
    is written.

    \b
    Examples:
      longshift report shop-20300101-090000-1f2e
      longshift report shop-20300101-090000-1f2e -o monday.html
      longshift report --all --since 7d
    """
    if of_all and run_id is not None:
        raise BadInput(["RUN: is one shift, and --all reports on all of them; give one of the two"])
    if not of_all and since is not None:
        raise BadInput(["--since: goes with --all; leave it out for the report of one shift"])
    if of_all:
        _report_all(config, since if since is not None else 7 * UNITS["d"], output or Path(FOR_ALL), as_json)
        return
    if run_id is None:
        raise BadInput(["RUN: give a shift's id, see which there are with: longshift list; or --all"])
    _report(config, run_id, output, as_json)


def _report(config: Path | None, run_id: str, output: Path | None, as_json: bool) -> None:
    from client.audit import document
    from client.report.page import run_page
    from client.report.sources import read_sources
    from client.shifts import RUN_ID

    if output is None and not RUN_ID.fullmatch(run_id):
        raise BadInput(["--output: this id cannot be a file's name; name the file to write, such as -o report.html"])
    sources = asyncio.run(read_sources(load_settings(config), run_id))
    text = run_page(sources)
    file = output or Path(f"{run_id}.html")
    size = _write(file, text)
    audit = document(run_id, list(sources.checks))
    if as_json:
        verdict = {"verdict": audit["verdict"], "checks": audit["checks"]}
        show.document({"run_id": run_id, "status": sources.status, "file": str(file), "bytes": size, "audit": verdict})
        return
    _written(file, size)
    if sources.no_server is not None:
        show.note(f"made of the journal alone: {sources.no_server}")
    if audit["verdict"] == "differs":
        show.note(f"the audit found a difference; see it with: longshift audit {run_id}")


def _report_all(config: Path | None, seconds: int, file: Path, as_json: bool) -> None:
    from client.report.page import overview_page
    from client.report.sources import read_overview

    now = time.time()
    overview = asyncio.run(read_overview(load_settings(config), now - seconds, now))
    size = _write(file, overview_page(overview))
    if as_json:
        show.document({"file": str(file), "bytes": size, **overview.document()})
        return
    _written(file, size)


def _write(file: Path, text: str) -> int:
    """Write a page, and return how many bytes it has."""
    data = text.encode("utf-8", "replace")
    file.write_bytes(data)
    return len(data)


def _written(file: Path, size: int) -> None:
    show.line(f"{file} ({size:,} bytes)")
