"""compact_messages: the pure entry; the same rungs and checks on a plain list."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor import Code, ModelConfig, compact_messages
from compactor.encodings import encoder
from compactor.exceptions import ConfigurationError, InvalidMessageError, SummarizerRefused, SummarizerTimeout
from compactor.formats.openai import text_of
from compactor.pricing import price
from compactor.tokens import PER_REQUEST, count_json, count_messages
from compactor.validity import added_faults
from tests.unit.chat import Chat, assistant, call, calling, long_text, result, steps, system, user
from tests.unit.conversations import busy_conversations, sound_conversations
from tests.unit.summarizers import failing, saying

CONFIG = ModelConfig("gpt-4o", context_limit_tokens=16_000)
SMALL = ModelConfig("gpt-4o", context_limit_tokens=4_000)
OVER = steps(13, tokens=900)  # over the threshold of CONFIG, below its ceiling


def test_a_list_below_the_threshold_comes_back_as_the_very_same_messages() -> None:
    chat = steps(2)
    found = compact_messages(chat, CONFIG)
    assert found.messages is not chat
    assert all(new is old for new, old in zip(found.messages, chat, strict=True))
    assert (found.outcome.outcome, found.originals) == (Code.BELOW_THRESHOLD, {})
    assert found.before == found.after == found.outcome.before == found.outcome.after


def test_a_list_over_the_threshold_is_compacted_to_the_target_by_extracts() -> None:
    found = compact_messages(OVER, CONFIG)
    assert found.outcome.outcome is Code.APPLIED
    assert found.outcome.reached
    assert found.after <= 6_001 < 12_000 <= found.before < 14_000
    assert found.outcome.by_extract == found.outcome.items == len(found.originals)


def test_before_and_after_are_what_is_really_sent() -> None:
    encode = encoder("o200k_base")
    tools = [{"type": "function", "function": {"name": "grep", "description": "d" * 400}}]
    found = compact_messages(OVER, CONFIG, tools=tools)
    beside = PER_REQUEST + count_json(tools, encode)
    assert found.before == beside + count_messages(OVER, encode)
    assert found.after == beside + count_messages(found.messages, encode)


def test_originals_are_named_by_their_recall_ids() -> None:
    found = compact_messages(OVER, CONFIG)
    for name, original in found.originals.items():
        position = int(name[1:])
        assert original is OVER[position]
        assert f"original: {name}" in text_of(found.messages[position])


def test_the_newest_three_results_stay() -> None:
    found = compact_messages(OVER, CONFIG)
    kept = [
        index for index, message in enumerate(OVER) if message["role"] == "tool" and found.messages[index] is message
    ]
    assert kept[-3:] == [22, 24, 26]


def test_a_target_compacts_whatever_the_threshold_says() -> None:
    chat = steps(6)
    found = compact_messages(chat, ModelConfig("gpt-4o", 128), target_tokens=1_000)
    assert found.outcome.outcome is Code.APPLIED
    assert found.after < found.before


def test_a_second_compaction_right_after_the_first_changes_nothing() -> None:
    first = compact_messages(OVER, CONFIG)
    again = compact_messages(first.messages, CONFIG)
    assert again.outcome.outcome is Code.BELOW_THRESHOLD
    assert all(new is old for new, old in zip(again.messages, first.messages, strict=True))


def test_summaries_come_from_the_given_summarizer() -> None:
    model = saying("The tool showed rows.")
    found = compact_messages(OVER, CONFIG, summarizer=model)
    assert found.outcome.by_model == len(model.requests) == len(found.originals)
    assert (found.outcome.spent_in, found.outcome.model) == (10 * len(model.requests), "cheap")


def test_with_prices_the_outcome_has_a_bill() -> None:
    prices = {"gpt-4o": price(Decimal("2.5"), Decimal(10), Decimal("1.25")), "cheap": price(Decimal(1), Decimal(2))}
    found = compact_messages(
        OVER, CONFIG, summarizer=saying("The tool showed rows."), price=lambda model, _tokens: prices.get(model)
    ).outcome
    assert found.bill is not None
    assert found.bill.spent == found.spent_in + 2 * found.spent_out > 0
    assert found.bill.step_before == pytest.approx(1.25 * found.before, abs=1)
    assert compact_messages(OVER, CONFIG).outcome.bill is None


def test_a_summarizer_that_fails_for_now_leaves_the_list_below_the_ceiling() -> None:
    found = compact_messages(OVER, CONFIG, summarizer=failing(SummarizerTimeout()))
    assert (found.outcome.outcome, found.outcome.reason) == (Code.SUMMARIZER_FAILED, "timeout")
    assert all(new is old for new, old in zip(found.messages, OVER, strict=True))


def test_a_summarizer_that_fails_for_now_gives_extracts_above_the_ceiling() -> None:
    found = compact_messages(OVER, SMALL, summarizer=failing(SummarizerTimeout()))
    assert found.outcome.outcome is Code.APPLIED
    assert found.outcome.by_extract > 0


def test_a_summarizer_that_refuses_gives_extracts() -> None:
    found = compact_messages(OVER, CONFIG, summarizer=failing(SummarizerRefused()))
    assert found.outcome.by_extract == found.outcome.items > 0


def test_what_nothing_can_shrink_is_named() -> None:
    chat = [system("s " * 14_000), user("hi")]
    found = compact_messages(chat, CONFIG)
    assert (found.outcome.outcome, found.outcome.reason) == (Code.EXHAUSTED, "system_and_tools")
    assert all(new is old for new, old in zip(found.messages, chat, strict=True))


def test_the_list_given_is_not_changed() -> None:
    before = repr(OVER)
    compact_messages(OVER, CONFIG)
    assert repr(OVER) == before


def test_an_empty_list_is_below_the_threshold() -> None:
    assert compact_messages([], CONFIG).messages == []


class SdkMessage:
    def __init__(self, value: Chat) -> None:
        self.value = value

    def model_dump(self, *, mode: str, exclude_unset: bool) -> Chat:
        return self.value


def test_sdk_objects_are_taken_and_those_kept_come_back_as_they_are() -> None:
    objects = [SdkMessage(message) for message in OVER]
    found = compact_messages(objects, CONFIG)
    assert found.outcome.outcome is Code.APPLIED
    replaced = {int(name[1:]) for name in found.originals}
    assert all(new is objects[index] for index, new in enumerate(found.messages) if index not in replaced)


@pytest.mark.parametrize("message", [None, "hi", 7, {"content": "no role"}, user({1: "a"})])
def test_a_message_that_cannot_be_one_is_refused(message: Any) -> None:
    with pytest.raises(InvalidMessageError):
        compact_messages([user("hi"), message], CONFIG)


@pytest.mark.parametrize("name", ["anthropic", "OpenAI", "", None])
def test_another_format_is_refused_naming_the_known(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="openai"):
        compact_messages([user("hi")], CONFIG, format=name)


@pytest.mark.parametrize("target", [0, -1, 1.5, "20000"])
def test_a_target_must_be_a_positive_whole_number(target: Any) -> None:
    with pytest.raises(ConfigurationError, match="target_tokens"):
        compact_messages([user("hi")], CONFIG, target_tokens=target)


@settings(max_examples=60)
@given(st.one_of(busy_conversations(), sound_conversations(max_turns=3)), st.integers(1, 4_000), st.integers(0, 4))
def test_no_fault_is_added_and_only_results_and_folded_steps_are_replaced(
    chat: list[Chat], target: int, keep: int
) -> None:
    found = compact_messages(chat, CONFIG, target_tokens=target, keep_recent_results=keep)
    assert not added_faults(chat, found.messages)
    places = {id(message): index for index, message in enumerate(chat)}
    kept = [places[id(message)] for message in found.messages if id(message) in places]
    assert kept == sorted(set(kept))
    assert all(message["role"] == "tool" for message in found.messages if id(message) not in places)
    for index in set(range(len(chat))) - set(kept):
        assert found.originals[f"m{index}"] is chat[index]
        assert chat[index]["role"] in ("tool", "assistant")  # whole steps only as a part of a fold
    if found.outcome.outcome is Code.APPLIED:
        assert found.after < found.before
    else:
        assert all(new is old for new, old in zip(found.messages, chat, strict=True))


def test_an_iterator_loses_nothing() -> None:
    chat: Any = iter([user("hi"), assistant("hello")])
    try:
        found = compact_messages(chat, CONFIG)
    except (ConfigurationError, InvalidMessageError):
        return
    assert found.messages == [user("hi"), assistant("hello")]


@pytest.mark.parametrize("keep", ["3", None, 2.5])
def test_a_wrong_number_of_results_to_keep_is_refused(keep: Any) -> None:
    with pytest.raises(ConfigurationError, match="keep_recent_results"):
        compact_messages(OVER, CONFIG, keep_recent_results=keep)


def test_a_boolean_target_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="target_tokens"):
        compact_messages([user("hi")], CONFIG, target_tokens=True)


def test_a_replacement_is_never_shortened_again() -> None:
    text = "\n".join(f"key_{n} = value {n * 7919} at path /srv/data/{n}/x.log" for n in range(400))
    chat = [user("go")]
    for number in range(5):
        chat += [calling(call(f"c{number}", arguments=f'{{"n":{number}}}')), result(f"c{number}", f"{text}\n{number}")]
    first = compact_messages([*chat, assistant("ok")], SMALL, target_tokens=500)
    again = compact_messages(first.messages, SMALL, target_tokens=500)
    assert [text_of(message) for message in again.messages] == [text_of(message) for message in first.messages]


def test_one_strange_result_does_not_stop_the_others() -> None:
    nested = result("x", "[" * 1_000 + "1" + "]" * 1_000)
    chat = [user("go"), calling("x"), nested, *OVER]
    assert compact_messages(chat, CONFIG).outcome.outcome is Code.APPLIED


def test_a_long_answer_of_a_tool_does_not_hide_the_question() -> None:
    chat = [user("what is in the file?"), calling("a"), result("a", long_text(20_000)), assistant("ok"), user("thanks")]
    found = compact_messages(chat, CONFIG)
    assert found.messages[0] is chat[0]
    assert found.messages[4] is chat[4]


@pytest.mark.parametrize("messages", ["hi", b"hi", user("hi"), None, 7])
def test_what_is_no_list_of_messages_is_refused(messages: Any) -> None:
    with pytest.raises(InvalidMessageError, match="expected a list"):
        compact_messages(messages, CONFIG)


def test_a_draft_that_frees_too_little_changes_nothing() -> None:
    """The result looks large, but most of it is a call id that stays."""
    name = "".join(f"{number * 7919:x}" for number in range(600))
    chat = [user("go"), calling(name), result(name, "z " * 500), assistant("ok")]
    found = compact_messages(chat, CONFIG, target_tokens=100, keep_recent_results=0)
    assert found.outcome.outcome is Code.NO_GAIN
    assert all(new is old for new, old in zip(found.messages, chat, strict=True))
