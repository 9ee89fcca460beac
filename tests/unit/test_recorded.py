"""The promises on recorded conversations of real agents: every shape that real models and tools make."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from compactor import Code, ModelConfig, compact_messages
from compactor.arguments import LONG
from compactor.encodings import encoder
from compactor.formats.openai import calls
from compactor.history import read_history
from compactor.json_values import is_array, is_object
from compactor.models import Fit, Message
from compactor.records import encode_message, read_json
from compactor.tokens import count_message
from compactor.validity import added_faults, faults
from compactor.view import compose
from tests.conftest import recorded
from tests.unit.chat import levels, stored, total

FILES = [
    "agentica_cleared_zh", "claudecode_cua", "deerflow_threads", "glaive_zh_synthetic", "livemcp_claude4",
    "msagent_finance_zh", "openhands_claude35_swe", "sweagent_demos", "tau2_gpt5_parallel", "tau2_gptoss_loops",
    "tau2_sft_openai_format", "taubench_airline_gpt4o", "toolbench_legacy", "uitars",
]  # fmt: skip
O200K = "o200k_base"
LEFT_OUT = ("characters left out here", "此处省略")


def sessions(name: str, most: int = 3) -> list[list[dict[str, Any]]]:
    return [session["messages"] for session in recorded(name, most=most)]


def is_elided(new: Any, old: Any) -> bool:
    """Whether a message differs in long strings of its calls' arguments alone."""
    pairs = list(zip(calls(new), calls(old), strict=True))
    shapes = [[shape(json.loads(call.arguments)) for call in pair] for pair in pairs if pair[0] != pair[1]]
    named = all((one.id, one.name) == (other.id, other.name) for one, other in pairs)
    beside = [{key: value for key, value in message.items() if key != "tool_calls"} for message in (new, old)]
    return bool(shapes) and named and beside[0] == beside[1] and all(one == other for one, other in shapes)


def shape(value: Any) -> Any:
    """A value without its long strings."""
    if is_object(value):
        return {key: shape(inner) for key, inner in value.items()}
    if is_array(value):
        return [shape(inner) for inner in value]
    return (
        ...
        if isinstance(value, str) and (len(value) > LONG or "characters left out" in value or "此处省略" in value)
        else value
    )


@pytest.mark.parametrize("name", FILES)
def test_every_recorded_message_comes_back_the_same(name: str) -> None:
    for chat in sessions(name):
        for message in chat:
            encoded = encode_message(message, max_bytes=10**8)
            assert read_json(encoded.text, encoded.flags) == message


@pytest.mark.parametrize("name", FILES)
def test_a_compaction_adds_no_fault_and_replaces_results_long_arguments_and_whole_steps_alone(name: str) -> None:
    for chat in sessions(name):
        config = ModelConfig("gpt-4o", context_limit_tokens=8_000)
        found = compact_messages(chat, config)
        assert not added_faults(chat, found.messages)
        places = {id(message): index for index, message in enumerate(chat)}
        kept = [places[id(message)] for message in found.messages if id(message) in places]
        assert kept == sorted(kept)
        replaced = [index for index in range(len(chat)) if index not in kept]
        assert all(found.originals[f"m{index}"] is chat[index] for index in replaced)
        assert all(chat[index]["role"] in ("tool", "function", "assistant") for index in replaced)
        said = [chat[index] for index in replaced if chat[index]["role"] == "assistant"]
        for new in found.messages:
            if id(new) not in places and new["role"] == "assistant":
                assert any(is_elided(new, old) for old in said if len(calls(old)) == len(calls(new)))
        if found.outcome.outcome is Code.APPLIED:
            assert found.after < found.before


@pytest.mark.parametrize("name", FILES)
def test_a_view_of_half_the_size_adds_no_fault_and_fits(name: str) -> None:
    encode = encoder(O200K)
    for chat in sessions(name, most=2):
        messages = stored(chat, encode)
        for end in range(1, len(messages) + 1, max(1, len(messages) // 8)):
            part: list[Message] = messages[:end]
            ceiling = max(1, total(part) // 2)
            view = compose(part, levels(ceiling=ceiling), encode, beside=0)
            assert not added_faults([message.value for message in part], view.messages)
            assert view.tokens == sum(count_message(message, encode) for message in view.messages)
            assert view.fit is Fit.IMPOSSIBLE or view.tokens <= ceiling


def test_reused_call_ids_of_real_models_pair_by_position() -> None:
    """Every call of these clean sessions finds the result that stands behind it."""
    for session in recorded("taubench_airline_gpt4o", most=40):
        chat: list[dict[str, Any]] = session["messages"]
        history = read_history(chat)
        for step in history.steps:
            assert step.orphans == []
            for order, index in enumerate(step.results):
                if index is not None:
                    assert index <= step.start + len(step.calls)
                    assert chat[index]["tool_call_id"] == step.calls[order].id


@pytest.mark.parametrize("name", FILES)
def test_what_the_collection_calls_clean_has_no_fault(name: str) -> None:
    """Two things it does not look at: empty assistant text, and calls of the very last message."""
    for session in recorded(name, most=100):
        if not session["problems"]:
            chat: list[dict[str, Any]] = session["messages"]
            found = faults(chat)
            unseen = Counter({"empty_content": found["empty_content"], "open_call": len(calls(chat[-1]))})
            assert not found - unseen
