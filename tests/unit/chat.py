"""Small builders for chat messages and for the values that the pure modules take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compactor.budget import Budget
from compactor.models import Kind, Message
from compactor.tokens import Encode, count_message

Chat = dict[str, Any]

WORD = "word "  # one token in either vocabulary


def by_length(text: str) -> int:
    """A cheap encoder for tests in which only the arithmetic matters: 4 characters a token."""
    return math.ceil(len(text) / 4)


def system(text: str) -> Chat:
    return {"role": "system", "content": text}


def developer(text: str) -> Chat:
    return {"role": "developer", "content": text}


def user(content: Any = "hi") -> Chat:
    return {"role": "user", "content": content}


def assistant(text: str | None = "ok", **keys: Any) -> Chat:
    return {"role": "assistant", "content": text, **keys}


def call(call_id: Any, name: str = "grep", arguments: Any = "{}") -> Chat:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*calls: Chat | str) -> Chat:
    """An assistant message that makes calls; a text stands for a call of that id."""
    return assistant(None, tool_calls=[call(item) if isinstance(item, str) else item for item in calls])


def result(call_id: Any, content: Any = "done", **keys: Any) -> Chat:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **keys}


def stored(values: Iterable[Mapping[str, Any]], encode: Encode = by_length, *, offset: int = 0) -> list[Message]:
    """The messages as a session holds them, counted, from position `offset` on."""
    return [Message(offset + index, value, count_message(value, encode)) for index, value in enumerate(values)]


def replaced(message: Message, text: str, encode: Encode = by_length, kind: Kind = Kind.SUMMARY) -> Message:
    value = {**message.value, "content": text}
    return Message(message.position, value, count_message(value, encode), kind, pinned=message.pinned)


def total(messages: Sequence[Message]) -> int:
    return sum(message.tokens for message in messages)


def levels(*, ceiling: int, threshold: int | None = None, fixed: int = 0, limit: int = 1_000_000) -> Budget:
    return Budget(limit, ceiling if threshold is None else threshold, ceiling, fixed)


def long_text(tokens: int, word: str = "word") -> str:
    """Lines of text, about this many tokens in the real vocabularies."""
    return "\n".join(f"{word} {number} has value {number * 7919}" for number in range(max(1, tokens // 9)))


def steps(count: int, *, tokens: int = 600, text: str | None = None) -> list[Chat]:
    """A user message and `count` answered steps with large, distinct results, then an answer."""
    chat = [user("find it")]
    for number in range(count):
        content = text if text is not None else f"result {number}\n{long_text(tokens, f'row{number}')}"
        chat += [calling(call(f"c{number}", arguments=f'{{"n":{number}}}')), result(f"c{number}", content)]
    return [*chat, assistant("found")]
