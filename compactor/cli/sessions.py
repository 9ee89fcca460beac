"""`compactor sessions`: every session of the namespace, a row each as it is found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Final

import typer

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stderr
from compactor.cli.spending import day_line, days_of
from compactor.commands.sessions import STATES, Seen, read_page, read_seen
from compactor.exceptions import ConfigurationError
from compactor.models import SessionId
from compactor.settings import Settings, read_settings
from compactor.store import Store

_HEAD: Final = f"{'session':<40} {'messages':>9} {'tokens':>11} {'full':>7}  {'state':<34} {'expires in':>10}"


@app.command()
def sessions(
    tenant: Annotated[
        str | None, typer.Option(help="Only sessions of this tenant: what stands before the first slash.")
    ] = None,
    state: Annotated[str | None, typer.Option(help=f"Only these: {', '.join(STATES)}.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stops after so many.")] = None,
    json: Json = False,
) -> None:
    """Lists sessions in no order: messages, tokens, percent of the limit last judged by, state, life left.

    Reads page by page and never holds up the server; with --json each line is one session.
    """
    if state is not None and state not in STATES:
        raise ConfigurationError(f"--state: expected one of {', '.join(STATES)}.")
    settings = read_settings()
    count = 0
    with Store(settings) as store:
        wanted = (seen for seen in _all(store, settings, tenant) if state in (None, seen.state))
        for seen in islice(wanted, limit):
            if json:
                print_json(asdict(seen))
            else:
                _print(seen, first=count == 0)
            count += 1
    if not json:
        stderr.print(f"{count:,} sessions")
        if tenant is not None:
            stderr.print(day_line(days_of(settings, tenant)[0]), soft_wrap=True)


def _all(store: Store, settings: Settings, tenant: str | None) -> Iterator[Seen]:
    for new in pages(store, settings, tenant):
        yield from store.run(read_seen(settings.namespace, new, max_attempts=settings.max_attempts))


def pages(store: Store, settings: Settings, tenant: str | None) -> Iterator[list[SessionId]]:
    """Each session once: a SCAN may come upon a key again while the server's table grows or shrinks."""
    told: set[SessionId] = set()
    cursor = 0
    while True:
        page = store.run(read_page(settings.namespace, cursor, tenant=tenant))
        new = [session for session in dict.fromkeys(page.sessions) if session not in told]
        if new:
            yield new
        told.update(new)
        cursor = page.cursor
        if not cursor:
            return


def _print(seen: Seen, *, first: bool) -> None:
    if first:
        typer.echo(_HEAD)
    tokens = "?" if seen.tokens is None else f"{seen.tokens:,}"
    full = "?" if seen.percent is None else f"{seen.percent} %"
    state = f"{seen.state} ({seen.reason})" if seen.reason else seen.state
    life = f"{seen.expires_in / 86_400:.1f} d" if seen.expires_in >= 86_400 else f"{seen.expires_in / 3_600:.1f} h"
    typer.echo(f"{seen.session:<40} {seen.messages:>9,} {tokens:>11} {full:>7}  {state:<34} {life:>10}")
