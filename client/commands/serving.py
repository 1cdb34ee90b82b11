"""The processes that shifts need: up, worker."""

import asyncio
from pathlib import Path

import click
from platformdirs import user_state_path

from client import show
from client.commands.given import BadInput
from client.commands.session import Session, json_option, until_told
from client.local import KeptWorker, environment, keep_server
from longshift.attributes import TYPES
from worker import process
from worker.attributes import register
from worker.dev_server import DevServer
from worker.settings import Settings, load_settings

PORT, UI_PORT = 7233, 8233
"""Where Temporal's own tools look for a server on this machine, and for its UI."""

Port = click.IntRange(1, 65535)


@click.command("up")
@click.option("--port", type=Port, default=PORT, show_default=True, help="Port of the Temporal server.")
@click.option("--ui-port", type=Port, default=UI_PORT, show_default=True, help="Port of the Temporal UI.")
@json_option
@click.pass_obj
def up_command(config: Path | None, port: int, ui_port: int, as_json: bool) -> None:
    """Start the Temporal server and one worker on this machine, until Ctrl-C ends both.

    Shifts are kept in the user's state folder, and go on where they were. A worker that dies is started again.

    \b
    Examples:
      longshift up
      longshift up --port 7300 --ui-port 8300
      longshift --config shop.toml up
    """
    if port == ui_port:
        raise BadInput([f"--ui-port: {ui_port} is the server's own port; give another to one of --port and --ui-port"])
    settings = load_settings(config)  # a mistake in it is told before anything is started
    asyncio.run(_serve(config, settings, port, ui_port, as_json))


@click.command("worker")
@click.pass_obj
def worker_command(config: Path | None) -> int:
    """Run one worker, until Ctrl-C or SIGTERM. Its log goes to stderr.

    Steps in flight get `worker.grace_seconds` to finish. Any number of workers can share the work.

    \b
    Examples:
      longshift worker
      longshift --config shop.toml worker
      TEMPORAL_ADDRESS=temporal.example.com:7233 longshift worker
    """
    return process.main(config)


@click.command("search-attributes")
@json_option
@click.pass_obj
def search_attributes_command(config: Path | None, as_json: bool) -> None:
    """Register the search attributes of shifts with a server; `longshift up` has them already.

    By them the Temporal UI and `temporal workflow list` find shifts and tell how they stand, such as
    LongshiftStatus = 'WAITING'. Shifts work as well without. Harmless when repeated.

    \b
    Examples:
      longshift search-attributes
      TEMPORAL_ADDRESS=temporal.example.com:7233 longshift search-attributes
    """
    with Session(config) as session:
        new = session.do(register(session.client))
    if as_json:
        show.document({"registered": sorted(new), "attributes": dict(TYPES)})
        return
    for name, kind in TYPES.items():
        show.line(f"{name:20}{kind:9}{'registered now' if name in new else 'was there'}")


async def _serve(config: Path | None, settings: Settings, port: int, ui_port: int, as_json: bool) -> None:
    folder = user_state_path("longshift")
    async with DevServer(folder, port=port, ui_port=ui_port) as server:
        log = folder / "worker.log"
        worker = KeptWorker(
            environment(server, folder), log, config=config, grace_seconds=settings.worker.grace_seconds, tell=show.note
        )
        async with worker:
            if as_json:
                places = {"folder": str(folder), "worker_log": str(log)}
                show.document({"address": server.address, "ui": server.ui_url, **places})
            else:
                show.line(f"server  {server.address}, its data in {folder}")
                show.line(f"UI      {server.ui_url}")
                show.line(f"worker  its log in {log}")
                if port != PORT:
                    show.line(f"other commands find it by TEMPORAL_ADDRESS={server.address}")
                show.line("Ctrl-C ends both; what runs goes on with the next start")
            keeping = asyncio.create_task(keep_server(server, show.note))
            try:
                await worker.while_up(_told_or_failed(keeping))
            finally:
                keeping.cancel()  # our own way out, on which the server ends too
            grace = settings.worker.grace_seconds
            show.note(f"ending: steps in flight have up to {grace:g} s; Ctrl-C again ends at once")


async def _told_or_failed(keeping: asyncio.Task[None]) -> None:
    """Until Ctrl-C, or until the server cannot be kept up. Raises ServerFailed then."""
    told = asyncio.create_task(until_told())
    done, _ = await asyncio.wait({told, keeping}, return_when=asyncio.FIRST_COMPLETED)
    if keeping in done:
        keeping.result()
