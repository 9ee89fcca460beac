"""Small conversations that tests push, and the count that every running total must equal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from compactor import ModelConfig
from compactor.encodings import encoder
from compactor.tokens import count_messages

SMALL = ModelConfig("gpt-4o", 8)  # o200k_base; threshold 6,000, ceiling 7,000 tokens
OTHER_ENCODING = ModelConfig("gpt-4", 8)  # cl100k_base, the same levels
ROOMY = ModelConfig("gpt-4o", 128)
WIDE = ModelConfig("gpt-4o", 2_000)  # shows any stored history of a test whole
SYSTEM = {"role": "system", "content": "You help with a code base. Answer in one sentence."}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def assistant(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def call(order: int, name: str = "grep") -> dict[str, Any]:
    """An assistant message with one call, content null as the API sends it."""
    function = {"name": name, "arguments": json.dumps({"query": f"value_{order}"})}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": f"call_{order}", "type": "function", "function": function}],
    }


def result(order: int, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"call_{order}", "content": text}


def rows(order: int, lines: int = 50) -> str:
    """Search output of about 18 tokens a line, different for each order."""
    return "\n".join(f"src/file{order}_{j}.py:{j * 7}: value_{j} = {order * 1000 + j}" for j in range(lines))


def step(order: int, lines: int = 50) -> list[dict[str, Any]]:
    """A call and its result."""
    return [call(order), result(order, rows(order, lines))]


def conversation(steps: int, lines: int = 50) -> list[dict[str, Any]]:
    """System, one question, that many steps, one answer; about 900 tokens a step of 50 lines."""
    middle = [message for order in range(steps) for message in step(order, lines)]
    return [SYSTEM, user("Where are the values defined?"), *middle, assistant("In src.")]


def recount(messages: Iterable[Mapping[str, Any]], encoding: str = "o200k_base") -> int:
    """The tokens of a list, counted from nothing."""
    return count_messages(messages, encoder(encoding))
