"""Keep what a session learned of one model's counting."""

from __future__ import annotations

from typing import Any

from compactor.commands.command import Command, SessionKeys, text


def keep_anchor(keys: SessionKeys, *, model: str, known: str, anchor: str) -> Command[str | None]:
    """Stores an anchor made from `known`; answers the one that stands then: another one when that came before.

    None: the session does not exist, and learns nothing.
    """

    def parse(replies: list[Any]) -> str | None:
        status, *held = map(text, replies[0])
        return None if status == "gone" else held[0] if status == "changed" else anchor

    return Command(parse, "anchor", keys.all, (model, known, anchor))
