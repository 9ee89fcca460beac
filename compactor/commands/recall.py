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
        return _found(replies[0], recall_id(position))[0]

    return Command(parse, "recall", keys.all, (position,))


def recall_run(keys: SessionKeys, first: int, last: int) -> Command[list[Record]]:
    """Those originals from one position to another that there are, at most LONGEST_RUN. Raises as `recall`."""

    def parse(replies: list[Any]) -> list[Record]:
        found = _found(replies[0], run_id(first, last))
        return [record for record in found if record.kind is not Kind.TOMBSTONE]

    return Command(parse, "recall", keys.all, (first, min(last, first + LONGEST_RUN - 1)))


def _found(reply: list[Any], name: str) -> list[Record]:
    status = text(reply[0])
    if status == "gone":
        raise not_found()
    if status == "unknown":
        raise RecallExpiredError(
            f"recall id {name}: this session holds no such message (any more). Ids look like 'm12', or 'm12-48' "
            "for a run, and stand in the header of each replacement."
        )
    pairs = zip(reply[::2], reply[1::2], strict=True)
    return [unpack(decompress(data) if text(status) == "archived" else data) for status, data in pairs]


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
