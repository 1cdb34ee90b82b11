"""The command line's door: names, one-line helps, and the one place where errors become sentences.

Nothing but click is imported here, and a command's module only when that command is called, so that `--help` and the
completion of names answer at once.
"""

import importlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

COMMANDS = {
    "demo": ("running", "Run the shop's opening shift on a server and worker of its own."),
    "up": ("serving", "Start server and worker for local use, until Ctrl-C."),
    "worker": ("serving", "Run one worker, until Ctrl-C."),
    "run": ("running", "Start a shift and follow it to its end."),
    "start": ("running", "Start a shift and return its id at once."),
    "list": ("looking", "List the latest shifts."),
    "state": ("looking", "Show where a shift stands."),
    "watch": ("looking", "Follow a shift live, its budgets as bars, or all of them."),
    "result": ("looking", "Print how a shift ended."),
    "transcript": ("looking", "Print the messages of a shift, or one tool call whole."),
    "audit": ("auditing", "Check a shift's journal and history against each other."),
    "report": ("reporting", "Write a report of a shift, or of all, as one HTML file."),
    "journal": ("auditing", "Make a shift's rows in the journal from its history."),
    "approvals": ("answering", "List what shifts ask a person."),
    "approve": ("answering", "Let the effect be made that a shift asks about."),
    "deny": ("answering", "Do not let it be made."),
    "resolve": ("answering", "Say what came of an effect whose outcome is unknown."),
    "stop": ("steering", "Stop a shift."),
    "pause": ("steering", "Let a shift begin nothing further until resumed."),
    "resume": ("steering", "Let a paused shift go on."),
    "limits": ("steering", "Raise or lower the limits of a running shift."),
    "tell": ("steering", "Send a message to a running shift."),
    "funds": ("funds", "List, set and raise the budgets that many shifts draw on."),
    "doctor": ("diagnosing", "Check all that shifts need, with the remedy of what is wrong."),
    "replay": ("replaying", "Play cases of authored turns and report each mismatch."),
    "eval": ("evaluating", "Judge shifts by the evidence that their agents declare."),
    "lab": ("lab.command", "Show the arithmetic of reliability on the real workflow."),
    "search-attributes": ("serving", "Register the search attributes of shifts with a server."),
    "completion": ("completing", "Print a shell's completion script."),
}
"""Each command, the module that holds it, and its one-line help. A module is one of client.commands, or is named whole
where it stands in a room above the client, which nothing here may import."""

BAD = 2
"""Exit code of bad input, and of a server or a worker that does not answer."""
INTERRUPTED = 128 + signal.SIGINT
"""Exit code after Ctrl-C, also where it left a shift running, as shells count it."""
CUT_OFF = 128 + signal.SIGPIPE
"""Exit code where the reader of our output has gone, as shells count it."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if name not in COMMANDS:
            return None
        where = COMMANDS[name][0]
        module = importlib.import_module(where if "." in where else f"client.commands.{where}")
        command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
        command.short_help = COMMANDS[name][1]
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, but with our names to suggest where none fits."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            raise click.exceptions.NoSuchCommand(args[0], possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names that begin so, without importing them; options as click does."""
        names = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return names + click.Command.shell_complete(self, ctx, incomplete)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 completed, 1 ended with another status, 2 bad input or no server, 130 after Ctrl-C.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Configuration file; else the one that LONGSHIFT_CONFIG names, else longshift.toml here.",
)
@click.version_option(package_name="longshift")
@click.pass_context
def longshift(ctx: click.Context, config: Path | None) -> None:
    """Long, unattended agent shifts that survive crashes, stop when told and keep hard budgets.

    \b
    Begin with:
      longshift demo                     the whole thing, once, in seconds
      longshift up                       server and worker, then in another terminal:
      longshift run "Draft what we need" a shift, followed live
    """
    ctx.obj = config
    if os.environ.get("NO_COLOR"):
        ctx.color = False  # rich looks for it by itself, click does not


def main() -> NoReturn:
    """Run the command line and exit with its code. No traceback ever reaches a person."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    code = _code()
    if sys.stderr:
        sys.stderr.flush()
    # Not sys.exit: threads of Temporal at work then abort a Python that takes itself apart (seen with temporalio 1.35).
    os._exit(code)


def _code() -> int:
    """Run the command line, tell what went wrong; its exit code."""
    try:
        code = longshift.main(prog_name="longshift", standalone_mode=False) or 0
        if sys.stdout:
            sys.stdout.flush()
        return int(code)
    except (BrokenPipeError, SystemExit):  # the latter is click's own way out of a broken pipe
        return CUT_OFF
    except click.ClickException as error:
        error.show()
        return BAD
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    except Exception as error:
        from client.commands import failing

        click.echo(failing.sentence(error), err=True)
        return BAD
