"""Assembles the commands, and turns our errors into one line and exit code 2."""

from __future__ import annotations

import sys

import typer

from compactor.cli.console import stderr
from compactor.exceptions import CompactorError

app = typer.Typer(
    name="compactor",
    help="Keeps the memory of chat bots and agents inside their model's context window.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main() -> None:
    """The entry point of the `compactor` script."""
    try:
        app()
    except CompactorError as error:
        stderr.print(f"[red]error[/red] {error}", highlight=False, markup=True)
        sys.exit(2)
