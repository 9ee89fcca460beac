"""read_reply(): a bad reply never becomes a summary, and the reason has the right code."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.encodings import encoder
from compactor.exceptions import SummarizerPermanent, SummarizerRefused, SummarizerReplyRejected
from compactor.prompts import SummaryRequest
from compactor.replies import Reply, read_reply
from compactor.tokens import count_text
from tests.unit.conversations import json_values, long_text, text

O200K = "o200k_base"
SOURCE = "12 rows, the last one INC-48213 of 1 and 7; words and secrets of the summary\n" + "x " * 2_000
REQUEST = SummaryRequest("grep", "{}", SOURCE, "find it", 2_000, 300)
GOOD = {"outcome": "ok", "facts": [{"label": "ticket", "value": "INC-48213"}], "note": "Found it.", "omitted": "rows"}
RENDERED = "ok\nticket = INC-48213\nFound it.\n(rows)"


def read(content: Any, finish_reason: str | None = "stop", request: SummaryRequest = REQUEST, **reply: Any) -> str:
    return read_reply(Reply(content, finish_reason, **reply), request, encoder(O200K))


def reason(content: Any, finish_reason: str | None = "stop", **reply: Any) -> str:
    with pytest.raises(SummarizerPermanent) as caught:
        read(content, finish_reason, **reply)
    error = caught.value
    return error.reason if isinstance(error, SummarizerReplyRejected) else error.code


def test_the_json_asked_for_becomes_lines() -> None:
    assert read(json.dumps(GOOD)) == RENDERED


@pytest.mark.parametrize(
    "wrapped",
    [
        "```json\n{}\n```",
        "```\n{}\n```",
        "  \n{}\n ",
        "<think>What do I see here?</think>\n{}",
        "<think>\nplan\n</think>\n\n```json\n{}\n```",
        "<reasoning>a</reasoning><analysis>b</analysis>{}",
    ],
)
def test_thoughts_and_one_fence_are_taken_off(wrapped: str) -> None:
    assert read(wrapped.replace("{}", json.dumps(GOOD))) == RENDERED


def test_plain_text_is_taken_as_it_is() -> None:
    assert read("The tool returned 12 rows.\nThe last is INC-48213.") == (
        "The tool returned 12 rows.\nThe last is INC-48213."
    )


@pytest.mark.parametrize(
    ("facts", "lines"),
    [
        ([{"label": "a", "value": 1}], "a = 1"),
        ([{"value": "alone"}], "alone"),
        ({"a": 1, "b": "x"}, "a = 1\nb = x"),
        (["bare", " ", 7], "bare"),
        ([{"label": "a\n b", "value": "x"}], "a b = x"),
        ([{"label": "a", "value": None}, {"label": "b", "value": ""}], ""),
        ("none", ""),
        (None, ""),
    ],
)
def test_facts_of_any_shape_become_lines(facts: Any, lines: str) -> None:
    assert read(json.dumps({"facts": facts, "note": "Seen."})) == f"{lines}\nSeen.".strip()


@pytest.mark.parametrize(
    "content", [None, "", " ", " \n\t", "{}", '{"facts": [], "note": ""}', "```\n\n```", "``` \n```"]
)
def test_an_empty_reply(content: str | None) -> None:
    assert reason(content) == "empty"


@pytest.mark.parametrize("content", [None, "", "<think>a</think>"])
def test_reasoning_that_ate_the_budget(content: str | None) -> None:
    assert reason(content, "length") == "cut_off"


@pytest.mark.parametrize("content", ["The tool returned 12 ro", json.dumps(GOOD)[:-20], json.dumps(GOOD)])
def test_a_reply_cut_off(content: str) -> None:
    assert reason(content, "length") == "cut_off"


@pytest.mark.parametrize("finish_reason", [None, "", "error", "unknown"])
def test_a_reply_that_did_not_finish(finish_reason: str | None) -> None:
    assert reason("The tool returned 12 rows.", finish_reason) == "not_finished"


@pytest.mark.parametrize("content", ["<think>plan", "plan</think> text", "<THINK>\nplan\n", "a<reasoning>b"])
def test_a_thought_without_an_end(content: str) -> None:
    assert reason(content) == "reasoning_only"


def test_a_thought_and_nothing_else() -> None:
    assert reason("<think>What do I see here?</think>") in ("empty", "reasoning_only")


@pytest.mark.parametrize(
    ("content", "finish_reason", "refusal"),
    [
        (None, "stop", "I can't help with that."),
        ("The tool returned 12 rows.", "stop", "no"),
        (None, "content_filter", None),
        ("The tool ret", "content_filter", None),
        ("I'm sorry, I can't help with that.", "stop", None),
        ("I\u2019m sorry, but no.", "stop", None),
        ("I cannot assist with this request.", "stop", None),
        ("Sorry, I can't do that.", "stop", None),
        ("抱歉，我无法协助处理该请求。", "stop", None),
        ("对不起，我不能这样做。", "stop", None),
        (json.dumps({"outcome": "I'm sorry, I can't help with that."}), "stop", None),
        (json.dumps({"note": "I cannot help with that."}), "stop", None),
    ],
)
def test_a_refusal(content: str | None, finish_reason: str, refusal: str | None) -> None:
    with pytest.raises(SummarizerRefused):
        read(content, finish_reason, refusal=refusal)


@pytest.mark.parametrize(
    "content",
    [
        '<tool_call>{"name": "grep", "arguments": {}}</tool_call>',
        '<function_calls><invoke name="grep"></invoke></function_calls>',
        "Twelve rows.</parameter>",
        '<|python_tag|>{"name": "grep"}',
        "<|channel|>commentary to=functions.grep",
        "<|tool_calls_section_begin|>functions.grep:0",
        '[TOOL_CALLS] [{"name": "grep"}]',
        json.dumps({"tool_calls": [{"id": "a"}]}),
        json.dumps({"function_call": {"name": "grep"}, "note": "x"}),
    ],
)
def test_tool_protocol_instead_of_a_summary(content: str) -> None:
    assert reason(content) == "tool_protocol"


@pytest.mark.parametrize("finish_reason", ["tool_calls", "function_call"])
def test_a_tool_call_by_the_api(finish_reason: str) -> None:
    assert reason("The tool returned 12 rows.", finish_reason) == "tool_protocol"
    assert reason("The tool returned 12 rows.", has_tool_calls=True) == "tool_protocol"


def test_a_summary_larger_than_its_share_of_the_source() -> None:
    assert reason("word " * 1_300) == "not_smaller"
    assert read("word " * 1_100)


REPLIES = st.one_of(
    st.none(),
    text,
    long_text,
    json_values.map(json.dumps),
    st.dictionaries(st.sampled_from(sorted(GOOD)), json_values).map(json.dumps),
)


@given(REPLIES, st.sampled_from(["stop", "stop", "length", None, "tool_calls", "content_filter"]))
def test_any_reply_is_a_checked_summary_or_a_permanent_reason(content: str | None, finish_reason: str | None) -> None:
    try:
        body = read(content, finish_reason)
    except SummarizerPermanent:
        return
    assert finish_reason == "stop"
    assert body.strip()
    assert count_text(body, encoder(O200K)) <= 0.6 * REQUEST.tokens


@pytest.mark.parametrize("content", ["null", "[]", '""', "true", "0", '[{"name": "grep", "arguments": {"q": 1}}]'])
def test_json_that_says_nothing_is_no_summary(content: str) -> None:
    assert reason(content) in ("empty", "tool_protocol")


@pytest.mark.parametrize("content", ["...", "-", "…", "```", "{"])
def test_punctuation_is_no_summary(content: str) -> None:
    assert reason(content) == "empty"


@pytest.mark.parametrize(
    "skeleton", [{"outcome": "ok", "facts": [], "note": "", "omitted": ""}, {"outcome": "ok"}, {"omitted": "all rows"}]
)
def test_an_empty_skeleton_is_no_summary(skeleton: Any) -> None:
    assert reason(json.dumps(skeleton)) == "empty"


@pytest.mark.parametrize(
    "content",
    [
        "很抱歉，我无法协助处理该请求。",
        "我无法协助处理该请求。",
        "I'm unable to help with that.",
        "I am not able to assist with this request.",
        "I won't help with that.",
        "Unfortunately, I cannot help with that.",
        "As an AI language model, I cannot process this.",
    ],
)
def test_other_refusals(content: str) -> None:
    with pytest.raises(SummarizerRefused):
        read(content)


@pytest.mark.parametrize(
    "content",
    [
        "Please provide the tool output you would like me to shorten.",
        "Please provide me with the conversation.",
        "Error: You've hit your limit. Try again later.",
        "Error generating summary: context length exceeded",
    ],
)
def test_a_question_or_an_error_text_is_no_summary(content: str) -> None:
    assert reason(content)


@pytest.mark.parametrize(
    "content",
    [
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>grep",
        '<function=grep>{"q": 1}</function>',
        'Sure:\n{"tool_calls": [{"id": "x"}]}',
        '{"name": "grep", "arguments": {"q": 1}} and then I will read the file',
    ],
)
def test_other_tool_protocol(content: str) -> None:
    assert reason(content) == "tool_protocol"


@pytest.mark.parametrize("wrapped", ["Here is the summary:\n```json\n{}\n```", "Here is the summary:\n{}", "{}\nDone!"])
def test_a_preamble_is_taken_off(wrapped: str) -> None:
    assert read(wrapped.replace("{}", json.dumps(GOOD))) == RENDERED


@pytest.mark.parametrize(
    ("value", "shown"), [({"x": True}, '{"x":true}'), (False, "false"), ([None], "[null]"), (True, "true")]
)
def test_values_are_written_as_json(value: Any, shown: str) -> None:
    assert read(json.dumps({"facts": [{"label": "a", "value": value}]})) == f"a = {shown}"


@pytest.mark.parametrize(
    ("content", "finish_reason"), [("secret " * 3_000, "stop"), ("<think>secret", "stop"), ("secret", "length")]
)
def test_a_reason_never_quotes_the_reply(content: str, finish_reason: str) -> None:
    with pytest.raises(SummarizerPermanent) as caught:
        read(content, finish_reason)
    assert "secret" not in str(caught.value)


ENDLESS = [
    "{" * 200_000, "```\n" + "\n" * 200_000 + "x", "<think>" * 30_000, "<think></think>" * 30_000 + "x" * 99_999,
    "[" * 200_000, '{"name"' * 30_000, "a" * 500_000, '{"facts": [' + '"A-1", ' * 60_000 + '"x"]}', "!" * 300_000,
]  # fmt: skip


@pytest.mark.parametrize("content", ENDLESS, ids=[repr(content[:12]) for content in ENDLESS])
def test_a_reply_without_an_end_is_rejected_in_no_time(content: str) -> None:
    started = time.monotonic()
    assert reason(content)
    assert time.monotonic() - started < 5


def test_the_longest_reply_full_of_inventions_is_rejected_in_no_time() -> None:
    source = "".join(f"row {n} is {n * 7919:x}; " for n in range(60_000))
    request = SummaryRequest("grep", "{}", source, "", 500_000, 300)
    facts = [f"x{n}-{n * 31:05}q" for n in range(2_000)]
    started = time.monotonic()
    with pytest.raises(SummarizerReplyRejected):
        read(json.dumps({"facts": facts}), request=request)
    assert time.monotonic() - started < 5
