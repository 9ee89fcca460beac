"""Limits, budgets and counts of the context functions: what they take, and what they refuse in which words."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from compactor import ConfigurationError, InvalidMessageError, ModelConfig
from compactor.context import (
    calculate_max_tokens,
    count_messages_tokens,
    counts,
    get_model_context_limit,
    prepare_context,
    trim_messages_for_context,
)
from compactor.encodings import encoder
from compactor.tokens import count_message
from tests.unit.chat import assistant, calling, result, steps, system, user
from tests.unit.logged import logged, texts


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    with logged() as records:
        yield records


# --- the limit and the budget


@pytest.mark.parametrize("limit", [1, 17, 128, 200, 1000, 2800, "128K", " 17 "])
def test_the_limit_is_k_tokens(limit: int | str) -> None:
    tokens = get_model_context_limit("gpt-4o", {"context_limit": limit})
    assert tokens == 1_000 * int(str(limit).strip(" K"))


def test_an_exact_window_goes_before_the_k_value() -> None:
    assert get_model_context_limit("gpt-3.5-turbo", {"context_limit": 17, "context_limit_tokens": 16_385}) == 16_385


def test_langbots_names_stand_in_for_the_window_and_the_room_for_the_answer() -> None:
    langbot = {"context-window-tokens": "16000", "context-reserve-tokens": 4_000, "max-tool-iterations": 16}
    assert get_model_context_limit("gpt-4o", langbot) == 16_000
    assert prepare_context([user()], "s", None, "gpt-4o", langbot).budget == int(0.95 * 12_000)
    assert prepare_context([user()], "s", None, "gpt-4o", {**langbot, "max_output_tokens": 8_000}).budget == 7_600
    assert get_model_context_limit("gpt-4o", {**langbot, "context_limit": 128}) == 128_000
    assert get_model_context_limit("gpt-4o", {**langbot, "context_limit_tokens": 16_385}) == 16_385


@pytest.mark.parametrize("wrong", [0, -1, True, "16K", 16.0])
def test_a_wrong_window_under_langbots_name_is_refused_by_that_name(wrong: Any, lines: list[logging.LogRecord]) -> None:
    with pytest.raises(ValueError, match="context-window-tokens: ") as caught:
        get_model_context_limit("gpt-4o", {"context-window-tokens": wrong})
    assert texts(lines, logging.ERROR) == [str(caught.value)]


@pytest.mark.parametrize("given", [0, -1, 0.5, True, "", "many", "128M", 128_000, "128000", [128]])
def test_a_limit_that_is_none_is_refused_with_unit_and_example(given: Any, lines: list[logging.LogRecord]) -> None:
    with pytest.raises(ValueError, match=r"context_limit: .*K tokens") as caught:
        get_model_context_limit("gpt-4o", {"context_limit": given})
    assert isinstance(caught.value, ConfigurationError)
    assert "tokens" in str(caught.value)
    assert texts(lines, logging.ERROR) == [str(caught.value)]


@pytest.mark.parametrize("config", [None, {}, {"context_limit": None}, {"model": "gpt-4o", "max_tokens": 5}])
def test_a_missing_limit_is_refused_in_the_documents_words(config: Any, lines: list[logging.LogRecord]) -> None:
    with pytest.raises(ValueError, match="is required") as caught:
        get_model_context_limit("gpt-4o", config)
    assert str(caught.value).splitlines()[:3] == [
        "context_limit is required but not provided for model 'gpt-4o'.",
        "Please configure context_limit in your LLM model configuration.",
        "Refer to the model provider's documentation for the current context window size.",
    ]
    assert "128 = 128K = 128,000 tokens" in str(caught.value)
    assert texts(lines, logging.ERROR) == [str(caught.value)]


@pytest.mark.parametrize("config", ["128", 128, [("context_limit", 128)]])
def test_a_configuration_of_another_kind_is_refused(config: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"llm_config: expected a mapping such as \{'context_limit': 128\}"):
        get_model_context_limit("gpt-4o", config)


def test_a_model_config_is_a_configuration_too() -> None:
    assert get_model_context_limit("gpt-4o", ModelConfig("gpt-4o", 8)) == 8_000
    config = ModelConfig("gpt-4o", 1, "aggressive")
    long = [user("word " * 300), assistant(), user("word " * 400)]
    assert trim_messages_for_context(long, "gpt-4o", llm_config=config) == long
    assert trim_messages_for_context(long, "gpt-4o", "conservative", llm_config=config) == long[2:]


@pytest.mark.parametrize("limit", [0, -128_000, 1.5, True, None, "128K"])
def test_a_budget_of_no_window_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError):
        calculate_max_tokens(limit, "balanced")


@pytest.mark.parametrize("strategy", ["", "bold", "Balanced", 0.75])
def test_another_strategy_is_refused_by_naming_the_three(strategy: Any) -> None:
    with pytest.raises(ConfigurationError, match="conservative, balanced, aggressive"):
        calculate_max_tokens(128_000, strategy)


@pytest.mark.parametrize("strategy", ["", "bold", [], 0])
def test_a_strategy_that_is_none_of_the_three_is_refused_wherever_it_stands(strategy: Any) -> None:
    with pytest.raises(ConfigurationError, match="conservative, balanced, aggressive"):
        trim_messages_for_context([user()], "gpt-4o", strategy, 0, {"context_limit": 8})
    with pytest.raises(ConfigurationError, match="conservative, balanced, aggressive"):
        trim_messages_for_context([user()], "gpt-4o", None, 0, {"context_limit": 8, "context_strategy": strategy})


# --- counting


@pytest.mark.parametrize(("model", "encoding"), [(None, "p50k_base"), ("gpt-4o", ""), (None, 5), (5, None)])
def test_an_encoding_that_is_none_is_refused(model: Any, encoding: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"expected one of cl100k_base, o200k_base|expected the model's name"):
        count_messages_tokens([user()], model, encoding=encoding)


def test_counts_are_those_of_the_session_api() -> None:
    chat = steps(2)
    cl100k, o200k = encoder("cl100k_base"), encoder("o200k_base")
    assert count_messages_tokens(chat) == sum(count_message(message, cl100k) for message in chat)
    assert count_messages_tokens(chat, "gpt-4o") == sum(count_message(message, o200k) for message in chat)
    assert count_messages_tokens(chat, encoding="o200k_base") == count_messages_tokens(chat, "gpt-4o")
    assert count_messages_tokens([]) == 0


def test_a_langchain_message_counts_as_the_dict_it_stands_for() -> None:
    call: dict[str, Any] = {"name": "grep", "args": {}, "id": "c1"}
    own = [
        SystemMessage("s"),
        HumanMessage("hi"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("x", tool_call_id="c1"),
    ]
    chat = [system("s"), user("hi"), {**calling("c1"), "content": ""}, result("c1", "x")]
    assert count_messages_tokens(own) == count_messages_tokens(chat)


@pytest.mark.parametrize("given", [None, 5, "hi", {"role": "user"}, [5], [("user", "hi")], [{"role": "human"}], [{}]])
def test_what_is_no_list_of_messages_is_logged_and_refused(given: Any, lines: list[logging.LogRecord]) -> None:
    with pytest.raises(InvalidMessageError) as caught:
        count_messages_tokens(given)
    assert texts(lines, logging.ERROR) == [f"Failed to count tokens: {caught.value}"]


def test_an_error_of_someone_elses_is_logged_by_its_kind_alone(
    monkeypatch: pytest.MonkeyPatch, lines: list[logging.LogRecord]
) -> None:
    def broken(*_args: Any, **_keys: Any) -> None:
        raise RuntimeError("my secret question")

    monkeypatch.setattr(counts, "count_list", broken)
    with pytest.raises(RuntimeError, match="my secret question"):
        count_messages_tokens([user()])
    assert texts(lines, logging.ERROR) == ["Failed to count tokens: RuntimeError"]


_WITHOUT_TIKTOKEN = """
import logging, sys
sys.modules["tiktoken"] = None
from compactor.context import *
logging.basicConfig(format="%(message)s", stream=sys.stdout)
get_model_context_limit("gpt-4o", {"context_limit": 128})
calculate_max_tokens(128_000, "balanced")
try:
    count_messages_tokens([{"role": "user", "content": "hi"}])
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_without_tiktoken_the_first_count_says_what_to_install() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_TIKTOKEN], capture_output=True, text=True, check=True, timeout=60
    )
    text = (
        "tiktoken is required for accurate token counting.\nPlease install it with: pip install tiktoken>=0.8.0\n"
        "(0.13 or newer: older releases take minutes for long texts.)\n"
    )
    assert done.stdout == f"tiktoken not available: {text}TokenizerMissingError {text}"


_TWICE = """
import logging, sys
logging.basicConfig(format="%(message)s", level=20, stream=sys.stdout)
from compactor.context import *
for _ in range(2):
    count_messages_tokens([{"role": "user", "content": "hi"}])
    estimate_tool_tokens([7])
    count_messages_tokens([{"role": "user", "content": "hi"}], "gpt-4o")
"""


def test_the_encoding_and_an_unreadable_tool_are_said_once_per_process() -> None:
    done = subprocess.run([sys.executable, "-c", _TWICE], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.splitlines() == [
        "Using tiktoken (cl100k_base) for accurate token counting",
        "Tool schema of int could not be read; counted as 1000 tokens each",
        "Tool definitions estimated at ~1000 total tokens (1 tools)",
        "Using tiktoken (o200k_base) for accurate token counting",
        "Tool definitions estimated at ~1000 total tokens (1 tools)",
    ]
