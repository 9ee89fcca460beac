"""LangChain messages read as chat messages; the messages themselves are never changed.

LangChain is imported only where an object of it was given, so it is installed then.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from compactor.exceptions import InvalidMessageError
from compactor.json_values import is_array, is_object
from compactor.tokens import json_text

_ROLES: Final = {
    "human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "function",
    "developer": "developer",
}  # fmt: skip
_CALL_PARTS: Final = ("tool_use", "tool_call", "function_call", "input_json_delta")  # said again by `tool_calls`


def is_langchain(message: object) -> bool:
    """Whether it is a message of LangChain; False at once in a process that has none."""
    messages = sys.modules.get("langchain_core.messages")
    return messages is not None and isinstance(message, messages.BaseMessage)


def system_message(text: str) -> Any:
    """A LangChain SystemMessage."""
    from langchain_core.messages import SystemMessage

    return SystemMessage(content=text)


def as_chat(message: Any) -> Mapping[str, Any]:
    """The chat message that LangChain sends for one of its own. Raises InvalidMessageError for other kinds."""
    role = _role(message)
    chat: dict[str, Any] = {"role": role, "content": message.content}
    if message.name:
        chat["name"] = message.name
    if role == "assistant":
        _add_calls(chat, message)
    elif role == "tool":
        chat["tool_call_id"] = message.tool_call_id
    return chat


def _role(message: Any) -> str:
    kind = str(message.type)
    if kind in ("chat", "ChatMessageChunk"):
        return _ROLES.get(str(message.role), str(message.role))
    role = _ROLES.get(kind.removesuffix("MessageChunk").lower())
    if role is None:
        raise InvalidMessageError(
            f"message: a LangChain message of type {kind!r} cannot be sent to a model. Expected "
            "HumanMessage, AIMessage, SystemMessage, ToolMessage, FunctionMessage or ChatMessage; "
            "apply RemoveMessage and the like to your state first."
        )
    return str(message.additional_kwargs.get("__openai_role__", role)) if role == "system" else role


def _add_calls(chat: dict[str, Any], message: Any) -> None:
    extra: Mapping[str, Any] = message.additional_kwargs
    calls = [_call(call) for call in [*message.tool_calls, *message.invalid_tool_calls]]
    if not calls and is_array(extra.get("tool_calls")):
        calls = list(extra["tool_calls"])
    if calls:
        chat["tool_calls"] = calls
        chat["content"] = _without_calls(message.content)
    elif extra.get("function_call") is not None:
        chat["function_call"] = extra["function_call"]
    for name in ("reasoning_content", "refusal"):
        if extra.get(name) is not None:
            chat[name] = extra[name]


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    given = call.get("args")
    arguments = given if isinstance(given, str) else json_text({} if given is None else given)
    return {
        "id": call.get("id"),
        "type": "function",
        "function": {"name": call.get("name") or "", "arguments": arguments},
    }


def _without_calls(content: Any) -> Any:
    """Content without the parts that repeat the calls, as Anthropic's and Google's answers hold them."""
    if not is_array(content):
        return content
    parts: Sequence[Any] = content
    return [part for part in parts if not (is_object(part) and part.get("type") in _CALL_PARTS)]
