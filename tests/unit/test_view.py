"""compose(): below the ceiling the history itself; above it whole old steps go, and nothing that must stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compactor.formats.openai import text_of
from compactor.models import Fit, Message
from compactor.tokens import count_message
from compactor.view import NO_CUT, Cut, View, compose, settled
from tests.unit.chat import (
    Chat,
    assistant,
    by_length,
    call,
    calling,
    developer,
    levels,
    replaced,
    result,
    steps,
    stored,
    system,
    total,
    user,
)

LARGE = "x" * 4_000


def compose_to(
    chat: Sequence[Chat] | list[Message], ceiling: int, *, target: int | None = None, cut: Cut | None = None
) -> View:
    """A view whose messages may cost `ceiling` tokens, and `target` once it must cut."""
    messages = [item for item in chat if isinstance(item, Message)] or stored(
        [item for item in chat if isinstance(item, dict)]
    )
    threshold = ceiling if target is None else target * 2
    return compose(messages, levels(ceiling=ceiling, threshold=threshold), by_length, beside=0, cut=cut)


def texts(view: View) -> list[str]:
    return [text_of(message) for message in view.messages]


def test_a_history_that_fits_is_sent_as_the_very_same_values() -> None:
    messages = stored(steps(3))
    view = compose_to(messages, total(messages))
    assert all(sent is message.value for sent, message in zip(view.messages, messages, strict=True))
    assert (view.fit, view.tokens, view.cut, view.left_out) == (Fit.FITS, total(messages), NO_CUT, 0)


def test_what_is_sent_beside_counts() -> None:
    messages = stored(steps(3))
    budget = levels(ceiling=total(messages) + 100, threshold=10_000)
    assert compose(messages, budget, by_length, beside=100).fit is Fit.FITS
    assert compose(messages, budget, by_length, beside=101).fit is Fit.SHORTENED


def test_an_empty_history_fits() -> None:
    assert compose_to([], 10) == View((), 0, Fit.FITS, NO_CUT)


def test_the_oldest_steps_go_and_one_of_them_carries_the_gap() -> None:
    messages = stored([*steps(6), user("next")])
    view = compose_to(messages, 2_000, target=1_500)
    assert view.fit is Fit.SHORTENED
    assert view.tokens <= 2_000
    roles = [message["role"] for message in view.messages]
    assert roles[:4] == ["user", "assistant", "tool", "assistant"]
    assert view.messages[1] is messages[1].value
    assert texts(view)[2].startswith("[")
    assert "earlier messages are left out here" in texts(view)[2]
    assert view.messages[-1] is messages[-1].value


def test_the_sentence_of_a_gap_states_counts_tools_and_originals() -> None:
    chat = [user("go"), calling(call("a", "grep"), call("b", "read")), result("a", LARGE), result("b", LARGE)]
    chat += [calling(call("a", "grep")), result("a", LARGE), assistant("ok"), user("next")]
    view = compose_to(chat, 300)
    assert texts(view)[2] == (
        "[5 earlier messages are left out here (3 tool calls: grep x2, read); originals: m2, m3, m5]"
    )
    assert texts(view)[3] == "[output left out; original: m3]"


def test_the_sentence_is_in_the_language_of_the_users() -> None:
    chat = [user("请查一下"), calling("a"), result("a", LARGE), assistant("ok"), user("然后呢")]
    assert "此处省略较早的" in texts(compose_to(chat, 100))[2]


def test_long_gaps_name_the_first_and_the_last_originals_only() -> None:
    chat = [user("go")]
    for number in range(30):
        chat += [calling(call("a", f"tool_{number}")), result("a", "y" * 400)]
    text = texts(compose_to([*chat, assistant("ok"), user("next")], 400))[2]
    assert "…, m58]" in text
    assert "tool_5, …)" in text
    assert len(text) < 400


def test_a_gap_without_a_call_keeps_its_last_assistant_message() -> None:
    chat = [user("a"), assistant(LARGE), assistant("kept"), user("b"), assistant("newest"), user("c")]
    view = compose_to(chat, 100)
    assert texts(view) == ["a", "kept", "b", "newest", "c"]


def test_a_kept_message_between_ends_a_gap() -> None:
    chat = [
        user("a"), calling("c1"), result("c1", LARGE), user("b"), calling("c2"), result("c2", LARGE), assistant("ok"),
        user("c"),
    ]  # fmt: skip
    view = compose_to(chat, 400)
    assert [message["role"] for message in view.messages] == [
        "user", "assistant", "tool", "user", "assistant", "tool", "assistant", "user",
    ]  # fmt: skip
    assert [text.startswith("[") for text in texts(view)] == [False, False, True, False, False, True, False, False]


@pytest.mark.parametrize("kept", [system(LARGE), developer(LARGE)])
def test_system_messages_stay_wherever_they_stand(kept: Chat) -> None:
    chat = [kept, user(LARGE), kept, calling("a"), result("a", LARGE), kept, assistant("ok"), user("b")]
    view = compose_to([{**message} for message in chat], 10)
    assert view.fit is Fit.IMPOSSIBLE
    assert [message["role"] for message in view.messages] == [kept["role"]] * 3 + ["user"]


def test_a_pinned_step_stays() -> None:
    messages = stored([*steps(4), user("next")])
    messages[2] = Message(2, messages[2].value, messages[2].tokens, pinned=True)
    view = compose_to(messages, 10)
    assert [value for value in view.messages if value is messages[2].value]
    assert view.messages[0] is messages[1].value


def test_the_latest_user_message_stays_whatever_its_size() -> None:
    view = compose_to([user(LARGE), assistant("ok"), user(LARGE + "!")], 10)
    assert view.fit is Fit.IMPOSSIBLE
    assert texts(view) == [LARGE + "!"]


def test_whole_oldest_turns_go_last() -> None:
    chat = [user(LARGE), assistant("one"), user("y" * 400), assistant("two"), user("next")]
    view = compose_to(chat, 200)
    assert texts(view) == ["y" * 400, "two", "next"]


def test_an_unread_result_is_shortened_to_head_and_tail() -> None:
    text = "head " + LARGE + " tail"
    chat = [user("list"), calling("a"), result("a", text)]
    view = compose_to(chat, 400)
    shown = texts(view)[2]
    assert view.fit is Fit.SHORTENED
    assert view.tokens <= 400
    assert shown.startswith("head x")
    assert shown.endswith("x tail")
    marked = shown.partition("[… ")[2].partition(" …]")[0]
    assert marked.endswith("characters left out here; original: m2")
    assert int(marked.split()[0]) == len(text) - (len(shown) - len(f"\n[… {marked} …]\n"))


def test_the_largest_unread_result_is_shortened_first_and_only_as_far_as_needed() -> None:
    chat = [user("list"), calling("a", "b"), result("a", "y" * 800), result("b", LARGE)]
    view = compose_to(chat, 700)
    assert texts(view)[2] == "y" * 800
    assert 400 < view.tokens <= 700


def test_an_unread_result_keeps_at_least_200_characters() -> None:
    view = compose_to([user("list"), calling("a"), result("a", LARGE)], 10)
    assert view.fit is Fit.IMPOSSIBLE
    assert texts(view)[2].count("x") == 200 + len(["left out here; original: m2 characters"]) - 1


def test_the_newest_step_is_never_dropped() -> None:
    chat = [*steps(3), user("next"), calling("z"), result("z", "tiny")]
    view = compose_to(chat, 10)
    assert texts(view)[-1] == "tiny"
    assert view.messages[-2]["tool_calls"][0]["id"] == "z"


def test_a_call_that_may_still_be_answered_is_never_dropped() -> None:
    chat = [user(LARGE), assistant("ok"), user("go"), calling("a"), assistant("still working"), system("note")]
    assert [message["role"] for message in compose_to(chat, 10).messages] == [
        "user",
        "assistant",
        "assistant",
        "system",
    ]


def test_a_list_of_assistant_words_keeps_its_last() -> None:
    assert texts(compose_to([user("a"), assistant(LARGE), assistant(LARGE), assistant("last")], 100))[-1] == "last"


def test_a_cut_is_remembered_and_used_again_while_it_fits() -> None:
    chat = [*steps(6), user("next")]
    first = compose_to(chat, 2_000, target=1_000)
    again = compose_to([*chat, assistant("fine"), user("more")], 2_000, target=1_000, cut=first.cut)
    assert again.cut == first.cut != NO_CUT
    assert again.messages[: len(first.messages)] == first.messages


def test_a_cut_that_fits_no_longer_is_replaced_by_a_deeper_one() -> None:
    chat = [*steps(6), user("next")]
    first = compose_to(chat, 2_000, target=1_000)
    later = compose_to([*chat, *steps(3)], 2_000, target=1_000, cut=first.cut)
    assert later.cut.steps > first.cut.steps
    assert later.tokens <= 2_000


def test_a_cut_is_forgotten_once_the_history_fits() -> None:
    assert compose_to(steps(1), 10_000, cut=Cut(5, 5)).cut == NO_CUT


def test_a_cut_goes_down_to_the_target_not_just_below_the_ceiling() -> None:
    chat = [*steps(9), user("next")]
    assert compose_to(chat, 3_500, target=1_500).tokens <= 1_500


def test_left_out_counts_the_messages_that_are_not_sent() -> None:
    messages = stored([*steps(6), user("next")])
    view = compose_to(messages, 2_000, target=1_500)
    assert view.left_out == len(messages) - len(view.messages)


def test_tokens_are_what_a_recount_gives() -> None:
    for ceiling in (100, 500, 1_000, 2_000, 3_000):
        view = compose_to([*steps(6), user("next"), calling("z"), result("z", LARGE)], ceiling)
        assert view.tokens == sum(count_message(message, by_length) for message in view.messages)


def test_what_no_later_compaction_changes_ends_at_the_last_replacement() -> None:
    messages = stored([system("s"), *steps(4)])
    assert settled(messages) == 1
    messages[5] = replaced(messages[5], "short")
    assert settled(messages) == 6
    assert settled([]) == 0


def test_stable_until_never_reaches_past_what_is_unchanged() -> None:
    messages = stored([*steps(6), user("next")])
    messages[6] = replaced(messages[6], "short")
    assert compose_to(messages, 10**6).stable_until == 7
    assert compose_to(messages, 1_500, target=1_000).stable_until == 2


def test_composing_changes_no_message() -> None:
    messages: list[Any] = stored([*steps(6), user("next"), calling("z"), result("z", LARGE)])
    before = repr(messages)
    compose_to(messages, 500)
    assert repr(messages) == before
