"""Whatever messages look like, a list comes back equal, is known again, and its bytes are counted right."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compactor.settings import Settings
from tests.conftest import recorded
from tests.integration.clients import Client, Connect
from tests.integration.conversations import OTHER_ENCODING, ROOMY, SMALL, WIDE, assistant, conversation, recount, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of

ODD: list[dict[str, Any]] = [
    user("a lone half \ud83d of a pair"),
    {"role": "assistant", "content": None, "score": float("nan"), "refusal": None},
    user(" \n\t"),
    {"role": "assistant", "content": "", "reasoning_content": "Let me think."},
    {
        "role": "user",
        "content": [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:,x"}}],
    },
    {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
    {"role": "function", "name": "f", "content": "r"},
    {"role": "assistant", "content": "big", "number": 2**70},
    {"role": "user", "content": "é漢字", "name": "bob"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "not json"}}],
    },
    {"role": "tool", "content": "without an id"},
    user("end"),
]


def as_text(messages: list[Any]) -> str:
    """JSON, in which nan equals itself."""
    return json.dumps(messages)


def test_odd_messages_come_back_equal_and_are_known_again(connect: Connect, settings: Settings) -> None:
    one, other = (connect(settings).session("values/odd", ROOMY) for _ in range(2))
    for end in range(1, len(ODD) + 1):
        assert as_text(one.prepare(ODD[:end]).messages) == as_text(ODD[:end])
    assert as_text(other.prepare([*ODD, assistant("x")]).messages) == as_text([*ODD, assistant("x")])
    assert as_text(one.originals()) == as_text([*ODD, assistant("x")])
    assert one.status().archived == 0


def test_a_key_set_to_null_is_the_same_message(memory: Client) -> None:
    session = memory.session("values/null", ROOMY)
    session.prepare([user("a"), assistant("b")])
    session.prepare([user("a"), {**assistant("b"), "tool_calls": None}, user("c")])
    assert session.originals() == [user("a"), assistant("b"), user("c")]


def test_null_and_empty_content_are_different_messages(memory: Client) -> None:
    session = memory.session("values/empty", ROOMY)
    session.prepare([user("a"), {"role": "assistant", "content": None, "refusal": "No."}])
    other = [user("a"), {"role": "assistant", "content": "", "refusal": "No."}]
    assert session.prepare(other).messages == session.originals() == other


@pytest.mark.parametrize("name", ["deerflow_threads", "openhands_claude35_swe", "toolbench_legacy", "livemcp_claude4"])
def test_recorded_lists_of_every_layout_are_known_again(connect: Connect, settings: Settings, name: str) -> None:
    for order, record in enumerate(recorded(name, most=5)):
        talk = record["messages"]
        session = connect(settings).session(f"values/{name}-{order}", WIDE)
        half = talk[: len(talk) // 2]
        session.prepare(half)
        cold = connect(settings).session(f"values/{name}-{order}", WIDE)
        assert cold.prepare(talk).messages == talk
        assert session.prepare(cold.prepare(talk).messages).messages == talk
        assert session.status().archived == 0


def test_totals_and_bytes_hold_through_swap_branch_and_return_in_both_encodings(
    connect: Connect, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    talk = conversation(9)[1:]
    one, other = (connect(settings).session("values/both", config) for config in (SMALL, OTHER_ENCODING))
    one.prepare(talk)
    other.prepare(talk)
    assert worker.work("values/both").outcome.items
    other.prepare([talk[0], user("something else")])
    one.prepare(talk)
    other.prepare(talk)
    shown = connect(settings).session("values/both", WIDE).prepare(talk).messages
    status = one.status()
    assert status.totals == {name: recount(shown, name) for name in ("o200k_base", "cl100k_base")}
    keys = keys_of(settings, "values/both")
    live = sum(len(row) - 51 for row in raw.lrange(keys.messages, 0, -1))
    assert status.stored_bytes == live + sum(len(blob) for blob in raw.hvals(keys.archive))
