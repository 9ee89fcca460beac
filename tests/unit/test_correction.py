"""Correction and Anchor: what a provider is expected to count, learned from what it reported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CompletionUsage
from openai.types.responses import ResponseUsage

from compactor.budget import Budget, budget_for
from compactor.correction import (
    PLAIN,
    Anchor,
    Correction,
    billed_tokens,
    first_correction,
    model_key,
    overflowed,
    read_anchor,
    reported,
    written,
)
from compactor.encodings import prior_of
from compactor.model_config import ModelConfig

counts = st.integers(1, 2_000_000)
slopes = st.one_of(st.sampled_from([1.0, 1.15, 0.5, 2.0]), st.floats(0.5, 2.0))
corrections = st.builds(Correction, st.floats(-2e6, 2e6), slopes)
reports = st.lists(st.tuples(st.integers(-5, 200_000), st.integers(-5, 400_000)), max_size=12)


def learned(pairs: list[tuple[int, int]]) -> Anchor | None:
    anchor = None
    for count, billed in pairs:
        anchor = reported(anchor, count, billed)
    return anchor


@given(corrections, counts, counts)
def test_a_longer_list_is_never_expected_to_be_shorter(line: Correction, one: int, other: int) -> None:
    assert line.expected(min(one, other)) <= line.expected(max(one, other))
    assert line.expected(one) >= 0


@given(corrections, st.integers(0, 3_000_000))
def test_within_is_the_largest_count_at_or_below_a_level(line: Correction, level: int) -> None:
    count = line.within(level)
    assert count >= 1
    assert line.expected(count + 1) > level
    assert line.expected(count) <= level or count == 1


@given(
    corrections,
    st.sampled_from([0, 900, 8_000, 500_000]),
    st.integers(1, 2_000),
    st.sampled_from([None, 500]),
    st.data(),
)
def test_levels_as_counts_judge_as_what_is_expected_does(
    line: Correction, limit: int, window: int, output: int | None, data: st.DataObject
) -> None:
    line = Correction(line.offset, line.slope, "anchor", limit)
    budget = budget_for(ModelConfig("gpt-4o", window, max_output_tokens=output), fixed=17)
    lowered, levels = line.lowered(budget), line.levels(budget)
    near = st.sampled_from([levels.threshold, levels.ceiling, levels.limit]).flatmap(
        lambda level: st.integers(max(2, level - 3), level + 3)
    )
    count = data.draw(st.one_of(near, st.integers(2, 3_000_000)))
    expected = line.expected(count)
    assert (count >= levels.threshold) is (expected >= lowered.threshold)
    assert (count <= levels.ceiling) is (expected <= lowered.ceiling)
    assert levels.fixed == budget.fixed


@given(st.integers(0, 300_000))
def test_a_smaller_window_that_was_named_takes_its_shares_of_the_levels(limit: int) -> None:
    budget = budget_for(ModelConfig("gpt-4o", 100), fixed=17)
    lowered = Correction(limit=limit).lowered(budget)
    if 0 < limit < budget.limit:
        assert lowered == Budget(limit, max(1, budget.threshold * limit // 100_000), lowered.ceiling, 17)
        assert lowered.ceiling == max(1, budget.ceiling * limit // 100_000)
    else:
        assert lowered == budget


def test_a_model_that_tiktoken_does_not_know_is_taken_to_bill_more_until_it_reports() -> None:
    known, unknown = (first_correction(prior_of(model)) for model in ("gpt-4o", "claude-sonnet-4-5"))
    assert known == PLAIN
    assert (known.by, unknown.by) == ("count", "prior")
    assert (known.expected(1_000), unknown.expected(1_000)) == (1_000, 1_150)
    assert Anchor(10, 12, 10, 12).correction.by == "anchor"


@given(reports)
def test_an_anchor_is_stored_and_read_as_it_was(pairs: list[tuple[int, int]]) -> None:
    anchor = learned(pairs)
    if anchor is not None:
        assert read_anchor(written(anchor)) == anchor


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "1.0",
        "1.0 5 5 5 5",
        "1.0 5 5 5 5 0 0",
        "1.0 0 5 5 5 0",
        "1.0 -5 5 5 5 0",
        "1.0 5 5 5 5 -1",
        "0.4 5 5 5 5 0",
        "2.1 5 5 5 5 0",
        "nan 5 5 5 5 0",
        "inf 5 5 5 5 0",
        "1.0.0 5 5 5 5 0",
        ". 5 5 5 5 0",
        "1e0 5 5 5 5 0",
        "1_0.0 5 5 5 5 0",
        "1.0 5 5 5 5 0\n",
        " 1.0 5 5 5 5 0",
        "1.0 5 9999999999 5 5 0",
        "1.0 5 " + "9" * 5_000 + " 5 5 0",
        "1.0 ٥ 5 5 5 0",
        "\ufffd\ufffd",
    ],
)
def test_a_garbled_anchor_is_none(text: str) -> None:
    assert read_anchor(text) is None


@given(st.one_of(st.text(max_size=40), st.text("0123456789. -e", max_size=60)))
def test_whatever_stands_where_an_anchor_should_is_read_without_an_error(text: str) -> None:
    anchor = read_anchor(text)
    if anchor is not None:
        assert anchor.correction.levels(Budget(8_000, 6_000, 7_000, 3)).threshold >= 1


@given(reports, st.integers(0, 200_000))
def test_what_was_reported_last_is_expected_exactly(pairs: list[tuple[int, int]], other: int) -> None:
    anchor = learned(pairs)
    believed = [(count, billed) for count, billed in pairs if count > 0 and billed >= 0.4 * count]
    assert (anchor is None) is (not believed)
    if anchor is not None:
        count, billed = believed[-1]
        assert anchor.correction.expected(count) == billed
        assert 0.5 <= anchor.slope <= 2.0
        assert abs(anchor.correction.expected(other) - billed) <= 2 * abs(other - count) + 1


def test_two_reports_tell_a_slope_and_a_later_base_stays_the_first() -> None:
    anchor = learned([(1_000, 3_000), (2_000, 4_200), (3_000, 5_350)])
    assert anchor is not None
    assert anchor.slope == pytest.approx(2_350 / 2_000, abs=1e-4)
    assert (anchor.base_count, anchor.base_billed) == (1_000, 3_000)


@pytest.mark.parametrize("billed", [2_301, 2_799, 8_000, 1_000])
def test_a_slope_that_no_tokenizer_has_starts_anew(billed: int) -> None:
    anchor = learned([(1_000, 2_300), (2_000, billed)])
    assert anchor is not None
    assert anchor == Anchor(2_000, billed, 2_000, billed)
    assert anchor.correction.expected(2_500) - anchor.billed == 500


def test_reports_close_to_each_other_tell_no_slope() -> None:
    anchor = learned([(1_000, 1_200), (1_049, 1_290)])
    assert anchor is not None
    assert anchor.slope == 1.0
    assert anchor.correction.expected(1_100) == 1_341


@pytest.mark.parametrize(
    ("count", "billed"), [(0, 10), (-5, 10), (1_000, 399), (1_000, -1), (1_000, 10**9 + 1), (10**9 + 1, 10**9)]
)
def test_a_report_not_to_be_believed_changes_nothing(count: int, billed: int) -> None:
    anchor = Anchor(500, 600, 500, 600)
    assert reported(anchor, count, billed) is anchor
    assert reported(None, count, billed) is None


def test_a_bill_over_the_named_window_shows_that_it_was_not_one() -> None:
    limited = Anchor(5_000, 8_200, 5_000, 8_200, limit=8_000)
    for billed, limit in ((7_900, 8_000), (8_000, 8_000), (8_001, 0)):
        again = reported(limited, 5_000, billed)
        assert again is not None
        assert again.limit == limit


@given(
    reports,
    st.integers(0, 400_000),
    st.integers(256, 300_000),
    st.one_of(st.just(0), st.integers(100, 10**10)),
    st.one_of(st.just(0), st.integers(256, 400_000)),
)
def test_what_was_refused_is_expected_to_be_over_the_window_from_then_on(
    pairs: list[tuple[int, int]], count: int, limit: int, named: int, window: int
) -> None:
    anchor = learned(pairs)
    line = PLAIN if anchor is None else anchor.correction
    after = overflowed(anchor, count, expected=line.expected(count), limit=limit, named=named, window=window)
    real = min(limit, window or limit)
    assert after.correction.expected(max(1, count)) > real
    assert after.limit == (window if 0 < window < limit else 0)
    if real < named <= 10**9 and named >= 0.4 * count and count:
        assert after.billed == named
    assert read_anchor(written(after)) == after


@given(st.integers(4, 200), st.floats(0.25, 1.0))
def test_refusals_without_figures_tighten_each_time_until_the_list_fits(window: int, share: float) -> None:
    budget = budget_for(ModelConfig("gpt-4o", window), fixed=17)
    anchor: Anchor | None = None
    line, count, tries = PLAIN, budget.limit, 0
    while count > share * budget.limit:  # the provider's real window is a share of the configured one
        expected = line.expected(count)
        anchor = overflowed(anchor, count, expected=expected, limit=budget.limit, named=0, window=0)
        line = anchor.correction
        tighter = line.levels(budget).ceiling
        assert 1 <= tighter < count
        count, tries = tighter, tries + 1
    assert tries <= 4


def test_a_smaller_window_is_never_forgotten_for_a_larger_one() -> None:
    first = overflowed(None, 9_000, expected=9_000, limit=16_000, named=9_000, window=8_000)
    second = overflowed(first, 7_500, expected=7_500, limit=8_000, named=0, window=0)
    third = overflowed(second, 7_000, expected=7_000, limit=8_000, named=0, window=16_000)
    fourth = overflowed(third, 7_000, expected=7_000, limit=8_000, named=5_000, window=4_000)
    late = overflowed(fourth, 9_000, expected=9_000, limit=16_000, named=9_000, window=8_000)  # of an older send
    assert [each.limit for each in (first, second, third, fourth, late)] == [8_000, 8_000, 8_000, 4_000, 4_000]


USAGES = [
    ({"prompt_tokens": 70, "completion_tokens": 3, "total_tokens": 73}, 70),
    (CompletionUsage(prompt_tokens=70, completion_tokens=3, total_tokens=73), 70),
    ({"prompt_tokens": 70, "prompt_tokens_details": {"cached_tokens": 64}}, 70),
    ({"input_tokens": 70, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 64}}, 70),
    (
        ResponseUsage.model_validate(
            {
                "input_tokens": 70,
                "input_tokens_details": {"cached_tokens": 64, "cache_write_tokens": 0},
                "output_tokens": 3,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 73,
            }
        ),
        70,
    ),
    ({"input_tokens": 4, "cache_read_input_tokens": 60, "cache_creation_input_tokens": 6, "output_tokens": 3}, 70),
    ({"input_tokens": 0, "cache_read_input_tokens": 70, "cache_creation_input_tokens": None}, 70),
    (SimpleNamespace(input_tokens=4, cache_read_input_tokens=66, cache_creation_input_tokens=None), 70),
    ({"prompt_tokens": 70, "cache_read_input_tokens": 60}, 70),  # a gateway that tells both: already inside
]


@pytest.mark.parametrize(("usage", "tokens"), USAGES, ids=lambda value: type(value).__name__)
def test_the_prompts_tokens_are_read_from_every_form_of_usage(usage: Any, tokens: int) -> None:
    assert billed_tokens(usage) == tokens


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {},
        [],
        "70",
        70,
        True,
        object(),
        {"prompt_tokens": None},
        {"prompt_tokens": -70},
        {"prompt_tokens": 0},
        {"prompt_tokens": True},
        {"prompt_tokens": "70"},
        {"prompt_tokens": 70.5},
        {"prompt_tokens": float("nan")},
        {"usage": {"prompt_tokens": 70}},
        {"input_tokens": -4, "cache_read_input_tokens": False},
        SimpleNamespace(prompt_tokens=[70]),
    ],
)
def test_a_usage_that_tells_nothing_is_zero(usage: Any) -> None:
    assert billed_tokens(usage) == 0


def test_models_are_told_apart_by_a_short_key() -> None:
    assert model_key("gpt-4o") == model_key(" GPT-4o ") != model_key("gpt-4o-mini")
    assert len(model_key("x" * 10_000)) == len(model_key("模型\ud800")) == 12
