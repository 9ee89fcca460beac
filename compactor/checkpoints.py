"""A session's memory as one portable record, in the shape that LangBot's runner keeps its own in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, TypedDict

from compactor.commands import read
from compactor.commands.recall import not_found
from compactor.effects import Flow, compute, run
from compactor.formats.openai import text_of
from compactor.models import Code, Kind, Outcome, recall_id
from compactor.outcomes import from_json
from compactor.reader import SessionReader
from compactor.stored_messages import read_messages
from compactor.undoing import standing

SCHEMA_VERSION: Final = 1


class Checkpoint(TypedDict):
    """What compactions made of a conversation so far; JSON as it is.

    `summary` is what stands now in place of the tool results they replaced, oldest first, with a blank
    line between two: each names its original's recall id. It holds nothing that was not replaced: users'
    words, the model's own and newer results are in the context still. `covers_until` is the recall id
    of the last replaced message; `tokens_before` what a send counted before the compaction that ended
    there, `created_at` when it ended (ISO 8601, UTC): 0 and the epoch when the audit no longer tells.
    `conversation_id` is the session's id.
    """

    schema_version: int
    summary: str
    covers_until: str
    tokens_before: int
    created_at: str
    conversation_id: str


class Checkpointing:
    """Checkpoints of one session; each method yields effects."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader

    def checkpoint(self) -> Flow[Checkpoint | None]:
        """The checkpoint as of now; None when nothing is replaced. Raises SessionNotFoundError."""
        stored = yield from run(read.read_history(self._reader.keys, audit=True))
        if not stored.state.exists:
            raise not_found()
        encode = yield from self._reader.encoder()
        messages = yield from compute(
            lambda: read_messages(stored.records, stored.state.offset, self._reader.encoding, encode), heavy=True
        )
        replaced = [m for m in messages if m.live and m.replaced and m.kind is not Kind.ELIDED]
        if not replaced:
            return None
        last = _last([from_json(row) for row in stored.audit])
        return Checkpoint(
            schema_version=SCHEMA_VERSION,
            summary="\n\n".join(text_of(message.value) for message in replaced if not message.folded),
            covers_until=recall_id(replaced[-1].position),
            tokens_before=last.before,
            created_at=_timestamp(last.at),
            conversation_id=self._reader.session,
        )


def _last(audit: Sequence[Outcome]) -> Outcome:
    """The last compaction of which something stands; one that says nothing when the audit no longer has it."""
    applied = (row for row in reversed(audit) if row.outcome is Code.APPLIED and standing(audit, row))
    return next(applied, Outcome(Code.UNKNOWN))


def _timestamp(at: float) -> str:
    with suppress(ValueError, OverflowError, OSError):  # garbled from outside
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    return datetime.fromtimestamp(0, UTC).isoformat(timespec="seconds")
