"""condense(): the same information in fewer characters, proved by the way back."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from compactor.condense import Condensed, Form, condense
from compactor.encodings import encoder
from compactor.json_tables import condense_json
from compactor.line_groups import condense_lines, shown_lines
from compactor.wording import CHINESE, ENGLISH
from tests.conftest import recorded
from tests.unit.condensed_reader import read_lines, read_tables, source_value

FLIGHTS = json.dumps(
    [
        {"flight": f"HAT{n}", "from": "PHL", "seats": {"economy": n, "business": 2 * n}, "price": n * 1.5, "gate": None}
        for n in range(1, 9)
    ]
)

keys = st.one_of(
    st.sampled_from(["id", "name", "a.b", "", "*", "x y", "as", 'q"', "a=b", "价格", "as @1"]), st.text(max_size=4)
)
texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(
        [
            "",
            "null",
            "1",
            "-1.5e3",
            "0012",
            "--",
            "*",
            "@1",
            "@2: a",
            "a,b",
            'a"b',
            "2031-04-10",
            " x",
            "x ",
            "#W1",
            "a=b",
        ]
    ),
    st.sampled_from([json.dumps({"rows": [{"key": n, "other": "x" * n} for n in range(4)]}), "[" * 50, "{" + " " * 50]),
)
numbers = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
leaves: st.SearchStrategy[Any] = st.one_of(st.none(), st.booleans(), numbers, texts)


@st.composite
def rows(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> list[Any]:
    """Objects of one shape, mostly."""
    names = draw(st.lists(keys, min_size=1, max_size=4, unique=True))
    cells = dict.fromkeys(names, inner)
    full: st.SearchStrategy[Any] = st.fixed_dictionaries(cells)
    part: st.SearchStrategy[Any] = st.fixed_dictionaries({}, optional=cells)
    return draw(st.lists(st.one_of(full, full, full, part), min_size=2, max_size=6))


@st.composite
def keyed_rows(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    names = draw(st.lists(texts, min_size=3, max_size=5, unique=True))
    return dict(zip(names, draw(rows(inner)) * 3, strict=False))


def grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        rows(inner),
        st.lists(rows(inner), min_size=1, max_size=3),
        st.lists(inner, max_size=3),
        st.dictionaries(keys, inner, max_size=4),
        keyed_rows(inner),
    )


values: st.SearchStrategy[Any] = st.recursive(leaves, grown, max_leaves=12)
spellings: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (",", ":")}]
)


def tables(text: str) -> str:
    found = condense_json(text)
    assert found is not None
    return found


@settings(max_examples=150)
@given(grown(values), spellings)
@example([{"a": 1}, {"a": 1}, {"a": 1}], {})
@example({"x1": {"id": "x1", "n": 1}, "x2": {"id": "x2", "n": 2}, "007": {"id": "007", "n": 3}}, {})
@example([[{"key": 1, "other": "x"}], [{"key": 2, "other": "x"}]], {})
@example([{"title of it": "[PDF] a", "n": 1}, {"title of it": "007", "n": 2}, {"title of it": "{x", "n": 3}], {})
@example([{"number": "0012", "longer name": None}, {"number": "0013", "longer name": None}], {})
def test_json_can_be_read_back_from_its_tables(value: Any, spelling: dict[str, Any]) -> None:
    text = json.dumps(value, **spelling)
    found = condense_json(text)
    if found is None:
        assert not isinstance(value, (dict, list))
        return
    event(f"blocks: {min(3, found.count(chr(10) + '@'))}")
    assert read_tables(found) == source_value(text)


PREFIXES = ["", "src/app/models/user.py:", "2031-05-01 12:00:01 INFO ", "@3", "@4: x", "  ", "同样的开头：数据"]
prefixes = st.sampled_from(PREFIXES)
lines = st.builds(str.__add__, prefixes, st.text(max_size=8))


@st.composite
def numbered(draw: st.DrawFn) -> list[str]:
    first, width = draw(st.integers(0, 1_200)), draw(st.sampled_from([0, 4, 6]))
    sign = draw(st.sampled_from(["\t", ":", "", "|"]))
    return [f"{first + n:>{width}}{sign}row {n % 3}" for n in range(draw(st.integers(1, 24)))]


@st.composite
def begun_alike(draw: st.DrawFn) -> list[str]:
    prefix = draw(prefixes)
    return [prefix + end for end in draw(st.lists(st.text(max_size=5), max_size=8))]


@st.composite
def repeated(draw: st.DrawFn) -> list[str]:
    return [draw(lines)] * draw(st.integers(1, 9))


@st.composite
def bodies(draw: st.DrawFn) -> str:
    runs = draw(st.lists(st.one_of(st.lists(lines, max_size=4), repeated(), numbered(), begun_alike()), max_size=6))
    return "\n".join(line for run in runs for line in run)


@settings(max_examples=400)
@given(bodies())
@example("same\n" * 5)
@example("\n".join(f"{n}" for n in range(95, 130)))
@example("\n".join(f"{n:>6}\tdef f():" for n in range(995, 1010)))
@example("\x1b[31merror\x1b[0m   \nplain\t \n")
def test_lines_can_be_read_back_from_their_groups(text: str) -> None:
    found = condense_lines(text)
    if found is None:
        assert re.search(r"^@\d", shown_lines(text), re.MULTILINE)
        return
    event(f"marks: {min(3, len(re.findall(r'^@', found, re.MULTILINE)))}")
    assert read_lines(found) == shown_lines(text).split("\n")


def test_what_is_kept_of_a_line_is_all_but_colours_and_its_trailing_space() -> None:
    assert shown_lines(" a  b \t\n\x1b[1;31mred\x1b[0m\r\n") == " a  b\nred\n"


def test_objects_of_one_shape_become_rows() -> None:
    found = condense(FLIGHTS)
    assert found is not None
    assert found.form is Form.TABLES
    assert found.text.splitlines()[:3] == [
        "@1",
        "@1: flight,from=PHL,seats.economy,seats.business,price,gate=null",
        "HAT1,1,2,1.5",
    ]


def test_keys_that_the_values_repeat_stand_once() -> None:
    items = {str(n * 7_919): {"item_id": str(n * 7_919), "name": "cup", "price": n} for n in range(1, 6)}
    assert tables(json.dumps(items)).splitlines()[:3] == ["@1", '@1: *",item_id=*,name=cup,price', "7919,1"]


def test_a_second_table_of_the_same_columns_names_the_first() -> None:
    days = {
        "monday": [
            {"hour": 1, "meeting room": "a"},
            {"hour": 2, "meeting room": "b"},
            {"hour": 3, "meeting room": "a"},
        ],
        "n": 1,
    }
    found = tables(json.dumps({"week": days, "next": days}))
    assert "@2: as @1" in found.splitlines()


def test_a_string_that_holds_json_is_condensed_too() -> None:
    found = tables(json.dumps({"type": "text", "text": FLIGHTS}))
    assert found.splitlines()[:2] == ['{"type":"text","text":@1}', "@1 as text: @2"]


def test_numbers_keep_their_spelling() -> None:
    assert tables("[ 1.50, 1E5, -0, 12345678901234567890123 ]") == "[1.50,1E5,-0,12345678901234567890123]"


def test_escapes_become_letters() -> None:
    assert tables('{"name": "\\u674e\\u660e \\ud83d\\ude00"}') == '{"name":"李明 😀"}'


def test_equal_beginnings_equal_lines_and_numbers_stand_once() -> None:
    text = "\n".join(
        [
            *(f"src/compactor/planning.py:{n * 7}: match" for n in range(1, 5)),
            *["." * 40] * 3,
            *(f"{n:>6}\tline" for n in range(8, 16)),
        ]
    )
    found = condense_lines(text)
    assert found is not None
    assert found.splitlines() == [
        "@4: src/compactor/planning.py:",
        "7: match", "14: match", "21: match", "28: match",
        "@3= " + "." * 40,
        "@8#     8",
        "\tline", "\tline", "    10\tline", "\tline", "\tline", "\tline", "\tline", "\tline",
    ]  # fmt: skip


nothing_to_gain = [
    "",
    "short",
    " \n" * 900,
    "Every sentence of this text stands once. " + "".join(chr(97 + n * n % 26) for n in range(400)),
    "[" * 100_000,
    '{"a":' * 5_000 + "1" + "}" * 5_000,
    "[" + "NaN," * 300 + "NaN]",
    "x" * 1_000_000,
    '{"a": 1, "a": 2, "b": "' + "z" * 400 + '"}',
    "\ud800" + FLIGHTS,
    '["\\ud800", ' + FLIGHTS + "]",
    FLIGHTS.replace("PHL", "\x00"),
    "@4: not ours\n" * 40,
    ENGLISH.header.format(tool="t", before=9, id="m1") + "\n" + FLIGHTS,
    ENGLISH.condensed.format(tool="t", before=9, id="m1") + "\n" + "same line\n" * 90,
    CHINESE.condensed.format(tool="t", before=9, id="m1") + "\n" + "同一行\n" * 90,
]


@pytest.mark.parametrize("text", nothing_to_gain, ids=range(len(nothing_to_gain)))
def test_what_gains_nothing_or_is_no_plain_json_is_left_as_it_is(text: str) -> None:
    assert condense(text) is None


@given(st.one_of(bodies(), grown(values).map(json.dumps)))
def test_a_condensed_text_is_smaller_always_the_same_and_no_candidate_again(text: str) -> None:
    found = condense(text)
    assert found == condense(text)
    if isinstance(found, Condensed):
        assert len(found.text) < len(text)
        assert found.part <= 0.9
        assert found.text.encode()


@pytest.mark.parametrize(
    "text",
    [
        "a b" * 400_000,
        " " * 900_000 + "x",
        "ab/" * 300_000,
        "\n".join(f"{'p/' * 200}{n}" for n in range(2_000)),
        "\n".join("p/q/" * (n % 50) for n in range(20_000)),
        "\n".join(map(str, range(100_000))),
        json.dumps([{"k": n, f"u{n}": n} for n in range(20_000)]),
        json.dumps([{f"u{n}": {f"v{n}": n}} for n in range(20_000)]),
        json.dumps({"a": ["[" * 60] * 10_000}),
        '"' * 500_000,
        json.dumps([[{"a": {"b": {"c": n}}}] for n in range(20_000)]),
    ],
    ids=range(11),
)
def test_hostile_text_takes_time_linear_in_its_length(text: str) -> None:
    started = time.process_time()
    condense(text)
    assert time.process_time() - started < 5.0


@pytest.mark.parametrize(
    "name", ["taubench_airline_gpt4o", "tau2_sft_openai_format", "openhands_claude35_swe", "msagent_finance_zh"]
)
def test_recorded_results_can_be_read_back(name: str) -> None:
    condensed = 0
    for session in recorded(name, most=12):
        for message in session["messages"]:
            text = message.get("content")
            found = condense(text) if message["role"] == "tool" and isinstance(text, str) else None
            if found is not None and isinstance(text, str):
                condensed += 1
                if found.form is Form.LINES:
                    assert read_lines(found.text) == shown_lines(text).split("\n")
                else:
                    assert read_tables(found.text) == source_value(text)
    assert condensed or name == "openhands_claude35_swe"


@pytest.mark.parametrize(("name", "least"), [("tau2_sft_openai_format", 0.40), ("taubench_airline_gpt4o", 0.30)])
def test_the_weight_of_a_form_tells_its_tokens(name: str, least: float) -> None:
    encode = encoder("o200k_base")
    before = after = 0
    for session in recorded(name, most=15):
        for message in session["messages"]:
            text = message.get("content")
            found = condense(text) if message["role"] == "tool" and isinstance(text, str) else None
            if found is not None and isinstance(text, str) and encode(text) > 200:
                before += encode(text)
                after += encode(found.text)
                assert abs(encode(found.text) / encode(text) - found.part) < 0.15
    assert after <= (1 - least) * before
