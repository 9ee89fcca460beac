"""`compactor undo SESSION [COMPACTION_ID]`: the originals of one compaction come back."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stdout
from compactor.cli.judged import judged_config
from compactor.cli.reading import NEUTRAL, SessionName, not_found, outcome_row
from compactor.client import Compactor, Session
from compactor.exceptions import CompactionNotFoundError, ConfigurationError
from compactor.models import Code, session_id


@app.command()
def undo(
    session: SessionName,
    compaction_id: Annotated[
        str | None,
        typer.Argument(metavar="[COMPACTION_ID]", help="Its id or how it begins; none: the last that still stands."),
    ] = None,
    json: Json = False,
) -> None:
    """Takes a compaction back: what it replaced is live again, and is not replaced until it is released.

    `compactor status SESSION --json` lists compactions with their ids. Nothing else of the session changes.
    """
    name = session_id(session)
    with Compactor.from_env() as memory:
        opened = memory.session(name, judged_config(memory, name) or NEUTRAL)
        if not opened.status().exists:
            raise not_found()
        outcome = opened.undo(None if compaction_id is None else _whole_id(opened, compaction_id))
    if json:
        print_json(outcome_row(outcome))
        return
    tokens = f"{outcome.before:,} → {outcome.after:,} tokens"
    stdout.print(Text(f"undone {outcome.reason}: {outcome.items} originals are back, {tokens}"))


def _whole_id(session: Session, beginning: str) -> str:
    """The id of the one applied compaction that begins so."""
    ids = {run.id for run in session.compactions() if run.outcome is Code.APPLIED and run.id.startswith(beginning)}
    if not beginning or len(ids) > 1:
        raise ConfigurationError(
            f"compaction id: {len(ids)} compactions of this session begin so; give more of the id."
        )
    if not ids:
        raise CompactionNotFoundError(
            "compaction: this session has no applied one whose id begins so. compactor status SESSION --json lists "
            "them; the newest 1,000 are kept."
        )
    return ids.pop()
