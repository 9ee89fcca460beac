"""Which messages an undo brings back, read from the audit alone."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.exceptions import CompactionNotFoundError
from compactor.models import Code, Outcome


def chosen(audit: Sequence[Outcome], compaction_id: str | None) -> Outcome:
    """The compaction of that id, or the last one that still stands. Raises CompactionNotFoundError."""
    applied = [row for row in audit if row.outcome is Code.APPLIED]
    if compaction_id is not None:
        found = next((row for row in reversed(applied) if row.id == compaction_id), None)
    else:
        found = next((row for row in reversed(applied) if standing(audit, row)), None)
    if found is None:
        raise CompactionNotFoundError(
            "compaction: this session has no applied one of that id. session.compactions() (or compactor status) "
            "lists them; the newest 1,000 are kept."
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
