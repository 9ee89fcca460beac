"""The document on context-window management, row by row, with its own figures."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

from compactor import Fit, ModelConfig
from compactor.context import (
    calculate_max_tokens,
    count_messages_tokens,
    counts,
    estimate_tool_tokens,
    get_model_context_limit,
    prepare_context,
    prepare_context_messages,
    preparing,
    trim_messages_for_context,
)
from compactor.context.log import Figures, context_prepared
from compactor.context.tool_schemas import count_tools
from compactor.encodings import encoder
from compactor.tokens import PER_MESSAGE, PER_REQUEST, count_text
from compactor.validity import faults
from tests.acceptance.cli_process import run
from tests.unit.chat import Chat, assistant, calling, result, system, user
from tests.unit.logged import logged, texts

GPT_4O = {"model": "gpt-4o", "context_limit": 128, "context_strategy": "balanced"}
O200K = encoder("o200k_base")
EXAMPLE = (
    "Context prepared: system=6124 (base=2804 + topology=3320) + history=11800 + tools=1862 = 19786 total / "
    "128K limit (15.5%), strategy=balanced"
)


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    with logged() as records:
        yield records


def words(tokens: int) -> str:
    """A text of exactly so many tokens."""
    text = "word" + " word" * (tokens - 1)
    assert count_text(text, O200K) == tokens
    return text


def tool_of(tokens: int) -> dict[str, Any]:
    """A definition of exactly so many tokens."""

    def with_text(size: int) -> dict[str, Any]:
        return {"name": "t", "parameters": {"text": words(size)}}

    return with_text(tokens - count_tools([with_text(100)], O200K)[0] + 100)


def broken(*_args: Any, **_keys: Any) -> None:
    raise ZeroDivisionError("text of the conversation")


# --- A1, A4: the limit


@pytest.mark.parametrize(("limit", "tokens"), [(1, 1_000), (128, 128_000), (200, 200_000), (2800, 2_800_000)])
def test_a1_the_unit_is_k_tokens(limit: int, tokens: int) -> None:
    assert get_model_context_limit("gpt-4o", {"context_limit": limit}) == tokens
    assert ModelConfig("gpt-4o", limit).limit == tokens


def test_a1_17_for_a_window_of_16385_is_taken_and_the_exact_one_is_better() -> None:
    assert get_model_context_limit("gpt-3.5-turbo", {"context_limit": 17}) == 17_000
    exact = {"context_limit": 17, "context_limit_tokens": 16_385}
    assert get_model_context_limit("gpt-3.5-turbo", exact) == 16_385


@pytest.mark.parametrize("wrong", [None, 0, -128, 128.5, True, "large", 128_000])
def test_a1_anything_else_is_refused_with_the_unit_and_an_example(wrong: Any) -> None:
    with pytest.raises(ValueError, match="K tokens") as by_document:
        get_model_context_limit("gpt-4o", {"context_limit": wrong})
    with pytest.raises(ValueError, match="K tokens") as by_session:
        ModelConfig("gpt-4o", wrong)
    for caught in (by_document, by_session):
        assert "128" in str(caught.value)
        assert "128,000 tokens" in str(caught.value)


def test_a4_a_missing_limit_is_said_in_the_documents_words(lines: list[logging.LogRecord]) -> None:
    with pytest.raises(ValueError, match="context_limit") as caught:
        get_model_context_limit("gpt-4o", {"model": "gpt-4o"})
    text = (
        "context_limit is required but not provided for model 'gpt-4o'.\n"
        "Please configure context_limit in your LLM model configuration.\n"
        "Refer to the model provider's documentation for the current context window size."
    )
    assert str(caught.value).startswith(text)
    assert texts(lines, logging.ERROR)[0].startswith(text)


# --- A2, A5: the strategies


@pytest.mark.parametrize(
    ("strategy", "sent", "answer"),
    [("conservative", 76_800, 51_200), ("balanced", 96_000, 32_000), ("aggressive", 108_800, 19_200)],
)
def test_a2_a5_the_share_of_a_128k_window(
    strategy: str, sent: int, answer: int, lines: list[logging.LogRecord]
) -> None:
    assert calculate_max_tokens(128_000, strategy) == sent
    prepared = prepare_context([user()], "lab", None, "gpt-4o", {**GPT_4O, "context_strategy": strategy})
    assert (prepared.budget, prepared.output) == (sent, answer)
    assert texts(lines)[-1] == f"Available for output: ~{answer} tokens"


def test_a2_the_default_is_balanced_and_another_word_is_refused_by_naming_the_three() -> None:
    assert calculate_max_tokens(128_000) == 96_000
    with pytest.raises(ValueError, match="conservative, balanced, aggressive"):
        calculate_max_tokens(128_000, "careful")


# --- A3: tiktoken


def test_a3_without_tiktoken_the_first_count_raises_an_import_error(
    monkeypatch: pytest.MonkeyPatch, lines: list[logging.LogRecord]
) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    monkeypatch.setattr("compactor.encodings._loaded", {})
    with pytest.raises(ImportError) as caught:
        count_messages_tokens([user()])
    assert str(caught.value).startswith(
        "tiktoken is required for accurate token counting.\nPlease install it with: pip install tiktoken>=0."
    )
    assert texts(lines, logging.ERROR)[0].startswith("tiktoken not available: tiktoken is required")


# --- A6, A17: the tools


def gns3_tool(name: str, parameters: int, *, nested: bool = False) -> dict[str, Any]:
    """A definition of the size the document describes: 500-800 tokens with 1-2 parameters, 1,500 nested."""
    field = {"type": "string", "description": words(150)}
    properties: dict[str, Any] = {f"p{number}": field for number in range(parameters)}
    if nested:
        properties["commands"] = {"type": "array", "items": {"type": "object", "properties": dict(properties)}}
    schema = {"type": "object", "properties": properties, "required": ["p0"]}
    return {"name": name, "description": "在多个网络设备上执行命令" + words(300), "parameters": schema}


def test_a6_the_documents_kinds_of_tools_cost_what_it_says() -> None:
    assert 500 <= estimate_tool_tokens([gns3_tool("simple", 1)]) <= 800
    assert 800 <= estimate_tool_tokens([gns3_tool("middle", 4)]) <= 1_200
    assert 1_200 <= estimate_tool_tokens([gns3_tool("nested", 3, nested=True)]) <= 1_500


def test_a17_eight_tools_are_shown_in_log_and_figures(lines: list[logging.LogRecord]) -> None:
    tools = [gns3_tool(f"tool{number}", 4) for number in range(8)]
    prepared = prepare_context([user()], "lab", None, "gpt-4o", GPT_4O, tools)
    assert 6_000 <= prepared.figures.tools <= 12_000
    said = f"Tool definitions estimated at ~{prepared.figures.tools} total tokens (8 tools)"
    assert said in texts(lines)
    assert f"+ tools={prepared.figures.tools} = {prepared.figures.total} total / 128K limit" in texts(lines)[-2]


# --- A7: what the original got wrong


def test_a7_no_result_is_left_without_its_call() -> None:
    chat = [system("s"), user("one"), calling("c"), result("c", words(300)), assistant("ok"), user("two")]
    for tokens in range(1, 700, 7):
        kept = trim_messages_for_context(chat, "gpt-4o", "balanced", 0, {"context_limit_tokens": tokens})
        assert not faults(kept)
        assert kept[0] is chat[0]
        assert kept[-1] is chat[-1]


def test_a7_a_latest_user_message_larger_than_the_window_stays() -> None:
    chat = [user("one"), assistant("ok"), user(words(5_000))]
    assert trim_messages_for_context(chat, "gpt-4o", "balanced", 0, {"context_limit": 1}) == chat[2:]


# --- A8: the call site


def test_a8_it_stands_in_for_the_documents_call() -> None:
    call: dict[str, Any] = {"name": "show_ip", "args": {"device": "R1"}, "id": "c1"}
    state = {
        "messages": [
            HumanMessage("R1 无法访问 R2"),
            AIMessage("", tool_calls=[call]),
            ToolMessage("10.0.0.1/30 up", tool_call_id="c1"),
        ]
    }
    llm_config = GPT_4O
    full_messages = prepare_context_messages(
        state_messages=state["messages"],
        system_prompt="### CURRENT TOPOLOGY\n{{topology_info}}",
        topology_context="R1 -- R2",
        model_name=str(llm_config.get("model", "default")),
        llm_config=llm_config,
    )
    assert full_messages == [SystemMessage("### CURRENT TOPOLOGY\nR1 -- R2"), *state["messages"]]
    assert all(one is other for one, other in zip(full_messages[1:], state["messages"], strict=True))


# --- A9: system and topology are one message


def test_a9_the_topology_is_filled_in_once() -> None:
    prompt = "### CURRENT TOPOLOGY\n{{topology_info}}"

    def text(topology: str | None) -> str:
        (first, _) = prepare_context_messages([user()], prompt, topology, "gpt-4o", GPT_4O)
        return str(first["content"])

    assert text("R1 {{topology_info}}") == "### CURRENT TOPOLOGY\nR1 {{topology_info}}"
    assert text(None) == text("") == "### CURRENT TOPOLOGY\n(No topology information available)"


# --- A10: the budget walk


def test_a10_the_budget_walk() -> None:
    config = {"context_limit": 16, "context_strategy": "conservative"}
    limit = get_model_context_limit("gpt-4o", config)
    assert limit == 16_000
    budget = calculate_max_tokens(limit, "conservative")
    assert budget == 9_600
    tools = [tool_of(1_862)]
    assert estimate_tool_tokens(tools, "gpt-4o") == 1_862
    assert budget - 1_862 == 7_738

    prompt, topology = words(1_000 - PER_MESSAGE - PER_REQUEST), words(3_000)
    history: list[Chat] = []
    for _ in range(25):
        history += [user(words(100 - PER_MESSAGE)), assistant(words(100 - PER_MESSAGE))]
    assert count_messages_tokens(history, "gpt-4o") == 5_000

    prepared = prepare_context(history, prompt + "{{topology_info}}", topology, "gpt-4o", config, tools)
    figures = prepared.figures
    assert (figures.base, figures.variables, figures.system) == (1_000, 3_000, 4_000)
    assert 7_738 - figures.system == 3_738
    assert figures.history <= 3_738
    assert figures.history == 3_600  # 18 whole turns of 200; a 19th would be 3,800
    assert prepared.messages[1:] == history[-36:]
    assert figures.total == 9_462 <= budget
    assert prepared.fit is Fit.SHORTENED


# --- A11: the edges


def test_a11_a_system_text_over_the_budget_is_kept_whole(lines: list[logging.LogRecord]) -> None:
    prompt, topology = words(400) + "\n{{topology_info}}", words(500)
    config = {"context_limit": 1, "context_strategy": "conservative"}
    prepared = prepare_context([user("a"), assistant(), user("b")], prompt, topology, "gpt-4o", config)
    first, last = prepared.messages
    assert first["content"] == prompt.replace("{{topology_info}}", topology)
    assert last["content"] == "b"
    said = texts(lines, logging.WARNING)
    assert any(
        re.match(r"System message \(\d+ tokens, .*\) exceeds the 597 tokens available .* kept whole", t) for t in said
    )
    assert any("All history trimmed: 0 tokens were available" in text for text in said)
    assert prepared.fit is Fit.SHORTENED
    assert prepared.figures.total <= 1_000


def test_a11_tools_over_the_budget_advise_a_larger_limit_or_fewer_tools(lines: list[logging.LogRecord]) -> None:
    tools = [gns3_tool(f"tool{number}", 4) for number in range(8)]
    prepared = prepare_context([user("a"), assistant(), user("b")], "lab", None, "gpt-4o", {"context_limit": 4}, tools)
    assert prepared.messages == [system("lab"), user("b")]
    said = texts(lines, logging.WARNING)
    assert any("exceed the input budget of 3000 tokens: increase context_limit or reduce" in text for text in said)
    assert any(text.startswith("Context cannot fit: ") and "4000 tokens (4K)" in text for text in said)
    assert prepared.fit is Fit.IMPOSSIBLE
    assert prepared.output == 0


def test_a11_when_all_history_goes_the_latest_user_message_stays(lines: list[logging.LogRecord]) -> None:
    chat = [user(words(300)), assistant(words(300)), user(words(700))]
    prepared = prepare_context(chat, "lab", None, "gpt-4o", {"context_limit": 1})
    assert prepared.messages == [system("lab"), chat[-1]]
    assert texts(lines, logging.WARNING) == [
        "All history trimmed: 742 tokens were available for it; the latest user message is kept"
    ]


# --- A12: the log


def test_a12_the_documents_example_byte_for_byte() -> None:
    figures = Figures("gpt-4o", 128_000, "balanced", system=6_124, variables=3_320, history=11_800, tools=1_862)
    line = context_prepared(figures)
    assert line.text == EXAMPLE
    assert (line.fields["base"], line.fields["total"], line.fields["percent"]) == (2_804, 19_786, 15.5)


def test_a12_a_send_of_those_figures_says_so(lines: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole way: a prompt of 2,804 tokens, a topology of 3,320, a history of 11,800, tools of 1,862."""
    monkeypatch.setattr(counts, "_announced", set[str]())
    tools = [tool_of(1_862)]
    prompt = words(2_804 - PER_MESSAGE - PER_REQUEST) + "{{topology_info}}"
    history = [user(words(1_180 - PER_MESSAGE)) for _ in range(10)]
    prepare_context_messages(history, prompt, words(3_320), "gpt-4o", GPT_4O, tools)
    assert texts(lines) == [
        "Using tiktoken (o200k_base) for accurate token counting",
        "Tool definitions estimated at ~1862 total tokens (1 tools)",
        "Using database config context limit: 128000 tokens for model 'gpt-4o'",
        EXAMPLE,
        "Available for output: ~32000 tokens",
    ]


def test_a12_trimming_from_50_to_25_messages_says_so(
    lines: list[logging.LogRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counts, "_announced", {"o200k_base"})  # that line is said once a process
    chat = [user(words(1_900 - PER_MESSAGE)) for _ in range(50)]
    config = {"context_limit_tokens": 64_000, "context_strategy": "balanced"}
    kept = trim_messages_for_context(chat, "gpt-4o", "balanced", 0, config)
    assert len(kept) == 25
    assert texts(lines) == ["Trimming messages: 95000 → 47500 tokens (model: gpt-4o)", "Trimmed 50 → 25 messages"]


# --- A13: failures


def test_a13_a_failure_of_trimming_falls_back_to_system_and_the_last_others(
    monkeypatch: pytest.MonkeyPatch, lines: list[logging.LogRecord]
) -> None:
    monkeypatch.setattr(preparing, "trim", broken)
    chat = [system("s"), user("one"), *(m for n in range(9) for m in (calling(f"c{n}"), result(f"c{n}")))]
    kept = trim_messages_for_context(chat, "gpt-4o", "balanced", 0, GPT_4O)
    assert kept == [chat[0], chat[1], *chat[-10:]]
    assert not faults(kept)
    assert texts(lines, logging.ERROR) == ["Failed to trim: ZeroDivisionError"]


def test_a13_a_failure_of_counting_is_logged_and_raised(
    monkeypatch: pytest.MonkeyPatch, lines: list[logging.LogRecord]
) -> None:
    monkeypatch.setattr(counts, "count_list", broken)
    with pytest.raises(ZeroDivisionError):
        trim_messages_for_context([user()], "gpt-4o", "balanced", 0, GPT_4O)
    assert texts(lines, logging.ERROR) == ["Failed to count tokens: ZeroDivisionError"]


# --- A15: the reference table


def test_a15_the_reference_script_says_16385_is_17() -> None:
    ended = run("limits", "openai/gpt-3.5-turbo")
    assert re.search(r"16,385 +~17\n", ended.out)
    assert "For reference only: check your provider's documentation." in ended.out
