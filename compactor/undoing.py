"""Which messages an undo brings back, read from the audit and the records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from compactor.exceptions import CompactionNotFoundError
from compactor.folded import folds_among
from compactor.models import Code, Kind, Outcome
from compactor.records import Record


def chosen(
    audit: Sequence[Outcome], compaction_id: str | None, left: Callable[[Outcome], Sequence[int]] | None = None
) -> Outcome:
    """The compaction of that id, or the last one of which something is left: by default what still stands.

    Raises CompactionNotFoundError.
    """
    applied = [row for row in audit if row.outcome is Code.APPLIED]
    if compaction_id is not None:
        found = next((row for row in reversed(applied) if row.id == compaction_id), None)
    else:
        found = next((row for row in reversed(applied) if (left(row) if left else standing(audit, row))), None)
    if found is None:
        raise CompactionNotFoundError(
            "compaction: this session has no applied one of that id, and no such pinned phrase. session.compactions() "
            "(or compactor status) lists them; the newest 1,000 are kept."
        )
    return found


def standing(audit: Sequence[Outcome], compaction: Outcome) -> tuple[int, ...]:
    """Positions that this compaction replaced, and nothing replaced or brought back since."""
    place = next(index for index, row in enumerate(audit) if row is compaction)
    later = {
        position
        for row in audit[place + 1 :]
        if row.outcome in (Code.APPLIED, Code.UNDONE)
        for position in row.positions
    }
    return tuple(position for position in compaction.positions if position not in later)


def places(positions: Sequence[int], records: Sequence[Record], offset: int) -> list[int]:
    """Where these replacements stand now: a branch may have carried them on to new positions."""
    live = {offset + index: record for index, record in enumerate(records) if _is_replaced(record)}
    found = {position for position in positions if position in live}
    left = [records[position - offset] for position in positions if 0 <= position - offset < len(records)]
    carried = {(record.own, record.shown) for record in left if record.kind is Kind.TOMBSTONE}
    found |= {position for position, record in live.items() if (record.own, record.shown) in carried}
    return sorted(found - _parts(found, records, offset))


def _parts(found: Collection[int], records: Sequence[Record], offset: int) -> set[int]:
    """Of folds of which not all messages are there, those that are: a fold comes back whole or not at all."""
    parts: set[int] = set()
    for fold in folds_among([record.kind for record in records]):
        positions = {offset + index for index in fold.indexes}
        parts |= set() if positions <= set(found) else positions
    return parts


def brought_back(audit: Sequence[Outcome], compaction: Outcome) -> tuple[int, ...]:
    """Positions that undos of this compaction brought back."""
    return tuple(
        p for row in audit if row.outcome is Code.UNDONE and row.reason == compaction.id for p in row.positions
    )


def _is_replaced(record: Record) -> bool:
    return record.kind not in (Kind.ORIGINAL, Kind.LIMITED, Kind.TOMBSTONE, Kind.CORRUPT)
