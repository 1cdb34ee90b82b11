"""`longshift lab`: perform labs, print what came out and what must."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from client import show
from client.commands.given import BadInput
from client.commands.session import json_option
from client.inert import inert
from lab.experiment import ExperimentRefused
from lab.formulas import LabExtraMissing
from lab.labs import LABS, Finding, Lab, perform
from lab.measuring import budgets_command
from lab.reliability import reliability_command
from longshift.jsontext import canonical

HOLD, DIFFER = 0, 1
"""Exit codes: every figure came out as it must, or some did not."""


class _Group(click.Group):
    """The lab's commands."""

    def invoke(self, ctx: click.Context) -> Any:
        """As click does. Raises BadInput, with the remedy, where the extra is missing or an experiment cannot be."""
        try:
            return super().invoke(ctx)
        except (ExperimentRefused, LabExtraMissing) as error:
            raise BadInput([str(error)]) from None


@click.group("lab", cls=_Group)
def lab_command() -> None:
    """Show the arithmetic of reliability on the real workflow.

    `reliability` measures a model, `budgets` proposes limits from an agent's runs. Each other lab runs shifts with
    scripted models on a server and a worker of its own, and prints every figure beside the one that must come out. Exit
    codes of a lab: 0 all came out so, 1 some did not.

    \b
    Examples:
      longshift lab all
      longshift lab deaths
      longshift lab context-cost --json
      longshift lab budgets --agent shop
    """


def _command(name: str, labs: Sequence[Lab], text: str) -> click.Command:
    @json_option
    def perform_them(as_json: bool) -> int:
        return _performed(labs, as_json)

    example = f"\b\nExample:\n  longshift lab {name}"
    return click.command(name, help=f"{text}\n\n{example}", short_help=text)(perform_them)


for _lab in LABS:
    lab_command.add_command(_command(_lab.name, [_lab], _lab.proves))
lab_command.add_command(_command("all", LABS, "Perform all labs, on one server and one worker."))
lab_command.add_command(reliability_command)
lab_command.add_command(budgets_command)


def _performed(labs: Sequence[Lab], as_json: bool) -> int:
    logging.getLogger("temporalio.activity").setLevel(logging.ERROR)  # a lab may well be about a step that fails
    findings = asyncio.run(perform(labs))
    holds = all(finding.holds for finding in findings)
    if as_json:
        show.document({"holds": holds, "labs": [finding.document() for finding in findings]})
    else:
        for finding in findings:
            _tell(finding)
        differing = sum(not figure.holds for finding in findings for figure in finding.figures)
        figures = sum(len(finding.figures) for finding in findings)
        show.line(f"{figures} figures, {differing or 'none'} of them not as they must be")
    return HOLD if holds else DIFFER


def _tell(finding: Finding) -> None:
    click.secho(f"{finding.lab.name}: {finding.lab.proves}", bold=True)
    _table(
        [
            {
                "": "holds" if figure.holds else "differs",
                "figure": figure.name,
                "must be": _shown(figure.expected),
                "came": _shown(figure.measured),
            }
            for figure in finding.figures
        ]
    )
    if finding.rows:
        _table([{name: str(cell) for name, cell in row.items()} for row in finding.rows])
    click.echo()


def _shown(value: object) -> str:
    return "none" if value is None else value if isinstance(value, str) else canonical(value)


def _table(rows: Sequence[dict[str, str]]) -> None:
    """A table where stdout is a terminal, else lines with tabs."""
    console = Console()
    if not console.is_terminal:
        for cells in (list(rows[0]), *(list(row.values()) for row in rows)):
            click.echo("  " + "\t".join(map(inert, cells)))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in rows[0]:
        table.add_column(name)
    for row in rows:
        style = "red" if row.get("") == "differs" else ""
        table.add_row(*(Text(inert(cell), style=style) for cell in row.values()))
    console.print(table)
