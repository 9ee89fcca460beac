"""What a push does, effect by effect, without a server: one command, its name kept until it is confirmed."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.exceptions import (
    InvalidMessageError,
    MessageTooLargeError,
    StoreUnavailableError,
)
from compactor.models import Receipt
from compactor.tokens import count_message
from tests.unit.chat import by_length, user
from tests.unit.flows import Bot, Script, prepared, pushed, record, sent, stored


def operation(script: Script) -> Any:
    (command,) = [command for command in script.commands if command.script == "push"]
    return command.args[0]


def push(bot: Bot, messages: Any, script: Script, key: str | None = None) -> Receipt:
    return bot.run(lambda flows: flows.push(messages, key), script)


def test_a_push_is_one_command_and_answers_where_its_messages_stand() -> None:
    bot = Bot()
    script = bot.script(push=pushed(total=40, length=12, first=10, over=True))
    receipt = push(bot, [user("a"), user("b")], script)
    assert script.ran == ["push"]
    assert receipt == Receipt(40, 12, True, (10, 11))


@pytest.mark.parametrize("messages", [user("a"), [user("a")], (user("a"),)])
def test_one_message_or_a_list_of_it_are_the_same_push(messages: Any) -> None:
    bot = Bot()
    script = bot.script(push=pushed())
    push(bot, messages, script)
    assert script.commands[0].args[-2:] == (record(user("a")).text, b"")


@pytest.mark.parametrize("bad", [None, "hi", {"role": "model"}, user({1, 2}), iter([user("a")])])
def test_nothing_is_stored_when_one_message_of_a_push_is_bad(bad: Any) -> None:
    bot = Bot()
    script = bot.script()
    with pytest.raises(InvalidMessageError):
        push(bot, [user("fine"), bad], script)
    with pytest.raises(InvalidMessageError):
        push(bot, bad, script)
    assert script.ran == []


def test_a_message_over_its_size_is_refused_before_anything_is_sent() -> None:
    bot = Bot(max_message_bytes=100)
    script = bot.script()
    with pytest.raises(MessageTooLargeError, match="over the limit of 100"):
        push(bot, user("x" * 200), script)
    assert script.ran == []


def test_an_empty_push_stores_nothing_and_answers_where_the_session_stands() -> None:
    bot = Bot()
    chat = [user("a" * 400), user("b" * 40)]
    script = bot.script(prepare=prepared(chat))
    assert push(bot, [], script) == Receipt(sum(count_message(message, by_length) for message in chat), 2, False)
    assert script.ran == ["prepare"]
    assert "look" in script.commands[0].args  # judges nothing, so it takes no claim


def test_a_push_into_a_history_not_counted_counts_it_once() -> None:
    bot = Bot()
    chat = [user("a" * 400), user("b" * 400)]
    script = bot.script(push=pushed(total=None, length=2, first=1), history=stored(chat), recount=True)
    receipt = push(bot, user("b" * 400), script)
    assert script.ran == ["push", "history", "recount"]
    assert receipt.total == sum(count_message(message, by_length) for message in chat)


def test_each_push_has_a_name_of_its_own() -> None:
    bot = Bot()
    names: set[Any] = set()
    for _ in range(3):
        script = bot.script(push=pushed())
        push(bot, user("ok"), script)
        names.add(operation(script))
    assert len(names) == 3


def test_a_push_that_raised_keeps_its_name_when_it_is_repeated() -> None:
    bot = Bot()
    first, second, third = (
        bot.script(push=answer) for answer in (StoreUnavailableError("no answer"), pushed(), pushed())
    )
    with pytest.raises(StoreUnavailableError):
        push(bot, user("ok"), first)
    push(bot, user("ok"), second)
    push(bot, user("ok"), third)
    assert operation(first) == operation(second) != operation(third)


def test_a_push_that_was_cancelled_keeps_its_name_when_it_is_repeated() -> None:
    bot = Bot()
    script = bot.script(push=pushed())
    sent(bot.flows.push(user("ok")), script).close()
    again = bot.script(push=pushed())
    push(bot, user("ok"), again)
    assert operation(script) == operation(again)


def test_another_message_after_a_failed_push_gets_a_new_name() -> None:
    bot = Bot()
    first, second = bot.script(push=StoreUnavailableError("no answer")), bot.script(push=pushed())
    with pytest.raises(StoreUnavailableError):
        push(bot, user("ok"), first)
    push(bot, user("no"), second)
    assert operation(first) != operation(second)


def test_the_same_words_long_after_a_failed_push_are_a_new_message() -> None:
    bot = Bot()
    first, second = bot.script(push=StoreUnavailableError("no answer")), bot.script(push=pushed())
    with pytest.raises(StoreUnavailableError):
        push(bot, user("yes"), first)
    bot.clock.time += 3_600
    push(bot, user("yes"), second)
    assert operation(first) != operation(second)


def test_two_pushes_of_the_same_words_at_once_are_two_messages() -> None:
    bot = Bot()
    scripts = [bot.script(push=pushed()), bot.script(push=pushed())]
    waiting = [sent(bot.flows.push(user("ok")), script) for script in scripts]
    assert operation(scripts[0]) != operation(scripts[1])
    for flow in waiting:
        with pytest.raises(StopIteration):
            flow.send(pushed())


def test_an_idempotency_key_names_the_push_whatever_it_holds() -> None:
    bot = Bot()
    scripts = [bot.script(push=pushed()) for _ in range(3)]
    push(bot, user("a"), scripts[0], "message-1")
    push(bot, user("b"), scripts[1], "message-1")
    push(bot, user("a"), scripts[2], "message-2")
    assert operation(scripts[0]) == operation(scripts[1]) != operation(scripts[2])
    assert len(operation(scripts[0])) == 8


@pytest.mark.parametrize("key", ["", 7, b"x", ["x"]])
def test_an_idempotency_key_must_be_text(key: Any) -> None:
    bot = Bot()
    with pytest.raises(InvalidMessageError, match="idempotency_key"):
        push(bot, user("a"), bot.script(), key)


def test_much_text_is_counted_where_it_blocks_nobody() -> None:
    bot = Bot()
    push(bot, user("a"), bot.script(push=pushed()))
    little, much = bot.script(push=pushed()), bot.script(push=pushed())
    push(bot, user("a"), little)
    push(bot, user("a" * 20_000), much)
    assert True not in little.heavy
    assert True in much.heavy


def test_a_session_counted_in_two_encodings_is_pushed_in_both_from_then_on() -> None:
    bot = Bot()
    push(bot, user("a"), bot.script(push=pushed(behind=True)))
    script = bot.script(push=pushed())
    push(bot, user("a"), script)
    assert "" not in script.commands[0].args[9:13]


LONG = "word " * 4_000
CALL: dict[str, Any] = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": LONG}}]}


@pytest.mark.parametrize("message", [user(LONG), {"role": "user", "content": [{"type": "text", "text": LONG}]}, CALL])
def test_a_long_text_is_encoded_and_counted_in_a_thread_wherever_it_stands(message: Any) -> None:
    bot = Bot()
    push(bot, user("a"), bot.script(push=pushed()))  # its encoding is loaded
    little, much = bot.script(push=pushed()), bot.script(push=pushed())
    push(bot, user("a"), little)
    push(bot, message, much)
    assert True not in little.heavy
    assert much.heavy == [True, True]


def test_what_holds_itself_is_refused_as_ever() -> None:
    bot = Bot()
    endless: dict[str, Any] = {"role": "user"}
    endless["content"] = [endless]
    with pytest.raises(InvalidMessageError):
        push(bot, endless, bot.script())
