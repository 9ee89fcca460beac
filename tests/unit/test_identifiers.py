"""Identifiers: what a text names is known when its source names it, and an invented name never is."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.formats.openai import text_of
from compactor.identifiers import Kind, Known, find
from tests.conftest import recorded
from tests.unit.conversations import long_text, text

SOURCE = """\
Ticket INC-48213 was opened 2031-04-09T12:30:05Z by mia.kurt+ops@example.org from 10.20.30.44 (host web-7.eu).
GET https://api.example.org/v2/orders?id=9934&page=2 -> 503 after 1,234.50 ms; 12 of 1,204 rows, 98.5%, $45.90
commit 9f3c2abd41e0aa77c1d2e3f4a5b6c7d8e9f0a1b2, UUID 0B5E1F2A-77AA-4C0E-9D1B-3F2A11C0FFEE, v1.2.3
/srv/app/config.yaml:88: ERROR in C:\\Users\\Mia\\log.txt, main.py, src/core/run_all.py
订单 A-7741 于２０３１年５月２日发货，共３６００元，收件人电话 13800138000。"""
KNOWN = Known(SOURCE)


def missing(text: str) -> list[str]:
    return [found.text for found in KNOWN.missing(text)]


@pytest.mark.parametrize(
    "honest",
    [
        "Ticket inc-48213 failed.",
        "(INC-48213), \u201cINC-48213\u201d, INC-48213: 'INC-48213'.",
        "ticket #48213, also called Ticket-INC-48213",
        "It was opened on 2031-04-09.",
        "Opened April 9, 2031 and again on 9 Apr 2031; also 2031/4/9, 2031年4月9日.",
        "The owner is mia.kurt+ops@example.org, at 10.20.30.44.",
        "See https://api.example.org/v2/orders?id=9934&page=2.",
        "It took 1234.5 ms (1,234.50).",
        "98.5 % of 1204 rows, $45.9.",
        "commit 9f3c2ab",
        "uuid 0b5e1f2a-77aa-4c0e-9d1b-3f2a11c0ffee",
        "version v1.2.3 in config.yaml, line 88 of /srv/app/config.yaml",
        "src/core/run_all.py:88 and `main.py`",
        r"C:\Users\Mia\log.txt",
        "订单A-7741已于2031年5月2日发货，金额3600元，电话13800138000。",
        "金额３，６００元",
        "read and/or write/execute, km/h, 24-hour, N/A, base64 as UTF-8",
        "A note without any name, in plain words.",
    ],
)
def test_what_the_source_holds_is_known_in_its_usual_spellings(honest: str) -> None:
    assert [found for found in KNOWN.missing(honest) if not found.is_small] == []


@pytest.mark.parametrize(
    ("invented", "named", "kind"),
    [
        ("Ticket INC-48214 failed.", "inc-48214", Kind.CODE),
        ("Opened on 2031-04-10.", "2031-04-10", Kind.DAY),
        ("Opened on April 8, 2031.", "2031-04-08", Kind.DAY),
        ("于２０３１年５月３日发货", "2031-05-03", Kind.DAY),
        ("Owner mia.kurt@example.org", "mia.kurt@example.org", Kind.EMAIL),
        ("From 10.20.30.45", "10.20.30.45", Kind.CODE),
        ("See https://api.example.org/v3/orders.", "https://api.example.org/v3/orders", Kind.URL),
        ("It took 1234.6 ms", "1234.6", Kind.NUMBER),
        ("About 1,300 rows", "1,300", Kind.NUMBER),
        ("It cost $46", "46", Kind.NUMBER),
        ("commit 9f3c2ac", "9f3c2ac", Kind.CODE),
        ("uuid 0b5e1f2a-77aa-4c0e-9d1b-3f2a11c0ffff", "0b5e1f2a-77aa-4c0e-9d1b-3f2a11c0ffff", Kind.CODE),
        ("in /srv/app/settings.toml", "srv/app/settings.toml", Kind.PATH),
        ("in run_most.py", "run_most.py", Kind.PATH),
        ("订单A-7742已发货", "a-7742", Kind.CODE),
        ("共３６０１元", "3601", Kind.NUMBER),
    ],
)
def test_an_invented_name_is_missing(invented: str, named: str, kind: Kind) -> None:
    assert [(found.text, found.kind) for found in KNOWN.missing(invented)] == [(named, kind)]


def test_part_of_a_name_is_not_the_name() -> None:
    known = Known("order 91234, key ab12cd9, /var/log/syslog.1, 13.57")
    assert [found.text for found in known.missing("1234 and 123; b12c; /var/lo; 3.5")] == [
        "1234", "123", "b12c", "var/lo", "3.5",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "small"), [("12 rows", True), ("99", True), ("100", False), ("45%", False), ("$5", False), ("1.5", False)]
)
def test_a_small_integer_may_be_a_count_but_an_amount_is_none(text: str, small: bool) -> None:
    assert [found.is_small for found in find(text)] == [small]


@given(st.one_of(text, long_text))
def test_every_line_of_a_text_is_known_to_it(whole: str) -> None:
    known = Known(whole)
    for line in whole.splitlines():
        assert list(known.missing(line)) == []


PIECES = st.sampled_from(
    [
        "INC-48",
        "/a/b",
        "1,2",
        "1.5",
        "a@b.co",
        "http://x.y/z",
        "2031-04-09",
        "T12:30",
        "年",
        " ",
        "\n",
        "-",
        ":",
        "Ａ",
        "３",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join), st.lists(PIECES, max_size=12).map("".join))
def test_a_line_made_of_names_in_any_order_is_known_wherever_it_stands(line: str, around: str) -> None:
    known = Known(f"{around}\n{line}\n{around}")
    for part in line.splitlines():
        assert list(known.missing(part)) == []


@given(st.integers(100, 10**12), st.one_of(text, long_text))
def test_a_number_that_the_source_lacks_is_missing(number: int, source: str) -> None:
    if str(number) in source:
        return
    digits = "".join(char for char in source if char.isascii())
    if any(form in digits.replace(",", "") for form in (str(number), str(number).rstrip("0"))):
        return
    assert [found.text for found in Known(digits).missing(f"number {number} here")] == [str(number)]


HOSTILE = [
    "a1" * 500_000, "1," * 500_000, "1." * 500_000, "/" * 1_000_000, "\u0301\u0316" * 500_000, "http://" * 150_000,
    "２" * 1_000_000, "a@" * 500_000, "a@a." * 250_000, "jan " * 250_000, "2031-" * 200_000, "9f3c2ab" * 150_000,
]  # fmt: skip


@pytest.mark.parametrize("source", HOSTILE, ids=[repr(source[:6]) for source in HOSTILE])
def test_a_megabyte_by_an_enemy_takes_seconds_at_most(source: str) -> None:
    started = time.monotonic()
    known = Known(source)
    assert list(known.missing("inc-48213, 12.5 on 2031-04-09, https://q.com/a, 9f3c2abdd, order-777, b1a, x@y.zz"))
    sum(1 for _ in find(source))
    assert time.monotonic() - started < 10


def honest(lines: list[str]) -> list[str]:
    """Sentences of a model that counts what it read and quotes a line of it."""
    return [f"The output held {min(len(lines), 99)} lines; the first was {lines[0]}.", f"It ended with: {lines[-1]}"]


@pytest.mark.parametrize(
    "name", ["miniswe_deepseek", "livemcp_claude4", "msagent_finance_zh", "taubench_airline_gpt4o"]
)
def test_no_honest_summary_of_a_recorded_result_names_anything_unknown(name: str) -> None:
    judged = 0
    for session in recorded(name, most=12):
        for result in long_results(session["messages"]):
            known = Known(result)
            lines = [line for line in re.split(r"\n|, ", result) if line.strip()]
            for sentence in [*honest(lines), *lines[:: max(1, len(lines) // 20)]]:
                assert [found for found in known.missing(sentence) if not found.is_small] == []
                judged += 1
    assert judged > 50


def long_results(messages: list[dict[str, Any]]) -> list[str]:
    texts = (text_of(message) for message in messages if message["role"] in ("tool", "function"))
    return [found for found in texts if len(found) > 1_200]


@pytest.mark.parametrize(
    "source",
    [
        json.dumps({"log": "started\nINC-48213 opened\tby eve@example.com\r\n12.75 paid"}),
        json.dumps({"body": json.dumps({"log": "started\nINC-48213 opened\teve@example.com\n12.75"})}),
        r'{"log": "\u0049NC-48213 \/ eve@example.com\n12.75"}',
    ],
)
def test_the_escapes_of_a_json_text_are_no_part_of_its_names(source: str) -> None:
    assert list(Known(source).missing("INC-48213 from eve@example.com, 12.75")) == []
    assert [found.text for found in Known(source).missing("INC-4821, INC-482134")] == ["inc-4821", "inc-482134"]


def test_a_path_with_backslashes_stays_known() -> None:
    assert list(Known(r"opened C:\new\table7.csv").missing(r"C:\new\table7.csv")) == []
