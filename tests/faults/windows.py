"""Every list that a bot may be sent of one conversation: compacted to any size, shown through any window, or both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from compactor import Code, ModelConfig, compact_messages
from compactor.drafting import Summarize
from compactor.encodings import encoder
from compactor.models import Kind, Message
from compactor.tokens import count_message
from compactor.validity import added_faults
from compactor.view import compose
from tests.unit.chat import levels, total
from tests.unit.summarizers import saying

SHARES: Final = (0.02, 0.2, 0.45, 0.7, 0.95)  # of the conversation's tokens
CONFIG: Final = ModelConfig("gpt-4o", 2_000)
SUMMARY: Final = "The tool returned rows; ticket = INC-48213."


@lru_cache(maxsize=2_000)
def encode(text: str) -> int:
    """Tokens of a text; each is counted once, since every window counts it anew."""
    return encoder("o200k_base")(text)


@dataclass(frozen=True, slots=True)
class Sent:
    """One list, and how it came to be."""

    how: str
    messages: list[Any]


def every_window(chat: Sequence[Mapping[str, Any]], shares: Sequence[float] = SHARES) -> Iterator[Sent]:
    """The lists of one conversation: by extracts, by a model, as views, and as views of what was compacted."""
    history = read(chat, chat)
    yield from views("view", history, shares)
    for name, summarizer, keep in (("extracts", None, 0), ("model", saying(SUMMARY), 0), ("newest kept", None, 3)):
        for share in shares:
            values = compacted(chat, total(history) * share, summarizer, keep)
            yield Sent(f"{name} at {share}", values)
            yield from views(f"view of {name} at {share}", read(chat, values), shares[1::2])


def compacted(
    chat: Sequence[Mapping[str, Any]], target: float, summarizer: Summarize | None = None, keep: int = 0
) -> list[Any]:
    """The list compacted to a target in tokens, as far as that goes."""
    done = compact_messages(
        chat, CONFIG, summarizer=summarizer, target_tokens=max(1, int(target)), keep_recent_results=keep
    )
    assert done.outcome.outcome in (Code.APPLIED, Code.NOTHING_TO_DO, Code.EXHAUSTED, Code.NO_GAIN)
    return done.messages


def views(name: str, history: Sequence[Message], shares: Sequence[float]) -> Iterator[Sent]:
    """What one send gets of a history, in windows of ever more tokens."""
    for share in shares:
        budget = levels(ceiling=max(1, int(total(history) * share)))
        yield Sent(f"{name} in {share}", list(compose(history, budget, encode, beside=0).messages))


def read(originals: Sequence[Mapping[str, Any]], values: Sequence[Mapping[str, Any]]) -> list[Message]:
    """Values as a session shows them; those that are none of the originals are replacements."""
    pushed = {id(message) for message in originals}
    return [
        Message(i, new, count_message(new, encode), Kind.ORIGINAL if id(new) in pushed else Kind.SUMMARY)
        for i, new in enumerate(values)
    ]


def tagged(chat: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The same messages under a key of the bot's own, by which each is found again."""
    return [{**message, "tag": index} for index, message in enumerate(chat)]


def assert_sound(chat: Sequence[Mapping[str, Any]], sent: Sent) -> None:
    """The list has no fault that the conversation had not, and ends as it did."""
    assert not added_faults(chat, sent.messages), sent.how
