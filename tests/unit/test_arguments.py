"""Elided arguments: the same JSON but for long strings, which keep head and tail around a mark of ours."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.arguments import HEAD, LONG, TAIL, elide, elided, left_out, tag_of
from compactor.drafting import Limits, draft
from compactor.formats.openai import calls
from compactor.json_values import is_array, is_object
from compactor.models import Kind, Message
from compactor.planning import Plan, Snapshot, plan
from compactor.tokens import count_message
from tests.unit.chat import Chat, assistant, by_length, call, calling, levels, result, stored, total, user
from tests.unit.summarizers import saying

CODE = "\n".join(f"    total_{number} = total_{number - 1} + {number * 37}" for number in range(1, 120))
TAG = "9f3ac2d1"


def note(_text: str, cut: int) -> str:
    return f"<{cut}>"


def shortened(message: Chat, *, goal: str = "Fix the build.") -> Any:
    """What stands in place of a message, and None where it stays."""
    whole = Message(12, message, count_message(message, by_length))
    found = elided(whole, tag=TAG, goal=goal, encode=by_length)
    if found is not None:
        assert (found.kind, found.before) == (Kind.ELIDED, whole.tokens)
        assert found.after == count_message(found.value, by_length) < found.before
    return None if found is None else found.value


def test_a_write_keeps_its_path_and_the_ends_of_its_text() -> None:
    arguments = json.dumps({"path": "src/totals.py", "content": CODE, "mode": 420, "force": True})
    new = json.loads(calls(shortened(calling(call("a", "write", arguments))))[0].arguments)
    assert {**new, "content": ""} == {"path": "src/totals.py", "content": "", "mode": 420, "force": True}
    head, mark, tail = new["content"].partition("\n[#")[0], new["content"], new["content"].rpartition("]\n")[2]
    assert CODE.startswith(head)
    assert CODE.endswith(tail)
    cut = len(CODE) - len(head) - 1 - len(tail)
    assert f"[#{TAG}: {cut} characters left out here; original: m12.1]" in mark


def test_each_call_of_a_message_has_an_id_of_its_own_and_small_ones_stay() -> None:
    large = json.dumps({"content": CODE})
    message = calling(call("a", "write", large), call("b", "read", '{"path": "a"}'), call("c", "write", large))
    new = calls(shortened(message))
    assert [json.loads(item.arguments) == {"path": "a"} for item in new] == [False, True, False]
    assert "m12.1]" in new[0].arguments
    assert "m12.3]" in new[2].arguments


def test_everything_else_of_the_message_stays() -> None:
    message = {**calling(call("a", "write", json.dumps({"content": CODE}))), "content": "I write.", "name": None}
    message["reasoning_content"] = "because"
    new = shortened(message)
    assert {**new, "tool_calls": ""} == {**message, "tool_calls": ""}
    assert [{**item, "function": item["function"]["name"]} for item in new["tool_calls"]] == [
        {"id": "a", "type": "function", "function": "write"}
    ]


def test_the_legacy_layout_and_arguments_as_a_value_are_read_too() -> None:
    legacy = assistant(None, function_call={"name": "write", "arguments": json.dumps({"content": CODE})})
    assert "m12.1]" in shortened(legacy)["function_call"]["arguments"]
    value = calling(call("a", "write", {"files": [{"path": "a.py", "content": CODE}], "count": 1}))
    new = shortened(value)["tool_calls"][0]["function"]["arguments"]
    assert (new["count"], new["files"][0]["path"]) == (1, "a.py")
    assert "m12.1]" in new["files"][0]["content"]


@pytest.mark.parametrize(
    "arguments",
    [
        CODE,
        '{"content": "' + CODE + '"}',  # real line ends in a string: no JSON
        '{"content": "' + "x" * 4_000,
        json.dumps({f"key{number}": "a short text " * 20 for number in range(20)}),
        json.dumps(list(range(2_000))),
        None,
        4,
    ],
)
def test_what_does_not_parse_and_what_has_no_long_string_stays(arguments: Any) -> None:
    assert shortened(calling(call("a", "write", arguments))) is None


def test_the_free_text_of_a_custom_tool_stays() -> None:
    custom = {"id": "a", "type": "custom", "custom": {"name": "patch", "input": json.dumps({"text": CODE})}}
    assert shortened(assistant(None, tool_calls=[custom])) is None


def test_a_mark_speaks_the_language_of_its_text_or_else_of_the_user() -> None:
    arguments = json.dumps({"content": CODE})
    assert "characters left out" in calls(shortened(calling(call("a", "write", arguments))))[0].arguments
    chinese = shortened(calling(call("a", "write", arguments)), goal="请修复构建，并说明原因。")
    assert "此处省略" in json.loads(calls(chinese)[0].arguments)["content"]
    text = shortened(calling(call("a", "write", json.dumps({"content": "第一行内容和数据。" * 300}))))
    assert "此处省略" in json.loads(calls(text)[0].arguments)["content"]


def test_numbers_doubled_keys_and_spelling_stay_to_the_letter() -> None:
    text = '{ "a":1.0, "a" : 1e400,\t"b": 12345678901234567890123,"c":"\\u00e9", "d": "' + "y" * 900 + '", "e":"é"}'
    new = elide(text, note)
    assert new == text.replace("y" * 900, f"{'y' * HEAD} <{900 - HEAD - TAIL}> {'y' * TAIL}")


def test_a_long_key_is_no_value() -> None:
    text = json.dumps({"k" * 2_000: "short", "other": "v" * 2_000})
    assert set(json.loads(elide(text, note))) == {"k" * 2_000, "other"}
    assert elide(json.dumps({"k" * 2_000: 1}), note) is None


def test_half_a_pair_can_be_sent() -> None:
    new = elide('{"a": "é\\ud83d' + "x" * 900 + '"}', note)
    new.encode()
    assert json.loads(new)["a"].startswith("é\ud83d")


def test_deep_arguments_are_left_alone() -> None:
    assert elide("[" * 100_000 + "]" * 100_000, note) is None


def test_a_tag_is_eight_digits_of_the_compaction() -> None:
    assert tag_of("one") == tag_of("one") != tag_of("other")
    assert len(tag_of("one")) == 8


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30) | st.text(min_size=LONG - 5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def same(new: Any, old: Any) -> bool:
    """The same value but for strings over LONG, which are shorter and have the same ends."""
    if isinstance(old, str) and len(old) > LONG:
        return len(new) < len(old) and new[: HEAD // 2] == old[: HEAD // 2] and new[-TAIL // 2 :] == old[-TAIL // 2 :]
    if is_object(old):
        return list(new) == list(old) and all(same(new[key], old[key]) for key in old)
    if is_array(old):
        return len(new) == len(old) and all(map(same, new, old))
    return repr(new) == repr(old)


@given(json_values, st.booleans(), st.booleans())
def test_whatever_the_arguments_only_long_strings_change(value: Any, ascii_only: bool, as_text: bool) -> None:
    arguments = json.dumps(value, ensure_ascii=ascii_only) if as_text else value
    new = elide(arguments, note)
    if new is None:
        assert left_out(arguments) == 0
        return
    assert left_out(arguments) > 0
    assert same(json.loads(new) if as_text else new, json.loads(arguments) if as_text else value)
    assert elide(new, note) is None


@given(st.text())
def test_any_text_as_arguments_is_handled(text: str) -> None:
    elide(text * 40, note)


def test_a_fold_of_an_elided_call_is_told_from_the_whole_call() -> None:
    chat = [user("go")]
    for number in range(4):
        text = json.dumps({"path": f"a{number}.py", "content": f"{CODE}\nend_{number}"})
        chat += [calling(call(f"c{number}", "write", text)), result(f"c{number}", "done")]
    whole = stored([*chat, assistant("done")])
    shown = list(whole)
    short = elided(whole[3], tag=TAG, goal="", encode=by_length)
    assert short is not None
    shown[3] = replace(whole[3], value=short.value, tokens=short.after, kind=Kind.ELIDED)
    snapshot = Snapshot(shown, total(shown), originals={3: whole[3]})
    found = plan(snapshot, levels(ceiling=10**6), target_tokens=1, keep_results=0)
    assert isinstance(found, Plan)
    (item,) = [item for item in found.items if item.fold is not None]
    assert 3 in item.indexes
    model = saying("Four files were written.")
    draft(found, snapshot, encode=by_length, summarize=model, limits=Limits(9.0, over=False))
    assert "total_60 = total_59 + 2220" in model.requests[0].text.partition("a1.py")[2].partition("a2.py")[0]
    assert TAG not in model.requests[0].text
