"""Prices: what a file may say, which names mean which model, and money as people read it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.exceptions import ConfigurationError
from compactor.pricing import dollars, micro_dollars, names_of, price, read_prices

ROW = {"input": 0.15, "output": 0.6, "cache_read": 0.075, "cache_write": 0.1875}


def test_a_file_names_dollars_per_million_tokens() -> None:
    found = read_prices(
        json.dumps({"My-Model": ROW, "local": {"input": 0, "output": 0}, "cheap": {"input": "0.10", "output": 1}})
    )
    assert found["my-model"].input == Decimal("0.15")
    assert (found["my-model"].read_factor, found["my-model"].write_factor) == (Decimal("0.5"), Decimal("1.25"))
    assert found["local"].output == 0
    assert found["cheap"].cache_read == found["cheap"].cache_write == Decimal("0.10"), "no cache: tokens cost the same"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        ('{"a": {"input": 1, "output": 2}, "a": {"input": 3, "output": 4}}', "names something twice"),
        ('{"a": {"input": 1, "input": 2, "output": 2}}', "names something twice"),
        ('{"a": {"input": 1, "output": 2}, "A ": {"input": 3, "output": 4}}', "model 2 has no name, or that"),
        ("[]", "holds no object of models"),
        ("{}", "holds no object of models"),
        ("5", "holds no object of models"),
        ('{" ": {"input": 1, "output": 2}}', "model 1 has no name"),
        ('{"a": 5}', "model 1 is no object of prices"),
        ('{"a": {"input": 1}}', "model 1: output is missing"),
        ('{"a": {"input": -1, "output": 2}}', "model 1: input is missing, or no number from 0"),
        ('{"a": {"input": NaN, "output": 2}}', "model 1: input"),
        ('{"a": {"input": 1e999, "output": 2}}', "model 1: input"),
        ('{"a": {"input": true, "output": 2}}', "model 1: input"),
        ('{"a": {"input": null, "output": 2}}', "model 1: input"),
        ('{"a": {"input": [1], "output": 2}}', "model 1: input"),
        ('{"a": {"input": "free", "output": 2}}', "model 1: input"),
        ('{"a": {"input": 1, "output": 2, "cache_read": null}}', "model 1: cache_read"),
        ('{"a": {"input": 1, "output": 2, "cached": 1}}', "a price that is none of input, output, cache_read"),
        ("[" * 5_000, "cannot be read as JSON"),
        ("9" * 5_000, "holds no object of models"),
        (" " * 1_100_000, "is longer than"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_table_of_prices_is_refused_with_what_was_expected(text: str, says: str) -> None:
    with pytest.raises(ConfigurationError) as told:
        read_prices(text)
    assert says in str(told.value)
    assert '{"my-model": {"input": 0.15' in str(told.value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_json_is_read_or_refused(value: Any) -> None:
    try:
        found = read_prices(json.dumps(value))
    except ConfigurationError:
        return
    assert all(price.input >= 0 and price.output >= 0 for price in found.values())


@pytest.mark.parametrize(
    ("model", "first"),
    [
        ("GPT-4o ", (None, "gpt-4o")),
        ("openai/gpt-4o", ("openai", "gpt-4o")),
        ("openrouter/anthropic/claude-sonnet-4", ("openrouter", "anthropic/claude-sonnet-4")),
        ("litellm_proxy/openai/gpt-4o", ("openai", "gpt-4o")),
        ("models/gemini-2.5-pro", (None, "gemini-2.5-pro")),
    ],
)  # fmt: skip
def test_a_written_name_names_a_host_and_a_model(model: str, first: tuple[str | None, str]) -> None:
    assert next(names_of(model)) == first


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (None, "price unknown"),
        (0, "$0"),
        (7, "$0.000007"),
        (-1_234, "-$0.001234"),
        (12_345, "$0.0123"),
        (2_500_000, "$2.50"),
        (10**15, "$1000000000.00"),
    ],
)  # fmt: skip
def test_money_is_read_in_dollars_and_an_unknown_price_is_never_zero(amount: int | None, text: str) -> None:
    assert dollars(amount) == text


def test_dollars_become_whole_micro_dollars() -> None:
    assert micro_dollars("cap", "2.50") == 2_500_000
    for wrong in (0, "-1", "x", None, True, "NaN", "Infinity", "1e-9"):
        with pytest.raises(ConfigurationError, match="cap: expected dollars"):
            micro_dollars("cap", wrong)


def test_a_model_without_a_price_for_input_has_no_cache_either() -> None:
    free = price(Decimal(0), Decimal(0))
    assert free.read_factor == free.write_factor == 1
