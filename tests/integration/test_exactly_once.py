"""Exactly once: a call whose reply is lost was executed, and its repeat changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import Code, StoreUnavailableError
from compactor.settings import Settings
from tests.integration.clients import Client, Connect, StoreClient, open_store
from tests.integration.conversations import ROOMY, SMALL, conversation, recount, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import published


@pytest.fixture
def far(connect: Connect, through_proxy: Settings) -> Client:
    """A client behind the proxy that loses replies."""
    return connect(through_proxy)


def test_a_repeat_with_the_same_key_stores_nothing_and_gets_the_first_receipt(memory: Client) -> None:
    session = memory.session("once/key", ROOMY)
    first = session.push(user("hello"), idempotency_key="telegram-77")
    session.push(user("in between"))
    again = session.push(user("hello"), idempotency_key="telegram-77")
    assert again == first
    assert session.originals() == [user("hello"), user("in between")]


def test_two_keys_are_two_messages_though_the_text_is_the_same(memory: Client) -> None:
    session = memory.session("once/two-keys", ROOMY)
    session.push(user("yes"), idempotency_key="1")
    session.push(user("yes"), idempotency_key="2")
    assert session.status().length == 2


def test_a_key_counts_in_its_own_session_only(memory: Client) -> None:
    for name in ("once/a", "once/b"):
        memory.session(name, ROOMY).push(user("yes"), idempotency_key="same")
        assert memory.session(name, ROOMY).status().length == 1


def test_another_process_with_the_same_key_stores_nothing(connect: Connect, settings: Settings) -> None:
    here, there = (connect(settings).session("once/processes", ROOMY) for _ in range(2))
    first = here.push([user("a"), user("b")], idempotency_key="job-1")
    assert there.push([user("a"), user("b")], idempotency_key="job-1") == first
    assert there.status().length == 2


def test_a_key_is_remembered_behind_a_thousand_other_pushes(memory: Client) -> None:
    session = memory.session("once/many-keys", ROOMY)
    session.push(user("first"), idempotency_key="first")
    for order in range(1_100):
        session.push(user("x"), idempotency_key=f"n{order}")
    session.push(user("first"), idempotency_key="first")
    assert session.status().length == 1_101


def test_equal_pushes_one_after_the_other_are_two_messages(memory: Client) -> None:
    session = memory.session("once/plain", ROOMY)
    session.push(user("yes"))
    session.push(user("yes"))
    assert session.status().length == 2


def test_a_push_whose_reply_is_lost_is_stored_once(far: Client, proxy: LossyProxy) -> None:
    session = far.session("once/lost-push", ROOMY)
    session.push(user("warm"))
    for order in range(5):
        proxy.lose("push")
        assert session.push(user(f"number {order}")).length == 2 + order
    assert proxy.lost == 5
    assert session.originals() == [user("warm"), *(user(f"number {order}") for order in range(5))]


def test_a_push_that_raised_though_it_was_stored_is_stored_once_when_pushed_again(
    far: Client, proxy: LossyProxy
) -> None:
    session = far.session("once/raised", ROOMY)
    session.push(user("warm"))
    proxy.lose("push", replies=2)
    with pytest.raises(StoreUnavailableError, match="repeated safely"):
        session.push([user("hello"), user("there")])
    assert session.status().length == 3
    assert session.push([user("hello"), user("there")]).length == 3
    assert session.originals() == [user("warm"), user("hello"), user("there")]


def test_after_a_repeat_went_through_the_same_text_is_a_new_message(far: Client, proxy: LossyProxy) -> None:
    session = far.session("once/raised-then-new", ROOMY)
    session.push(user("warm"))
    proxy.lose("push", replies=2)
    with pytest.raises(StoreUnavailableError):
        session.push(user("yes"))
    session.push(user("yes"))
    assert session.push(user("yes")).length == 3


def test_a_failed_push_is_stored_once_though_another_push_went_through_meanwhile(
    far: Client, proxy: LossyProxy
) -> None:
    session = far.session("once/raised-interleaved", ROOMY)
    session.push(user("warm"))
    proxy.lose("push", replies=2)
    with pytest.raises(StoreUnavailableError):
        session.push(user("hello"))
    session.push(user("other"))
    session.push(user("hello"))
    assert session.originals() == [user("warm"), user("hello"), user("other")]


def test_a_claim_whose_reply_is_lost_is_published_once(
    far: Client, proxy: LossyProxy, through_proxy: Settings, raw: Any
) -> None:
    session = far.session("once/claim", SMALL)
    session.push(conversation(8))
    proxy.lose("prepare")
    assert session.prepare().verdict.compaction == "queued"
    assert proxy.lost == 1
    assert published(raw, through_proxy) == 1


def test_a_claim_taken_by_a_call_that_raised_is_published_by_the_next(
    far: Client, proxy: LossyProxy, through_proxy: Settings, raw: Any
) -> None:
    session = far.session("once/claim-raised", SMALL)
    session.push(conversation(8))
    proxy.lose("prepare", replies=2)
    with pytest.raises(StoreUnavailableError):
        session.prepare()
    session.prepare()
    assert published(raw, through_proxy) == 1


def test_a_swap_whose_reply_is_lost_is_applied_once(
    kind: str, far: Client, proxy: LossyProxy, through_proxy: Settings
) -> None:
    session = far.session("once/swap", SMALL)
    session.push(conversation(8))
    session.prepare()
    store = open_store(kind, through_proxy)
    proxy.lose("swap")
    ended = InlineWorker(through_proxy, store).work("once/swap")
    store.close()
    assert proxy.lost == 1
    assert ended.outcome.outcome is Code.APPLIED
    assert len(session.compactions()) == 1
    assert session.estimate().total == recount(session.prepare().messages) + 3 == ended.outcome.after
    assert session.originals() == conversation(8)


def test_a_swap_applied_behind_two_lost_replies_ends_the_claim(
    kind: str, far: Client, proxy: LossyProxy, through_proxy: Settings, store: StoreClient
) -> None:
    session = far.session("once/swap-raised", SMALL)
    session.push(conversation(8))
    session.prepare()
    owner = InlineWorker(through_proxy, store).owner("once/swap-raised")
    behind = open_store(kind, through_proxy)
    proxy.lose("swap", replies=2)
    with pytest.raises(StoreUnavailableError):
        InlineWorker(through_proxy, behind).work("once/swap-raised")
    behind.close()
    again = InlineWorker(through_proxy, store).work("once/swap-raised", owner=owner)
    assert again.retry_in is None
    assert len(session.compactions()) == 1
    assert session.originals() == conversation(8)
    assert session.estimate().total == recount(session.prepare().messages) + 3


def test_a_clear_whose_reply_is_lost_keeps_the_conversation_recallable(far: Client, proxy: LossyProxy) -> None:
    session = far.session("once/clear", ROOMY)
    session.push([user("first"), user("second")])
    proxy.lose("clear")
    assert session.clear() == 2
    assert proxy.lost == 1
    assert session.recall("m1") == user("second")


def test_a_prepare_below_the_threshold_repeats_itself_when_its_reply_is_lost(far: Client, proxy: LossyProxy) -> None:
    session = far.session("once/plain-prepare", ROOMY)
    session.push(conversation(2))
    proxy.lose("prepare")
    assert session.prepare().messages == conversation(2)
    assert proxy.lost == 1
