"""Begin a shift: demo, run, start."""

import asyncio
import contextlib
import functools
import sys
from pathlib import Path
from typing import Any

import click
from pydantic import ValidationError

from client import demo, demo_orders, show
from client.commands.given import BadInput, fund_name, read_limits
from client.commands.session import (
    COMPLETED,
    ENDED_OTHERWISE,
    Function,
    Session,
    exit_code,
    json_option,
    until_told,
)
from client.errors import ClientError
from client.inert import inert
from client.main import INTERRUPTED
from endpoints.config import OpenAIConfig
from longshift.contracts import RunResult
from longshift.run_input import RunInput
from worker.connection import NoServer

HINT_SECONDS = 2.0
"""Seconds between looks at what a run waits for that its story does not tell."""


def shift_options(function: Function) -> Function:
    """What a shift starts with: TASK and its options."""
    for option in (
        json_option,
        click.option("--id", "run_id", metavar="ID", help="The shift's id; else one is made. An id is used once."),
        click.option("--endpoint", metavar="NAME", help="A configured endpoint, instead of the agent's own."),
        click.option(
            "--fund", metavar="NAME", callback=fund_name, help="A fund that pays for it; see: longshift funds --help."
        ),
        click.option("--limit", "limits", metavar="NAME=VALUE", multiple=True, help="A limit; may be given often."),
        click.option("--agent", metavar="NAME", help="A configured agent; else the configuration's default_agent."),
        click.argument("task"),
    ):
        function = option(function)
    return function


@click.command("start")
@shift_options
@click.pass_obj
def start_command(config: Path | None, /, run_id: str | None, as_json: bool, **given: Any) -> None:
    """Start a shift that does TASK, and return its id at once.

    \b
    Examples:
      longshift start "Prepare replenishment drafts from current stock."
      longshift start "Draft what we need." --agent shop --limit seconds=600 --limit model_calls=20
    """
    limits = read_limits(given["limits"])
    with Session(config) as session:
        run_id = _started(session, run_id, given | {"limits": limits})
    if as_json:
        show.document({"run_id": run_id})
    else:
        show.line(run_id)


@click.command("run")
@shift_options
@click.pass_obj
def run_command(config: Path | None, /, run_id: str | None, as_json: bool, **given: Any) -> int:
    """Start a shift that does TASK and follow it to its end.

    Ctrl-C asks whether to stop the shift or to leave it running; where nobody can be asked, it goes on. With --json
    the result is the one document on stdout, and the steps go to stderr.

    \b
    Examples:
      longshift run "Prepare replenishment drafts from current stock."
      longshift run "Draft what we need." --limit seconds=600 --endpoint local --json
    """
    limits = read_limits(given["limits"])
    with Session(config) as session:
        run_id = _started(session, run_id, given | {"limits": limits})
        show.note(f"{run_id} is started; look at it from elsewhere with: longshift watch {run_id}")
        ended = _to_its_end(session, run_id, as_json)
    if ended is None:
        if as_json:
            show.document({"run_id": run_id})
        return INTERRUPTED
    if as_json:
        show.document(ended.document())
    else:
        show.result(ended)
    return exit_code(ended.status)


@click.command("demo")
@click.option("--keep", is_flag=True, help="Leave server, UI and worker up afterwards, until Ctrl-C.")
@click.option("--crash", is_flag=True, help="Kill the worker with SIGKILL in the middle of the shift.")
@click.option("--orders", is_flag=True, help="Order from a supplier instead, the worker killed in the middle of one.")
@click.option("--live", is_flag=True, help="Use a real model instead of authored turns; needs --endpoint and --model.")
@click.option("--endpoint", metavar="URL", help="Base URL of an OpenAI-compatible server.")
@click.option("--model", metavar="NAME", help="The server's name for the model.")
@json_option
def demo_command(
    keep: bool, crash: bool, orders: bool, live: bool, endpoint: str | None, model: str | None, as_json: bool
) -> int:
    """Run the opening shift of the ice-cream shop, on a server and a worker of its own.

    It looks at the stock and drafts two orders, 2600 cents in all; the shop's own check proves that from what the tools
    answered. With --live further settings of the endpoint come from LONGSHIFT_ENDPOINTS__LIVE__* variables.

    With --orders it orders them from a real supplier: each order is approved, and the worker is killed with SIGKILL
    once the supplier has taken the second, before its reply is out. The shift asks what came of that order, the answer
    is looked up at the supplier, and both sides' orders are held against each other.

    \b
    Examples:
      longshift demo
      longshift demo --crash
      longshift demo --orders
      longshift demo --keep
      longshift demo --live --endpoint http://127.0.0.1:11434/v1 --model qwen3
      LONGSHIFT_ENDPOINTS__LIVE__API_KEY_ENV=OPENAI_API_KEY longshift demo --live \\
          --endpoint https://api.openai.com/v1 --model gpt-5-mini
    """
    besides = [name for name, given in (("--crash", crash), ("--live", live)) if orders and given]
    if besides:
        raise BadInput([f"{name}: does not go with --orders; leave out one of the two" for name in besides])
    model_server = _live(live, endpoint, model)

    async def play() -> int:
        telling = demo.Telling(show.note, functools.partial(show.step, err=as_json))
        playing = demo_orders.ordered(telling) if orders else demo.played(telling, crash=crash, live=model_server)
        async with playing as outcome:
            if as_json:
                show.document(outcome.document())
            else:
                _tell(outcome)
            code = COMPLETED if outcome.good else ENDED_OTHERWISE
            if keep:
                places = f"TEMPORAL_ADDRESS={outcome.address} LONGSHIFT_JOURNAL__URL={outcome.journal}"
                show.note(f"server, UI and worker stay up until Ctrl-C; to ask them: {places}")
                await until_told()
            return code

    return asyncio.run(play())


def _started(session: Session, run_id: str | None, given: dict[str, Any]) -> str:
    """Start a run; its id."""
    given["agent"] = given["agent"] or session.settings.default_agent
    try:
        return session.do(session.shifts.start(RunInput(**given), run_id=run_id))
    except KeyboardInterrupt:
        show.note("the shift may have been started; see: longshift list")
        raise


def _to_its_end(session: Session, run_id: str, as_json: bool) -> RunResult | None:
    """Follow a run to its end. None where Ctrl-C left it running."""
    told = 0

    async def follow() -> RunResult:
        nonlocal told
        number = 0
        hinting = asyncio.create_task(_hint(session, run_id))
        try:
            async for line in session.shifts.follow(run_id):
                number += 1
                if number > told:  # after Ctrl-C the story begins anew
                    show.step(line, err=as_json)
                    told = number
            return await session.shifts.result(run_id)
        finally:
            hinting.cancel()

    while True:
        try:
            return session.do(follow())
        except KeyboardInterrupt:
            if not _is_to_stop(run_id):
                return None
            session.do(session.shifts.stop(run_id, reason="Ctrl-C at the command line"))


async def _hint(session: Session, run_id: str) -> None:
    """Say so where no worker takes the run, or a step waits or is tried again and again: the story has none of it."""
    told: str | None = None
    with contextlib.suppress(ClientError, NoServer):  # who follows the run tells of it
        while True:
            await asyncio.sleep(HINT_SECONDS)
            found = await session.shifts.state(run_id)
            by_itself = found.view is not None and found.view.waiting_for is None
            keeps = found.stuck if found.status != "STUCK" else None  # that the story does tell
            waits = show.REMEDIES.get(found.status) or keeps or (found.detail if by_itself else None)
            if waits and told is None:
                show.note(f"{run_id} waits: {waits}")
            told = waits or None


def _is_to_stop(run_id: str) -> bool:
    """Ask whether a run is to be stopped, where somebody can be asked."""
    try:
        if sys.stdin.isatty() and click.confirm(f"\nStop {run_id}? Else it goes on without you", err=True):
            return True
    except click.Abort:
        click.echo(err=True)
    show.note(f"{run_id} goes on; follow it with: longshift watch {run_id}; stop it with: longshift stop {run_id}")
    return False


def _live(live: bool, endpoint: str | None, model: str | None) -> demo.Live | None:
    """The real model that was asked for, checked. Raises BadInput."""
    if not live:
        given = {"--endpoint": endpoint, "--model": model}
        problems = [f"{name}: is for a real model; add --live" for name, value in given.items() if value is not None]
        if problems:
            raise BadInput(problems)
        return None
    missing = [name for name, value in (("--endpoint", endpoint), ("--model", model)) if value is None]
    if missing:
        raise BadInput([f"{name}: is missing; a real model (--live) needs it" for name in missing])
    try:
        config = OpenAIConfig.model_validate({"url": endpoint, "model": model})
    except ValidationError as error:
        options = {"url": "--endpoint", "model": "--model"}
        text = {error["loc"][0]: error["msg"].removeprefix("Value error, ") for error in error.errors()}
        raise BadInput([f"{options[str(name)]}: {words}" for name, words in text.items()]) from None
    return demo.Live(config.url, config.model)


def _tell(outcome: demo.Outcome | demo_orders.Orders) -> None:
    """What came of the demonstration."""
    show.result(outcome.result)
    if isinstance(outcome, demo.Outcome):
        for draft in outcome.evidence.drafts:
            click.echo(f"{'draft':10}{inert(str(draft['sku']))} x {draft['quantity']}: {draft['total_cents']} cents")
        click.echo(f"{'drafts':10}{outcome.evidence.total_cents} cents in all")
        verdict, sentence = outcome.evidence.verdict, outcome.evidence.sentence
    else:
        for order in outcome.orders:
            click.echo(f"{'supplier':10}{order.order}: {order.quantity} x {order.sku}, key {inert(str(order.key))}")
        for asked in outcome.asked:
            click.echo(f"{'shift':10}{inert(asked.in_shift or 'no order')}: {inert(asked.call_id)}")
        verdict, sentence = outcome.verdict, outcome.sentence
    shown = click.style("holds", fg="green") if verdict else click.style("fails", fg="red")
    click.echo(f"{'evidence':10}{shown}: {inert(sentence)}")
    click.echo(f"{'page':10}{outcome.page}")
