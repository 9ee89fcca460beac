"""Conversations of an agent that reads source code, and the window in which their old results must go."""

from __future__ import annotations

import sysconfig
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from compactor.encodings import encoder
from compactor.model_config import ModelConfig
from compactor.tokens import count_messages

_SHORT: Final = 3  # results at the end that are too small to be worth a call


@lru_cache(maxsize=1)
def _library() -> str:
    folder = Path(sysconfig.get_path("stdlib"))
    return "".join(path.read_text(encoding="utf-8", errors="replace") for path in sorted(folder.glob("*.py")))


def source(characters: int, at: int = 0) -> str:
    """That much of the standard library's source, from some place on; it begins anew at its end."""
    whole = _library()
    at %= len(whole)
    return (whole[at:] + whole * (characters // len(whole) + 1))[:characters]


def turn(number: int, *, characters: int, at: int = 0) -> list[dict[str, Any]]:
    """A question, a call, its result and an answer."""
    name = {"name": "read_file", "arguments": f'{{"part": {number}}}'}
    call = {"id": f"c{number}", "type": "function", "function": name}
    return [
        {"role": "user", "content": f"And part {number}?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"c{number}", "content": source(characters, at)},
        {"role": "assistant", "content": "I see."},
    ]


def with_results(results: int, *, characters: int = 2_400) -> list[dict[str, Any]]:
    """A conversation with so many results that a model must summarise, beside as much text of the user."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": source(results * characters, at=-1_000_000)}]
    for number in range(results):
        messages += turn(number, characters=characters, at=number * 50_000)
    for number in range(results, results + _SHORT):
        messages += turn(number, characters=80, at=number * 50_000)
    return messages


def just_over(messages: list[dict[str, Any]]) -> ModelConfig:
    """A window whose threshold the conversation crosses without reaching its ceiling."""
    tokens = count_messages(messages, encoder("o200k_base"))
    return ModelConfig("gpt-4o", context_limit_tokens=int(tokens / 0.78))
