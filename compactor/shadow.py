"""Shadow mode: what compactions would have put in place, kept beside a history that they leave as it is.

The next run sees the history as it would stand then, so its plan, its cut and its figures are those
of a real one, and measures what the turns since the run before used of what would have left.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from compactor.exceptions import SessionDamagedError
from compactor.formats.openai import RESULT_ROLES, text_of
from compactor.models import Kind, Message
from compactor.needles import case_of
from compactor.records import Record, unpack
from compactor.retention import kept_of

Mode = Literal["off", "extracts", "model"]
_UNTIL: Final = struct.Struct(">Q")
_ENTRY: Final = struct.Struct(">QI")


@dataclass(frozen=True, slots=True)
class Shadow:
    """Drafted records by position; `until` is the first position that no run has seen yet."""

    records: Mapping[int, Record] = field(default_factory=dict[int, Record])
    until: int = 0

    def over(self, records: Sequence[Record], offset: int) -> list[Record]:
        """The stored records as they would stand: what was changed otherwise since keeps its own."""
        return [self._standing(offset + index, record) or record for index, record in enumerate(records)]

    def _standing(self, position: int, record: Record) -> Record | None:
        drafted = self.records.get(position)
        is_same = drafted is not None and drafted.own == record.own and record.kind in (Kind.ORIGINAL, Kind.LIMITED)
        return drafted if is_same else None

    def with_drafts(self, drafted: Mapping[int, Record], until: int) -> Shadow:
        """The shadow behind one more run."""
        return Shadow({**self.records, **drafted}, until)

    def pack(self) -> bytes:
        """As the session's state keeps it."""
        rows = ((position, record.pack()) for position, record in sorted(self.records.items()))
        entries = b"".join(_ENTRY.pack(position, len(row)) + row for position, row in rows)
        return zlib.compress(_UNTIL.pack(self.until) + entries, 6)

    def retention(self, messages: Sequence[Message]) -> tuple[int, int]:
        """Values of its results that the messages since used, and how many would have stood somewhere still.

        `messages` are the originals in order.
        """
        past = [message for message in messages if message.position < self.until]
        texts: dict[int, str] = {}
        for index, message in enumerate(past):
            drafted = self.records.get(message.position)
            if drafted is not None and drafted.own == message.own and message.role in RESULT_ROLES:
                texts[index] = text_of(drafted.value())
        if not texts or len(past) == len(messages):
            return 0, 0
        case = case_of([m.value for m in past], list(texts), [m.value for m in messages[len(past) :]])
        return kept_of(case, list(texts.values()))


def read_shadow(data: bytes) -> Shadow:
    """What a state keeps; empty when there is none, or when it cannot be read."""
    try:
        plain = zlib.decompress(data)
        (until,) = _UNTIL.unpack_from(plain)
        records: dict[int, Record] = {}
        place = _UNTIL.size
        while place < len(plain):
            position, size = _ENTRY.unpack_from(plain, place)
            place += _ENTRY.size + size
            if place > len(plain):
                return Shadow()
            records[position] = unpack(plain[place - size : place])
    except (zlib.error, struct.error, SessionDamagedError):
        return Shadow()
    return Shadow(records, until)
