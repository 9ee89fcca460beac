"""Append messages exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.commands.command import Argument, Command, SessionKeys, refuse, text
from compactor.exceptions import MessageTooLargeError
from compactor.records import ENCODINGS, Encoded


@dataclass(frozen=True, slots=True)
class Pushed:
    """The script's answer; `total` is None when this encoding did not count the whole history yet.

    `length` counts live messages, `stored_bytes` what the session holds, archive included.
    `behind` says that the session is also counted in the other encoding, which this push left out.
    """

    total: int | None
    length: int
    first: int
    over: bool
    behind: bool
    stored_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one push, counted in one encoding or both; `lead` of them open the list as system messages."""

    messages: Sequence[Encoded]
    tokens: Mapping[str, Sequence[int]]
    lead: int


def session_full(size: int, max_bytes: int) -> MessageTooLargeError:
    """The error for a session that would grow over its limit."""
    return MessageTooLargeError(
        f"session: would hold {size} bytes, over the limit of {max_bytes}; nothing was stored. "
        "Clear the session, or raise COMPACTOR_MAX_SESSION_BYTES."
    )


def push(
    keys: SessionKeys,
    batch: Batch,
    *,
    operation: bytes,
    remember_ms: int,
    ttl_ms: int,
    max_bytes: int,
    encoding: str,
    threshold: int,
    fixed: int,
) -> Command[Pushed]:
    """Raises (on parsing) MessageTooLargeError when the session is full, SessionDamagedError."""
    size = sum(len(message.text) for message in batch.messages)
    args: list[Argument] = [operation, remember_ms, ttl_ms, max_bytes, encoding, threshold, fixed, size, batch.lead]
    for name in ENCODINGS:
        counts = batch.tokens.get(name)
        args += ("", "") if counts is None else (sum(counts), sum(counts[: batch.lead]))
    for index, message in enumerate(batch.messages):
        tokens = {name: counts[index] for name, counts in batch.tokens.items()}
        args += (message.pushed(tokens), message.own, message.text)

    def parse(replies: list[Any]) -> Pushed:
        status = text(replies[0][0])
        if status == "full":
            raise session_full(replies[0][1], max_bytes)
        refuse(status, replies[0][-1])
        _, total, length, first, over, behind, stored = replies[0]
        return Pushed(total if total >= 0 else None, length, first, bool(over), bool(behind), stored)

    return Command(parse, "push", keys.all, tuple(args))
