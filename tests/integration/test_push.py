"""push: what was pushed is stored, whole, once, or not at all."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import orjson
import pytest
from openai.types.chat import ChatCompletion

from compactor import AsyncCompactor, Compactor, InvalidMessageError, MessageTooLargeError
from compactor.settings import Settings
from tests.integration.clients import Client
from tests.integration.conversations import ROOMY, SMALL, SYSTEM, assistant, conversation, recount, step, user
from tests.integration.stored import texts

REPLY: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o",
    "choices": [
        {
            "index": 0,
            "finish_reason": "tool_calls",
            "logprobs": None,
            "message": {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "call_1", "type": "function", "function": {"name": "grep", "arguments": '{"q": "a"}'}}
                ],
            },
        }
    ],
}


def test_one_message_is_stored_and_counted(memory: Client) -> None:
    session = memory.session("push/one", ROOMY)
    receipt = session.push(user("hello"))
    assert (receipt.length, receipt.positions, receipt.over_threshold) == (1, (0,), False)
    assert receipt.total == recount([user("hello")])
    assert session.prepare().messages == [user("hello")]


def test_a_list_is_stored_in_order_by_one_call(memory: Client) -> None:
    session = memory.session("push/many", ROOMY)
    session.push(SYSTEM)
    messages = conversation(3)[1:]
    receipt = session.push(messages)
    assert receipt.positions == tuple(range(1, 1 + len(messages)))
    assert receipt.length == 1 + len(messages)
    assert receipt.total == recount([SYSTEM, *messages])
    assert session.prepare().messages == [SYSTEM, *messages]


def test_an_empty_list_stores_nothing(memory: Client) -> None:
    session = memory.session("push/empty", ROOMY)
    assert session.push([]).length == 0
    assert not session.status().exists
    session.push(user("hello"))
    assert session.push([]).length == 1


def test_an_sdk_reply_is_stored_without_fields_nobody_set(memory: Client) -> None:
    session = memory.session("push/sdk", ROOMY)
    reply = ChatCompletion.model_validate(REPLY).choices[0].message
    session.push([user("hello"), reply])
    stored = session.prepare().messages[1]
    assert stored == REPLY["choices"][0]["message"]
    assert "refusal" not in stored


def test_null_and_empty_content_stay_what_they_are(memory: Client) -> None:
    session = memory.session("push/null", ROOMY)
    pushed: list[Any] = [
        {"role": "assistant", "content": None, "x_vendor": [], "refusal": None},
        {"role": "assistant", "content": "", "x_vendor": {}},
    ]
    session.push(pushed)
    assert session.prepare().messages == pushed


def test_many_messages_go_in_one_push(memory: Client) -> None:
    session = memory.session("push/9000", ROOMY)
    messages = [user(f"number {order}") for order in range(9_000)]
    receipt = session.push(messages)
    assert receipt.length == 9_000
    assert session.originals() == messages


def test_the_receipt_says_when_the_threshold_is_crossed(memory: Client) -> None:
    session = memory.session("push/over", SMALL)
    over = [session.push(step(order)).over_threshold for order in range(9)]
    totals = [recount([m for order in range(n + 1) for m in step(order)]) + 3 >= 6_000 for n in range(9)]
    assert over == totals
    assert over[0] is False
    assert over[-1] is True


def test_after_a_prepare_with_tools_the_receipt_counts_them(memory: Client) -> None:
    session = memory.session("push/tools", SMALL)
    tools = [{"type": "function", "function": {"name": "grep", "description": "find text " * 1_400}}]
    session.push(user("hello"))
    assert session.prepare(tools=tools).verdict.tools > 2_500
    pushed = session.push([message for order in range(4) for message in step(order)])
    assert pushed.total < 6_000
    assert pushed.over_threshold


@pytest.mark.parametrize(
    "wrong",
    [
        {"role": "robot", "content": "x"},
        {"content": "x"},
        {"role": None, "content": "x"},
        {"role": "user", "content": object()},
        {"role": "user", "content": {1: "x"}},
        "hello",
        None,
        42,
        {"role": "user", "content": b"x"},
    ],
    ids=["unknown-role", "no-role", "null-role", "not-json", "number-key", "text", "none", "number", "bytes"],
)
def test_a_wrong_message_is_refused_and_nothing_of_the_call_is_stored(memory: Client, wrong: Any) -> None:
    session = memory.session("push/wrong", ROOMY)
    session.push(user("before"))
    with pytest.raises(InvalidMessageError) as caught:
        session.push([user("secret-4711"), wrong, user("after")])
    assert "secret-4711" not in str(caught.value)
    assert session.prepare().messages == [user("before")]


def test_a_message_over_the_limit_is_refused_before_counting(memory: Client) -> None:
    session = memory.session("push/32mb", ROOMY)
    session.push(user("before"))
    with pytest.raises(MessageTooLargeError, match="8388608"):
        session.push([user("small"), user("x" * 32 * 1024**2)])
    assert session.prepare().messages == [user("before")]
    assert session.status().length == 1


def test_a_full_session_refuses_the_push_whole(connect: Any, settings: Settings) -> None:
    memory = connect(settings.model_copy(update={"max_session_bytes": 10_000}))
    session = memory.session("push/full", ROOMY)
    session.push(user("a" * 6_000))
    before = session.status()
    with pytest.raises(MessageTooLargeError, match="10000") as caught:
        session.push([user("b"), user("c" * 6_000)])
    assert "nothing was stored" in str(caught.value)
    after = session.status()
    assert (after.length, after.stored_bytes, after.totals) == (1, before.stored_bytes, before.totals)
    assert session.push(user("d" * 3_000)).length == 2


def test_a_push_refused_for_space_goes_in_once_there_is_space(connect: Any, settings: Settings) -> None:
    memory = connect(settings.model_copy(update={"max_session_bytes": 10_000}))
    session = memory.session("push/full-then-clear", ROOMY)
    session.push(user("a" * 6_000))
    with pytest.raises(MessageTooLargeError):
        session.push(user("b" * 6_000))
    session.clear()
    assert session.push(user("b" * 6_000)).length == 1
    assert session.originals() == [user("b" * 6_000)]


def test_stored_bytes_are_the_json_that_was_written(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("push/bytes", ROOMY)
    pushed = [SYSTEM, user("héllo 日本 \ud83d \u0000 end"), assistant("ok"), {"role": "user", "content": float("inf")}]
    session.push(pushed)
    found = texts(raw, settings, "push/bytes")
    assert found[0] == orjson.dumps(SYSTEM)
    assert session.prepare().messages == pushed
    assert session.status().stored_bytes == sum(map(len, found))


def test_the_same_text_pushed_by_many_threads_at_once_is_stored_as_often(settings: Settings) -> None:
    with Compactor(settings=settings) as memory:
        session = memory.session("push/same-text-threads", ROOMY)
        gate = threading.Barrier(8)

        def pushing() -> None:
            gate.wait()
            for _ in range(20):
                session.push(user("yes"))

        threads = [threading.Thread(target=pushing) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert session.status().length == 160


async def test_the_same_text_pushed_by_many_coroutines_at_once_is_stored_as_often(settings: Settings) -> None:
    async with AsyncCompactor(settings=settings) as memory:
        session = memory.session("push/same-text-coroutines", ROOMY)
        await asyncio.gather(*(session.push(user("yes")) for _ in range(40)))
        assert (await session.status()).length == 40


async def test_a_cancelled_call_leaves_no_reply_for_the_next(settings: Settings) -> None:
    async with AsyncCompactor(settings=settings) as memory:
        session = memory.session("push/cancelled", ROOMY)
        await session.push([user(f"number {order}") for order in range(50)])
        cancelled = 0
        for order in range(40):
            pending = asyncio.create_task(session.originals())
            await asyncio.sleep(order * 25e-6)  # somewhere between the send and the reply
            cancelled += pending.cancel()
            await asyncio.gather(pending, return_exceptions=True)
            assert (await session.status()).length == 50
        assert cancelled
