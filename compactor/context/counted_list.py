"""A list of messages of any kind, read as chat messages and counted; the messages stay as they were given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.exceptions import InvalidMessageError
from compactor.formats.langchain import as_chat, is_langchain, system_message
from compactor.formats.openai import leading_system
from compactor.json_values import is_object
from compactor.records import encode_message
from compactor.tokens import Encode, count_message


@dataclass(frozen=True, slots=True)
class CountedList:
    """Messages as they were given (dicts, SDK objects, LangChain messages), as chat messages, and their tokens."""

    given: list[Any]
    chats: Sequence[Mapping[str, Any]]
    tokens: Sequence[int]

    @property
    def lead(self) -> int:
        """Tokens of the system messages that open the list."""
        return sum(self.tokens[: leading_system(self.chats)])

    @property
    def total(self) -> int:
        return sum(self.tokens)

    def only(self, indexes: Sequence[int]) -> CountedList:
        """The messages at some indexes."""
        return CountedList(
            [self.given[index] for index in indexes],
            [self.chats[index] for index in indexes],
            [self.tokens[index] for index in indexes],
        )


def count_list(messages: Any, encode: Encode, *, system: str = "") -> CountedList:
    """Reads and counts a list; the system text stands in front, unless the list opens with it already.

    A system message of ours is a LangChain message when the list holds any. Raises InvalidMessageError.
    """
    given = _listed(messages)
    chats = [_chat(message) for message in given]
    opening = {"role": "system", "content": system}
    if system.strip() and not any(dict(chat) == opening for chat in chats[: leading_system(chats)]):
        given = [system_message(system) if any(map(is_langchain, given)) else opening, *given]
        chats = [opening, *chats]
    return CountedList(given, chats, [count_message(chat, encode) for chat in chats])


def _listed(messages: Any) -> list[Any]:
    if not isinstance(messages, (str, bytes)) and not is_object(messages):
        try:
            return list(messages)
        except TypeError:
            pass
    raise InvalidMessageError(f"messages: expected a list of messages, found {type(messages).__name__}.")


def _chat(message: Any) -> Mapping[str, Any]:
    return as_chat(message) if is_langchain(message) else encode_message(message).value
