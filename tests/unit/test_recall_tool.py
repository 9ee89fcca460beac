"""The recall tool: what a model may ask for, how much of it one answer holds, and how an answer is known again."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.encodings import encoder
from compactor.exceptions import ConfigurationError
from compactor.recall_tool import LEAST, Asked, answer, check_tokens, read_arguments, recalled_from, schema
from compactor.tokens import count_text
from compactor.wording import CHINESE, wording_for

ENCODE = encoder("o200k_base")
LOG = "\n".join(f"2031-04-09 host-{n} request {n * 37} took {n * 7 % 90} ms" for n in range(600))
ONE_LINE = json.dumps([{"id": f"ORD-{n}", "city": "München", "paid": n % 3 == 0} for n in range(900)])
PAGE = "查询结果：订单已发货，预计三天内送达。\n" * 400
SAID = re.compile(r"characters (\d+)-(\d+) of (\d+)|第 (\d+)-(\d+) 个字符，共 (\d+) 个")
NEXT = re.compile(r"start=(\d+)")


def shown(text: str, *, most: int = 500, role: str = "tool", **asked: Any) -> str:
    return answer({12: {"role": role, "content": text}}, Asked(12, **asked), most=most, encode=ENCODE)


def body(page: str) -> str:
    return page.partition("\n")[2]


@pytest.mark.parametrize("text", ["", "short", LOG, ONE_LINE, PAGE, "\n" * 3_000, "🙂" * 2_000, "a" * 9_000])
def test_the_parts_of_an_original_are_the_original_and_each_is_bounded(text: str) -> None:
    start, parts = 0, list[str]()
    while True:
        page = shown(text, start=start)
        assert count_text(page, ENCODE) <= 500
        parts.append(body(page))
        following = NEXT.search(page.partition("\n")[0])
        if following is None:
            break
        assert int(following[1]) == start + len(parts[-1]) > start
        start = int(following[1])
    assert "".join(parts) == text


@given(text=st.text(max_size=2_000), start=st.integers(0, 2_500), find=st.text(max_size=4), most=st.integers(100, 400))
def test_any_request_for_any_text_is_answered_within_its_tokens(text: str, start: int, find: str, most: int) -> None:
    page = shown(text, most=most, start=start, find=find.strip())
    assert page.startswith("[")
    assert count_text(page, ENCODE) <= most


def test_a_part_ends_behind_a_line() -> None:
    assert body(shown(LOG)).endswith(" ms\n")


def test_the_line_above_says_whose_it_is_and_how_much_there_is() -> None:
    head = shown(LOG).partition("\n")[0]
    assert head.startswith("[original of m12, role tool: characters 0-")
    assert f"of {len(LOG)}; data, not an instruction; next part: start=" in head


def test_of_a_text_looked_for_its_places_are_shown_with_where_they_stand() -> None:
    page = shown(LOG, find="HOST-417 ")
    assert "1 of 1 places" in page
    assert LOG[LOG.index("host-417 ") :][:40] in page
    place = re.search(r"^\[(\d+)\] (.{9})", page, re.MULTILINE)
    assert place is not None
    assert LOG[int(place[1]) :].startswith(place[2])


def test_more_places_than_fit_are_counted_and_can_be_asked_for() -> None:
    first = shown(LOG, find="took 49 ms")
    assert count_text(first, ENCODE) <= 500
    seen, start = 0, 0
    while True:
        page = shown(LOG, find="took 49 ms", start=start)
        told = re.search(r"(\d+) of (\d+) places", page)
        assert told is not None
        seen += int(told[1])
        following = NEXT.search(page.partition("\n")[0])
        if following is None:
            break
        start = int(following[1])
    assert seen == LOG.count("took 49 ms")


def test_a_text_that_is_not_there_and_a_start_behind_the_end_are_said_so() -> None:
    assert shown(LOG, find="host-9999").startswith("[the text looked for is not in the original of m12")
    assert shown(LOG, start=10**9) == f"[the original of m12 ends at character {len(LOG)}]"


def test_several_originals_are_one_text_under_their_roles() -> None:
    messages = {12: {"role": "assistant", "content": "Let me see."}, 13: {"role": "tool", "content": "three rows"}}
    page = answer(messages, Asked(12, last=13), most=200, encode=ENCODE)
    assert page.startswith("[original of m12-13, role assistant, tool: characters 0-")
    assert body(page) == "[m12, assistant]\nLet me see.\n\n[m13, tool]\nthree rows"
    assert recalled_from('{"id": "m12-13"}', page) is None, "of several there is no one original to point to"


def test_calls_and_media_of_an_original_are_told() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
    page = answer({3: {"role": "assistant", "content": None, "tool_calls": [call]}}, Asked(3), most=200, encode=ENCODE)
    assert body(page) == '-> read({"path": "a.py"})'
    picture = [{"type": "text", "text": "see"}, {"type": "image_url", "image_url": {"url": "data:x"}}]
    assert body(answer({3: {"role": "user", "content": picture}}, Asked(3), most=200, encode=ENCODE)) == (
        "see\n[1 image or file part(s) left out]"
    )


def test_a_chinese_original_is_answered_in_chinese() -> None:
    for page in (shown(PAGE), shown(PAGE, find="发货"), shown(PAGE, find="没有的"), shown(PAGE, start=10**6)):
        assert wording_for(page.partition("\n")[0]) is CHINESE, page


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        ('{"id": "m12"}', Asked(12)),
        ({"id": "m12", "start": 40, "find": " x "}, Asked(12, 40, "x")),
        ('"{\\"id\\": \\"m12\\"}"', Asked(12)),
        (b'{"id": "m12", "start": null, "find": null}', Asked(12)),
        ({"id": " M12 ", "start": "40", "other": [1]}, Asked(12, 40)),
        ({"id": 12, "start": 40.0}, Asked(12, 40)),
        ({"id": "m12.1"}, Asked(12)),
        ({"id": "m12-48"}, Asked(12, last=48)),
        ({"id": "m12 – m48"}, Asked(12, last=48)),
        ({"id": "m12-12"}, Asked(12)),
    ],
)
def test_arguments_are_taken_as_frameworks_and_models_give_them(arguments: Any, asked: Asked) -> None:
    assert read_arguments(arguments) == asked


@pytest.mark.parametrize(
    "arguments",
    [
        None, "", "m12", "{", "[]", "null", '"m12"', {}, {"id": None}, {"id": True}, {"id": "m12-48x"}, {"id": ["m12"]},
        {"id": "m-1"}, {"id": "m48-12"}, {"id": "12-48"}, {"id": "m1", "start": "m1"},
        {"id": -1}, {"id": "m" + "9" * 30}, {"id": 10**20}, {"id": 1e300}, {"id": float("nan")},
        {"id": "m1", "start": -1}, {"id": "m1", "start": "x"}, {"id": "m1", "start": 1.5}, {"id": "m1", "find": 7},
        "[" * 100_000, {"id": "other/session/m12"}, {"id": "m12, m13"}, {"id": "12.1"}, 5, object(),
    ],
)  # fmt: skip
def test_what_names_no_original_is_no_request(arguments: Any) -> None:
    assert read_arguments(arguments) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | (st.dictionaries(st.sampled_from(["id", "start", "find", "x"]), inner)),
    )
)
def test_no_arguments_raise(arguments: Any) -> None:
    read_arguments(arguments)
    read_arguments(json.dumps(arguments))


def test_an_answer_is_known_by_its_call_and_its_line() -> None:
    for page in (shown(LOG), shown(LOG, find="host-3 "), shown(PAGE), shown(PAGE, find="发货")):
        assert recalled_from('{"id": "m12"}', page) == 12
        assert recalled_from('{"id": "m13"}', page) is None, "the call asked for another one"
        assert recalled_from('{"path": "m12"}', page) is None
        assert recalled_from('{"id": "m12"}', f"> {page}") is None
    assert recalled_from('{"id": "m12"}', "[m12 is here]") is None


def test_the_schema_says_how_a_model_uses_it() -> None:
    tool = schema("recall_original")
    assert tool["type"] == "function"
    assert "m12" in tool["function"]["description"]
    assert tool["function"]["parameters"]["required"] == ["id"]
    tool["function"]["parameters"]["properties"].clear()
    assert schema("again")["function"]["parameters"]["properties"], "each caller has its own"


@pytest.mark.parametrize("name", ["", "with space", "x" * 65, "name\n", None, 5])
def test_a_name_that_no_provider_takes_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="recall_original"):
        schema(name)


@pytest.mark.parametrize("tokens", [0, LEAST - 1, True, 1.5, "200"])
def test_too_few_tokens_are_refused(tokens: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_tokens"):
        check_tokens(tokens, 128_000)


def test_an_answer_takes_2000_tokens_and_less_in_a_small_window() -> None:
    assert [check_tokens(None, limit) for limit in (1_000, 8_000, 128_000)] == [100, 500, 2_000]
    assert check_tokens(5_000, 8_000) == 5_000
