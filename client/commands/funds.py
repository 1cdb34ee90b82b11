"""Funds: list, set and raise the budgets that many shifts draw on."""

import asyncio
import uuid
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from client import show
from client.commands.given import BadInput, fund_name
from client.commands.session import Function, json_option
from client.funds import Funds
from longshift.funds import AmountRefused, Fund, micro_usd
from longshift.limits import cents
from worker.settings import load_settings


def fund_and_amount(function: Function) -> Function:
    """The arguments NAME and AMOUNT, the latter as micro-USD."""
    amount = click.argument("amount", metavar="AMOUNT", callback=_micro_usd)
    return click.argument("name", metavar="NAME", callback=fund_name)(amount(function))


def _micro_usd(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    try:
        return micro_usd(text)
    except AmountRefused as refused:
        raise BadInput([f"AMOUNT: {refused}"]) from None


SIGNED = {"ignore_unknown_options": True}
"""A negative amount is refused as an amount, and not as an option of that name."""


@click.group("funds", invoke_without_command=True)
@json_option
@click.pass_context
def funds_command(context: click.Context, as_json: bool) -> None:
    """List the funds: budgets in the journal that many shifts draw on. Amounts are US cents.

    A shift started with --fund NAME, or whose agent has a fund, reserves what a model call may cost before it is sent,
    and is charged what it did cost. Needs neither server nor worker.

    \b
    Examples:
      longshift funds
      longshift funds set research 5000
      longshift funds raise research 2500
      longshift run "Draft what we need." --fund research
    """
    if context.invoked_subcommand is not None:
        return
    found = asyncio.run(_funds(context.obj).list())
    if as_json:
        show.document([fund.document() for fund in found])
    elif found:
        _table(found)
    else:
        show.note("there are no funds yet; make one with: longshift funds set NAME AMOUNT")


@funds_command.command("set", context_settings=SIGNED)
@fund_and_amount
@json_option
@click.pass_obj
def set_command(config: Path | None, name: str, amount: int, as_json: bool) -> None:
    """Give fund NAME a budget, and make it where there is none.

    AMOUNT is in US cents, with up to four decimals. Below what is used, nothing more is granted.

    \b
    Examples:
      longshift funds set research 5000
      longshift funds set research 0 --json
    """
    _tell(asyncio.run(_funds(config).set(name, amount)), as_json)


@funds_command.command("raise", context_settings=SIGNED)
@fund_and_amount
@json_option
@click.pass_obj
def raise_command(config: Path | None, name: str, amount: int, as_json: bool) -> None:
    """Add to the budget of fund NAME.

    AMOUNT is in US cents, with up to four decimals. Shifts that wait for the fund go on.

    \b
    Examples:
      longshift funds raise research 2500
      longshift funds raise research 12.5 --json
    """
    _tell(asyncio.run(_funds(config).raise_by(name, amount, uuid.uuid4().hex)), as_json)


def _funds(config: Path | None) -> Funds:
    return Funds(load_settings(config).journal.url)


def _tell(fund: Fund, as_json: bool) -> None:
    """How a fund stands after a change. `--json` counts wherever it was given."""
    group = click.get_current_context().parent
    if as_json or (group is not None and group.params["as_json"]):
        show.document(fund.document())
        return
    used = f"{cents(fund.spent)} spent, {cents(fund.reserved)} reserved, {cents(fund.left)} left"
    show.line(f"{fund.name}: budget {cents(fund.budget)} cents, {used}")
    if fund.left <= 0:
        show.note(f"{fund.name} grants nothing more; raise it with: longshift funds raise {fund.name} AMOUNT")


def _table(found: list[Fund]) -> None:
    """The funds, a line each, in cents."""
    header = ("fund", "budget", "spent", "reserved", "left")
    rows = [(f.name, *(str(cents(a)) for a in (f.budget, f.spent, f.reserved, f.left))) for f in found]
    console = Console()
    if not console.is_terminal:
        for row in (header, *rows):
            click.echo("\t".join(row))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    for name in header:
        table.add_column(name, justify="left" if name == "fund" else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
