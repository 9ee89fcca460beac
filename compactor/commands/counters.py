"""Counters of a namespace: events that belong to no session, or outlive theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from compactor.commands.command import Command, text

EVICTED: Final = "evicted"
LIFE_MS: Final = 90 * 86_400_000  # after the last event


def counters_key(namespace: str) -> str:
    """Where a namespace's counters are."""
    return f"{{{namespace}}}:counters"


def add(namespace: str, name: str) -> Command[int]:
    """Counts one event; answers how many there were."""
    return Command(lambda replies: int(replies[0]), "count", (counters_key(namespace),), (name, LIFE_MS))


def read_counters(namespace: str) -> Command[Mapping[str, int]]:
    """Every counter by its name; those that never counted are missing."""

    def parse(replies: list[Any]) -> dict[str, int]:
        found = {text(name): count for name, count in replies[0].items()}
        return {name: int(count) for name, count in found.items() if count.isdigit()}  # others came from outside

    return Command(parse, reads=(("HGETALL", counters_key(namespace)),))
