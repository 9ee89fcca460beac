"""Lists that hold a part of a fold: answered as valid as their originals are, and matched about as fast as any."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compactor.cached_history import CachedHistory
from compactor.folded import skeleton
from compactor.formats.openai import RESULT_ROLES, leading_system
from compactor.list_change import as_given, untold
from compactor.matching import Match, match
from compactor.models import Kind, Message
from compactor.records import encode_message, fingerprint
from compactor.validity import added_faults
from tests.unit.chat import Chat, call, calling, result, user
from tests.unit.folding import history_of, shown, undone
from tests.unit.lists import rows
from tests.unit.test_merged_folds import merged

SIZE = 24  # messages of one fold


def answer(held: CachedHistory, found: Match, chat: Sequence[Chat]) -> list[Any]:
    """The list that is sent: stored messages, and the originals that are fetched for it."""
    as_they_are, fetched = as_given(held, found), untold(held, found)
    sent: list[Any] = []
    for i, place in enumerate(found.places):
        assert place is not None
        if i in fetched:
            sent.append(chat[held.messages[place].position])
        elif i in as_they_are:
            sent.append(found.items[i].value)
        elif not held.messages[place].folded:
            sent.append(held.messages[place].value)
    return sent


@settings(max_examples=80)
@given(merged(), st.integers(0, 1 << 16), st.sampled_from(["originals", "before", "after"]))
def test_a_list_that_ends_inside_a_fold_is_answered_with_whole_steps(lists: Any, cut: int, kind: str) -> None:
    chat, before, after = lists
    lead = leading_system(chat)
    listed = {"originals": chat, "before": shown(before), "after": shown(after)}[kind][lead:]
    end = cut % (len(listed) + 1)
    while end < len(listed) and listed[end]["role"] in RESULT_ROLES:
        end += 1
    held = CachedHistory(1, 1, tuple(after), lead=lead)
    found = match(after, rows(listed[:end]), lead=lead)
    assert not found.changes
    meant = [chat[after[place].position] for place in found.places if place is not None]
    sent = answer(held, found, chat)
    assert not added_faults(meant, sent)
    assert [m for m in sent if m["role"] == "user"] == [m for m in meant if m["role"] == "user"]


def stored_anew(messages: Sequence[Message]) -> list[Message]:
    """The history when all of it was left once, and stored again behind that with its replacements."""
    left = [replace(m, kind=Kind.TOMBSTONE, left=m.kind, value={}, tokens=0) for m in messages]
    return [*left, *(replace(m, position=m.position + len(messages)) for m in messages)]


@settings(max_examples=40)
@given(merged(), st.booleans())
def test_a_fold_that_was_stored_anew_and_changed_then_is_known_by_what_it_was(lists: Any, was_undone: bool) -> None:
    chat, before, after = lists
    lead = leading_system(chat)
    held = stored_anew((undone(chat, before) if was_undone else after)[lead:])
    back = rows(shown(before)[lead:])
    assume(not match(held[len(held) // 2 :], back).changes)
    found = match(held, back)
    assert not found.changes
    assert len(found.items) == len(held) // 2


def in_one(folds: int) -> tuple[list[Chat], list[Message], list[Chat]]:
    """A conversation, its history in one fold that was that many before, and the list of what was sent before."""
    chat: list[Chat] = [user("go")]
    for n in range(folds * SIZE // 2):
        chat += [calling(call(f"c{n}", arguments=f'{{"n":{n}}}')), result(f"c{n}", f"row {n}")]
    plain = history_of(chat)
    hidden = [replace(m, kind=Kind.FOLDED, value=skeleton(m.value), tokens=0) for m in plain]
    messages, listed = [*plain[:2], *hidden[2:]], chat[:1]
    for first in range(1, len(chat), SIZE):
        header = f"[12 earlier steps (t x12), shortened from 900 tokens; originals: m{first + 1}-{first + SIZE - 1}]"
        sent = {**chat[first + 1], "content": header}
        messages[first + 1] = replace(messages[first + 1], earlier=fingerprint(sent))
        listed += [chat[first], sent]
    messages[2] = replace(messages[2], kind=Kind.FOLD, value=plain[2].value, shown=b"of all of")
    return chat, messages, listed


def test_older_folds_cost_little_more_than_originals() -> None:
    chat, messages, told = in_one(200)
    plain = history_of(chat)
    took: dict[str, float] = {}
    for _ in range(3):
        for name, history, listed in (("plain", plain, chat), ("folds", messages, told)):
            given_rows = [encode_message(row) for row in listed]
            start = time.process_time()
            found = match(history, given_rows)
            took[name] = min(took.get(name, 99.0), time.process_time() - start)
            assert found.places == tuple(range(len(chat)))
    assert took["folds"] < 5 * took["plain"], "each fold looked at the whole history"
