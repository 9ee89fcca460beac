"""What a send is judged by: the fixed part, the budget the session keeps, the verdict's figures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.budget import budget_for
from compactor.claims import Claim
from compactor.correction import PLAIN
from compactor.exceptions import ConfigurationError
from compactor.judging import Fixed, Request, compaction_word, count_fixed, judge, kept_judgement, request_key, verdict
from compactor.model_config import ModelConfig
from compactor.models import Fit
from compactor.tokens import PER_MESSAGE, PER_REQUEST, count_json
from tests.unit.chat import by_length
from tests.unit.conversations import json_values

CONFIG = ModelConfig("gpt-4o", 16, "conservative")
TOOLS = [{"type": "function", "function": {"name": "grep", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize("value", [7, b"x", ["x"], {"role": "system"}])
def test_a_system_text_must_be_text(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="system: expected the system text"):
        Request(system=value)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "4096"])
def test_an_output_size_must_be_a_positive_whole_number(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_output_tokens: expected a positive whole number"):
        Request(max_output_tokens=value)


def test_a_request_alone_costs_its_frame() -> None:
    assert count_fixed(Request(), by_length) == Fixed(PER_REQUEST, 0)


def test_system_text_tools_and_response_format_are_all_counted() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "answer"}}
    fixed = count_fixed(Request(tools=TOOLS, system="s" * 400, response_format=form), by_length)
    assert fixed.system == PER_REQUEST + PER_MESSAGE + 100
    assert fixed.tools == count_json(TOOLS, by_length) + count_json(form, by_length)
    assert fixed.total == fixed.system + fixed.tools


@given(json_values, json_values)
def test_tools_of_any_shape_are_counted(tools: Any, form: Any) -> None:
    fixed = count_fixed(Request(tools=tools, response_format=form), by_length)
    assert fixed.tools >= (tools is not None) + (form is not None)


def test_an_empty_system_text_is_a_message_and_none_is_not() -> None:
    assert Request(system="").opening == ({"role": "system", "content": ""},)
    assert Request().opening == ()


@given(st.tuples(*[json_values] * 2), st.tuples(*[json_values] * 2), st.sampled_from([None, "", "a"]))
def test_requests_that_count_differently_have_different_keys(
    one: tuple[Any, Any], other: tuple[Any, Any], system: str | None
) -> None:
    first, second = Request(one[0], system, one[1]), Request(other[0], system, other[1])
    if request_key(first, "o200k_base") == request_key(second, "o200k_base"):
        assert count_fixed(first, by_length) == count_fixed(second, by_length)


def test_keys_tell_encodings_and_system_texts_apart() -> None:
    keys = {
        request_key(Request(system=system), encoding)
        for system in (None, "", "a")
        for encoding in ("o200k_base", "cl100k_base")
    }
    assert len(keys) == 6


def test_a_judgement_survives_in_the_session() -> None:
    request = Request(TOOLS, "s" * 4_000, max_output_tokens=4_000)
    fixed = count_fixed(request, by_length)
    judged = judge(CONFIG, request, fixed, "o200k_base")
    assert judged.budget == budget_for(CONFIG, fixed=fixed.total, max_output_tokens=4_000)
    assert kept_judgement(judged.json) == judged
    assert json.loads(judged.json)["model"] == "gpt-4o"


def test_a_judgement_keeps_no_content() -> None:
    request = Request([{"secret": "hunter2"}], "hunter2", {"hunter2": 1})
    assert b"hunter2" not in judge(CONFIG, request, count_fixed(request, by_length), "o200k_base").json


def test_a_session_never_judged_has_no_judgement() -> None:
    assert kept_judgement(b"") is None


def test_a_verdict_adds_up() -> None:
    fixed = Fixed(system=103, tools=50)
    budget = budget_for(CONFIG, fixed=fixed.total)
    seen = verdict(budget, fixed, history=1_000, lead_tokens=40, length=7, compaction="not_needed", correction=PLAIN)
    assert (seen.system, seen.history, seen.tools) == (143, 960, 50)
    assert seen.total == seen.expected == seen.sent == seen.system + seen.history + seen.tools == 1_153
    assert (seen.limit, seen.threshold, seen.ceiling, seen.length) == (16_000, 9_600, 12_800, 7)
    assert seen.fit is Fit.FITS


def test_what_a_shortened_send_costs_is_told_apart_from_what_it_would() -> None:
    fixed = Fixed(3, 0)
    seen = verdict(
        budget_for(CONFIG, fixed=3), fixed, history=20_000, lead_tokens=0, length=9, compaction="due", correction=PLAIN,
        fit=Fit.SHORTENED, sent=9_000,
    )  # fmt: skip
    assert (seen.total, seen.sent) == (20_003, 9_000)
    assert seen.over_threshold


@pytest.mark.parametrize(
    ("claim", "held", "over", "word"),
    [
        ("idle", "", False, "not_needed"),
        ("idle", "no_gain", False, "not_needed"),
        ("idle", "", True, "due"),
        ("idle", "no_gain", True, "held(no_gain)"),
        (Claim.QUEUED, "", True, "queued"),
        ("queued", "", False, "queued"),
        ("running", "no_gain", True, "running"),
    ],
)
def test_the_word_for_what_a_compaction_does(claim: str, held: str, over: bool, word: str) -> None:
    assert compaction_word(claim, held, over=over) == word
