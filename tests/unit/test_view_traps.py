"""Conversations that trap a view: each is the smallest that a simpler rule got wrong."""

from __future__ import annotations

from collections import Counter

import pytest

from compactor.formats.openai import media_of, text_of
from compactor.models import Fit
from compactor.validity import added_faults
from compactor.view import compose
from tests.unit.chat import Chat, assistant, by_length, calling, levels, result, stored, user
from tests.unit.test_view import LARGE, compose_to, texts

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,xxxx"}}


def test_an_abandoned_step_adds_no_open_call() -> None:
    chat = [user("a"), calling("c1", "c2"), result("c1", LARGE), user("never mind"), assistant("ok"), user("b")]
    assert added_faults(chat, compose_to(chat, 200).messages) == Counter()


def test_a_remembered_cut_leaves_no_orphan() -> None:
    chat = [user(LARGE), calling("a"), user("hurry"), result("a", "late")]
    first = compose_to(chat, 100)
    chat = [*chat, assistant("done"), user("next")]
    assert added_faults(chat, compose_to(chat, 100, cut=first.cut).messages) == Counter()


def test_an_unread_result_stays_even_without_a_call() -> None:
    chat = [user(LARGE), result("z", "not read yet"), user("b")]
    assert "not read yet" in texts(compose_to(chat, 100))


def test_a_read_result_of_an_open_step_is_shortened_too() -> None:
    chat = [user("a"), calling("c1", "c2"), result("c1", LARGE), assistant("still working")]
    assert compose_to(chat, 400).fit is Fit.SHORTENED


UNREAD: list[Chat] = [
    result("a", [IMAGE, {"type": "text", "text": "short text"}]),
    result("a", [IMAGE, IMAGE]),
    result("a", [IMAGE, {"type": "text", "text": "y" * 150}]),
]


@pytest.mark.parametrize("unread", UNREAD)
def test_a_mark_never_claims_a_negative_number_of_characters(unread: Chat) -> None:
    view = compose_to([user("look"), calling("a"), unread], 300)
    assert "-" not in texts(view)[2]
    assert text_of(unread) == "" or texts(view)[2].count(text_of(unread)) == 1


def test_a_shortened_result_says_that_images_were_left_out() -> None:
    unread = result("a", [IMAGE, {"type": "text", "text": LARGE}])
    view = compose_to([user("look"), calling("a"), unread], 400)
    assert media_of(view.messages[2]) == 1 or "image" in texts(view)[2]


def test_a_remembered_turn_cut_keeps_the_prefix() -> None:
    chat = [
        user("u" * 80), calling("a"), result("a", "0"), calling("b"), result("b", "y" * 200), calling("c"),
        result("c", "0"), user("1"),
    ]  # fmt: skip
    budget = levels(ceiling=30)
    first = compose(stored(chat), budget, by_length, beside=0)
    assert first.fit is Fit.SHORTENED
    chat = [*chat, calling("d"), result("d", "0")]
    again = compose(stored(chat), budget, by_length, beside=0, cut=first.cut)
    assert again.cut != first.cut or again.messages[: len(first.messages)] == first.messages
