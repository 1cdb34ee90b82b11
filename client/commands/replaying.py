"""Play cases."""

from pathlib import Path

import click

from client.commands.session import json_option
from client.replay import play_command
from worker.settings import load_settings


@click.command("replay")
@click.argument("paths", nargs=-1, required=True, metavar="FILE_OR_FOLDER...", type=click.Path(path_type=Path))
@json_option
@click.pass_obj
def replay_command(config: Path | None, paths: tuple[Path, ...], as_json: bool) -> int:
    """Play cases of authored turns through the real workflow and report each mismatch.

    A case is a JSON file, a folder is all of its *.json files. Server and worker are the playing's own. With --json
    there is one line for each case: `name`, `mismatches` and the result's keys. Exit code 1 where anything differs.

    \b
    Examples:
      longshift replay tests/cases
      longshift replay my-case.json --json
    """
    return play_command(paths, json=as_json, settings=load_settings(config))
