"""Section A for any conversation of every real shape: nothing we send has a fault that was not pushed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from compactor import Compactor, ModelConfig
from compactor.embedded import EmbeddedServer
from compactor.encodings import encoder
from compactor.formats.openai import leading_system
from compactor.settings import read_settings
from compactor.store import Store
from compactor.tokens import PER_REQUEST, count_messages
from compactor.validity import faults
from tests.faults.windows import Sent, assert_sound, every_window, tagged
from tests.integration.inline_worker import InlineWorker
from tests.unit.chat import Chat, user
from tests.unit.conversations import any_content, busy_conversations, content, conversations, odd_messages

_unread: Final = st.lists(st.builds(user, any_content), min_size=2, max_size=4)


def _followed(chat: list[Chat], tail: list[Chat]) -> list[Chat]:
    return [*chat, *tail]


shapes: Final = st.one_of(
    conversations(),
    busy_conversations(),
    st.builds(_followed, busy_conversations(), _unread),
    st.builds(_followed, conversations(max_pieces=5), st.lists(odd_messages, max_size=3)),
)


@settings(max_examples=40)
@given(shapes, st.lists(st.floats(0.01, 0.99), min_size=3, max_size=3).map(sorted))
def test_a_no_window_adds_a_fault_to_any_conversation(chat: list[Chat], shares: list[float]) -> None:
    for sent in every_window(tagged(chat), shares):
        assert_sound(chat, sent)
        tags = [message["tag"] for message in sent.messages]
        assert tags == sorted(set(tags)), sent.how


@pytest.fixture(scope="module")
def bot(server: EmbeddedServer) -> Iterator[tuple[Compactor, InlineWorker]]:
    chosen = read_settings(redis_url=server.url, namespace=f"shapes{uuid4().hex[:8]}")
    with Compactor(settings=chosen) as memory, Store(chosen) as store:
        yield memory, InlineWorker(chosen, store)


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(chat=shapes, share=st.floats(0.05, 0.95), cut=st.integers(0, 9), text=content)
def test_a_no_stored_compaction_adds_a_fault_to_any_conversation(
    bot: tuple[Compactor, InlineWorker], chat: list[Chat], share: float, cut: int, text: Any
) -> None:
    memory, worker = bot
    name, config = f"pushed/{uuid4().hex}", window(chat, share)
    session = memory.session(name, config)
    chat = [*chat, user(text)]
    for part in (chat[:cut], chat[cut:]):
        session.push(part)
        if session.prepare().verdict.compaction == "queued":
            event(f"pushed: {worker.work(name).outcome.outcome}")
        assert_sound(session.originals(), Sent("as pushed", session.prepare(repair=False).messages))
        context = session.prepare()
        mended = context.messages
        assert context.verdict.sent == count_messages(mended, encoder("o200k_base")) + PER_REQUEST
        found = faults(mended)
        last = max((i for i, message in enumerate(mended) if message["role"] == "assistant"), default=0)
        assert found["open_call"] == faults(mended[last:])["open_call"], "only the newest step may wait for a result"
        assert not found["late_answer"]
        assert found["orphan_result"] <= faults(chat)["orphan_result"], "a result of no call at all stays where it is"
        assert found["empty_content"] <= faults(chat)["empty_content"]
    assert json.dumps(session.originals()) == json.dumps(chat), "NaN is not equal to itself"


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(chat=shapes, share=st.floats(0.05, 0.95), cut=st.integers(0, 9))
def test_a_no_list_comes_back_with_a_fault_that_it_had_not(
    bot: tuple[Compactor, InlineWorker], chat: list[Chat], share: float, cut: int
) -> None:
    memory, worker = bot
    name = f"listed/{uuid4().hex}"
    session = memory.session(name, window(chat, share))
    lead = leading_system(chat)
    for end in sorted({lead, min(len(chat), lead + cut), len(chat)}):
        given_list = tagged(chat[:end])
        context = session.prepare(given_list)
        if context.verdict.compaction == "queued":
            event(f"listed: {worker.work(name).outcome.outcome}")
            context = session.prepare(given_list)
        assert_sound(given_list, Sent("listed", context.messages))
        tags = [message["tag"] for message in context.messages]
        assert tags == sorted(set(tags))
        assert context.verdict.sent == count_messages(context.messages, encoder("o200k_base")) + PER_REQUEST
        assert json.dumps(session.originals()) == json.dumps(given_list[lead:])


def window(chat: list[Chat], share: float) -> ModelConfig:
    """A window of a share of the conversation's tokens."""
    tokens = count_messages(chat, encoder("o200k_base"))
    return ModelConfig("gpt-4o", context_limit_tokens=max(20, int(tokens * share)))
