"""What a send of a caller's own list does, effect by effect, without a server: one round trip, that list answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compactor.commands.sync import Synced
from compactor.exceptions import (
    ConfigurationError,
    InvalidMessageError,
    MessageTooLargeError,
    SessionEvictedError,
    StoreUnavailableError,
)
from compactor.judging import Request
from compactor.models import Context, Erased, Fit, Kind, Receipt
from tests.unit.chat import Chat, assistant, calling, result, system, user
from tests.unit.flows import OVER, Bot, Script, prepared, record

LIST: list[Chat] = [user("a"), assistant("b"), user("c")]
OK = Synced("ok", 900)


def prepare(bot: Bot, script: Script, messages: Any, request: Request | None = None, **options: Any) -> Context:
    asked = request if request is not None else Request()
    return bot.run(lambda flows: flows.prepare(asked, messages=messages, **options), script)


def sync(bot: Bot, script: Script, messages: Any) -> Receipt:
    return bot.run(lambda flows: flows.sync(messages), script)


def knowing(chat: Sequence[Chat]) -> Bot:
    """A bot whose process holds this history already."""
    bot = Bot()
    prepare(bot, bot.script(prepare=prepared(chat)), None)
    return bot


def test_a_first_list_is_stored_and_answered_in_one_round_trip() -> None:
    bot = Bot()
    script = bot.script(sync=OK, prepare=prepared(LIST))
    context = prepare(bot, script, LIST)
    (command,) = script.commands
    assert (command.script, command.then and command.then[0]) == ("sync", "prepare")
    assert context.messages == LIST
    assert (context.verdict.fit, context.verdict.length) == (Fit.FITS, 3)


def test_a_longer_list_stores_only_what_is_new() -> None:
    bot = knowing(LIST)
    script = bot.script(sync=OK, prepare=prepared([assistant("d")], length=4))
    context = prepare(bot, script, [*LIST, assistant("d")])
    (command,) = script.commands
    texts = [record(message).text for message in (*LIST, assistant("d"))]
    assert [text in command.args for text in texts] == [False, False, False, True]
    assert context.messages == [*LIST, assistant("d")]


@pytest.mark.parametrize("messages", [LIST, LIST[:1], LIST[1:], [LIST[0], LIST[2]]])
def test_a_list_with_nothing_new_is_a_read(messages: list[Chat]) -> None:
    bot = knowing(LIST)
    script = bot.script(prepare=prepared([], length=3))
    assert prepare(bot, script, messages).messages == messages
    assert [command.script for command in script.commands] == ["prepare"]


def test_a_list_planned_on_an_older_history_is_planned_anew() -> None:
    bot = knowing(LIST)
    script = bot.script(
        sync=[Synced("changed"), OK],
        prepare=[prepared([assistant("x")], length=4), prepared([user("y")], length=5)],
    )
    context = prepare(bot, script, [*LIST, assistant("x"), user("y")])
    assert len(script.commands) == 2
    assert context.messages == [*LIST, assistant("x"), user("y")]


def test_a_history_that_others_change_all_the_while_is_answered_and_not_stored() -> None:
    bot = knowing(LIST)
    script = bot.script(sync=Synced("changed"), prepare=prepared([], length=3))
    context = prepare(bot, script, [*LIST, assistant("x")])
    assert context.messages == [*LIST, assistant("x")]
    assert context.verdict.compaction == "held(contended)"
    with pytest.raises(StoreUnavailableError, match="nothing was"):
        sync(bot, script, [*LIST, assistant("x")])


def test_a_full_session_answers_the_list_all_the_same() -> None:
    bot = knowing(LIST)
    script = bot.script(sync=Synced("full", 900), prepare=prepared([], length=3))
    context = prepare(bot, script, [*LIST, assistant("x")])
    assert context.messages == [*LIST, assistant("x")]
    assert context.verdict.compaction == "held(session_full)"
    with pytest.raises(MessageTooLargeError, match="900 bytes"):
        sync(bot, script, [*LIST, assistant("x")])


def test_a_replacement_takes_its_place_in_the_list() -> None:
    bot = knowing([user("a"), calling("c"), result("c", "a long output"), assistant("b")])
    short = record(result("c", "[short]"), kind=Kind.SUMMARY, own=record(result("c", "a long output")).own)
    script = bot.script(prepare=prepared([], version=2, length=4, changed={2: short}))
    listed = [user("a"), calling("c"), result("c", "a long output"), assistant("b")]
    context = prepare(bot, script, listed)
    assert context.messages == [user("a"), calling("c"), result("c", "[short]"), assistant("b")]
    assert context.replaced == 1


def test_without_an_answer_the_caller_s_own_list_is_sent_degraded() -> None:
    bot = Bot()
    script = bot.script(prepare=StoreUnavailableError("no answer"), sync=OK)
    context = prepare(bot, script, LIST)
    assert context.messages == LIST
    assert (context.verdict.fit, context.verdict.compaction) == (Fit.DEGRADED, "held(store_unavailable)")
    long = prepare(bot, script, OVER)
    assert long.verdict.sent <= 3_500 < long.verdict.total


def test_an_evicted_session_is_healed_by_a_list() -> None:
    bot = knowing(LIST)
    broken = SessionEvictedError("parts disagree")
    script = bot.script(sync=OK, prepare=[broken, prepared(LIST)], clear=Erased(), count=1)
    context = prepare(bot, script, LIST)
    assert "heal" in next(command.args for command in script.commands if command.script == "clear")
    assert context.messages == LIST
    assert context.verdict.problems == ("evicted",)
    assert context.verdict.fit is Fit.FITS


def test_the_system_text_of_a_list_stands_once_in_front() -> None:
    bot = Bot()
    script = bot.script(sync=OK, prepare=prepared(LIST))
    listed = [system("s"), *LIST]
    context = prepare(bot, script, listed, Request(system="s"))
    assert context.messages == listed
    assert record(system("s")).text not in script.commands[0].args
    other = prepare(bot, bot.script(prepare=prepared([], length=3)), [system("t"), *LIST], Request(system="s"))
    assert other.messages == [system("s"), system("t"), *LIST]


def test_calls_of_a_caller_s_list_are_closed_only_when_asked_for() -> None:
    listed = [user("a"), calling("c"), user("b")]
    bot = knowing(listed)
    left = prepare(bot, bot.script(prepare=prepared([], length=3)), listed)
    assert (left.messages, left.verdict.problems) == (listed, ("open_call@m1",))
    closed = prepare(bot, bot.script(prepare=prepared([], length=3)), listed, repair=True)
    assert [message["role"] for message in closed.messages] == ["user", "assistant", "tool", "user"]


def test_a_sync_answers_where_its_messages_stand() -> None:
    bot = Bot()
    script = bot.script(sync=OK, prepare=prepared(LIST, offset=10))
    receipt = sync(bot, script, LIST)
    assert (receipt.length, receipt.positions, receipt.over_threshold) == (3, (10, 11, 12), False)
    last = script.commands[0].then
    assert last is not None
    assert "look" in last[1]


@pytest.mark.parametrize("bad", [None, "hi", user("a"), 7])
def test_only_a_list_can_be_synced(bad: Any) -> None:
    bot = Bot()
    with pytest.raises(InvalidMessageError, match="list"):
        sync(bot, bot.script(), bad)


@pytest.mark.parametrize("bad", ["hi", user("a"), 7])
def test_a_single_message_is_no_list_to_prepare(bad: Any) -> None:
    """Taken for the whole conversation it would be a branch, and end the history."""
    bot = Bot()
    with pytest.raises(InvalidMessageError, match="whole conversation as a list"):
        prepare(bot, bot.script(), bad)


@pytest.mark.parametrize("repair", ["yes", 1.5, []])
def test_whether_to_mend_is_a_yes_or_no(repair: Any) -> None:
    bot = Bot()
    with pytest.raises(ConfigurationError, match="repair"):
        prepare(bot, bot.script(), LIST, repair=repair)
