"""ModelConfig: no window is ever guessed, the unit is K tokens, three strategies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.budget import budget_for
from compactor.exceptions import ConfigurationError
from compactor.model_config import STRATEGIES, ModelConfig, k_tokens


@pytest.mark.parametrize("limit", [1, 17, 128, 200, 1000, 2800])
def test_the_documents_limits_are_accepted(limit: int) -> None:
    assert ModelConfig("gpt-4o", limit).limit == limit * 1000


@pytest.mark.parametrize("limit", ["128", "128K", "128k", " 128 K ", 128])
def test_digits_with_an_optional_k_are_the_same(limit: Any) -> None:
    assert ModelConfig("gpt-4o", limit) == ModelConfig("gpt-4o", 128)


@pytest.mark.parametrize(
    "limit",
    [
        0,
        -1,
        0.5,
        128.0,
        True,
        False,
        "",
        "K",
        "128M",
        "128KB",
        "-128",
        "0",
        "12.8",
        "12e3",
        "１２８",
        "0x80",
        [],
        {},
        b"1",
    ],
)
def test_anything_else_is_refused_with_the_unit_and_an_example(limit: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ModelConfig("gpt-4o", limit)
    text = str(caught.value)
    assert "context_limit" in text
    assert "K tokens" in text
    assert "128" in text
    assert "128,000 tokens" in text


def test_a_missing_limit_is_refused_with_the_unit_and_an_example() -> None:
    with pytest.raises(ConfigurationError, match=r"mandatory, in K tokens \(128 = 128,000 tokens\)"):
        ModelConfig("gpt-4o")


@pytest.mark.parametrize("limit", [128_000, "128000", 20_001, 10**12])
def test_tokens_given_as_k_are_refused_with_a_hint(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="K tokens") as caught:
        ModelConfig("gpt-4o", limit)
    assert f"Did you mean {int(limit) // 1000} " in str(caught.value)
    assert "context_limit_tokens" in str(caught.value)


def test_the_largest_limit_is_twenty_million_tokens() -> None:
    assert ModelConfig("gpt-4o", 20_000).limit == 20_000_000


def test_an_exact_window_can_be_given_in_tokens() -> None:
    assert ModelConfig("gpt-3.5-turbo", context_limit_tokens=16_385).limit == 16_385
    assert ModelConfig("gpt-3.5-turbo", 17, context_limit_tokens=16_385).limit == 16_385


@pytest.mark.parametrize("field", ["context_limit_tokens", "max_output_tokens"])
@pytest.mark.parametrize("value", [0, -5, 1.5, True, "16385", []])
def test_tokens_must_be_positive_whole_numbers(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=field):
        ModelConfig("gpt-4o", 128, **{field: value})


@pytest.mark.parametrize(
    ("strategy", "into", "out"),
    [("conservative", 76_800, 51_200), ("balanced", 96_000, 32_000), ("aggressive", 108_800, 19_200)],
)
def test_the_strategies_share_128k_as_the_document_says(strategy: str, into: int, out: int) -> None:
    config = ModelConfig("gpt-4o", 128, strategy)
    threshold = budget_for(config, fixed=0).threshold
    assert (threshold, config.limit - threshold) == (into, out)


def test_balanced_is_the_default() -> None:
    assert ModelConfig("gpt-4o", 128).context_strategy == "balanced"


@pytest.mark.parametrize("strategy", ["", "Balanced", "balanced ", "greedy", None, 7])
def test_an_unknown_strategy_is_refused_naming_the_three(strategy: Any) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ModelConfig("gpt-4o", 128, strategy)
    assert all(name in str(caught.value) for name in ("conservative", "balanced", "aggressive"))


@pytest.mark.parametrize("strategy", [[], {}, ["balanced"]])
def test_a_strategy_of_the_wrong_type_is_refused_naming_the_three(strategy: Any) -> None:
    with pytest.raises(ConfigurationError, match="conservative"):
        ModelConfig("gpt-4o", 128, strategy)


@pytest.mark.parametrize("model", ["", "  ", None, 7, b"gpt-4o"])
def test_a_model_needs_a_name(model: Any) -> None:
    with pytest.raises(ConfigurationError, match="gpt-4o"):
        ModelConfig(model, 128)


@pytest.mark.parametrize("encoding", ["", "gpt2", "O200K_BASE", 1, []])
def test_an_unknown_encoding_is_refused_naming_the_known(encoding: Any) -> None:
    with pytest.raises(ConfigurationError, match="cl100k_base, o200k_base"):
        ModelConfig("gpt-4o", 128, encoding=encoding)


@pytest.mark.parametrize("output", [16_000, 16_001])
def test_an_output_that_fills_the_window_is_refused(output: int) -> None:
    with pytest.raises(ConfigurationError, match="leaves no room"):
        ModelConfig("gpt-4o", 16, max_output_tokens=output)


def test_compact_at_is_in_k_tokens_too() -> None:
    assert ModelConfig("gpt-4o", 1000, compact_at="200K").compact_at_tokens == 200_000
    assert ModelConfig("gpt-4o", 1000).compact_at_tokens is None
    with pytest.raises(ConfigurationError, match="compact_at"):
        ModelConfig("gpt-4o", 1000, compact_at=200_000)


@given(st.one_of(st.text(max_size=12), st.floats(), st.booleans(), st.none(), st.lists(st.integers(), max_size=2)))
def test_whatever_is_given_the_answer_is_a_limit_or_our_error(value: Any) -> None:
    try:
        read = k_tokens("context_limit", value)
    except ConfigurationError:
        return
    assert isinstance(read, int)
    assert 0 < read <= 20_000
    assert str(read) in str(int("".join(filter(str.isdigit, value))))


@given(st.integers(1, 20_000), st.sampled_from(sorted(STRATEGIES)))
def test_shares_are_exact_whole_numbers_for_every_limit(limit: int, strategy: str) -> None:
    exact = {"conservative": 600, "balanced": 750, "aggressive": 850}[strategy]
    assert budget_for(ModelConfig("gpt-4o", limit, strategy), fixed=0).threshold == limit * exact


@pytest.mark.parametrize("absurd", [10**30, 10**5_000], ids=["30 digits", "5,000 digits"])
@pytest.mark.parametrize("field", ["context_limit", "context_limit_tokens", "compact_at", "max_output_tokens"])
def test_a_figure_no_window_has_is_refused_without_being_written_out(field: str, absurd: int) -> None:
    given: dict[str, Any] = {field: absurd}
    with pytest.raises(ConfigurationError, match=f"^{field}: is more than any window has") as caught:
        replace(ModelConfig("gpt-4o", context_limit=128), **given)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"min_reclaim": 0.6}, "min_reclaim: expected a share of the room from 0 to 0.5"),
        ({"min_reclaim": -0.1}, "min_reclaim: expected a share"),
        ({"min_reclaim": float("nan")}, "min_reclaim: expected a share"),
        ({"min_reclaim": True}, "min_reclaim: expected a share"),
        ({"min_reclaim": "0.1"}, "min_reclaim: expected a share"),
        ({"cache_ttl": 0}, "cache_ttl: expected the seconds"),
        ({"cache_ttl": 10**9}, "cache_ttl: expected the seconds"),
        ({"cache_ttl": float("inf")}, "cache_ttl: expected the seconds"),
        ({"cache_ttl": "5m"}, "cache_ttl: expected the seconds"),
        ({"prefer_idle": 1}, "prefer_idle: expected True or False"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ModelConfig("gpt-4o", 128, **given)


def test_a_policy_is_left_out_or_within_its_bounds() -> None:
    config = ModelConfig("gpt-4o", 128, min_reclaim=0, cache_ttl=300, prefer_idle=True)
    assert (config.min_reclaim, config.cache_ttl, config.prefer_idle) == (0, 300, True)
