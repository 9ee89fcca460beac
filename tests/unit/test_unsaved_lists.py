"""A list that could not be stored explains what a view of it left out or cut, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from compactor.formats.openai import leading_system
from compactor.matching import expanded, match
from compactor.wording import ENGLISH
from tests.unit.chat import Chat, calling, result, user
from tests.unit.conversations import sound_conversations
from tests.unit.folding import history_of, shown, undone
from tests.unit.lists import held, rows, view_of
from tests.unit.test_merged_folds import merged
from tests.unit.test_returned import CONTENTS, IMAGE, NEW, shares


@settings(max_examples=80)
@given(sound_conversations(max_turns=3), shares, shares, st.data())
def test_an_older_unsaved_list_takes_nothing_from_a_view(
    chat: list[Chat], ceiling: float, target: float, data: st.DataObject
) -> None:
    """It knows some of what the view had left out, and may know the step that tells of more."""
    history = held(chat)
    lead = leading_system(chat)
    view = rows(view_of(history, ceiling=ceiling, target=target).messages[lead:])
    older = history[lead : data.draw(st.integers(lead, len(history)))]
    found = match(history, [*expanded(older, view), *rows(NEW)], lead=lead)
    assert (found.branch, found.places[-len(NEW) :]) == (None, (None, None))
    assert found.stored == len(found.items) - len(NEW)
    whole = match(history, [*view, *rows(NEW)], lead=lead)
    assert found.places == whole.places


@settings(max_examples=60)
@given(merged(), st.data())
def test_a_list_that_an_unsaved_one_explains_is_no_newer_than_it_was(lists: Any, data: st.DataObject) -> None:
    """List and unsaved one may be older than the history: folds were made, merged and undone in between."""
    chat, before, after = lists
    lead = leading_system(chat)
    times = data.draw(st.sampled_from([
        [history_of(chat), before, after, undone(chat, after)],
        [history_of(chat), before, undone(chat, before)],
    ]))  # fmt: skip
    now = data.draw(st.integers(0, len(times) - 1))
    held, listed, kept = times[now], *(times[data.draw(st.integers(0, now))] for _ in range(2))
    ceiling, target = data.draw(st.floats(0.2, 1.5)), data.draw(st.floats(0.1, 0.95))
    back = rows(view_of(listed, ceiling=ceiling, target=target).messages[lead:])
    known = match(held, back, lead=lead)
    assume(not known.changes)
    found = match(held, expanded(kept[lead:], back), lead=lead)
    assert not found.changes
    assert found.places == known.places


@settings(max_examples=50)
@given(merged(), st.data())
def test_a_list_in_which_nothing_is_left_out_needs_no_unsaved_one(lists: Any, data: st.DataObject) -> None:
    chat, before, after = lists
    times = [before, undone(chat, before), after, undone(chat, after)]
    listed, kept = (data.draw(st.sampled_from(times)) for _ in range(2))
    back = rows(shown(listed))
    assert expanded(kept, back) == back


@pytest.mark.parametrize("content", CONTENTS)
def test_an_unsaved_list_holds_whole_what_its_view_had_cut(content: Any) -> None:
    history = held([user("q"), calling("c"), result("c", content)])
    cut = view_of(history, ceiling=0.3, target=0.5).messages
    assert cut[2] != history[2].value
    assert [row.own for row in expanded(history, rows(cut))] == [message.own for message in history]


def test_each_result_that_lost_its_media_alone_is_whole_again_though_their_calls_have_one_id() -> None:
    pages = [[{"type": "text", "text": text}, IMAGE] for text in ("one", "two")]
    chat = [user("q"), *(message for page in pages for message in (calling("c"), result("c", page)))]
    bare = [user("q")]
    for text in ("one", "two"):
        note = ENGLISH.media.format(count=1)
        bare += [calling("c"), result("c", [{"type": "text", "text": f"{note}\n{text}"}])]
    assert [row.own for row in expanded(held(chat), rows(bare))] == [message.own for message in held(chat)]
