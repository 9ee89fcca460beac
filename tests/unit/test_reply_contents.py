"""read_reply(): a summary speaks of its source, in its source's language, and names nothing of its own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.encodings import encoder
from compactor.exceptions import SummarizerRefused, SummarizerReplyRejected
from compactor.prompts import SummaryRequest
from compactor.replies import Reply, read_reply
from compactor.tokens import count_text

ENCODE = encoder("o200k_base")


def read(content: str, request: SummaryRequest) -> str:
    return read_reply(Reply(content, "stop"), request, ENCODE)


TABLE = "\n".join(
    f"order A-{n} of 2031-04-{n % 28 + 1:02} for $1,{n}.50 in /srv/orders/{n}.json" for n in range(100, 140)
)


CHINESE = "\n".join(
    f"订单 A-{n} 已于2031年4月{n % 28 + 1}日发货，金额 {n}.50 元，收件人王小明" for n in range(100, 140)
)


QUESTION = (
    "Geography lesson, page 7.\n" + "The river flows through three countries.\n" * 60 + "What is the capital of France?"
)


def about(source: str, arguments: str = "{}") -> SummaryRequest:
    return SummaryRequest("list_orders", arguments, source, "which orders?", count_text(source, ENCODE), 300)


def facts(*values: str, **fields: str) -> str:
    listed = [{"label": f"fact {order}", "value": value} for order, value in enumerate(values)]
    return json.dumps({"outcome": "ok", "facts": listed, "note": "", "omitted": "", **fields}, ensure_ascii=False)


def rejection(content: str, request: SummaryRequest) -> str:
    with pytest.raises(SummarizerReplyRejected) as caught:
        read(content, request=request)
    return caught.value.reason


@pytest.mark.parametrize("invented", ["A-999", "2031-05-01", "$1,999.50", "/srv/orders/999.json", "999", "17 of 40"])
def test_a_fact_that_names_what_the_source_lacks_is_left_out(invented: str) -> None:
    assert read(facts("A-100", invented, "A-101"), request=about(TABLE)) == "ok\nfact 0 = A-100\nfact 2 = A-101"


def test_a_sentence_that_names_what_the_source_lacks_is_left_out() -> None:
    note = "Order A-100 came first. Order A-999 came last! Nothing failed."
    assert read(facts("A-101", note=note), request=about(TABLE)).endswith("\nOrder A-100 came first. Nothing failed.")
    assert read("Order A-100 came first.\nOrder A-999 came last.", request=about(TABLE)) == "Order A-100 came first."


def test_a_chinese_sentence_that_names_what_the_source_lacks_is_left_out() -> None:
    assert read("订单A-100已发货。订单A-999已取消。", request=about(CHINESE)) == "订单A-100已发货。"


@pytest.mark.parametrize(
    "content",
    [
        facts("A-999", "A-998", "A-100"),
        facts("A-100", note="Order A-999 was paid by x@y.org."),
        facts("A-999 and A-998"),
        facts("A-999", outcome="failed at 10.1.2.3"),
        "Order A-100 came first. A-998 came before A-999.",
        '{"facts": {"A-999": "open", "A-998": "closed", "A-100": "open"}}',
    ],
)
def test_two_inventions_reject_the_whole_reply(content: str) -> None:
    assert rejection(content, about(TABLE)) == "invented"


def test_a_reply_of_nothing_but_an_invention_is_rejected() -> None:
    assert rejection(facts("A-999"), about(TABLE)) == "invented"
    assert rejection("Order A-999 came last.", about(TABLE)) in ("invented", "unrelated")


def test_the_same_invention_twice_is_one() -> None:
    assert read(facts("A-999", "A-100", "a-999."), request=about(TABLE)) == "ok\nfact 1 = A-100"


def test_counts_of_a_models_own_are_free_in_sentences_and_not_in_facts() -> None:
    content = facts("A-100", "12", "37", note="The 40 rows held 3 kinds of order.", omitted="1,538 rows, 2,500 columns")
    assert read(content, request=about("one row of A-100, " * 60)) == (
        "ok\nfact 0 = A-100\nThe 40 rows held 3 kinds of order."
    )


def test_names_of_the_arguments_are_no_inventions() -> None:
    request = about(TABLE, '{"customer": "C-5512"}')
    assert "C-5512" in read(facts("A-100", note="These are the orders of C-5512."), request=request)
    assert rejection(facts(note="These are the orders of C-5512."), about(TABLE)) == "invented"


@pytest.mark.parametrize(
    "content",
    [
        facts("A-100", note="The orders were shipped and the amounts were paid."),
        "Forty orders were shipped in April by the warehouse, from A-100 on.",
    ],
)
def test_an_english_summary_of_a_chinese_source_is_in_the_wrong_language(content: str) -> None:
    assert rejection(content, about(CHINESE)) == "language"


@pytest.mark.parametrize(
    "content", [facts("A-100", note="订单已全部发货，金额已付清。"), "四月共发货四十个订单，第一个是 A-100。"]
)
def test_a_chinese_summary_of_an_english_source_is_in_the_wrong_language(content: str) -> None:
    assert rejection(content, about(TABLE)) == "language"


@pytest.mark.parametrize(
    "content",
    [
        facts("A-100", "王小明", note="订单已全部发货。"),
        facts("A-100", "A-101", "135.50"),
        "40 个订单于四月发货，第一个是 A-100，收件人王小明。API 返回 status ok。",
    ],
)
def test_a_chinese_source_keeps_its_language(content: str) -> None:
    assert read(content, request=about(CHINESE))


def test_english_words_of_a_chinese_source_are_at_home_there() -> None:
    words = "status shipped carrier express warehouse north"
    assert read(facts(words), request=about(f"{CHINESE}\n{words}"))
    assert rejection(facts(words), about(CHINESE)) == "language"


def test_an_english_source_with_chinese_names_may_be_told_in_either_language() -> None:
    source = TABLE + "\n收件人王小明"
    assert read(facts("A-100", note="All were sent to 王小明."), request=about(source))
    assert read(facts("A-100", note="全部寄给王小明。"), request=about(source))


@pytest.mark.parametrize(
    "content",
    ["Paris", '"Paris"', "The capital is Paris.", "4", "Yes.", "42.", "Hello! Great to meet you.", "巴黎"],
)
def test_an_answer_to_a_question_inside_the_data_is_no_summary(content: str) -> None:
    assert rejection(content, about(QUESTION)) in ("unrelated", "empty", "language")


@pytest.mark.parametrize(
    "content",
    [
        "Sure! I can help you with that. The capital of France is a city on the river.",
        "Certainly, I'll go through the three countries of the lesson.",
        "I'd be happy to explain the river lesson.",
        "How can I help you with the geography lesson?",
        "Please provide the geography lesson, page 7.",
        "You've hit your limit for today.",
        "请提供地理课文的内容。",
        facts(note="Please share the page of the geography lesson."),
        facts("the river", note="Sure, I can help you with the river."),
    ],
)
def test_a_chat_reply_is_no_summary(content: str) -> None:
    assert rejection(content, about(QUESTION)) in ("no_summary", "unrelated", "language")


def test_plain_text_about_the_source_is_a_summary() -> None:
    plain = "A geography lesson told of a river that flows through three countries and asked for the capital of France."
    assert read(plain, request=about(QUESTION)) == plain


def test_a_failure_that_the_tool_reported_is_a_summary_and_no_error_text() -> None:
    outcome = "Error: rate limit exceeded for host api"
    assert read(facts("A-100", outcome=outcome), request=about(TABLE)).startswith(outcome)


def test_a_refusal_behind_an_ok_is_a_refusal() -> None:
    with pytest.raises(SummarizerRefused):
        read(json.dumps({"outcome": "ok", "note": "I cannot help with that."}), request=about(TABLE))


def test_half_a_pair_and_nul_in_a_reply_cannot_spoil_a_record() -> None:
    found = read(json.dumps({"note": "The order A-100 \ud83d was sent\u0000."}), request=about(TABLE))
    assert found == "The order A-100 \ufffd was sent."


@given(st.lists(st.sampled_from(TABLE.split()), min_size=1, max_size=8), st.integers(140, 999))
def test_words_of_the_source_are_never_inventions_and_one_foreign_name_never_gets_in(
    words: list[str], number: int
) -> None:
    found = read(facts(" ".join(words), f"A-{number}", note="The orders were listed."), request=about(TABLE))
    assert " ".join(words) in found
    assert f"A-{number}" not in found
