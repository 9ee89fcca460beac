"""What the recall tool answers a bot's own model: originals of this session alone, or why there is none."""

from __future__ import annotations

from typing import Any

from compactor import recall_tool
from compactor.commands import recall
from compactor.effects import Flow, compute, run
from compactor.exceptions import CompactorError, RecallExpiredError, SessionNotFoundError
from compactor.formats.openai import text_of
from compactor.prompts import safe
from compactor.reader import HEAVY, SessionReader


class Recalling:
    """Answers to a bot's own model; each method yields effects."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader

    def recall_for_model(self, arguments: Any, most: int) -> Flow[str]:
        """The text of the tool message for a call's arguments, at most `most` tokens; says what is wrong with them."""
        asked = recall_tool.read_arguments(arguments)
        if asked is None:
            return recall_tool.wrong_arguments(self._language())
        encode = yield from self._reader.encoder()
        first, last = asked.positions[0], asked.positions[-1]
        try:
            records = yield from run(recall.recall_run(self._reader.keys, first, last))
            messages = {position: record.value() for position, record in records.items()}
        except RecallExpiredError:
            messages = {}
        except SessionNotFoundError:
            return recall_tool.gone(self._language())
        except CompactorError:
            return recall_tool.unavailable(self._language())
        if not messages:
            return recall_tool.unknown(asked, self._language())
        heavy = sum(len(text_of(message)) for message in messages.values()) > HEAVY
        return (
            yield from compute(lambda: safe(recall_tool.answer(messages, asked, most=most, encode=encode)), heavy=heavy)
        )

    def _language(self) -> str:
        """The latest words of the user that this process has read: a text in the conversation's language."""
        held = self._reader.around.histories.get(self._reader.cache_key)
        messages = () if held is None else held.usable
        return next((text_of(message.value) for message in reversed(messages) if message.role == "user"), "")
