"""What a session's send says on the logger of context preparation."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from compactor import Context, Fit, ModelConfig, Verdict
from compactor.context.log import LOGGER
from compactor.judging import Request
from compactor.send_log import log_send
from tests.unit.logged import logged, texts

GPT_4O = ModelConfig("gpt-4o", 128)
EXAMPLE = Verdict(
    system=6_124, variables=3_320, history=11_800, tools=1_862, total=19_786, expected=19_786, limit=128_000,
    threshold=96_000, ceiling=112_000, length=15, compaction="not_needed", sent=19_786,
)  # fmt: skip
PREPARED = (
    "Context prepared: system=6124 (base=2804 + topology=3320) + history=11800 + tools=1862 = 19786 total / "
    "128K limit (15.5%), strategy=balanced"
)
TOOLS: list[Any] = [{}] * 8


def said(verdict: Verdict, *, tools: Any = TOOLS, variables: Mapping[str, Any] | None = None, left_out: int = 0) -> Any:
    places = "".join(f"{{{{{name}}}}}" for name in variables or ())
    request = Request(tools, system=places, variables=variables)
    with logged() as records:
        log_send(GPT_4O, request, Context([], verdict, left_out=left_out))
    return texts(records)


def test_a_send_says_its_tools_its_parts_and_what_is_left_for_the_answer() -> None:
    assert said(EXAMPLE) == [
        "Tool definitions estimated at ~1862 total tokens (8 tools)",
        PREPARED,
        "Available for output: ~32000 tokens",
    ]


def test_other_variables_are_called_so() -> None:
    assert "+ variables=3320)" in said(EXAMPLE, variables={"user": "Ada"})[1]
    assert "+ topology=3320)" in said(EXAMPLE, variables={"topology_info": "R1"})[1]


def test_without_tools_nothing_is_said_about_them() -> None:
    assert said(replace(EXAMPLE, tools=0, sent=17_924), tools=None)[0].startswith("Context prepared: ")


def test_a_shortened_send_says_how_many_messages_are_sent() -> None:
    shortened = replace(EXAMPLE, fit=Fit.SHORTENED, length=50)
    assert "Trimmed 50 → 27 messages" in said(shortened, left_out=23)
    assert not any("Trimmed" in line for line in said(shortened))  # results were cut, no message left


def test_what_is_not_sent_is_no_history() -> None:
    shortened = replace(EXAMPLE, fit=Fit.SHORTENED, sent=9_000)
    assert "+ history=1014 + tools=1862 = 9000 total / 128K limit (7.0%)" in said(shortened)[1]


@pytest.mark.parametrize(("sent", "left"), [(96_000, 32_000), (110_000, 18_000), (128_000, 0), (130_000, 0)])
def test_what_is_left_for_the_answer_is_never_more_than_the_send_leaves(sent: int, left: int) -> None:
    assert said(replace(EXAMPLE, sent=sent, total=sent, expected=sent))[-1] == f"Available for output: ~{left} tokens"


def test_what_the_provider_is_expected_to_count_is_said_where_it_is_not_our_count() -> None:
    anchored = replace(EXAMPLE, expected=103_000, counted_by="anchor")
    assert said(anchored)[1:] == [
        PREPARED,
        "The provider is expected to count ~103000 tokens (80.5% of the limit), by anchor",
        "Available for output: ~25000 tokens",
    ]
    shortened = said(replace(anchored, sent=9_786))  # 10,000 tokens are left out of the send
    assert shortened[2].startswith("The provider is expected to count ~93000 tokens (72.7%")


def test_where_nobody_listens_nothing_is_read() -> None:
    class Unread:
        def __len__(self) -> int:
            raise AssertionError

    before = LOGGER.level
    LOGGER.setLevel(logging.ERROR)
    try:
        log_send(GPT_4O, Request(Unread()), Context([], EXAMPLE))
    finally:
        LOGGER.setLevel(before)
