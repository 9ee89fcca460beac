"""`compactor dead`: the sessions that are left alone because their attempts are used up."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime

from rich.table import Table
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stdout
from compactor.client import Compactor
from compactor.dead_list import dead_sessions


@app.command()
def dead(json: Json = False) -> None:
    """Lists dead sessions: the reason, the attempts, since when. `compactor retry` queues them again.

    They lose nothing: a send over the ceiling gets a shorter view, but no compaction is tried.
    """
    with Compactor.from_env() as memory:
        settings = memory.settings
        found = memory.drive(dead_sessions(settings.namespace, max_attempts=settings.max_attempts))
    if json:
        for each in found:
            print_json(asdict(each))
        return
    if found:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("session", overflow="fold")
        table.add_column("reason", overflow="fold")
        table.add_column("attempts", justify="right")
        table.add_column("since", no_wrap=True)
        for each in found:
            since = datetime.fromtimestamp(each.since, UTC).strftime("%Y-%m-%d %H:%M UTC")
            table.add_row(Text(each.session), Text(each.reason), str(each.attempts), since)
        stdout.print(table)
    stdout.print(Text(f"{len(found)} dead; compactor retry SESSION queues one again" if found else "none is dead"))
