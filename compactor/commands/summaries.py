"""Answers of the model that a repeat of their compaction can use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from compactor.commands.command import Command, SessionKeys, text

LIFE_MS: Final = 3_600_000  # after the last answer; a repeat comes within minutes


def conversation_of(raw: Mapping[str, bytes]) -> bytes:
    """Names the conversation that a session's state is of: it changes with each clear, and with each life."""
    return raw.get("created", b"") + b":" + raw.get("offset", b"")


def read_summaries(keys: SessionKeys, names: Sequence[str]) -> Command[list[bytes | None]]:
    """What is kept under each name."""

    def parse(replies: list[Any]) -> list[bytes | None]:
        return list(replies[0])

    return Command(parse, reads=(("HMGET", keys.summaries, *names),))


def remember(
    keys: SessionKeys, name: str, answer: bytes, *, conversation: bytes, spent: tuple[int, int]
) -> Command[bool]:
    """Keeps an answer (empty: nothing to keep) and enters the tokens it cost; False when the conversation has ended."""
    args = (name, answer, LIFE_MS, *spent, conversation)
    return Command(lambda replies: text(replies[0]) == "kept", "remember", (keys.state, keys.summaries), args)
