"""What a send asks of a list as a whole, added up once and from then on only for what was appended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.formats.openai import SYSTEM_ROLES
from compactor.models import Message


@dataclass(frozen=True, slots=True)
class Tally:
    """Figures of the first `length` messages of a list, in tokens and in messages.

    `shown` are the values that a send hands out when all of them fit: folded messages are left out.
    `settled` counts the first of these that no later compaction will change: up to the last
    replacement, and the `lead` system messages that open the list. `replaced` counts messages that a
    compaction replaced; `reply` is the model's newest message.
    """

    length: int = 0
    tokens: int = 0
    replaced: int = 0
    lead: int = 0
    lead_tokens: int = 0
    settled: int = 0
    reply: Message | None = None
    shown: tuple[Mapping[str, Any], ...] = ()

    def after(self, more: Sequence[Message]) -> Tally:
        """The tally of the same list with these messages behind it."""
        tokens, replaced, settled = self.tokens, self.replaced, self.settled
        lead, lead_tokens, reply = self.lead, self.lead_tokens, self.reply
        shown: list[Mapping[str, Any]] = []
        before = len(self.shown)
        for index, message in enumerate(more, self.length):
            tokens += message.tokens
            role = message.value.get("role")
            if role == "assistant":
                reply = message
            elif index == lead and role in SYSTEM_ROLES:
                lead += 1
                lead_tokens += message.tokens
            changed = message.replaced
            replaced += changed
            if message.folded:
                continue
            shown.append(message.value)
            if changed or index < lead:
                settled = before + len(shown)
        length = self.length + len(more)
        return Tally(length, tokens, replaced, lead, lead_tokens, settled, reply, (*self.shown, *shown))


NOTHING: Final = Tally()
