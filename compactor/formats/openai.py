"""Chat Completions messages: calls, result text, and the same message with other text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from compactor.frozen import freeze
from compactor.json_values import is_array, is_object
from compactor.tokens import MEDIA_TYPES, json_text

RESULT_ROLES = frozenset({"tool", "function"})
SYSTEM_ROLES = frozenset({"system", "developer"})


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call; `id` is None in the legacy function_call layout or where a model gave none."""

    id: str | None
    name: str
    arguments: str


def calls(message: Mapping[str, Any]) -> tuple[Call, ...]:
    """The calls of an assistant message, in order; malformed ones keep their place."""
    found: list[Call] = []
    listed = message.get("tool_calls")
    if is_array(listed):
        found.extend(_call(item) for item in listed)
    function_call = message.get("function_call")
    if function_call is not None:
        found.append(Call(None, *_function(function_call)))
    return tuple(found)


def _call(item: Any) -> Call:
    if not is_object(item):
        return Call(None, "", json_text(item))
    given = item.get("id")
    inner = item.get("function") if item.get("function") is not None else item.get("custom")
    return Call(given if isinstance(given, str) and given else None, *_function(inner))


def _function(function: Any) -> tuple[str, str]:
    if not is_object(function):
        return "", json_text(function)
    arguments = function.get("arguments", function.get("input"))
    text = arguments if isinstance(arguments, str) else "" if arguments is None else json_text(arguments)
    return str(function.get("name") or ""), text


def raw_arguments(message: Mapping[str, Any]) -> dict[int, Any]:
    """The arguments of function calls as they stand, by the order of the call; custom tools take plain text."""
    listed = enumerate(_listed(message))
    found = {order: call["function"]["arguments"] for order, call in listed if _has_arguments(call)}
    legacy = message.get("function_call")
    if is_object(legacy) and "arguments" in legacy:
        found[len(_listed(message))] = legacy["arguments"]
    return found


def with_arguments(message: Mapping[str, Any], new: Mapping[int, Any]) -> Mapping[str, Any]:
    """The same message with other arguments for the calls of these orders, which `raw_arguments` names."""
    listed = _listed(message)
    changed: dict[str, Any] = {**message}
    if any(order < len(listed) for order in new):
        changed["tool_calls"] = [
            {**call, "function": {**call["function"], "arguments": new[order]}} if order in new else call
            for order, call in enumerate(listed)
        ]
    if len(listed) in new:
        changed["function_call"] = {**message["function_call"], "arguments": new[len(listed)]}
    return freeze(changed)  # type: ignore[no-any-return] # why: freeze keeps the outer type


def part_of(message: Mapping[str, Any], part: int) -> Any:
    """A call, or of a message without calls a part of its content; counted from 1, None when there is none."""
    legacy = message.get("function_call")
    content = message.get("content")
    parts = [*_listed(message), *([] if legacy is None else [legacy])] or (list(content) if is_array(content) else [])
    return parts[part - 1] if 0 < part <= len(parts) else None


def _listed(message: Mapping[str, Any]) -> list[Any]:
    listed = message.get("tool_calls")
    return list(listed) if is_array(listed) else []


def _has_arguments(call: Any) -> bool:
    return is_object(call) and is_object(call.get("function")) and "arguments" in call["function"]


def leading_system(messages: Iterable[Mapping[str, Any]]) -> int:
    """How many system and developer messages open a list."""
    count = 0
    for message in messages:
        if message.get("role") not in SYSTEM_ROLES:
            break
        count += 1
    return count


def text_of(message: Mapping[str, Any]) -> str:
    """All text of a message's content; structured content as JSON, media parts left out."""
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if is_array(content):
        return "\n".join(text for part in content if (text := _part_text(part)))
    return json_text(content)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not is_object(part):
        return json_text(part)
    if _is_media(part):
        return ""
    return part["text"] if isinstance(part.get("text"), str) else json_text(part)


def holds_results(message: Mapping[str, Any]) -> bool:
    """Whether the content has tool results among its parts, as other providers' user messages do."""
    content = message.get("content")
    return is_array(content) and any(is_object(part) and part.get("type") == "tool_result" for part in content)


def media_of(message: Mapping[str, Any]) -> int:
    """How many media parts (images, audio, files) the content holds."""
    content = message.get("content")
    if not is_array(content):
        return 0
    return sum(1 for part in content if is_object(part) and _is_media(part))


def _is_media(part: Mapping[str, Any]) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and kind in MEDIA_TYPES


def with_text(message: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    """The same message with `text` as its content, in the shape the content had (text or parts).

    Every other key stays as it is; `text` must not be empty.
    """
    assert text, "providers refuse empty content"
    parts = is_array(message.get("content"))
    content: Any = [{"type": "text", "text": text}] if parts else text
    return freeze({**message, "content": content})  # type: ignore[no-any-return] # why: freeze keeps the outer type
