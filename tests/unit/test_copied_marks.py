"""A model that imitates our mark: told by its tag, never by its words, and never taken for content."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from compactor.arguments import elided
from compactor.copied_marks import copied_problem, known_tags, newest_refusals, refusals, seems_copied
from compactor.models import Kind, Message
from compactor.tally import NOTHING
from tests.unit.chat import Chat, assistant, by_length, call, calling, result, stored, user

TAG = "9f3ac2d1"
TEXT = "def total(rows):\n" + "    return sum(rows)\n" * 200


def writing(content: str, name: str = "c1") -> Chat:
    return calling(call(name, "write", json.dumps({"path": "a.py", "content": content})))


def history(*, goal: str = "Go.", ascii_only: bool = False) -> list[Message]:
    """A session whose first write is elided, at position 1."""
    messages = stored([user(goal), writing(TEXT, "c0"), result("c0"), assistant("Done.")])
    found = elided(messages[1], tag=TAG, goal=goal, encode=by_length)
    assert found is not None
    value: Any = found.value
    if ascii_only:
        text = json.dumps(json.loads(value["tool_calls"][0]["function"]["arguments"]))
        value = calling(call("c0", "write", text))
    return [messages[0], Message(1, value, found.after, Kind.ELIDED), *messages[2:]]


def imitation(messages: list[Message]) -> str:
    """What a model writes that copies the elided content, but for its beginning."""
    text: str = json.loads(messages[1].value["tool_calls"][0]["function"]["arguments"])["content"]
    return f"# new\n{text}"


def test_a_copy_is_refused_in_the_name_of_its_call() -> None:
    messages = history()
    reply = writing(imitation(messages))
    assert seems_copied(reply)
    (refusal,) = refusals(reply, known_tags(messages))
    assert refusal == result(
        "c1",
        f"[not run: its arguments hold the mark #{TAG} of text that was left out, not the text; original: m1.1]",
    )


@pytest.mark.parametrize("ascii_only", [False, True])
def test_a_chinese_mark_is_refused_in_chinese(ascii_only: bool) -> None:
    messages = history(goal="请修复构建，并说明原因。", ascii_only=ascii_only)
    reply = calling(call("c1", "write", json.dumps({"content": imitation(messages)}, ensure_ascii=ascii_only)))
    (refusal,) = refusals(reply, known_tags(messages))
    assert refusal["content"] == f"[未执行：参数中是省略标记 #{TAG}，而不是被省略的文本；原文 m1.1]"


@pytest.mark.parametrize(
    "text",
    [
        "[#0badcafe: 900 characters left out here; original: m1.1]",
        "[#9f3ac2d: 900 characters left out here; original: m1.1]",
        "characters left out here; original: m1.1",
        "[#include]",
    ],
)
def test_words_like_ours_under_another_tag_are_content(text: str) -> None:
    assert refusals(writing(text), known_tags(history())) == []


@pytest.mark.parametrize(
    "text", [f"[#{TAG}]", f"[#{TAG}: …", f"[#{TAG}: 12 characters left out; original: m1.1] [#{TAG}"]
)
def test_a_copy_in_other_words_is_a_copy_by_its_tag(text: str) -> None:
    assert len(refusals(writing(text), {TAG})) == 1


def test_a_mark_in_what_users_tools_and_answers_say_is_no_copy() -> None:
    mark = f"[#{TAG}: 900 characters left out here; original: m1.1]"
    for message in (user(mark), result("c0", mark), assistant(mark)):
        assert not seems_copied(message)
        assert refusals(message, {TAG}) == []


def test_each_call_is_told_of_alone() -> None:
    reply = calling(call("a", "run", '{"c": "ls"}'), call("b", "run", json.dumps({"c": f"[#{TAG}: x]"})))
    assert [message["tool_call_id"] for message in refusals(reply, {TAG})] == ["b"]


def problem(messages: Sequence[Message]) -> tuple[str, ...]:
    return copied_problem(messages, NOTHING.after(messages).reply)


def test_only_the_newest_reply_is_a_problem_to_tell() -> None:
    messages = history()
    assert problem(messages) == ()
    copying = [*messages, Message(9, writing(imitation(messages)), 100)]
    assert problem(copying) == ("copied_mark@m9",)
    assert len(newest_refusals(copying)) == 1
    answered = [*copying, Message(10, newest_refusals(copying)[0], 20)]
    assert problem(answered) == ("copied_mark@m9",)
    assert problem([*answered, Message(11, assistant("I see."), 5)]) == ()


def test_what_we_elided_is_no_copy_of_itself() -> None:
    messages = history()[:2]
    assert problem(messages) == ()
    assert newest_refusals(messages) == []
