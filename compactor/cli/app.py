"""Assembles the commands, and turns our errors into one line and exit code 2."""

from __future__ import annotations

import io
import sys
from importlib import import_module
from typing import Annotated, Final

import typer
from rich.text import Text

from compactor.cli.console import stderr
from compactor.exceptions import CompactorError

# In the order of the help text; each module registers its command when it is imported.
COMMANDS: Final = (
    "demo", "up", "status", "sessions", "show", "recall", "pin", "undo", "erase", "dead", "retry", "doctor",
    "shadow", "compact", "replay", "limits", "bench", "bench_fleet", "bench_growth", "bench_peers", "bench_retention",
    "bench_workers", "bench_soak", "chaos", "serve", "keys", "configs",
)  # fmt: skip

app = typer.Typer(
    name="compactor",
    help="Keeps the memory of chat bots and agents inside their model's context window.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:
    if asked:
        from compactor import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", help="Shows the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """The entry point of the `compactor` script."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a character that the terminal lacks is no reason to fail
            stream.reconfigure(errors="replace")
    for name in COMMANDS:
        import_module(f"compactor.cli.{name}")
    try:
        app()
    except CompactorError as error:
        stderr.print(Text.assemble(("error ", "bold red"), str(error)), soft_wrap=True)
        sys.exit(2)
