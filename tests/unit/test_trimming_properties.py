"""trim at any budget, on conversations of every shape, all recorded ones among them: no fault, no question lost."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from compactor.context.trimming import newest, trim
from compactor.formats.openai import RESULT_ROLES, SYSTEM_ROLES
from compactor.history import read_history
from compactor.tokens import count_message
from compactor.validity import faults
from tests.conftest import SHARED, recorded
from tests.unit.chat import by_length
from tests.unit.conversations import busy_conversations, conversations, sound_conversations

FILES = sorted(path.name.removesuffix(".jsonl.gz") for path in SHARED.glob("*.jsonl.gz"))
BUDGETS = 4  # for each recorded session; other ones in every run
ADDED = ("open_call", "late_answer", "orphan_result")


def check(chat: Sequence[Mapping[str, Any]], tokens: Sequence[int], room: int, most: int = 0) -> None:
    kept = trim(chat, tokens, room=room, most=most)
    sent = [chat[index] for index in kept]
    assert kept == sorted(set(kept))
    more = faults(sent) - faults(chat)
    assert not [code for code in ADDED if more[code]], more
    roles = [message["role"] for message in chat]
    users = [index for index, role in enumerate(roles) if role == "user"]
    assert users[-1:] == [index for index in kept if index == users[-1]] if users else True
    assert [i for i in kept if roles[i] in SYSTEM_ROLES] == [i for i, r in enumerate(roles) if r in SYSTEM_ROLES]
    size = sum(tokens[index] for index in kept)
    if sum(tokens) <= room:
        assert len(kept) == len(chat)
    elif size > room:
        least = trim(chat, tokens, room=-1, most=most)
        assert kept == least or size <= most
    _begins_with_a_user(chat, kept)
    _steps_are_whole(chat, kept)


def _begins_with_a_user(chat: Sequence[Mapping[str, Any]], kept: Sequence[int]) -> None:
    """Where the list did, and a message before a user's was not left alone."""
    others = [index for index in range(len(chat)) if chat[index]["role"] not in SYSTEM_ROLES]
    if others and chat[others[0]]["role"] == "user":
        first = next(index for index in kept if index in set(others))
        assert chat[first]["role"] == "user"


def _steps_are_whole(chat: Sequence[Mapping[str, Any]], kept: Sequence[int]) -> None:
    staying = set(kept)
    for step in read_history(chat).steps:
        assert len(staying & set(step.indexes)) in (0, len(step.indexes))


@cache
def whole(name: str) -> list[tuple[list[dict[str, Any]], list[int]]]:
    chats = [session["messages"] for session in recorded(name)]
    return [(chat, [count_message(message, by_length) for message in chat]) for chat in chats]


_any = st.one_of(conversations(), busy_conversations(), sound_conversations())
_share = st.floats(-0.2, 1.2)


@hypothesis_settings(max_examples=150)
@given(_any, _share, _share)
def test_at_any_budget_no_fault_is_added(chat: list[dict[str, Any]], share: float, reserve: float) -> None:
    tokens = [count_message(message, by_length) for message in chat]
    room = int(share * sum(tokens))
    check(chat, tokens, room, most=room + int(reserve * 100))


@hypothesis_settings(max_examples=100)
@given(_any, st.integers(-1, 12))
def test_the_fallback_adds_no_fault_either(chat: list[dict[str, Any]], most: int) -> None:
    sent = [chat[index] for index in newest(chat, most)]
    more = faults(sent) - faults(chat)
    assert not more["orphan_result"]
    users = [message for message in chat if message["role"] == "user"]
    assert not users or any(message is users[-1] for message in sent)


@hypothesis_settings(max_examples=150)
@given(sound_conversations(max_turns=6), st.floats(0, 1))
def test_it_keeps_the_most_of_the_newest_that_fits(chat: list[dict[str, Any]], share: float) -> None:
    """Compared with every tail of the list, each with the user message that its turn begins with."""
    tokens = [count_message(message, by_length) for message in chat]
    room = int(share * sum(tokens))
    history = read_history(chat)
    least = {i for i, role in enumerate(history.roles) if role in SYSTEM_ROLES} | {history.last_user}
    tails = [least]
    for start in (i for i, role in enumerate(history.roles) if role not in RESULT_ROLES):
        users = [index for index in range(start + 1) if history.roles[index] == "user"]
        tails.append(least | set(range(start, len(chat))) | set(users[-1:]))
    fitting = [tail for tail in tails if sum(tokens[index] for index in tail) <= room]
    expected = max(fitting, key=len, default=least)
    assert set(trim(chat, tokens, room=room)) == (set(range(len(chat))) if sum(tokens) <= room else expected)


@hypothesis_settings(max_examples=100)
@given(sound_conversations(), _share)
def test_more_room_never_keeps_less(chat: list[dict[str, Any]], share: float) -> None:
    tokens = [count_message(message, by_length) for message in chat]
    room = int(share * sum(tokens))
    assert set(trim(chat, tokens, room=room)) <= set(trim(chat, tokens, room=room + 50))


@pytest.mark.skipif(not FILES, reason="shared recorded conversations are absent")
@pytest.mark.parametrize("name", FILES)
def test_every_recorded_session_at_many_budgets(name: str) -> None:
    chance = random.Random()
    for chat, tokens in whole(name):
        total = sum(tokens)
        for room in [0, total - 1, *(chance.randint(1, total) for _ in range(BUDGETS))]:
            check(chat, tokens, room, most=room + room // 6)


@pytest.mark.skipif(not FILES, reason="shared recorded conversations are absent")
@pytest.mark.parametrize("name", FILES)
def test_every_recorded_session_cut_off_where_a_bot_would_send_it(name: str) -> None:
    """Unread results behind the latest call are the case that a whole session does not have."""
    chance = random.Random()
    for chat, tokens in whole(name):
        ends = [i + 1 for i, message in enumerate(chat) if message["role"] in ("user", *RESULT_ROLES)]
        for end in chance.sample(ends, min(2, len(ends))):
            part, sizes = chat[:end], tokens[:end]
            room = chance.randint(1, sum(sizes))
            check(part, sizes, room, most=room + room // 6)
