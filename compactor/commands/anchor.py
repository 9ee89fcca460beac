"""Keep what a session learned of one model's counting."""

from __future__ import annotations

from typing import Any

from compactor.commands.command import Command, SessionKeys, text


def keep_anchor(keys: SessionKeys, *, model: str, known: str, anchor: str) -> Command[str | None]:
    """Stores an anchor made from `known`; answers the one that stands instead when another came before, else None.

    A session that does not exist learns nothing.
    """

    def parse(replies: list[Any]) -> str | None:
        return text(replies[0][1]) if text(replies[0][0]) == "changed" else None

    return Command(parse, "anchor", keys.all, (model, known, anchor))
