"""LangChain messages, read as the chat messages that LangChain sends for them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    HumanMessageChunk,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    ToolMessageChunk,
    convert_to_openai_messages,
)

from compactor.exceptions import InvalidMessageError
from compactor.formats.langchain import as_chat, is_langchain

CALL = {"name": "ping", "args": {"host": "R1", "größe": [1, None]}, "id": "c1", "type": "tool_call"}


def test_importing_the_package_imports_no_langchain() -> None:
    code = "import sys, compactor.context; assert not [name for name in sys.modules if 'langchain_core' in name]"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("other", [{"role": "user"}, "text", None, 5, HumanMessage])
def test_anything_else_is_no_message_of_langchain(other: object) -> None:
    assert not is_langchain(other)


@pytest.mark.parametrize(
    ("message", "role"),
    [
        (HumanMessage("x"), "user"),
        (HumanMessageChunk(content="x"), "user"),
        (AIMessage("x"), "assistant"),
        (AIMessageChunk(content="x"), "assistant"),
        (SystemMessage("x"), "system"),
        (SystemMessage("x", additional_kwargs={"__openai_role__": "developer"}), "developer"),
        (ToolMessage("x", tool_call_id="1"), "tool"),
        (ToolMessageChunk(content="x", tool_call_id="1"), "tool"),
        (FunctionMessage(content="x", name="f"), "function"),
        (ChatMessage(content="x", role="user"), "user"),
        (ChatMessage(content="x", role="human"), "user"),
        (ChatMessage(content="x", role="critic"), "critic"),
    ],
)
def test_each_kind_has_its_role(message: BaseMessage, role: str) -> None:
    assert is_langchain(message)
    assert as_chat(message)["role"] == role
    assert as_chat(message)["content"] == "x"


@pytest.mark.parametrize(
    "message",
    [
        HumanMessage("hi", name="ada"),
        AIMessage("", tool_calls=[CALL, {**CALL, "id": "c2"}]),
        ToolMessage("pong", tool_call_id="c1"),
        SystemMessage("be kind"),
        HumanMessage([{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "http://x/y.png"}}]),
    ],
)
def test_it_is_what_langchains_own_conversion_gives(message: BaseMessage) -> None:
    own: Any = convert_to_openai_messages(message)
    assert _plain(as_chat(message)) == _plain(own)


def _plain(chat: Any) -> Any:
    """Arguments as values: JSON may be written with and without blanks."""
    calls = [{**c, "function": {**c["function"], "arguments": json.loads(c["function"]["arguments"])}}
             for c in chat.get("tool_calls", [])]  # fmt: skip
    return {**chat, "tool_calls": calls}


def test_calls_that_langchain_could_not_parse_are_calls_too() -> None:
    broken = {"name": "ping", "args": '{"host": ', "id": "c2", "error": "EOF", "type": "invalid_tool_call"}
    chat = as_chat(AIMessage("", tool_calls=[CALL], invalid_tool_calls=[broken]))
    assert [call["id"] for call in chat["tool_calls"]] == ["c1", "c2"]
    assert chat["tool_calls"][1]["function"]["arguments"] == '{"host": '


def test_calls_of_old_messages_stand_in_additional_kwargs() -> None:
    function = {"name": "ping", "arguments": "{}"}
    old = AIMessage("", additional_kwargs={"function_call": function})
    assert as_chat(old)["function_call"] == function


def test_a_call_that_content_repeats_is_counted_once() -> None:
    used = {"type": "tool_use", "id": "c1", "name": "ping", "input": {"host": "R1"}}
    chat = as_chat(AIMessage([{"type": "text", "text": "I look."}, used], tool_calls=[CALL]))
    assert chat["content"] == [{"type": "text", "text": "I look."}]
    assert len(chat["tool_calls"]) == 1


def test_reasoning_counts_as_it_is_sent() -> None:
    chat = as_chat(AIMessage("x", additional_kwargs={"reasoning_content": "because"}))
    assert chat["reasoning_content"] == "because"


def test_a_message_that_is_an_instruction_to_the_state_is_refused() -> None:
    with pytest.raises(InvalidMessageError, match="RemoveMessage"):
        as_chat(RemoveMessage(id="1"))


def test_the_message_itself_is_not_changed() -> None:
    message = AIMessage("x", tool_calls=[CALL], custom="kept")
    before = message.model_dump_json()
    as_chat(message)
    assert message.model_dump_json() == before
