"""`compactor erase SESSION --yes`: the content of a session goes for good."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stdout
from compactor.cli.reading import NEUTRAL, SessionName, not_found
from compactor.client import Compactor
from compactor.exceptions import ConfigurationError


@app.command()
def erase(
    session: SessionName,
    yes: Annotated[bool, typer.Option("--yes", help="Erases without asking.")] = False,
    json: Json = False,
) -> None:
    """Removes every message, original and draft of a session for good, and tells how many there were.

    Its audit stays, as ids and numbers, until the session's life ends.
    """
    with Compactor.from_env() as memory:
        opened = memory.session(session, NEUTRAL)
        seen = opened.status()
        if not seen.exists:
            raise not_found()
        if not yes:
            _ask(f"erase {session} with {seen.length:,} messages and {seen.archived:,} originals for good?")
        erased = opened.erase()
    if json:
        print_json({"session": session, **asdict(erased)})
        return
    stdout.print(
        Text(
            f"{session}: erased {erased.messages:,} messages, {erased.archived:,} archived originals, "
            f"{erased.cleared:,} of the conversation before; {erased.audit:,} audit rows stay"
        )
    )


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise ConfigurationError("erase: nobody to ask at this terminal; give --yes. Nothing was erased.")
    typer.confirm(question, abort=True)
