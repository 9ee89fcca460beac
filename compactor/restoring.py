"""Originals on their way back into the history: what an undo brings back, and a pin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from compactor.archive import cut_record, decompress
from compactor.commands.read import Rows, Stored
from compactor.exceptions import SessionDamagedError, StoreUnavailableError
from compactor.frozen import thaw
from compactor.models import Kind, recall_id
from compactor.records import PINNED, Record, original_values, read_record, unpack
from compactor.tokens import Encode, count_message

_MESSAGE: Final = frozenset({dict})
ATTEMPTS: Final = 8  # at a history that others change all the while


@dataclass(frozen=True, slots=True)
class Restored:
    """Records by position, tokens that each encoding gains, bytes of the messages."""

    records: Mapping[int, Record]
    added: Mapping[str, int]
    bytes_added: int


def contended() -> StoreUnavailableError:
    """The error for a history that changed before every attempt."""
    return StoreUnavailableError(
        "session: others change its history all the while, or its state was damaged from outside; nothing was changed. "
        "Call again; if that does not help, clear the session."
    )


def originals_of(stored: Rows) -> list[Any]:
    """The live conversation as it was pushed, every replacement undone, in values of the caller's own.

    Raises SessionDamagedError.
    """
    values = original_values(stored.rows)
    if _MESSAGE.issuperset(map(type, values)):
        return values
    told: list[Any] = []
    for position, (row, value) in enumerate(zip(stored.rows, values, strict=True), start=stored.offset):
        if type(value) in _MESSAGE:
            told.append(value)
            continue
        record = _readable(row, position)
        if record.kind is not Kind.TOMBSTONE:
            told.append(thaw(original_of(stored, position, record).value()))
    return told


def _readable(row: bytes, position: int) -> Record:
    record = read_record(row)
    if record.kind is Kind.CORRUPT:
        raise SessionDamagedError(
            f"stored record {recall_id(position)}: this release cannot read it (a newer one wrote it, or it "
            "was damaged from outside), so the conversation cannot be given whole. `compactor show` lists it."
        )
    return record


def original_of(stored: Stored | Rows, position: int, record: Record) -> Record:
    """The message as it was pushed."""
    blob = stored.archive.get(position) if record.kind is not Kind.ORIGINAL else None
    return record if blob is None else unpack(decompress(blob))


def before(stored: Stored, position: int, shown: Record) -> Record:
    """What a compaction replaced: the original, or what the push had cut it to."""
    data = cut_record(stored.archive[position])
    if data is None:
        return original_of(stored, position, shown)
    return replace(unpack(data), pushed_ms=shown.pushed_ms, chain=shown.chain)


def restored(
    stored: Stored, positions: Iterable[int], encoder: Callable[[str], Encode], *, flags: Mapping[int, int]
) -> Restored:
    """The messages at these positions as they stood before a compaction, each with more flags; pins stay.

    Positions whose original is no more are left out.
    """
    records: dict[int, Record] = {}
    added = dict.fromkeys(stored.state.totals, 0)
    encoders = {name: encoder(name) for name in added}
    bytes_added = 0
    for position in positions:
        if position not in stored.archive:
            continue
        shown = stored.records[position - stored.state.offset]
        original = before(stored, position, shown)
        for name, encode in encoders.items():
            added[name] += _tokens(original, name, encode) - _tokens(shown, name, encode)
        back = shown.brought_back(original)
        bytes_added += back.size - shown.size
        records[position] = replace(back, flags=back.flags | flags.get(position, 0) | (shown.flags & PINNED))
    return Restored(records, added, bytes_added)


def _tokens(record: Record, encoding: str, encode: Encode) -> int:
    counted = record.counted(encoding)
    return count_message(record.value(), encode) if counted is None else counted
