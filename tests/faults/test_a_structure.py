"""Section A, 1-11: the structure of a list survives compaction to any size and a view through any window."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from compactor import Code, ModelConfig, Session
from compactor.history import read_history
from compactor.validity import faults
from tests.acceptance.conftest import Service
from tests.faults.windows import assert_sound, compacted, every_window, read, tagged, views
from tests.unit.chat import Chat, assistant, call, calling, developer, long_text, result, system, user

X: Final = "x" * 9_000
THREE: Final[list[Chat]] = [
    system("Be brief."), user("read 3 files"),
    calling(*(call(name, "read", f'{{"n":{n}}}') for n, name in enumerate("abc", 1))),
    result("a", X + "1"), result("b", X + "2"), result("c", X + "3"), assistant("done"), user("and now?"),
]  # fmt: skip
ONE_BY_ONE: Final[list[Chat]] = [
    system("Be brief."), user("read"),
    *(row for n in range(6) for row in (calling(call(f"c{n}", "read", str(n))), result(f"c{n}", f"{n}{X}"))),
    assistant("done"), user("and now?"),
]  # fmt: skip
REUSED: Final[list[Chat]] = [
    user("read"),
    *(row for n in range(5) for row in (calling(call("call_0", "read", str(n))), result("call_0", f"{n}{X}"))),
    assistant("done"), user("more"), calling("call_0", "call_1"), result("call_1", X), result("call_0", X),
]  # fmt: skip
LEGACY: Final[list[Chat]] = [
    user("read"),
    *(
        row
        for n in range(4)
        for row in (
            assistant(None, function_call={"name": "read", "arguments": str(n)}),
            {"role": "function", "name": "read", "content": f"{n}{X}"},
        )
    ),
    assistant("done"), user("and now?"),
]  # fmt: skip
OUT_OF_ORDER: Final[list[Chat]] = [*THREE[:3], THREE[5], THREE[3], THREE[4], *THREE[6:]]
WITHOUT_IDS: Final[list[Chat]] = [user("read"), calling(call(None), call("")), result(None, X), result("", X), user()]
GROUPS: Final = {
    "three in parallel": THREE,
    "out of order": OUT_OF_ORDER,
    "one by one": ONE_BY_ONE,
    "ids used again": REUSED,
    "legacy functions": LEGACY,
    "no ids": WITHOUT_IDS,
}
groups: Final = pytest.mark.parametrize("chat", GROUPS.values(), ids=GROUPS.keys())

ABORTED: Final = {
    "aborted": [system("s"), user("what?"), calling(call("a", "f")), user("never mind, what time is it?")],
    "half answered": [user("what?"), calling("a", "b"), result("a", X), user("never mind"), assistant("ok"), user()],
    "still waiting": [user("what?"), calling("z"), result("z", X), calling("a", "b"), result("b", X)],
    "aborted twice": [user("1"), calling("a"), user("2"), calling("a"), user("3"), calling("c"), result("c", X)],
    "legacy": [user("1"), assistant(None, function_call={"name": "f", "arguments": "{}"}), user("2")],
}


def squeezed(service: Service, chat: list[Chat], share: float = 0.4) -> tuple[Session, list[Any]]:
    """A session compacted by the real worker for a window of a share of its tokens, and what a bot then sends."""
    tokens = sum(message.tokens for message in read(chat, chat))
    session = service.session("a", ModelConfig("gpt-4o", context_limit_tokens=max(10, int(tokens * share))))
    session.push(chat)
    return session, session.prepare(wait=20, wait_for="swap").messages


@groups
def test_a01_calls_and_their_results_stay_together(chat: list[Chat], modelless: Service) -> None:
    for sent in every_window(tagged(chat)):
        assert_sound(chat, sent)
        kept = {message["tag"] for message in sent.messages}
        for step in read_history(chat).steps:
            assert len(kept & set(step.indexes)) in (0, len(step.indexes)), sent.how
    session, messages = squeezed(modelless, chat)
    assert not faults(messages)
    assert session.originals() == chat


@pytest.mark.parametrize("chat", ABORTED.values(), ids=ABORTED.keys())
def test_a02_a_call_without_a_result_adds_no_fault_and_is_left_alone(chat: list[Chat]) -> None:
    for sent in every_window(chat):
        assert_sound(chat, sent)
    for step in read_history(chat).steps:
        if step.open:
            values = compacted(chat, 1)
            assert [values[i] for i in step.indexes] == [chat[i] for i in step.indexes]


@pytest.mark.parametrize("chat", ABORTED.values(), ids=ABORTED.keys())
def test_a02_what_a_dead_bot_left_open_is_closed_in_what_is_sent(chat: list[Chat], modelless: Service) -> None:
    session = modelless.session("a02", HUGE)
    session.push(chat)
    context = session.prepare()
    named = [each for each in context.verdict.problems if re.fullmatch(r"open_call@m\d+", each)]
    written = [message for message in context.messages if message not in chat]
    assert len(named) == faults(chat)["open_call"]
    assert len(written) == len(named) - faults(context.messages)["open_call"]
    assert {(m["role"], m["content"]) for m in written} <= {(role, "[interrupted, no output]") for role in ANSWERING}
    goes_on = chat[-1]["role"] not in ANSWERING
    assert not goes_on or not faults(context.messages), "only calls that nothing follows may still be answered"
    assert session.originals() == chat, "the stored history stays as it was pushed"
    session.close_open_calls()
    mended = session.prepare()
    assert not [each for each in mended.verdict.problems if each.startswith("open_call")]
    assert not faults(mended.messages)


ANSWERING: Final = ("tool", "function")
HUGE: Final = ModelConfig("gpt-4o", 128)
SMALL_LISTS: Final = [THREE, OUT_OF_ORDER, [system("s"), user("hi"), calling(call("a", "f")), result("a", "ok")]]


@pytest.mark.parametrize("chat", [*SMALL_LISTS, *ABORTED.values()])
def test_a03_below_the_threshold_the_very_same_list_comes_back(chat: list[Chat], modelless: Service) -> None:
    for sent in views("view", read(chat, chat), [1.0, 9.0]):
        assert all(new is old for new, old in zip(sent.messages, chat, strict=True))
    assert all(new is old for new, old in zip(compacted(chat, 10**6), chat, strict=True))
    pushed, listed = modelless.session("a03/pushed", HUGE), modelless.session("a03/listed", HUGE)
    pushed.push(chat)
    assert json.dumps(pushed.prepare(repair=False).messages) == json.dumps(chat)
    for _ in range(2):
        assert json.dumps(listed.prepare(chat).messages) == json.dumps(chat)
    if chat in SMALL_LISTS:
        assert json.dumps(pushed.prepare().messages) == json.dumps(chat)


TWICE: Final = {
    "two in parallel": [user("go"), calling(call("a", "f"), call("b", "g")), result("a", "1"), result("b", "2")],
    "large": [user("go"), calling("a", "b"), result("a", X), result("b", X), assistant("x"), user("y")],
    "the same twice": [user("go"), calling("a"), result("a", X), calling("a"), result("a", X), user("y")],
    "answered twice": [user("go"), calling("a"), result("a", X), result("a", X), assistant("x"), user("y")],
}


@pytest.mark.parametrize("chat", [*TWICE.values(), *GROUPS.values(), *ABORTED.values()])
def test_a04_each_message_is_sent_once_and_in_order(chat: list[Chat]) -> None:
    for sent in every_window(tagged(chat)):
        tags = [message["tag"] for message in sent.messages]
        assert tags == sorted(set(tags)), sent.how


@groups
def test_a05_results_between_the_last_user_and_the_last_answer_stay_in_the_history(chat: list[Chat]) -> None:
    for share in (0.02, 0.4, 0.9):
        values = compacted(tagged(chat), share * 4_000)
        tags = [message["tag"] for message in values]
        assert tags == sorted(set(tags))
        assert [message["role"] for message in values] == [chat[tag]["role"] for tag in tags]
        # What is not there is a step that a fold before it tells of: never a user's words, never the end.
        told = [chat[tag]["role"] for tag in range(len(chat)) if tag not in tags]
        assert set(told) <= {"assistant", "tool", "function"}
        assert tags[-1] == len(chat) - 1
        assert not told or any("earlier steps" in str(message["content"]) for message in values)


def test_a07_a_list_stays_sound_through_compaction_upon_compaction() -> None:
    chat = [system("s"), user("go")]
    values = list(chat)
    for turn in range(6):
        step: list[Chat] = [calling("c", "d"), result("d", f"{turn}{X}"), result("c", f"{turn}\n{long_text(500)}")]
        if turn % 2:
            step += [assistant("hm"), user("go on")]
        chat, values = [*chat, *step], [*values, *step]
        values = compacted(values, 900)
        for sent in views(f"turn {turn}", read(chat, values), (0.1, 0.3, 0.6, 0.9)):
            assert_sound(chat, sent)


FAULTY: Final = {
    "orphan first": [result("z", X)],
    "orphan later": [calling("a"), result("a", "1"), result("z", X)],
    "open call": [calling("q"), user("never mind")],
    "late answer": [calling("q"), user("hurry"), result("q", X)],
    "answered twice": [calling("q"), result("q", X), result("q", X)],
    "arguments that do not parse": [calling(call("q", arguments='{"a":')), result("q", X)],
    "empty content": [assistant(""), user([]), calling("q"), result("q", "")],
}


@pytest.mark.parametrize("fault", FAULTY.values(), ids=FAULTY.keys())
def test_a08_a_faulty_list_is_compacted_all_the_same(fault: list[Chat], modelless: Service) -> None:
    chat = [user("go"), *fault, *ONE_BY_ONE[2:]]
    session = modelless.session("a08", ModelConfig("gpt-4o", context_limit_tokens=6_000))
    session.push(chat)
    outcome = session.compact(wait=20)
    assert (outcome.outcome, outcome.reached) == (Code.APPLIED, True)
    assert session.originals() == chat
    for sent in every_window(chat, (0.1, 0.5, 0.9)):
        assert_sound(chat, sent)


QUESTIONS: Final = {
    "after a long answer": [system("s"), user("old"), assistant("x" * 50_000), user("NEW QUESTION")],
    "several at the end": [user("old"), calling("a"), result("a", X), user("1"), user("2"), user("NEW QUESTION")],
    "before unread results": [user("old"), assistant(X), user("NEW QUESTION"), calling("a"), result("a", X * 9)],
    "large itself": [user("old"), assistant("x"), user("NEW QUESTION " * 5_000)],
    "with an image": [
        user("old " * 900), assistant("x"),
        user([{"type": "text", "text": "NEW"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,A"}}]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("chat", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_a09_the_newest_user_message_is_always_sent_as_it_is(chat: list[Chat], modelless: Service) -> None:
    newest = [message for message in chat if message["role"] == "user"][-1]
    for sent in every_window(chat):
        users = [message for message in sent.messages if message["role"] == "user"]
        assert users[-1] is newest, sent.how
    _, messages = squeezed(modelless, chat)
    assert json.dumps([m for m in messages if m["role"] == "user"][-1]) == json.dumps(newest)


@pytest.mark.parametrize(
    "chat",
    [
        [system("x " * 60_000), user("hi")],
        [system("a"), developer("b"), system("c" * 9_000), user("hi"), assistant(X), user("and?")],
        [system("a"), user("hi"), calling("a"), result("a", X * 10)],
        [system("a"), assistant("Hello, how can I help?" * 900)],
    ],
)
def test_a10_a_list_never_comes_down_to_system_messages(chat: list[Chat]) -> None:
    for sent in every_window(chat):
        assert [m for m in sent.messages if m["role"] not in ("system", "developer")], sent.how
        assert_sound(chat, sent)


@pytest.mark.parametrize(
    "chat",
    [
        [system("s"), user("go"), calling(call("a", "f")), result("a", "x" * 90_000)],
        [user("go"), calling("a"), result("a", X), assistant("done"), user("next")],
        [user("go"), calling("a"), result("a", X), user("1"), developer("2")],
        [user("go"), calling("a", "b"), result("b", X)],
    ],
)
def test_a11_the_list_ends_on_the_role_it_ended_on(chat: list[Chat], modelless: Service) -> None:
    written = {json.dumps(message) for message in chat if message["role"] == "assistant"}
    for sent in every_window(chat):
        assert sent.messages[-1]["role"] == chat[-1]["role"], sent.how
        assert {json.dumps(m) for m in sent.messages if m["role"] == "assistant"} <= written, sent.how
    _, messages = squeezed(modelless, chat)
    assert messages[-1]["role"] == chat[-1]["role"]
