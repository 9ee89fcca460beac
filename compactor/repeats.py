"""Results of the same call again: which newer one gave the same, and which another answer."""

from __future__ import annotations

from collections.abc import Sequence

from compactor.failures import tells_of_failure
from compactor.formats.openai import media_of, text_of
from compactor.history import History
from compactor.models import Message


def repeats(messages: Sequence[Message], history: History, indexes: Sequence[int]) -> dict[int, int]:
    """For each result that the same call gave again the same: the position of the newest one."""
    found: dict[int, int] = {}
    newest: dict[tuple[str, str, str], int] = {}
    for index in reversed(indexes):
        call, message = history.call_of(index), messages[index]
        text = text_of(message.value)
        if call is None or not text or media_of(message.value):
            continue
        position = newest.setdefault((call.name, call.arguments, text), message.position)
        if position != message.position:
            found[index] = position
    return found


def superseded(messages: Sequence[Message], history: History, indexes: Sequence[int]) -> dict[int, int]:
    """For each result that the same call gave anew: the position of the newest one.

    A failure supersedes no answer that was none, nor does an empty one: what was found would be gone.
    """
    found: dict[int, int] = {}
    newest: dict[tuple[str, str], tuple[int, bool]] = {}
    for index in reversed(indexes):
        call, message = history.call_of(index), messages[index]
        text = text_of(message.value)
        if call is None or not (text or media_of(message.value)):
            continue
        failed = tells_of_failure(text)
        position, newer_failed = newest.setdefault((call.name, call.arguments), (message.position, failed))
        if position != message.position and (failed or not newer_failed):
            found[index] = position
    return found
