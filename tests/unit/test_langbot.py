"""LangBot's names: each becomes what Compactor has for it, and nothing is taken otherwise without saying so."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from compactor import ConfigurationError
from compactor.agent_loop import LimitPolicy, StopReason
from compactor.langbot import NAMES, from_langbot

WHOLE = {
    "max-tool-iterations": 20,
    "max-tool-result-chars": 20_000,
    "context-window-tokens": 200_000,
    "context-reserve-tokens": 16_384,
    "context-keep-recent-tokens": 20_000,
    "context-summary-tokens": 8_000,
}


def test_langbots_own_defaults_become_our_objects() -> None:
    read = from_langbot(WHOLE, "gpt-4o")
    assert (read.config.model, read.config.limit, read.config.max_output_tokens) == ("gpt-4o", 200_000, 16_384)
    assert read.limit_result == LimitPolicy(20_000)
    assert read.max_iterations == 20


def test_text_of_digits_is_taken_and_what_is_not_set_has_our_default() -> None:
    read = from_langbot({name: f" {value} " for name, value in WHOLE.items()}, "gpt-4o")
    assert read == from_langbot(WHOLE, "gpt-4o")
    least = from_langbot({"context-window-tokens": "16385", "max-tool-iterations": None}, "gpt-4o")
    assert (least.config.limit, least.config.max_output_tokens) == (16_385, None)
    assert (least.limit_result, least.max_iterations, dict(least.notes)) == (LimitPolicy(8_000), 16, {})


def test_the_guard_stops_at_langbots_iterations() -> None:
    guard = from_langbot(WHOLE | {"max-tool-iterations": 3}, "gpt-4o").guard(max_repeats=None)
    call = {"id": "c", "type": "function", "function": {"name": "grep", "arguments": "{}"}}
    reply = {"role": "assistant", "content": None, "tool_calls": [call]}
    stops = [guard.step(reply) for _ in range(4)]
    assert stops[:3] == [None] * 3
    assert stops[3] is not None
    assert stops[3].reason is StopReason.ITERATIONS


def test_names_without_a_counterpart_are_ignored_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "compactor.langbot"):
        read = from_langbot(WHOLE, "gpt-4o")
    assert set(read.notes) == {"context-keep-recent-tokens", "context-summary-tokens"}
    assert all(f"{name}: ignored; " in note for name, note in read.notes.items())
    assert caplog.messages == list(read.notes.values())


def test_a_reserve_over_a_quarter_of_the_window_is_a_quarter_as_in_langbot() -> None:
    read = from_langbot({"context-window-tokens": 8_192, "context-reserve-tokens": 16_384}, "gpt-4o")
    assert read.config.max_output_tokens == 2_048
    assert "is taken as 2048" in read.notes["context-reserve-tokens"]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("max-tool-iteration", "'max-tool-iterations'"),
        ("max_tool_iterations", "'max-tool-iterations'"),
        ("MAX-TOOL-RESULT-CHARS", "'max-tool-result-chars'"),
        ("context-window", "'context-window-tokens'"),
        ("temperature", ", ".join(NAMES)),
        (7, ", ".join(NAMES)),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(name: Any, near: str) -> None:
    with pytest.raises(ConfigurationError, match=near):
        from_langbot({**WHOLE, name: 5}, "gpt-4o")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("wrong", [-1, 1.5, True, "", "12k", "-3", "1.5", "١٢", [], "9" * 40])
def test_a_wrong_value_is_refused_by_name_and_unit(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: expected a whole number of (tokens|steps|characters)"):
        from_langbot({**WHOLE, name: wrong}, "gpt-4o")


@pytest.mark.parametrize("name", ["max-tool-iterations", "max-tool-result-chars"])
def test_limits_of_nothing_are_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}: .* at least 1"):
        from_langbot({**WHOLE, name: 0}, "gpt-4o")


@pytest.mark.parametrize("window", [None, 0, "0"])
def test_without_a_window_nothing_is_guessed(window: Any) -> None:
    with pytest.raises(ConfigurationError, match="context-window-tokens: is mandatory"):
        from_langbot({**WHOLE, "context-window-tokens": window}, "gpt-4o")


@pytest.mark.parametrize("wrong", [None, [], "context-window-tokens"])
def test_settings_are_a_dict(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match="settings: expected a dict"):
        from_langbot(wrong, "gpt-4o")
