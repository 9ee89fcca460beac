"""`compactor pin SESSION [WHAT]` and `compactor unpin SESSION WHAT`: what must survive every compaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, one_line, print_json, stdout
from compactor.cli.judged import judged_config
from compactor.cli.reading import NEUTRAL, SessionName
from compactor.client import Compactor, Session
from compactor.models import Pins, session_id

_WIDTH = 100  # characters of a phrase that are shown


@app.command()
def pin(
    session: SessionName,
    what: Annotated[
        str | None, typer.Argument(metavar="[WHAT]", help="A recall id such as m12, or a phrase; none: lists the pins.")
    ] = None,
    json: Json = False,
) -> None:
    """Pins a message, which then is never replaced or left out, or a phrase, which stands in every replacement.

    `compactor show SESSION` tells the recall ids. What had been replaced without it comes back.
    """
    with Compactor.from_env() as memory:
        opened = _opened(memory, session)
        if what is None:
            _list(opened.pins(), json=json)
            return
        pinned = opened.pin(what)
    if json:
        print_json(asdict(pinned))
        return
    back = f"; originals are back: {', '.join(pinned.restored)}" if pinned.restored else ""
    stdout.print(Text(f"pinned {one_line(pinned.pin, _WIDTH)}{back}"))


@app.command()
def unpin(
    session: SessionName,
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A recall id such as m12, or the phrase.")],
    json: Json = False,
) -> None:
    """Takes a pin back; a message that an undo brought back may be replaced again, too."""
    with Compactor.from_env() as memory:
        released = _opened(memory, session).release(what)
    if json:
        print_json({"released": released})
        return
    stdout.print(Text(f"released {one_line(what, _WIDTH)}" if released else f"{one_line(what, _WIDTH)} was not pinned"))


def _opened(memory: Compactor, session: str) -> Session:
    name = session_id(session)
    return memory.session(name, judged_config(memory, name) or NEUTRAL)


def _list(pins: Pins, *, json: bool) -> None:
    if json:
        print_json(asdict(pins))
        return
    for pinned in (*pins.messages, *pins.phrases):
        stdout.print(Text(one_line(pinned, _WIDTH)))
    if not pins.messages and not pins.phrases:
        stdout.print(Text("nothing is pinned"))
