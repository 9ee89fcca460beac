"""What a matched list changes in the stored history, as data for one script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from compactor.cached_history import CachedHistory
from compactor.commands.sync import Change, Row
from compactor.folded import Folded, folds_among
from compactor.matching import Match
from compactor.models import Kind, Message
from compactor.records import Encoded, chain_of
from compactor.tokens import Encode, count_message


def change_of(held: CachedHistory, found: Match, rows: Mapping[int, Row]) -> Change:
    """The change that makes the history hold the list; `rows` are the items to write, counted."""
    branch = None if found.branch is None else held.messages[found.branch].position
    chain = held.chain
    if branch is not None or found.reword is not None:
        chain = _chain_before(held, found, rows)
    sources = _sources(held, found.branch)
    folded = _fold_sources(held, found, sources)
    latest_user = max((i for i, item in enumerate(found.items) if item.value.get("role") == "user"), default=-1)
    new: list[Row] = []
    for i in range(found.stored, len(found.items)):
        source = folded.get(i) or sources.get(rows[i].message.own)
        own = rows[i].message.own if source is None else source.own
        chain_behind = chain_of([own], new[-1].chain if new else chain)[0]
        position = None if source is None else source.position
        new.append(replace(rows[i], chain=chain_behind, soft=i == latest_user, source=position))
    reword = None
    if found.reword is not None:
        place = found.places[found.reword]
        assert place is not None, "what is reworded stands in the history"
        reword = held.messages[place].position, replace(rows[found.reword], soft=True)
    return Change(chain, tuple(new), branch, reword, gaps=found.gaps)


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
    """Messages outside of the history, or about to leave it, that were replaced, pinned or undone, by fingerprint."""
    found: dict[bytes, Message] = {}
    for index, message in enumerate(held.messages):
        leaves = branch is not None and index >= branch and message.live
        marked = message.own != message.shown or message.pinned or message.kept
        if (message.left if message.kind is Kind.TOMBSTONE else message.kind) in (Kind.FOLD, Kind.FOLDED):
            continue  # one message of a fold alone tells of others that may not come back
        if (leaves or message.kind is Kind.TOMBSTONE) and marked:
            found |= dict.fromkeys(message.names, message)
    return found


def _fold_sources(held: CachedHistory, found: Match, others: Mapping[bytes, Message]) -> dict[int, Message]:
    """For each new item of a run that is all of a fold outside of the history: the message it takes over from.

    The newest fold goes first, and none covers a part of another; one of which a message was undone or
    pinned since (as `others` say) is over.
    """
    branch = len(held.messages) if found.branch is None else found.branch
    sources: dict[int, Message] = {}
    for fold in reversed(folds_among(_kinds_with_left(held.messages))):
        members = [held.messages[index] for index in fold.indexes]
        if any(message.live and index < branch for index, message in zip(fold.indexes, members, strict=True)):
            continue
        if any(_stays_since(others.get(member.own), member) for member in members):
            continue
        for first in range(found.stored, len(found.items) - len(members) + 1):
            run = range(first, first + len(members))
            same = all(found.items[i].own == member.own for i, member in zip(run, members, strict=True))
            if same and sources.keys().isdisjoint(run):
                sources |= dict(zip(run, members, strict=True))
                break
    return sources


def _kinds_with_left(messages: Sequence[Message]) -> list[Kind]:
    """What each message is, or was when it left. What had left before a fold was made around it stands in none."""
    kinds = [message.left if message.kind is Kind.TOMBSTONE else message.kind for message in messages]
    following = Kind.ORIGINAL
    for index in reversed(range(len(kinds))):
        if messages[index].kind is not Kind.TOMBSTONE or kinds[index] in (Kind.FOLD, Kind.FOLDED):
            following = kinds[index]
        elif following is Kind.FOLDED:  # of a fold that began before this message
            kinds[index] = Kind.TOMBSTONE
    return kinds


def _stays_since(other: Message | None, member: Message) -> bool:
    return other is not None and (other.kept or other.pinned) and other.position > member.position


def split_fold(held: CachedHistory, branch: int) -> Folded | None:
    """The fold that would lose its later messages if the history were left at this index."""
    folds = folds_among([message.kind for message in held.messages])
    return next((fold for fold in folds if fold.indexes[0] < branch <= fold.indexes[-1]), None)


def as_given(held: CachedHistory, found: Match) -> frozenset[int]:
    """The items that are shown as the list has them: of a fold it ends in or has not all of, and in other words."""
    folds = folds_among([message.kind for message in held.messages])
    if not folds:
        return found.own_words
    items = {place: i for i, place in enumerate(found.places) if place is not None}
    parts: set[int] = set()
    for fold in folds:
        there = [items[index] for index in fold.indexes if index in items]
        if len(there) < len(fold.indexes) or len(found.items) - 1 in there:  # its end is what the model is to read
            parts.update(there)
    return found.own_words | parts


def untold(held: CachedHistory, found: Match) -> dict[int, Message]:
    """The items to be shown as originals that the list has not: of a fold in parts, what an older one or a view hides.

    With each the message that stands there. The texts that tell of them in the list go as well.
    """
    given = as_given(held, found) - found.own_words
    members = {i: held.messages[place] for i in given if (place := found.places[i]) is not None}
    if all(found.items[i].text and not _tells(found.items[i], message) for i, message in members.items()):
        return {}
    return {i: message for i, message in members.items() if found.items[i].own != message.own or message.folded}


def _tells(item: Encoded, message: Message) -> bool:
    """Whether an item is the text of a fold that stands."""
    return message.kind is Kind.FOLD and item.own == message.shown


def tokens_of(held: CachedHistory, found: Match, change: Change | None, encoding: str, encode: Encode) -> int:
    """Tokens of the list as it would be sent, replacements in place."""
    given = as_given(held, found) - found.own_words
    stored = sum(held.messages[p].tokens for i, p in enumerate(found.places) if p is not None and i not in given)
    stored += sum(count_message(found.items[i].stored_value(), encode) for i in given)
    return stored + sum(row.tokens[encoding] for row in (change.rows if change else ()))
