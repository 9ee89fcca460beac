"""Which messages a view leaves in place beside the pinned ones: rules and pinned phrases hold there too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from compactor.formats.openai import SYSTEM_ROLES, text_of
from compactor.history import History
from compactor.models import Message
from compactor.pins import holds
from compactor.rules import STANDARD, How, Rules


@dataclass(frozen=True, slots=True)
class Protection:
    """Results of a `never` rule, and for each phrase the newest message that holds it."""

    rules: Rules = STANDARD
    phrases: tuple[str, ...] = ()

    def indexes(self, messages: Sequence[Message], history: History) -> list[frozenset[int]]:
        """The messages that stay as long as the rest can be made to fit; at last those of the phrases alone."""
        called = ((index, history.call_of(index)) for index in range(len(messages)))
        never = {i for i, call in called if call and self.rules.treatment(call.name, call.arguments).how is How.NEVER}
        held = {index for phrase in self.phrases if (index := _newest(messages, phrase)) is not None}
        return [found for found in dict.fromkeys((frozenset(never | held), frozenset(held))) if found]


UNPROTECTED: Final = Protection()


def _newest(messages: Sequence[Message], phrase: str) -> int | None:
    """The newest message that holds a phrase; None when one does that never leaves."""
    texts = [text_of(message.value) for message in messages]
    found = [index for index, text in enumerate(texts) if holds(text, phrase)]
    return found[-1] if found and not any(messages[index].role in SYSTEM_ROLES for index in found) else None
