"""Answers of the model that a repeat of their compaction can use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from compactor.commands.command import Command, SessionKeys, text
from compactor.models import CompactionId

LIFE_MS: Final = 3_600_000  # after the last answer; a repeat comes within minutes


def read_summaries(keys: SessionKeys, names: Sequence[str]) -> Command[list[bytes | None]]:
    """What is kept under each name."""

    def parse(replies: list[Any]) -> list[bytes | None]:
        return list(replies[0])

    return Command(parse, reads=(("HMGET", keys.summaries, *names),))


def remember(
    keys: SessionKeys, name: str, answer: bytes, *, owner: CompactionId, spent: tuple[int, int]
) -> Command[bool]:
    """Keeps an answer (empty: nothing to keep) and enters the tokens it cost; False when the claim has ended."""
    args = (name, answer, LIFE_MS, *spent, owner)
    return Command(lambda replies: text(replies[0]) == "kept", "remember", (keys.state, keys.summaries), args)
