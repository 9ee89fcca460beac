"""A caller's own list against the stored history: the cases by name, and lists made to be slow."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.matching import Match, match, similar
from compactor.models import Kind
from tests.unit.chat import Chat, assistant, calling, developer, result, system, user
from tests.unit.lists import buried, check, held, rows, swapped, unreadable

CHAT = [user("a"), calling("c"), result("c", "found"), assistant("b"), user("next")]
SECONDS = 1.5  # for 10,000 messages against 10,000; what is quadratic takes minutes


def places(stored: Sequence[Chat], listed: Sequence[Chat], *, lead: int = 0) -> tuple[list[int | None], int | None]:
    history = held(stored)
    found = match(history, rows(listed), lead=lead)
    check(found, history, lead=lead)
    return list(found.places), found.branch


def test_an_empty_history_stores_all() -> None:
    assert places([], CHAT) == ([None] * 5, None)


def test_an_empty_list_changes_nothing() -> None:
    assert places(CHAT, []) == ([], None)


def test_a_trimmed_head_leaves_the_history_whole() -> None:
    assert places(CHAT, [*CHAT[3:], assistant("new")]) == ([3, 4, None], None)


def test_a_middle_left_out_leaves_the_history_whole() -> None:
    assert places(CHAT, [CHAT[0], CHAT[3], CHAT[4], assistant("new")]) == ([0, 3, 4, None], None)


def test_a_fork_leaves_what_is_behind_it() -> None:
    assert places(CHAT, [*CHAT[:3], user("other")]) == ([0, 1, 2, None], 3)


def test_a_trimmed_and_forked_list_stands_on_its_longest_beginning() -> None:
    assert places(CHAT, [*CHAT[1:3], user("other")]) == ([1, 2, None], 3)


def test_of_equal_beginnings_the_latest_counts() -> None:
    again = [user("go"), assistant("ok")] * 3
    assert places([user("x"), *again, user("end")], [user("go"), assistant("ok"), user("other")]) == ([5, 6, None], 7)


@pytest.mark.parametrize(
    ("stored", "listed", "expected"),
    [
        ([user("ok")], [user("ok"), user("ok")], [0, None]),
        ([user("ok"), user("ok")], [user("ok"), user("ok")], [0, 1]),
        ([user("ok"), user("ok")], [user("ok"), user("ok"), user("ok")], [0, 1, None]),
        ([user("ok"), assistant("ok")], [user("ok"), assistant("ok"), user("ok"), assistant("ok")], [0, 1, None, None]),
        ([user("a"), user("ok"), user("ok")], [user("ok"), user("ok"), user("ok")], [1, 2, None]),
    ],
)
def test_the_same_words_again_are_a_new_message(
    stored: list[Chat], listed: list[Chat], expected: list[int | None]
) -> None:
    assert places(stored, listed) == (expected, None)


def test_an_edit_is_a_fork_though_an_earlier_message_is_like_the_last_one() -> None:
    step = [calling("c"), result("c", "same")]
    stored = [user("a"), *step, assistant("b"), user("c"), assistant("d"), user("e"), assistant("f"), user("g"), *step]
    edited = [*stored[:8], user("another"), *step, assistant("new")]
    assert places(stored, edited) == ([*range(8), None, None, None, None], 8)


def test_what_repeats_a_step_of_the_beginning_is_new_all_the_same() -> None:
    turn = [user("check"), assistant("fine")]
    stored = [*turn, *turn, user("check")]
    trimmed = [user("check"), assistant("fine"), user("thanks")]
    assert places(stored, trimmed) == ([4, None, None], None)


def test_the_system_text_in_front_is_compared_with_nothing() -> None:
    stored = [system("then"), developer("d"), *CHAT]
    assert places(stored, [*CHAT, assistant("new")], lead=2) == ([2, 3, 4, 5, 6, None], None)
    assert places([system("s")], [user("a")], lead=1) == ([None], None)


def test_a_system_message_in_the_middle_is_a_message_like_others() -> None:
    stored = [user("a"), system("note"), user("b")]
    assert places(stored, [*stored, assistant("c")]) == ([0, 1, 2, None], None)
    assert places(stored, [user("a"), system("other note"), user("b")]) == ([0, None, None], 1)


def test_null_and_absent_keys_are_the_same_message() -> None:
    stored = [user("a"), assistant("b", refusal=None, cache_control={"type": "ephemeral"})]
    assert places(stored, [user("a"), assistant("b"), user("c")]) == ([0, 1, None], None)


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": "x"}]])
def test_content_of_any_kind_is_matched(content: Any) -> None:
    stored = [user(content), assistant("b")]
    assert places(stored, [*stored, user(content)]) == ([0, 1, None], None)


def test_a_replacement_is_known_by_its_original_and_by_itself() -> None:
    history = held(CHAT)
    history[2] = swapped(history[2])
    for value in (CHAT[2], dict(history[2].value)):
        found = match(history, rows([*CHAT[:2], value, *CHAT[3:]]))
        assert (found.places, found.changes, found.own_words) == ((0, 1, 2, 3, 4), False, frozenset())


def test_what_was_undone_is_still_known_by_its_replacement() -> None:
    history = held(CHAT)
    short = swapped(history[2])
    history[2] = replace(history[2], shown=short.shown, kept=True)
    found = match(history, rows([*CHAT[:2], dict(short.value), *CHAT[3:]]))
    assert (found.places, found.changes) == ((0, 1, 2, 3, 4), False)


def test_tombstones_stand_in_no_place() -> None:
    history = held(CHAT)
    history = [buried(history[0]), *history[1:]]
    found = match(history, rows([*CHAT[1:], assistant("new")]))
    assert (found.places, found.branch) == ((1, 2, 3, 4, None), None)
    assert match([buried(message) for message in history], rows(CHAT)).branch is None


def test_an_unreadable_message_is_answered_in_its_caller_s_words() -> None:
    history = held(CHAT)
    history[2] = unreadable(history[2])
    found = match(history, rows([*CHAT, assistant("new")]))
    assert (found.places, found.own_words, found.branch) == ((0, 1, 2, 3, 4, None), frozenset({2}), None)
    assert found.reword is None


# --- other words of the latest user message


def reworded(stored: Sequence[Chat], listed: Sequence[Chat]) -> Match:
    history = held(stored)
    found = match(history, rows(listed))
    check(found, history)
    return found


def test_retrieved_text_in_the_latest_user_message_changes_its_words() -> None:
    found = reworded([user("a"), assistant("b"), user("q?")], [user("a"), assistant("b"), user("context: x\nq?")])
    assert (found.places, found.reword, found.own_words) == ((0, 1, 2), 2, frozenset({2}))
    assert found.changes


def test_a_stale_list_in_other_words_is_answered_as_it_is_and_changes_nothing() -> None:
    found = reworded([user("q?"), assistant("b")], [user("q? please")])
    assert (found.places, found.reword, found.own_words, found.changes) == ((0,), None, frozenset({0}), False)


def test_an_earlier_user_message_keeps_its_words() -> None:
    found = reworded([user("q?"), assistant("b"), user("next")], [user("q? please"), assistant("b"), user("next")])
    assert (found.reword, found.branch) == (None, 0)


def test_words_of_another_message_are_no_rewording() -> None:
    found = reworded([user("go on"), assistant("b"), user("go on now")], [user("go on"), assistant("b"), user("go on")])
    assert (found.reword, found.branch) == (None, 2)


def test_a_template_around_the_question_is_a_rewording() -> None:
    question = "What is the status of order 4711?"
    wrapped = f"Context:\norder 4711: sent\n\nQuestion: {question}\nAnswer in one line."
    assert reworded([user(question)], [user(wrapped)]).reword == 0


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("what now?", "what now?", True),
        ("what now?", "[context]\nwhat now?", True),
        ("what now?\n[time: 1]", "what now?\n[time: 2]", True),
        ("", "what now?", False),
        ("", "", False),
        ("what now?", "Bonjour", False),
        ("aaaa bbbb", "aaaa cccc", True),
        ("aaab bbbb", "xxxx bbbc", False),
    ],
)
def test_texts_are_alike_by_their_ends(one: str, other: str, alike: bool) -> None:
    assert similar(one, other) is alike
    assert similar(other, one) is alike


# --- lists made to be slow


def turns(count: int) -> list[Chat]:
    return [
        message
        for number in range(count // 4)
        for message in (user(f"q{number}"), calling("c"), result("c", f"r{number}"), assistant(f"a{number}"))
    ]


OK, LOOP = [user("ok")], [calling("c"), result("c", "same")]
TEN = turns(10_000)


@pytest.mark.parametrize(
    ("stored", "listed"),
    [
        (TEN, TEN),
        (TEN, [*TEN[3_000:], user("new")]),
        (TEN, [*TEN[:100], *TEN[9_000:], user("new")]),
        (TEN, [*TEN[:5_000], user("fork")]),
        (TEN, [user("edited"), *TEN[1:]]),
        (OK * 10_000, OK * 10_000),
        ([user("x"), *OK * 9_999], [user("y"), *OK * 9_999]),
        ([user("x"), *OK * 9_999, assistant("z")], [*OK * 9_999, assistant("y")]),
        ([user("x"), *[*OK, assistant("ok")] * 5_000], [user("y"), *[*OK, assistant("ok")] * 5_000]),
        ([user("x"), *LOOP * 5_000], [user("y"), *LOOP * 5_000]),
        ([user("x"), *LOOP * 5_000, user("z")], [*LOOP * 5_000, user("y")]),
    ],
    ids=["equal", "trimmed", "middle left out", "fork", "edited head", "one text", "one text, edited head",
         "one text, trimmed fork", "two texts, edited head", "one call, edited head", "one call, trimmed fork"],
)  # fmt: skip
def test_ten_thousand_messages_are_matched_in_about_a_second(stored: list[Chat], listed: list[Chat]) -> None:
    history, given_rows = held(stored), rows(listed)
    start = time.process_time()
    match(history, given_rows)
    assert time.process_time() - start < SECONDS


# --- the quick search against the plain one


def plain(stored: Sequence[str], listed: Sequence[str]) -> tuple[list[int | None], int | None]:
    """What a list of texts is to a history of texts, by the definition."""
    common = 0
    while common < min(len(stored), len(listed)) and stored[common] == listed[common]:
        common += 1
    if common == min(len(stored), len(listed)):
        return [*range(common), *[None] * (len(listed) - common)], None
    for end in [*(e for e in range(len(listed), 0, -1) if listed[e - 1] == stored[-1]), len(listed)]:
        found = backwards(stored, listed[:end])
        if found is not None:
            return [*found, *[None] * (len(listed) - end)], None
    runs = [(run(stored[k:], listed), k) for k in range(len(stored))]
    length, start = (common, 0) if common else max(runs)
    after = start + length if length else 0
    return [*range(start, start + length), *[None] * (len(listed) - length)], after if after < len(stored) else None


def backwards(stored: Sequence[str], listed: Sequence[str]) -> list[int] | None:
    found: list[int] = []
    k = len(stored) - 1
    for text in reversed(listed):
        while k >= 0 and stored[k] != text:
            k -= 1
        if k < 0:
            return None
        found.insert(0, k)
        k -= 1
    return found


def run(stored: Sequence[str], listed: Sequence[str]) -> int:
    length = 0
    while length < min(len(stored), len(listed)) and stored[length] == listed[length]:
        length += 1
    return length


texts = st.lists(st.sampled_from("aab"), max_size=8)


@settings(max_examples=400)
@given(texts, texts)
def test_the_quick_search_finds_what_the_plain_one_finds(stored: list[str], listed: list[str]) -> None:
    assert places([assistant(text) for text in stored], [assistant(text) for text in listed]) == plain(stored, listed)


def test_a_history_of_which_nothing_can_be_read_is_left_for_the_list() -> None:
    history = [unreadable(message) for message in held(CHAT)]
    assert [message.kind for message in history] == [Kind.CORRUPT] * 5
    found = match(history, rows(CHAT))
    assert (found.places, found.branch) == ((None,) * 5, 0)
