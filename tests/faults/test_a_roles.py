"""Section A, 6 and 12-19: roles, contents and parts that one provider or another is strict about."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final

import pytest

from compactor import Code, Compactor, InvalidMessageError, ModelConfig, compact_messages
from compactor.json_values import is_object
from compactor.testing import ModelServer
from compactor.validity import faults
from tests.acceptance.conftest import Service
from tests.acceptance.scripted_model import requests_with
from tests.faults.windows import assert_sound, compacted, every_window
from tests.integration.conversations import SMALL
from tests.unit.chat import Chat, assistant, call, calling, developer, long_text, result, steps, system, user

X: Final = "x" * 9_000
CHAT: Final = steps(6, tokens=900)


def tool_use(name: str) -> Chat:
    """A call as Anthropic shapes it."""
    part: Chat = {"type": "tool_use", "id": name, "name": "read", "input": {}}
    return {"role": "assistant", "content": [{"type": "text", "text": "reading"}, part]}


def tool_result(name: str, text: str) -> Chat:
    """Its result, beside the words of a user."""
    part = {"type": "tool_result", "tool_use_id": name, "content": text}
    return user([{"type": "text", "text": "look"}, part])


def unpaired(messages: list[Any]) -> set[str]:
    """Ids of Anthropic results whose call does not stand in the message before."""
    missing: set[str] = set()
    for order, message in enumerate(messages):
        parts: Any = message["content"] if isinstance(message["content"], list) else []
        wanted = {part["tool_use_id"] for part in parts if part.get("type") == "tool_result"}
        before: Any = (messages[order - 1]["content"] or []) if order else []
        missing |= wanted - {part.get("id") for part in before if is_object(part)}
    return missing


ANTHROPIC: Final = {
    "one call": [user("go"), tool_use("a"), tool_result("a", X)],
    "after others": [user("go"), *CHAT[1:-1], assistant("found"), user("on"), tool_use("a"), tool_result("a", X)],
    "two in a row": [user("go"), tool_use("a"), tool_result("a", X), tool_use("b"), tool_result("b", X)],
}


@pytest.mark.parametrize("chat", ANTHROPIC.values(), ids=ANTHROPIC.keys())
def test_a06_a_stored_compaction_keeps_results_in_user_messages_and_their_calls(chat: list[Chat]) -> None:
    for target in (1, 500, 2_000):
        values = compacted(chat, target)
        shaped = [message for message in chat if isinstance(message["content"], list)]
        assert [message for message in values if isinstance(message["content"], list)] == shaped


@pytest.mark.parametrize("chat", ANTHROPIC.values(), ids=ANTHROPIC.keys())
def test_a06_a_result_in_a_user_message_keeps_its_call_in_every_window(chat: list[Chat]) -> None:
    for sent in every_window(chat):
        assert not unpaired(sent.messages), sent.how


SYSTEMS: Final = {
    "two at the top": [system("A"), system("B"), user("hi"), *CHAT[1:]],
    "in the middle": [system("A"), *CHAT[:5], system("note"), *CHAT[5:], user("hi")],
    "none": [*CHAT, user("hi")],
}


@pytest.mark.parametrize("chat", SYSTEMS.values(), ids=SYSTEMS.keys())
def test_a12_no_system_message_is_added_or_moved(chat: list[Chat]) -> None:
    given = [json.dumps(message) for message in chat if message["role"] == "system"]
    leading = sum(1 for message in chat[:2] if message["role"] == "system")
    for sent in every_window(chat):
        assert [json.dumps(m) for m in sent.messages if m["role"] == "system"] == given, sent.how
        assert [m["role"] for m in sent.messages[:leading]] == ["system"] * leading, sent.how


@pytest.mark.parametrize("own", [None, "Be brief."])
def test_a12_one_system_text_is_one_message(own: str | None, memory: Compactor) -> None:
    opening = [] if own is None else [system(own)]
    pushed, listed = memory.session("a12/pushed", SMALL), memory.session("a12/listed", SMALL)
    pushed.push(CHAT)
    for context in (pushed.prepare(system=own), listed.prepare([*opening, *CHAT]), listed.prepare(CHAT, system=own)):
        assert [m for m in context.messages if m["role"] == "system"] == opening
        assert context.messages[: len(opening)] == opening
    returned = listed.prepare([*opening, *CHAT], system=own).messages
    assert [m for m in returned if m["role"] == "system"] == opening, "the same text is not sent twice"


def neighbours(messages: list[Any]) -> int:
    """How often a user or assistant message follows one of its own role."""
    roles = [message["role"] for message in messages]
    return sum(1 for role, before in pairwise(roles) if role == before and role in ("user", "assistant"))


def talk(turns: int) -> list[Chat]:
    """User and assistant in turn, with a call in between now and then."""
    chat: list[Chat] = [system("s")]
    for turn in range(turns):
        chat.append(user(f"question {turn} {long_text(120)}"))
        if turn % 3 == 1:
            chat += [calling(f"c{turn}"), result(f"c{turn}", f"{turn}\n{long_text(700)}")]
        chat.append(assistant(f"answer {turn} {long_text(90)}"))
    return [*chat, user("the question")]


@pytest.mark.parametrize("chat", [talk(2), talk(7), [user("summary of before"), user("question"), *CHAT[1:], user()]])
def test_a13_messages_of_one_role_do_not_become_neighbours(chat: list[Chat]) -> None:
    for sent in every_window(chat):
        assert neighbours(sent.messages) <= neighbours(chat), sent.how


@pytest.mark.parametrize(
    "chat",
    [
        [developer("rules"), user("a"), assistant(X), user("b"), assistant(X), user("c")],
        [developer("rules"), *CHAT, developer("more rules"), user("go on")],
        [system("a"), developer("rules"), *CHAT, user("go on"), calling("z"), result("z", X)],
    ],
)
def test_a14_developer_messages_stay_and_keep_their_role(chat: list[Chat], modelless: Service) -> None:
    rules = [message for message in chat if message["role"] == "developer"]
    for sent in every_window(chat):
        assert [m for m in sent.messages if m["role"] == "developer"] == rules, sent.how
    session = modelless.session("a14", ModelConfig("gpt-4o", context_limit_tokens=2_000))
    session.push(chat)
    context = session.prepare(wait=20, wait_for="swap")
    assert [m for m in context.messages if m["role"] == "developer"] == rules


HOLLOW: Final[list[Any]] = [
    " " * 20_000,
    "\n" * 9_000,
    "\u200b" * 5_000,
    "",
    None,
    [],
    {},
    "-" * 20_000,
    "?\x00" * 9_000,
]
IMAGES: Final = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}] * 3


@pytest.mark.parametrize("content", [*HOLLOW, IMAGES, [{"type": "text", "text": " " * 9_000}]])
def test_a15_what_is_taken_out_leaves_words_behind(content: Any) -> None:
    chat = [user("go"), calling("a", "b"), result("a", content), result("b", X), assistant("x"), user("y")]
    chat += [calling("c"), result("c", content)]
    for sent in every_window(chat):
        assert_sound(chat, sent)
        given = [message["content"] for message in chat]
        for message in sent.messages:
            assert message["content"] in given or str(message["content"]).strip(), sent.how


@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {}, {"content": "I look."}, {"content": []}])
def test_a16_the_content_of_a_call_stays_what_it_was(content: Chat, modelless: Service) -> None:
    call_message: Chat = {"role": "assistant", **content, "tool_calls": [call("a", "f")]}
    chat = [user("go"), call_message, result("a", long_text(3_000)), assistant("done"), user("next")]
    for sent in every_window(chat):
        assert [m for m in sent.messages if m.get("tool_calls")] in ([], [call_message]), sent.how
    session = modelless.session("a16", ModelConfig("gpt-4o", context_limit_tokens=2_500))
    session.push(chat)
    assert session.compact(wait=20).outcome is Code.APPLIED
    assert json.dumps(session.prepare().messages[1]) == json.dumps(call_message)


RESPONSES: Final[list[Chat]] = [
    {"type": "reasoning", "id": "rs_1", "summary": []},
    {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "a", "output": "1"},
    {"type": "item_reference", "id": "msg_1"},
]


@pytest.mark.parametrize("item", RESPONSES, ids=lambda item: str(item["type"]))
def test_a17_items_of_the_responses_api_are_refused_not_taken_apart(item: Chat, modelless: Service) -> None:
    message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
    session = modelless.session("a17", SMALL)
    with pytest.raises(InvalidMessageError, match="role"):
        session.push([user("go"), item, message])
    assert not session.status().exists
    with pytest.raises(InvalidMessageError, match="role"):
        compact_messages([user("go"), item, message], SMALL, target_tokens=1)


def thinking(order: int) -> Chat:
    """A call behind a signed thought."""
    thought = {"type": "thinking", "thinking": "Let me see", "signature": "EqQBCkYIBRgCIkA="}
    return assistant(None, tool_calls=[call(f"c{order}", "grep", f'{{"q": {order}}}')], thinking_blocks=[thought])


def thoughtful(mark: str) -> list[Chat]:
    rows = [row for n in range(7) for row in (thinking(n), result(f"c{n}", f"{mark} {n}\n{long_text(900)}"))]
    return [system("s"), user("What is in there?"), *rows, assistant("That.", reasoning_content="hm"), user("And?")]


def test_a18_signed_thoughts_are_sent_to_no_summarizer_and_stay_as_they_are(
    modelled: Service, model: ModelServer
) -> None:
    chat = thoughtful("mark-a18")
    session = modelled.session("a18", SMALL)
    session.push(chat)
    outcome = session.compact(wait=20)
    assert outcome.by_model == outcome.items > 0
    sent = json.dumps(requests_with(model, "mark-a18"))
    assert not [word for word in ("EqQBCkYIBRgCIkA", "thinking_blocks", "Let me see") if word in sent]
    kept = [message for message in session.prepare().messages if message["role"] == "assistant"]
    assert json.dumps(kept) == json.dumps([message for message in chat if message["role"] == "assistant"])


def test_a19_the_summarizer_gets_text_and_neither_tools_nor_tool_messages(
    modelled: Service, model: ModelServer
) -> None:
    session = modelled.session("a19", SMALL)
    session.push(thoughtful("mark-a19"))
    assert session.compact(wait=20).by_model > 0
    for body in requests_with(model, "mark-a19"):
        assert [set(message) for message in body["messages"]] == [{"role", "content"}] * 2
        assert [message["role"] for message in body["messages"]] == ["system", "user"]
        assert all(isinstance(message["content"], str) for message in body["messages"])
        assert not {"tools", "tool_choice", "functions"} & set(body)
    assert not faults(session.prepare().messages)
