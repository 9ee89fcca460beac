"""Reading the list of the dead, and taking sessions off it."""

from __future__ import annotations

from compactor.commands import dead
from compactor.commands.dead import Dead
from compactor.effects import Flow, run
from compactor.models import SessionId


def dead_sessions(namespace: str, *, max_attempts: int) -> Flow[list[Dead]]:
    """Every dead session, the longest dead first; entries of sessions that live again or are gone leave the list."""
    found: dict[SessionId, Dead] = {}
    cursor = 0
    while True:
        page = yield from run(dead.read_page(namespace, cursor))
        still = yield from run(dead.read_dead(namespace, page.entries, max_attempts=max_attempts))
        found |= still
        if gone := {session: entry for session, entry in page.entries.items() if session not in still}:
            yield from run(dead.forget(namespace, gone))
        cursor = page.cursor
        if not cursor:
            return sorted(found.values(), key=lambda each: (each.since, each.session))
