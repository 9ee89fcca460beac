"""Calls and results as framed text, for one send to a model that takes no tools.

Such a model has no role for what a tool said, so it goes into a user message, between two lines
that the text itself cannot hold, named as data. Only a caller who asks for it gets this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final

from compactor.formats.openai import RESULT_ROLES, calls, media_of, text_of
from compactor.frozen import freeze
from compactor.history import History, read_history
from compactor.wording import Wording, tool_name, wording_beside, wording_for

_CALL_KEYS: Final = frozenset({"tool_calls", "function_call"})


def as_text(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same conversation without tool calls and tool roles; results that follow each other share a message."""
    history = read_history(messages)
    chat = wording_for(next((text_of(message) for message in messages if message.get("role") == "user"), ""))
    shown: list[Mapping[str, Any]] = []
    framed: list[str] = []

    def close() -> None:
        if framed:
            shown.append(freeze({"role": "user", "content": "\n\n".join(framed)}))
            framed.clear()

    for index, message in enumerate(messages):
        if message.get("role") in RESULT_ROLES:
            framed.append(_framed(message, _name(history, index, message), chat))
            continue
        close()
        calling = message.get("role") == "assistant" and _CALL_KEYS & message.keys()
        shown.append(_called(message) if calling else message)
    close()
    return shown


def _name(history: History, index: int, message: Mapping[str, Any]) -> str:
    step = history.step_of.get(index)
    order = None if step is None else step.order_of.get(index)
    return tool_name(str(message.get("name") or "") if step is None or order is None else step.calls[order].name)


def _called(message: Mapping[str, Any]) -> Mapping[str, Any]:
    lines = [f"[{tool_name(call.name)}({call.arguments})]" for call in calls(message)]
    said = text_of(message)
    rest = {key: value for key, value in message.items() if key not in _CALL_KEYS}
    content = "\n".join([*([said] if said else []), *lines]) if lines else message.get("content")
    return freeze({**rest, "content": content})  # type: ignore[no-any-return] # why: freeze keeps the outer type


def _framed(message: Mapping[str, Any], name: str, chat: Wording) -> str:
    text = text_of(message)
    words = wording_beside(text, chat)
    if media := media_of(message):
        text = "\n".join(filter(None, (text, f"[{words.media.format(count=media)}]")))
    mark = _mark(text)
    return f"{words.tool_output.format(tool=name)}\n=== {mark} ===\n{text}\n=== {mark} ==="


def _mark(text: str) -> str:
    """16 hex digits that do not stand in the text; the same for the same text, so that a prompt cache lives."""
    mark = text
    while mark in text:
        mark = blake2b(mark.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return mark
