"""Find originals, and end a conversation."""

from __future__ import annotations

from typing import Any, Final, Literal

from compactor.archive import decompress
from compactor.commands.command import Command, SessionKeys, refuse, text
from compactor.exceptions import RecallExpiredError, SessionNotFoundError
from compactor.models import Erased, Kind, recall_id, run_id
from compactor.records import Record, unpack

LONGEST_RUN: Final = 1_000  # messages
Ending = Literal["clear", "heal", "erase"]


def not_found() -> SessionNotFoundError:
    """The error for a session that Redis does not hold."""
    return SessionNotFoundError("session: not found. It was never pushed to, or it expired.")


def recall(keys: SessionKeys, position: int) -> Command[Record]:
    """The original at a position. Raises (on parsing) SessionNotFoundError, RecallExpiredError."""

    def parse(replies: list[Any]) -> Record:
        return _found(replies[0], recall_id(position))[position]

    return Command(parse, "recall", keys.all, (position,))


def recall_run(keys: SessionKeys, first: int, last: int) -> Command[dict[int, Record]]:
    """Those originals from one position to another that there are, at most LONGEST_RUN. Raises as `recall`."""

    def parse(replies: list[Any]) -> dict[int, Record]:
        found = _found(replies[0], run_id(first, last))
        return {place: record for place, record in found.items() if record.kind is not Kind.TOMBSTONE}

    return Command(parse, "recall", keys.all, (first, min(last, first + LONGEST_RUN - 1)))


def _found(reply: list[Any], name: str) -> dict[int, Record]:
    status = text(reply[0])
    if status == "gone":
        raise not_found()
    if status == "unknown":
        raise RecallExpiredError(
            f"recall id {name}: this session holds no such message (any more). Ids look like 'm12', or 'm12-48' "
            "for a run, and stand in the header of each replacement."
        )
    rows = zip(reply[::3], reply[1::3], reply[2::3], strict=True)
    return {place: unpack(decompress(data) if text(kind) == "archived" else data) for place, kind, data in rows}


def clear(keys: SessionKeys, *, operation: bytes, remember_ms: int, ending: Ending = "clear") -> Command[Erased]:
    """Ends the conversation: moved aside, or gone for good when erased; `heal` only when its parts disagree.

    Raises (on parsing) SchemaVersionError.
    """

    def parse(replies: list[Any]) -> Erased:
        reply = replies[0]
        if reply and not isinstance(reply[0], int):
            refuse(text(reply[0]), reply[-1])
        return Erased(*reply)

    return Command(parse, "clear", (*keys.all, keys.summaries), (operation, remember_ms, ending))
