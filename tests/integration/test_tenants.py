"""Tenants under a ceiling: what their sessions hold is counted apart, refused in time, and corrected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from compactor.commands import tenants
from compactor.commands.tenants import Correction
from compactor.embedded import EmbeddedServer
from compactor.exceptions import TenantFullError
from compactor.models import SessionId
from compactor.settings import Settings
from compactor.tenant_ledger import TenantBook, TenantLedger
from tests.integration.clients import Connect, StoreClient
from tests.integration.conversations import ROOMY, assistant, user
from tests.integration.driving import answered
from tests.integration.stored import bare, keys_of

LIFE = 60_000  # ms
ALIKE = ["a", "ab", "a:b", "a@b", "a:b@c", "a.b", "default"]


class Books:
    """Sizes as commands set and read them."""

    def __init__(self, settings: Settings, store: StoreClient) -> None:
        self.namespace, self.store = settings.namespace, store

    def report(self, session: str, size: int) -> int:
        return self.store.run(tenants.report(self.namespace, SessionId(session), size, life_ms=LIFE))

    def correct(self, tenant: str, *corrections: Correction) -> int:
        return self.store.run(tenants.correct(self.namespace, tenant, corrections, life_ms=LIFE))

    def total(self, tenant: str) -> int | None:
        return self.store.run(tenants.read_total(self.namespace, tenant))


@pytest.fixture
def books(settings: Settings, store: StoreClient) -> Books:
    return Books(settings, store)


def test_a_report_repeated_changes_nothing(books: Books) -> None:
    assert [books.report("t/a", 100), books.report("t/a", 100), books.report("t/b", 50)] == [100, 100, 150]
    assert [books.report("t/a", 30), books.report("t/a", 30)] == [80, 80]
    assert [books.report("t/b", 0), books.report("t/b", 0)] == [30, 30]
    assert books.total("t") == 30


def test_tenants_whose_names_begin_alike_never_meet(books: Books) -> None:
    for size, tenant in enumerate(ALIKE, start=1):
        books.report(f"{tenant}/one", size)
    books.report("no-slash", 100)
    assert [books.total(tenant) for tenant in ALIKE] == [1, 2, 3, 4, 5, 6, 107]


def test_a_session_named_like_a_tenants_key_shares_none_of_it(
    books: Books, connect: Connect, settings: Settings, raw: Any
) -> None:
    books.report("t/a", 100)
    session = connect(settings).session("tenant:t", ROOMY)
    session.push(user("hi"))
    session.clear()
    assert books.total("t") == 100
    assert raw.type(tenants.sizes_key(settings.namespace, "t")) == b"hash"


def test_a_correction_that_a_report_overtook_is_not_made(books: Books) -> None:
    books.report("t/a", 100)
    books.report("t/b", 10)
    wrong = [Correction(SessionId("t/a"), 90, 0), Correction(SessionId("t/b"), 10, 0)]
    assert books.correct("t", *wrong) == 100
    assert books.total("t") == 100


@pytest.mark.parametrize("damage", ["garbage", "12.5x", b"\xff"])
def test_a_size_or_a_total_garbled_from_outside_is_set_right(
    damage: Any, connect: Connect, settings: Settings, books: Books, raw: Any
) -> None:
    key = tenants.sizes_key(settings.namespace, "t")
    books.report("t/a", 100)
    books.report("t/gone", 100)
    raw.hset(key, mapping={"t/a": damage, "=total": damage})
    memory = connect(settings.model_copy(update={"max_tenant_bytes": 3_000}))
    memory.session("t/b", ROOMY).push(user("x" * 2_000))
    held = int(raw.hget(key, "t/b"))
    assert books.total("t") == held + 100
    with pytest.raises(TenantFullError):
        memory.session("t/c", ROOMY).push(user("x" * 2_000))
    assert (books.total("t"), raw.hkeys(key)) == (held, [b"=total", b"t/b"])


def test_a_wrong_total_is_set_right_by_a_full_sweep(
    connect: Connect, settings: Settings, books: Books, raw: Any
) -> None:
    memory = connect(settings.model_copy(update={"max_tenant_bytes": 10_000}))
    memory.session("t/a", ROOMY).push(user("x" * 2_000))
    raw.hset(tenants.sizes_key(settings.namespace, "t"), "=total", 9_999)
    another = connect(settings.model_copy(update={"max_tenant_bytes": 10_000}))
    assert another.session("t/b", ROOMY).push(user("x" * 2_000)).length == 1
    assert 4_000 < (books.total("t") or 0) < 4_200


def test_a_state_that_cannot_be_read_keeps_no_other_size_from_being_set_right(
    connect: Connect, settings: Settings, books: Books, raw: Any
) -> None:
    books.report("t/gone", 2_500)
    memory = connect(settings.model_copy(update={"max_tenant_bytes": 5_000}))
    memory.session("t/garbled", ROOMY).push(user("x" * 1_000))
    raw.hset(keys_of(settings, "t/garbled").state, "bytes", "garbage")
    assert memory.session("t/b", ROOMY).push(user("x" * 2_000)).length == 1
    assert 3_000 < (books.total("t") or 0) < 3_200


def test_sizes_end_by_themselves(books: Books, settings: Settings, raw: Any) -> None:
    books.report("t/a", 100)
    assert 0 < raw.pttl(tenants.sizes_key(settings.namespace, "t")) <= LIFE


def test_the_sweep_drops_what_is_gone_and_leaves_what_lives(
    books: Books, connect: Connect, settings: Settings, store: StoreClient, raw: Any
) -> None:
    limited = settings.model_copy(update={"max_tenant_bytes": 5_000})
    connect(settings).session("t/lives", ROOMY).push(user("x" * 1_000))
    stored = int(raw.hget(keys_of(settings, "t/lives").state, "bytes"))
    books.report("t/lives", stored)
    for number in range(1_500):
        books.report(f"t/gone-{number}", 1_000)
    ledger = TenantLedger(limited, SessionId("t/new"), TenantBook(), lambda: 0.0)
    answered(ledger.admit(2_000), store)
    assert (books.total("t") or 0) <= 3_000
    assert raw.hget(tenants.sizes_key(settings.namespace, "t"), "t/lives") == str(stored).encode()


def test_a_full_tenant_is_refused_before_anything_is_stored(connect: Connect, settings: Settings, raw: Any) -> None:
    memory = connect(settings.model_copy(update={"max_tenant_bytes": 3_000}))
    memory.session("t/one", ROOMY).push(user("x" * 2_000))
    fresh = connect(settings.model_copy(update={"max_tenant_bytes": 3_000}))
    for client in (memory, fresh):
        with pytest.raises(TenantFullError, match=r"over the limit of 3000; nothing was stored"):
            client.session("t/two", ROOMY).push(user("y" * 2_000))
    assert raw.exists(*keys_of(settings, "t/two").all) == 0
    assert memory.session("u/two", ROOMY).push(user("y" * 2_000)).length == 1


def test_a_list_of_a_full_tenant_is_answered_and_not_stored(connect: Connect, settings: Settings, raw: Any) -> None:
    limited = settings.model_copy(update={"max_tenant_bytes": 3_000})
    connect(limited).session("t/one", ROOMY).push(user("x" * 2_000))
    session = connect(limited).session("t/list", ROOMY)
    messages = [user("y" * 2_000)]
    context = session.prepare(messages=messages)
    assert context.messages == messages
    assert context.verdict.compaction == "held(tenant_full)"
    with pytest.raises(TenantFullError):
        session.sync(messages)
    assert raw.exists(keys_of(settings, "t/list").messages) == 0


def test_a_list_that_is_stored_already_needs_no_room(connect: Connect, settings: Settings, raw: Any) -> None:
    limited = settings.model_copy(update={"max_tenant_bytes": 3_000})
    messages = [user("x" * 2_000)]
    assert connect(limited).session("t/list", ROOMY).sync(messages).length == 1
    for _ in range(2):
        unknowing = connect(limited).session("t/list", ROOMY)
        assert unknowing.prepare(messages=messages).verdict.compaction == "not_needed"
        grown = [*messages, assistant("z" * 100)]
        messages = list(unknowing.prepare(messages=grown).messages)
    assert connect(limited).session("t/list", ROOMY).sync(messages).length == 3
    assert int(raw.hget(tenants.sizes_key(settings.namespace, "t"), "t/list")) > 2_000


def test_a_copy_needs_the_room_of_its_original(connect: Connect, settings: Settings, raw: Any) -> None:
    memory = connect(settings.model_copy(update={"max_tenant_bytes": 3_000}))
    session = memory.session("t/one", ROOMY)
    session.push(user("x" * 2_000))
    with pytest.raises(TenantFullError):
        session.fork("t/copy")
    assert raw.exists(*keys_of(settings, "t/copy").all) == 0
    session.fork("u/copy")
    assert int(raw.hget(tenants.sizes_key(settings.namespace, "u"), "u/copy")) > 2_000


def test_what_is_gone_for_good_is_taken_off_at_once(connect: Connect, settings: Settings, books: Books) -> None:
    memory = connect(settings.model_copy(update={"max_tenant_bytes": 10_000}))
    for name in ("t/cleared", "t/erased"):
        memory.session(name, ROOMY).push(user("x" * 2_000))
    assert (books.total("t") or 0) > 4_000
    cleared = memory.session("t/cleared", ROOMY)
    cleared.clear()
    memory.session("t/erased", ROOMY).erase()
    assert 2_000 < (books.total("t") or 0) < 2_100
    cleared.push(user("y" * 1_000))
    assert 3_000 < (books.total("t") or 0) < 3_200
    cleared.clear()
    assert 1_000 < (books.total("t") or 0) < 1_100
    cleared.erase()
    assert books.total("t") == 0


def test_a_push_that_grew_the_session_is_counted_though_its_caller_repeats_it(
    connect: Connect, settings: Settings, books: Books
) -> None:
    session = connect(settings.model_copy(update={"max_tenant_bytes": 10_000})).session("t/one", ROOMY)
    for _ in range(3):
        session.push(user("x" * 2_000), idempotency_key="same")
    assert 2_000 < (books.total("t") or 0) < 2_100


@pytest.mark.parametrize("end", ["erase", "delete"])
def test_room_that_a_session_leaves_is_given_to_the_next(
    connect: Connect, settings: Settings, raw: Any, end: str
) -> None:
    memory = connect(settings.model_copy(update={"max_tenant_bytes": 3_000}))
    first = memory.session("t/one", ROOMY)
    first.push(user("x" * 2_000))
    leave: dict[str, Callable[[], object]] = {
        "erase": first.erase,
        "delete": lambda: raw.delete(*keys_of(settings, "t/one").all),
    }
    leave[end]()
    assert memory.session("t/two", ROOMY).push(user("y" * 2_000)).length == 1


def test_without_a_ceiling_no_size_is_kept(connect: Connect, settings: Settings, raw: Any) -> None:
    session = connect(settings).session("t/free", ROOMY)
    session.push(user("x" * 200_000))
    session.clear()
    assert raw.exists(tenants.sizes_key(settings.namespace, "t")) == 0


def test_a_push_under_a_ceiling_costs_one_call_unless_a_step_is_crossed(
    connect: Connect, own_settings: Settings, own_server: EmbeddedServer
) -> None:
    limited = own_settings.model_copy(update={"max_tenant_bytes": 10**9})
    session = connect(limited).session("t/cheap", ROOMY)
    session.push(user("x" * 40_000))
    with bare(own_server) as client:
        client.config_resetstat()
        for _ in range(10):
            session.push(user("y" * 100))
        calls: dict[str, Any] = client.info("commandstats")
    assert calls["cmdstat_evalsha"]["calls"] == 10
