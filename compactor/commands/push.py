"""Append messages exactly once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactor.commands.command import Argument, Command, SessionKeys, refuse, text
from compactor.exceptions import MessageTooLargeError
from compactor.records import ENCODINGS, Encoded


@dataclass(frozen=True, slots=True)
class Pushed:
    """The script's answer; `total` is None when this encoding did not count the whole history yet.

    `length` counts live messages, `stored_bytes` what the session holds, archive included.
    `behind` says that the session is also counted in the other encoding, which this push left out.
    When it `moved`, nothing was stored: the first message would get the position `first`.
    """

    total: int | None
    length: int
    first: int
    over: bool
    behind: bool
    stored_bytes: int = 0
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Batch:
    """Messages of one push, counted in one encoding or both; `lead` of them open the list as system messages.

    `wholes` holds, by index, the originals of those that are cut, and `archived` what the archive gets
    of them; cut texts name their position, so the first message must get the position `first`.
    """

    messages: Sequence[Encoded]
    tokens: Mapping[str, Sequence[int]]
    lead: int
    wholes: Mapping[int, Encoded] = field(default_factory=dict[int, Encoded])
    archived: Mapping[int, bytes] = field(default_factory=dict[int, bytes])
    first: int | None = None

    @property
    def size(self) -> int:
        """Bytes that the session grows by."""
        cut = sum(len(whole.own) + len(self.archived[index]) for index, whole in self.wholes.items())
        return cut + sum(len(message.text) for message in self.messages)

    def tokens_of(self, index: int) -> dict[str, int]:
        """Tokens of one message in each encoding."""
        return {name: counts[index] for name, counts in self.tokens.items()}

    def row(self, index: int) -> tuple[bytes, bytes, bytes, bytes, bytes]:
        """The script's arguments for one message."""
        message, whole = self.messages[index], self.wholes.get(index)
        if whole is None:
            return message.pushed(self.tokens_of(index)), message.own, message.own, message.text, b""
        head = message.pushed(self.tokens_of(index), limited=True)
        return head, whole.own, message.own, message.own + message.text, self.archived[index]


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
    args: list[Argument] = [operation, remember_ms, ttl_ms, max_bytes, encoding, threshold, fixed, batch.size]
    args.append(batch.lead)
    for name in ENCODINGS:
        counts = batch.tokens.get(name)
        args += ("", "") if counts is None else (sum(counts), sum(counts[: batch.lead]))
    args.append("" if batch.first is None else batch.first)
    for index in range(len(batch.messages)):
        args += batch.row(index)

    def parse(replies: list[Any]) -> Pushed:
        status = text(replies[0][0])
        if status == "moved":
            return Pushed(None, 0, replies[0][1], False, False, moved=True)
        if status == "full":
            raise session_full(replies[0][1], max_bytes)
        refuse(status, replies[0][-1])
        _, total, length, first, over, behind, stored = replies[0]
        return Pushed(total if total >= 0 else None, length, first, bool(over), bool(behind), stored)

    return Command(parse, "push", keys.all, tuple(args))
