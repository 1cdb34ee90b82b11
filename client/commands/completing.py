"""Completion scripts for shells."""

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    Examples:
      eval "$(longshift completion bash)"     in ~/.bashrc
      eval "$(longshift completion zsh)"      in ~/.zshrc
      longshift completion fish > ~/.config/fish/completions/longshift.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None, "click knows these three"
    click.echo(kind(ctx.find_root().command, {}, "longshift", "_LONGSHIFT_COMPLETE").source())
