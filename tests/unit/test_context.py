"""The context functions: one system message, the newest whole steps that fit, figures that are logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from compactor import ConfigurationError, Fit
from compactor.context import (
    counts,
    estimate_tool_tokens,
    prepare_context,
    prepare_context_messages,
    preparing,
    trim_messages_for_context,
)
from compactor.encodings import encoder
from compactor.tokens import count_message, count_text
from compactor.validity import added_faults, faults
from tests.unit.chat import Chat, assistant, calling, result, steps, system, user
from tests.unit.logged import logged, texts

CONFIG = {"context_limit": 16, "context_strategy": "conservative", "api_key": "sk-secret", "model": "gpt-4o"}
TOPOLOGY = "R1 -- R2"
PROMPT = "You run a lab.\n### CURRENT TOPOLOGY\n{{topology_info}}"


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    with logged() as records:
        yield records


def tiny(tokens: int, **keys: Any) -> dict[str, Any]:
    return {"context_limit_tokens": tokens, "context_strategy": "balanced", **keys}


# --- trimming


def test_what_fits_comes_back_the_same_and_nothing_is_said(
    monkeypatch: pytest.MonkeyPatch, lines: list[logging.LogRecord]
) -> None:
    monkeypatch.setattr(counts, "_announced", {"o200k_base"})  # that line is said once a process
    chat = steps(2)
    assert trim_messages_for_context(chat, "gpt-4o", "balanced", 0, CONFIG) == chat
    assert not lines


def test_kept_messages_are_the_objects_that_were_given() -> None:
    state: list[BaseMessage] = []
    for number in range(20):
        call: dict[str, Any] = {"name": "grep", "args": {"n": number}, "id": f"c{number}"}
        state += [
            HumanMessage(f"q{number}", id=f"h{number}", custom={"mine": number}),
            AIMessage("", tool_calls=[call], usage_metadata={"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}),
            ToolMessage("row " * 300, tool_call_id=f"c{number}", artifact=object(), status="error"),
            AIMessage("done"),
        ]
    kept = trim_messages_for_context(state, "gpt-4o", "balanced", 0, {"context_limit": 4})
    assert 4 <= len(kept) < len(state)
    assert all(any(message is given for given in state) for message in kept)
    assert kept == state[-len(kept) :]


@pytest.mark.parametrize("tools", [-1, 1.5, True, None, "5", pytest.param(10**5_000, id="5,000 digits")])
def test_a_number_of_tool_tokens_that_is_none_is_refused(tools: Any) -> None:
    with pytest.raises(ConfigurationError, match="tool_tokens: expected a whole number"):
        trim_messages_for_context([user()], "gpt-4o", "balanced", tools, CONFIG)


def test_room_for_the_answer_counts_when_the_configuration_names_it() -> None:
    chat = [user("word " * 300), assistant(), user("word " * 300)]
    assert trim_messages_for_context(chat, "gpt-4o", None, 0, tiny(1_000)) == chat
    assert trim_messages_for_context(chat, "gpt-4o", None, 0, tiny(1_000, max_output_tokens=600)) == chat[2:]


def test_a_failure_of_trimming_falls_back_to_the_newest_messages(
    monkeypatch: pytest.MonkeyPatch, lines: list[logging.LogRecord]
) -> None:
    def broken(*_args: Any, **_keys: Any) -> None:
        raise RuntimeError("my secret question")

    monkeypatch.setattr(preparing, "trim", broken)
    chat = [system("s"), *steps(20, tokens=20), user("last")]
    kept = trim_messages_for_context(chat, "gpt-4o", "balanced", 0, CONFIG)
    assert kept[0] is chat[0]
    assert kept[-1] is chat[-1]
    assert 5 <= len(kept) < 14
    assert not faults(kept)
    assert texts(lines, logging.ERROR) == ["Failed to trim: RuntimeError"]


# --- the system message


def sent(prompt: str, topology: Any, **keys: Any) -> str:
    first: Chat = prepare_context_messages([user()], prompt, topology, "gpt-4o", CONFIG, **keys)[0]
    assert first["role"] == "system"
    text: str = first["content"]
    return text


def test_the_topology_takes_its_place_in_the_one_system_message() -> None:
    assert sent(PROMPT, TOPOLOGY) == "You run a lab.\n### CURRENT TOPOLOGY\nR1 -- R2"


@pytest.mark.parametrize("nothing", [None, "", " \n", {}, [], ()])
def test_without_a_topology_the_place_says_so(nothing: Any) -> None:
    assert sent(PROMPT, nothing).endswith("### CURRENT TOPOLOGY\n(No topology information available)")
    assert sent("You run a lab.", nothing) == "You run a lab."


def test_a_topology_without_a_place_goes_behind_a_blank_line() -> None:
    assert sent("You run a lab.", TOPOLOGY) == "You run a lab.\n\nR1 -- R2"
    assert sent("", TOPOLOGY) == TOPOLOGY


def test_a_topology_of_data_is_json() -> None:
    assert sent(PROMPT, {"节点": ["R1", "R2"]}).endswith('{"节点":["R1","R2"]}')


@pytest.mark.parametrize("text", ["{{topology_info}}", "{{user}}", "{user} %s \\1 \\g<0>", "{{ topology_info }}"])
def test_braces_in_a_topology_are_text(text: str) -> None:
    assert sent("{{user}}: {{topology_info}}", text, system_variables={"user": "Ada"}) == f"Ada: {text}"
    assert sent("lab", text) == f"lab\n\n{text}"


def test_any_other_name_is_a_variable_too() -> None:
    text = sent("{{user}} / {{topology_info}} / {{other}}", None, system_variables={"user": None})
    assert text == "(No user available) / (No topology information available) / {{other}}"
    assert sent("{{topology_info}}", None, system_variables={"topology_info": "R9"}) == "R9"


@pytest.mark.parametrize(
    ("prompt", "topology", "variables", "said"),
    [
        ("lab", None, {"user": "Ada"}, "no place for user"),
        (PROMPT, TOPOLOGY, {"topology_info": "R9"}, "topology_context's already"),
        (PROMPT, None, ["user"], "system_variables: expected a mapping"),
        (PROMPT, object(), None, "topology_info: expected text, or data that JSON knows, found object"),
        ("{{user}}", None, {"user": {1}}, "user: expected text, or data that JSON knows, found set"),
        (None, None, None, "system_prompt: expected text, found NoneType"),
        (b"lab", None, None, "system_prompt: expected text, found bytes"),
    ],
)
def test_a_value_that_would_be_lost_is_refused(prompt: Any, topology: Any, variables: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        prepare_context_messages([user()], prompt, topology, "gpt-4o", CONFIG, system_variables=variables)


def test_a_system_text_of_nothing_is_no_message() -> None:
    assert prepare_context_messages([user()], " \n", None, "gpt-4o", CONFIG) == [user()]


def test_a_list_that_came_back_is_not_given_its_system_text_twice() -> None:
    once = prepare_context_messages([user()], PROMPT, TOPOLOGY, "gpt-4o", CONFIG)
    assert prepare_context_messages(once, PROMPT, TOPOLOGY, "gpt-4o", CONFIG) == once


@pytest.mark.parametrize("kind", [HumanMessage("hi"), user("hi")])
def test_the_system_message_is_of_the_kind_of_the_others(kind: Any) -> None:
    first, second = prepare_context_messages([kind], "lab", None, "gpt-4o", CONFIG)
    assert second is kind
    assert isinstance(first, SystemMessage if isinstance(kind, BaseMessage) else dict)


# --- the whole


def test_base_and_variables_are_counted_apart() -> None:
    topology = "R1 to R2 over 10.0.0.0/30. " * 40
    figures = prepare_context([user()], PROMPT, topology, "gpt-4o", CONFIG).figures
    encode = encoder("o200k_base")
    filled = PROMPT.replace("{{topology_info}}", topology)
    assert figures.variables == count_text(filled, encode) - count_text(PROMPT.replace("{{topology_info}}", ""), encode)
    assert figures.system == count_message(system(filled), encode) + 3  # 3 for the request
    assert figures.base + figures.variables == figures.system
    assert prepare_context([user()], PROMPT, "R1", "gpt-4o", CONFIG).figures.variables > 0
    assert prepare_context([user()], "lab", None, "gpt-4o", CONFIG).figures.variables == 0


def test_the_tools_cost_is_in_the_figures_and_leaves_less_for_history() -> None:
    tools: list[Chat] = [{"name": f"t{n}", "description": "word " * 500, "parameters": {}} for n in range(8)]
    chat = [*steps(12), user("last")]
    bare = prepare_context(chat, "lab", None, "gpt-4o", CONFIG)
    full = prepare_context(chat, "lab", None, "gpt-4o", CONFIG, tools)
    assert full.figures.tools == estimate_tool_tokens(tools, "gpt-4o") > 4_000
    assert bare.figures.tools == 0
    assert full.figures.history < bare.figures.history
    assert full.figures.total <= full.budget == 9_600


def test_the_lines_come_in_the_documents_order(lines: list[logging.LogRecord]) -> None:
    prepare_context_messages([*steps(20), user("last")], PROMPT, TOPOLOGY, "gpt-4o", CONFIG, [{"name": "ping"}])
    said = [text.split()[0] + " " + text.split()[1] for text in texts(lines) if "tiktoken" not in text]
    assert said == [
        "Tool definitions", "Using database", "Trimming messages:", "Trimmed 44", "Context prepared:",
        "Available for",
    ]  # fmt: skip
    assert texts(lines)[-1] == "Available for output: ~6400 tokens"
    assert not texts(lines, logging.WARNING)


def test_no_line_holds_content_or_a_secret(lines: list[logging.LogRecord]) -> None:
    chat = [user("QUESTION " * 9_000), *steps(3), calling("QUESTION"), result("QUESTION", "QUESTION " * 9_000)]
    prepare_context_messages(chat, "QUESTION {{topology_info}}", "QUESTION", "gpt-4o", CONFIG, [{"name": "QUESTION"}])
    assert len(lines) > 5
    for record in lines:
        assert "QUESTION" not in f"{record.getMessage()} {vars(record)['compactor']}"
        assert "sk-secret" not in f"{record.getMessage()} {vars(record)['compactor']}"


@pytest.mark.parametrize("limit", [1, 2, 50, 300, 2_000])
@pytest.mark.parametrize("words", [0, 400])
def test_at_any_size_there_is_a_valid_list_and_no_negative_number(
    limit: int, words: int, lines: list[logging.LogRecord]
) -> None:
    chat = [*steps(5, tokens=100), user("last")]
    tools = [{"name": "t", "description": "word " * words}]
    prepared = prepare_context(chat, "word " * words + PROMPT, TOPOLOGY, "gpt-4o", tiny(limit), tools)
    assert not added_faults(chat, prepared.messages)
    assert prepared.messages[0]["role"] == "system"
    assert prepared.messages[-1] is chat[-1]
    assert prepared.output >= 0
    assert (prepared.fit is Fit.IMPOSSIBLE) is (prepared.figures.total > limit)
    assert "-" not in "".join(text.replace("-4o", "") for text in texts(lines))
    for record in lines:
        assert all(not isinstance(value, int) or value >= 0 for value in vars(record)["compactor"].values())


def test_a_state_of_no_messages_is_the_system_message_alone() -> None:
    prepared = prepare_context([], "lab", None, "gpt-4o", CONFIG)
    assert prepared.messages == [system("lab")]
    assert prepared.fit is Fit.FITS


@pytest.mark.parametrize("name", ["", None, 7])
def test_a_model_without_a_name_is_refused(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="model: expected the model's name"):
        prepare_context_messages([user()], "lab", None, name, CONFIG)
