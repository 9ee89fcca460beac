"""Find originals, and end a conversation."""

from __future__ import annotations

from typing import Any

from compactor.archive import decompress
from compactor.commands.command import Command, SessionKeys, text
from compactor.exceptions import RecallExpiredError, SessionNotFoundError
from compactor.models import recall_id
from compactor.records import Record, unpack


def recall(keys: SessionKeys, position: int) -> Command[Record]:
    """The original at a position. Raises (on parsing) SessionNotFoundError, RecallExpiredError."""

    def parse(replies: list[Any]) -> Record:
        status = text(replies[0][0])
        if status == "gone":
            raise SessionNotFoundError("session: not found. It was never pushed to, or it expired.")
        if status == "unknown":
            raise RecallExpiredError(
                f"recall id {recall_id(position)}: this session holds no such message (any more). "
                "Ids look like 'm12' and stand in the header of each replacement."
            )
        data = replies[0][1]
        return unpack(decompress(data) if status == "archived" else data)

    return Command(parse, "recall", keys.all, (position,))


def clear(keys: SessionKeys, *, operation: bytes, remember_ms: int) -> Command[int]:
    """Ends the conversation; answers how many messages moved aside."""
    return Command(lambda replies: int(replies[0]), "clear", keys.all, (operation, remember_ms))
