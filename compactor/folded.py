"""What is stored of messages that a fold tells of: skeletons, and which fold each belongs to.

A skeleton keeps role, call ids and tool names, so that a history reads as the same steps with a fold
as without: what depends on steps and positions alone (sentences of views, pairing) stays the same.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.formats.openai import RESULT_ROLES, Call, calls, text_of
from compactor.frozen import freeze
from compactor.models import Kind, Message, Replacement
from compactor.records import Encoded, encode_message

_RUN: Final = re.compile(r"m(\d{1,15})-(\d{1,15})\]$")  # where a fold's header ends


@dataclass(frozen=True, slots=True)
class Folded:
    """One fold among messages, by index: the results that carry it, and the messages that it tells of."""

    carriers: tuple[int, ...]
    hidden: tuple[int, ...]

    @property
    def indexes(self) -> tuple[int, ...]:
        return (*self.carriers, *self.hidden)


def skeleton(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The message without content and arguments: the same role, calls, and answer to a call."""
    kept: dict[str, Any] = {"role": value.get("role", "")}
    listed, legacy = calls(value), value.get("function_call") is not None
    if legacy:
        kept["function_call"] = {"name": listed[-1].name}
        listed = listed[:-1]
    if listed:
        kept["tool_calls"] = [_bare(call) for call in listed]
    if value.get("role") in RESULT_ROLES:
        kept |= {key: value[key] for key in ("tool_call_id", "name") if value.get(key) is not None}
    return freeze(kept)  # type: ignore[no-any-return] # why: freeze keeps the outer type


def _bare(call: Call) -> dict[str, Any]:
    named = {"function": {"name": call.name}}
    return named if call.id is None else {"id": call.id, **named}


def folds_among(kinds: Sequence[Kind]) -> list[Folded]:
    """The folds of a history, oldest first; what left it or cannot be read stands in no fold.

    A fold lies within one turn, and nothing that a send shows stands between its first carrier and the
    last message it tells of.
    """
    found: list[Folded] = []
    carriers: list[int] = []
    hidden: list[int] = []

    def close() -> None:
        if carriers:
            found.append(Folded(tuple(carriers), tuple(hidden)))
        carriers.clear()
        hidden.clear()

    for index, kind in enumerate(kinds):
        if kind is Kind.FOLDED:
            hidden.append(index)
        elif kind is Kind.FOLD:
            if hidden:
                close()
            carriers.append(index)
        elif (carriers or hidden) and kind not in (Kind.TOMBSTONE, Kind.CORRUPT):
            close()
    close()
    return found


def applied(messages: Sequence[Message], replacements: Sequence[Replacement]) -> list[Mapping[str, Any]]:
    """The values of a list with its replacements in place; what became part of a fold is left out."""
    new = {item.position: item.value for item in replacements}
    folded = {item.position for item in replacements if item.kind is Kind.FOLDED}
    return [new.get(message.position, message.value) for message in messages if message.position not in folded]


def row_of(message: Message) -> Encoded:
    """A stored message as a row of a list; one that a fold tells of has no text, and is never to be stored."""
    return Encoded(message.value, b"", 0, message.own) if message.folded else encode_message(message.value)


def with_told(live: Sequence[Message], rows: Sequence[Encoded]) -> list[Encoded]:
    """The rows, and behind each fold that a list came back with the messages it tells of.

    Of a fold that was undone since, they are what was brought back, and of one that became part of another
    what that tells of in its place. A row is a fold of ours by its fingerprint alone.
    """
    known = {m.shown for m in live if m.own != m.shown} | {m.earlier for m in live if m.earlier}
    if known.isdisjoint(row.own for row in rows):
        return list(rows)
    folds = folds_among([message.kind for message in live])
    told = {tuple(live[index].shown for index in fold.carriers): fold.hidden for fold in folds}
    counts = {carriers[-1]: len(carriers) for carriers in told}
    back = _BroughtBack(live, rows)
    found: list[Encoded] = []
    for order, row in enumerate(rows):
        found.append(row)
        if row.own not in known:
            continue
        ends = order + 1 == len(rows) or rows[order + 1].value.get("role") not in RESULT_ROLES
        carriers = tuple(each.own for each in rows[max(0, order + 1 - counts.get(row.own, 1)) : order + 1])
        if carriers in told:
            found += [row_of(live[index]) for index in told[carriers]]
        elif ends:  # the fold was undone since, or became part of another one
            found += [row_of(message) for message in back.told_before(order)]
    return found


class _BroughtBack:
    """What folds told of before they were undone or merged; each message is looked at once for all of them."""

    def __init__(self, live: Sequence[Message], rows: Sequence[Encoded]) -> None:
        self._live, self._rows = live, rows
        self._places = [message.position for message in live]
        self._positions = {name: m.position for m in live for name in (m.shown, m.earlier) if name and name != m.own}

    def told_before(self, order: int) -> Sequence[Message]:
        """The messages of a fold; row `order` is the last one that carried it."""
        behind, end = self._positions[self._rows[order].own], None
        first = behind
        while order >= 0 and (position := self._positions.get(self._rows[order].own)) is not None:
            first = position
            end = end or _RUN.search(text_of(self._rows[order].value).partition("\n")[0])
            order -= 1
        if end is None:
            return []
        last = int(end[2]) + first - int(end[1])  # its messages may have been stored anew since
        return self._live[bisect_right(self._places, behind) : bisect_right(self._places, last)]
