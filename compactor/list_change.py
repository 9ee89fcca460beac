"""What a matched list changes in the stored history, as data for one script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compactor.cached_history import CachedHistory
from compactor.commands.sync import Change, Row
from compactor.matching import Match
from compactor.models import Kind, Message
from compactor.records import chain_of


def change_of(held: CachedHistory, found: Match, rows: Mapping[int, Row]) -> Change:
    """The change that makes the history hold the list; `rows` are the items to write, counted."""
    branch = None if found.branch is None else held.messages[found.branch].position
    chain = held.chain
    if branch is not None or found.reword is not None:
        chain = _chain_before(held, found, rows)
    sources = _sources(held, found.branch)
    latest_user = max((i for i, item in enumerate(found.items) if item.value.get("role") == "user"), default=-1)
    new: list[Row] = []
    for i in range(found.stored, len(found.items)):
        source = sources.get(rows[i].message.own)
        own = rows[i].message.own if source is None else source.own
        chain_behind = chain_of([own], new[-1].chain if new else chain)[0]
        position = None if source is None else source.position
        new.append(replace(rows[i], chain=chain_behind, soft=i == latest_user, source=position))
    reword = None
    if found.reword is not None:
        place = found.places[found.reword]
        assert place is not None, "what is reworded stands in the history"
        reword = held.messages[place].position, replace(rows[found.reword], soft=True)
    return Change(chain, tuple(new), branch, reword)


def _chain_before(held: CachedHistory, found: Match, rows: Mapping[int, Row]) -> bytes:
    """The chain of what stays in front of the new messages."""
    end = len(held.messages) if found.branch is None else found.branch
    place = None if found.reword is None else found.places[found.reword]
    owns = [
        rows[found.reword].message.own if found.reword is not None and index == place else message.own
        for index, message in enumerate(held.messages[:end])
        if index >= held.lead and message.kind is not Kind.TOMBSTONE
    ]
    return chain_of(owns)[-1] if owns else b""


def _sources(held: CachedHistory, branch: int | None) -> dict[bytes, Message]:
    """Messages outside of the history, or about to leave it, that were replaced once or are pinned, by fingerprint."""
    found: dict[bytes, Message] = {}
    for index, message in enumerate(held.messages):
        leaves = branch is not None and index >= branch and message.live
        if (leaves or message.kind is Kind.TOMBSTONE) and (message.own != message.shown or message.pinned):
            found |= dict.fromkeys(message.names, message)
    return found


def tokens_of(held: CachedHistory, found: Match, change: Change | None, encoding: str) -> int:
    """Tokens of the list as it would be sent, replacements in place."""
    stored = sum(held.messages[place].tokens for place in found.places if place is not None)
    return stored + sum(row.tokens[encoding] for row in (change.rows if change else ()))
