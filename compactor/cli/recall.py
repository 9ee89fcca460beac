"""`compactor recall SESSION RECALL_ID`: one original, wherever it is kept."""

from __future__ import annotations

from typing import Annotated

import typer

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, printable, stdout
from compactor.cli.reading import NEUTRAL, SessionName
from compactor.client import Compactor
from compactor.formats.openai import calls, text_of


@app.command()
def recall(
    session: SessionName,
    recall_id: Annotated[str, typer.Argument(metavar="RECALL_ID", help="The id in a replacement's header, e.g. m12.")],
    json: Json = False,
) -> None:
    """Prints the original message behind a recall id.

    Plain output is the message's text and calls; --json is the message exactly as it was pushed.
    """
    with Compactor.from_env() as memory:
        message = memory.session(session, NEUTRAL).recall(recall_id)
    if json:
        print_json(message)
        return
    lines = [text_of(message), *(f"-> {call.name}({call.arguments})" for call in calls(message))]
    text = "\n".join(line for line in lines if line)
    typer.echo(printable(text) if stdout.is_terminal else text.encode("utf-8", "replace"))
