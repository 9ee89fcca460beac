"""Stored records as messages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compactor.exceptions import SessionDamagedError
from compactor.models import Kind, Message
from compactor.records import KEPT, PINNED, PROVISIONAL, REOPENED, SOFT, Record
from compactor.tokens import Encode, count_message


def read_messages(records: Sequence[Record], offset: int, encoding: str, encode: Encode) -> list[Message]:
    """Stored records as messages, counted in one encoding."""
    return [read_message(record, offset + index, encoding, encode) for index, record in enumerate(records)]


def read_message(record: Record, position: int, encoding: str, encode: Encode) -> Message:
    """One record as a message; a tombstone and what cannot be read hold nothing, and cost nothing, as a skeleton."""
    kind = record.kind
    value: Mapping[str, Any] = {}
    if kind not in (Kind.TOMBSTONE, Kind.CORRUPT):
        try:
            value = record.value()
        except SessionDamagedError:
            kind = Kind.CORRUPT
    tokens = record.counted(encoding) if value and kind is not Kind.FOLDED else 0
    if tokens is None:
        tokens = count_message(value, encode)
    flags = record.flags
    if not flags and kind is Kind.ORIGINAL:  # as nearly all are
        return Message(position, value, tokens, own=record.own, shown=record.shown)
    return Message(
        position=position,
        value=value,
        tokens=tokens,
        kind=kind,
        provisional=bool(flags & PROVISIONAL),
        pinned=bool(flags & PINNED),
        own=record.own,
        shown=record.shown,
        cut=record.cut,
        earlier=record.earlier,
        left=record.left,
        soft=bool(flags & SOFT),
        kept=bool(flags & KEPT),
        reopened=bool(flags & REOPENED),
    )
