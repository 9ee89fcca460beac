"""Append messages exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from compactor.commands.command import Argument, Command, SessionKeys, damaged, text
from compactor.exceptions import MessageTooLargeError
from compactor.records import Encoded


@dataclass(frozen=True, slots=True)
class Pushed:
    """The script's answer; `total` is None when this encoding did not count the whole history yet."""

    total: int | None
    length: int
    first: int
    over: bool


@dataclass(frozen=True, slots=True)
class Batch:
    """Counted messages of one push; `lead` of them open the list as system messages."""

    messages: Sequence[Encoded]
    tokens: Sequence[int]
    encoding: str
    lead: int


def push(
    keys: SessionKeys,
    batch: Batch,
    *,
    operation: bytes,
    remember_ms: int,
    ttl_ms: int,
    max_bytes: int,
    threshold: int,
    fixed: int,
) -> Command[Pushed]:
    """Raises (on parsing) MessageTooLargeError when the session is full, SessionDamagedError."""
    rows: list[bytes] = []
    for message, tokens in zip(batch.messages, batch.tokens, strict=True):
        rows += (message.pushed(tokens, batch.encoding), message.own, message.text)
    lead_tokens = sum(batch.tokens[: batch.lead])
    size = sum(len(message.text) for message in batch.messages)
    head: tuple[Argument, ...] = (operation, remember_ms, ttl_ms, max_bytes, batch.encoding, threshold, fixed)
    args: tuple[Argument, ...] = (*head, sum(batch.tokens), size, batch.lead, lead_tokens, *rows)

    def parse(replies: list[Any]) -> Pushed:
        status = text(replies[0][0])
        if status == "full":
            raise MessageTooLargeError(
                f"session: would hold {replies[0][1]} bytes, over the limit of {max_bytes}; nothing was stored. "
                "Clear the session, or raise COMPACTOR_MAX_SESSION_BYTES."
            )
        if status == "damaged":
            raise damaged()
        _, total, length, first, over = replies[0]
        return Pushed(total if total >= 0 else None, length, first, bool(over))

    return Command(parse, "push", keys.all, args)
