"""Find originals, and end a conversation."""

from __future__ import annotations

from typing import Any, Literal

from compactor.archive import decompress
from compactor.commands.command import Command, SessionKeys, refuse, text
from compactor.exceptions import RecallExpiredError, SessionNotFoundError
from compactor.models import Erased, recall_id
from compactor.records import Record, unpack

Ending = Literal["clear", "heal", "erase"]


def not_found() -> SessionNotFoundError:
    """The error for a session that Redis does not hold."""
    return SessionNotFoundError("session: not found. It was never pushed to, or it expired.")


def recall(keys: SessionKeys, position: int) -> Command[Record]:
    """The original at a position. Raises (on parsing) SessionNotFoundError, RecallExpiredError."""

    def parse(replies: list[Any]) -> Record:
        status = text(replies[0][0])
        if status == "gone":
            raise not_found()
        if status == "unknown":
            raise RecallExpiredError(
                f"recall id {recall_id(position)}: this session holds no such message (any more). "
                "Ids look like 'm12' and stand in the header of each replacement."
            )
        data = replies[0][1]
        return unpack(decompress(data) if status == "archived" else data)

    return Command(parse, "recall", keys.all, (position,))


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
