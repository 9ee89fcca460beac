"""Callers' own lists against a stored history: builders, and what must hold for every match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from compactor.formats.openai import text_of
from compactor.frozen import freeze
from compactor.matching import Match
from compactor.models import Kind, Message, recall_id
from compactor.records import Encoded, encode_message
from compactor.tokens import Encode, count_message
from compactor.view import View, compose
from compactor.wording import CHINESE, ENGLISH
from tests.unit.chat import by_length, levels, total

ROOMY = 10**8  # bytes


def rows(chat: Iterable[Mapping[str, Any]]) -> list[Encoded]:
    """A caller's list as it is matched."""
    return [encode_message(message, max_bytes=ROOMY) for message in chat]


def held(chat: Iterable[Mapping[str, Any]], *, offset: int = 0, encode: Encode = by_length) -> list[Message]:
    """A history as a session holds it, with its fingerprints; the latest user message came with a list."""
    messages: list[Message] = []
    for position, row in enumerate(rows(chat), start=offset):
        value = freeze(row.stored_value())
        messages.append(Message(position, value, count_message(value, encode), own=row.own, shown=row.own))
    latest = max((index for index, message in enumerate(messages) if message.role == "user"), default=-1)
    return [replace(message, soft=index == latest) for index, message in enumerate(messages)]


def swapped(message: Message, text: str = "[short]", kind: Kind = Kind.SUMMARY) -> Message:
    """The message with a replacement in its place, its own fingerprint kept."""
    row = encode_message({**message.value, "content": text}, max_bytes=ROOMY)
    return replace(message, value=row.value, tokens=count_message(row.value, by_length), kind=kind, shown=row.own)


def buried(message: Message) -> Message:
    """The tombstone of a message."""
    return replace(message, value={}, tokens=0, kind=Kind.TOMBSTONE)


def unreadable(message: Message) -> Message:
    """The message as a record that this release cannot read."""
    return replace(message, value={}, tokens=0, kind=Kind.CORRUPT, own=b"", shown=b"")


def view_of(messages: Sequence[Message], *, ceiling: float, target: float, encode: Encode = by_length) -> View:
    """What a send of these messages gets under a ceiling that is a share of their tokens."""
    most = max(1, int(total(messages) * ceiling))
    budget = levels(ceiling=most, threshold=max(1, int(most * target)))
    return compose(messages, budget, encode, beside=0)


def sent_back(found: Match, history: Sequence[Message]) -> list[Any]:
    """The answer to a matched list before it is shortened: stored messages as they stand, others as given."""
    return [
        found.items[i].stored_value() if place is None or i in found.own_words else history[place].value
        for i, place in enumerate(found.places)
    ]


def check(found: Match, history: Sequence[Message], *, lead: int = 0) -> None:
    """What holds for every match, whatever the list."""
    placed = [place for place in found.places if place is not None]
    assert placed == sorted(set(placed))
    assert len(found.places) == len(found.items)
    assert all(place is not None for place in found.places[: found.stored])
    assert all(place is None for place in found.places[found.stored :])
    assert all(place >= lead and history[place].kind is not Kind.TOMBSTONE for place in placed)
    for i, place in enumerate(found.places):
        if place is not None and i not in found.own_words:
            assert found.items[i].own in (history[place].own, history[place].shown) or is_cut(found, i, history[place])
    if found.branch is not None:
        assert history[found.branch].kind is not Kind.TOMBSTONE
        assert found.stored < len(found.items)
        assert all(place < found.branch for place in placed)
        behind = history[max([*placed, lead - 1]) + 1 : found.branch]
        assert all(message.kind is Kind.TOMBSTONE for message in behind)
    if found.reword is not None:
        assert found.reword in found.own_words
        assert found.items[found.reword].value["role"] == "user"


def is_cut(found: Match, i: int, message: Message) -> bool:
    """Whether item i is a shortened result: the stored one but for its text, which says what is missing."""
    value = found.items[i].value
    same = {**value, "content": 0} == {**message.value, "content": 0}
    text = text_of(value)
    media = any(words.media.partition("{count}")[2] in text for words in (ENGLISH, CHINESE))
    return same and value["role"] in ("tool", "function") and (media or recall_id(message.position) in text)
