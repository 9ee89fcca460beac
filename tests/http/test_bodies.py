"""Bodies mean what every reader takes them for, or are refused."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.frozen import freeze
from compactor.http.answers import all_finite, written
from compactor.http.bodies import MOST_BRACKETS, MOST_VALUES, read
from compactor.http.problems import Problem

numbers = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_is_clear_is_read_as_it_is(value: Any) -> None:
    assert read(orjson.dumps(value)) == value
    assert read(json.dumps(value, indent=1).encode()) == value
    assert read(json.dumps(value, ensure_ascii=False).encode()) == value


@given(values)
def test_what_is_read_is_written_again(value: Any) -> None:
    assert all_finite(value)
    assert json.loads(written(value)) == value


@given(
    st.recursive(
        st.none() | texts | st.integers() | st.floats(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
        max_leaves=20,
    )
)
def test_a_number_that_is_none_is_found_wherever_it_stands(value: Any) -> None:
    try:
        is_json = bool(json.dumps(value, allow_nan=False))
    except ValueError:
        is_json = False
    assert all_finite(value) is all_finite(freeze(value)) is is_json


@given(st.dictionaries(texts, values, min_size=1, max_size=4), values)
def test_a_key_twice_is_refused_wherever_it_stands(value: dict[str, Any], other: Any) -> None:
    name = json.dumps(next(iter(value)))
    twice = f"[{json.dumps(value)[:-1]}, {name}: {json.dumps(other)}}}]"
    with pytest.raises(Problem, match="same key twice"):
        read(twice.encode())


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**30, -(10**400)])
def test_an_integer_beyond_64_bits_is_refused(number: int) -> None:
    for text in (f"{number}", f'{{"a": [1, {{"b": {number}}}]}}', f'[1e300, {number}, "{number}"]'):
        with pytest.raises(Problem, match="cannot be read"):
            read(text.encode())


@pytest.mark.parametrize(
    "text", ["1e30", "[123456789012345678.5]", '"123456789012345678901234567890"', "[18446744073709551615]"]
)
def test_large_numbers_that_are_exact_or_text_are_read(text: str) -> None:
    assert read(text.encode()) == json.loads(text)


@pytest.mark.parametrize("value", [b"{}", b"[]", b'"aa"', b"1.5", b'{"a":[1,2]}'])
def test_a_body_of_more_values_than_memory_is_for_is_refused(value: bytes) -> None:
    assert len(read(b"[" + b",".join([value] * 10) + b"]")) == 10
    for count in (MOST_VALUES + 1, MOST_BRACKETS):
        with pytest.raises(Problem, match="objects, lists, texts and numbers"):
            read(b"[" + b",".join([value] * count) + b"]")


def test_commas_and_brackets_in_texts_are_no_values() -> None:
    row = '{"level":"info","at":[1,2,3]},' * 20
    body = json.dumps([row] * 900).encode()
    assert body.count(b",") > MOST_VALUES // 10
    assert read(body + b" " * MOST_VALUES) == [row] * 900
    commas = [",," * MOST_VALUES]
    assert read(json.dumps(commas).encode()) == commas


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 2**70, "\ud800"])
def test_what_orjson_does_not_write_is_written_by_the_standard_module(odd: Any) -> None:
    for value in (odd, [1, {"a": (odd, None)}], {"x": 1.5, "deep": [[[odd]]]}):
        assert str(json.loads(written(value))) == str(json.loads(json.dumps(value)))
