"""Sessions on a real cluster: everything works through both clients, wherever a session's slot is or goes to."""

from __future__ import annotations

import contextlib
import signal
import threading
import time

import pytest
from pydantic import SecretStr
from redis.crc import key_slot

from compactor import Code, Compactor, StoreUnavailableError
from compactor.commands import api_keys, sessions
from compactor.commands.command import Command
from compactor.commands.sessions import read_seen
from compactor.commands.turns import crowded_key, enter_crowded
from compactor.config_flows import ConfigFlows, Rotation
from compactor.dead_list import dead_sessions
from compactor.embedded import EmbeddedServer
from compactor.http.authentication import Caller
from compactor.http.problems import Problem
from compactor.http.rates import RateLimits
from compactor.models import SessionId
from compactor.secret_box import SecretBox, new_key
from compactor.server_check import check_server
from compactor.settings import Settings, read_settings
from compactor.store import AsyncStore, Store
from compactor.tenant_ledger import STEP
from tests.clusters import LocalCluster, session_on, slot_of
from tests.integration.clients import Client, Connect, StoreClient, open_store
from tests.integration.commands_sent import CASES, script_of
from tests.integration.config_stores import open_configs
from tests.integration.conversations import ROOMY, SMALL, conversation, recount, user
from tests.integration.driving import answered
from tests.integration.inline_worker import InlineWorker
from tests.integration.stage import Stage


@pytest.fixture
def settings(cluster: LocalCluster, server: EmbeddedServer, settings: Settings) -> Settings:
    """Sessions on the cluster, in a namespace of this test; the broker is the shared server."""
    return read_settings(redis_url=cluster.url, broker_url=server.url, namespace=settings.namespace)


def test_a_session_lives_through_everything_on_a_cluster(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("t/whole", SMALL)
    pushed = conversation(8)
    receipt = session.push(pushed, idempotency_key="first")
    assert session.push(pushed, idempotency_key="first") == receipt
    assert receipt.total == recount(pushed)
    assert session.estimate().total == receipt.total + 3  # per request
    assert session.prepare().verdict.compaction == "queued"
    assert worker.work("t/whole").outcome.outcome is Code.APPLIED
    context = session.prepare()
    assert 0 < recount(context.messages) < recount(pushed)
    assert session.originals() == pushed
    assert session.recall("m3") == pushed[3]
    fork = session.fork("t/fork", at=5)
    assert fork.status().length == 6  # up to message 5
    assert session.undo().outcome is Code.UNDONE
    assert session.prepare().messages == pushed
    assert session.rewind(4) > 0
    own = [*pushed[:4], user("another way")]
    assert session.sync(own).positions[-1] == len(pushed)
    assert session.prepare(own).messages == own
    assert session.clear() > 0
    assert session.erase().messages == 0
    assert fork.status().length == 6  # up to message 5


@pytest.mark.parametrize("name", list(CASES))
def test_every_script_runs_on_a_cluster_and_its_repeat_changes_nothing(
    settings: Settings, kind: str, name: str
) -> None:
    case = CASES[name]
    with contextlib.closing(Stage(settings, script_of(name))) as stage:
        command = case.sent(stage)
        with contextlib.closing(open_store(kind, settings)) as store:
            assert case.told(store.run(command)) == case.first
            assert case.told(store.run(command)) == case.again


def keyed(settings: Settings, ring: str) -> Settings:
    return settings.model_copy(update={"config_keys": SecretStr(ring)})


def listed(store: StoreClient, namespace: str, tenant: str | None = None) -> list[str]:
    found: list[str] = []
    cursor = 0
    while True:
        page = store.run(sessions.read_page(namespace, cursor, tenant=tenant))
        found += page.sessions
        if not (cursor := page.cursor):
            return found


def test_a_listing_names_every_session_of_all_primaries_once(
    cluster: LocalCluster, memory: Client, store: StoreClient, settings: Settings
) -> None:
    names = [f"{'ab'[order % 2]}/{order}" for order in range(60)]
    for name in names:
        memory.session(name, ROOMY).push(user(name))
    assert {cluster.owner_of(slot_of(settings.namespace, name)) for name in names} == {0, 1, 2}
    assert sorted(listed(store, settings.namespace)) == sorted(names)
    assert sorted(listed(store, settings.namespace, "a")) == sorted(name for name in names if name[0] == "a")
    seen = store.run(read_seen(settings.namespace, [SessionId(name) for name in names], max_attempts=3))
    assert [each.session for each in seen] == names
    assert {each.messages for each in seen} == {1}
    assert store.run(read_seen(settings.namespace, [], max_attempts=3)) == []


def test_lists_and_sums_that_span_sessions_span_nodes(
    settings: Settings, store: StoreClient, cluster: LocalCluster, kind: str
) -> None:
    limited = settings.model_copy(update={"max_tenant_bytes": 40 * STEP})
    with contextlib.closing(Compactor(settings=limited)) as memory:
        for order in range(6):
            memory.session(f"sum/{order}", ROOMY).push(user("x" * STEP))
    key, entry = api_keys.new_key("sum", now=time.time())
    assert store.run(api_keys.issue(settings.namespace, entry))
    assert store.run(api_keys.read_keys(settings.namespace)) == [entry]
    assert store.run(api_keys.revoke(settings.namespace, entry.id))
    (revoked,) = store.run(api_keys.read_keys(settings.namespace))
    assert revoked.revoked is not None
    assert not revoked.opens(key, time.time())
    assert answered(dead_sessions(settings.namespace, max_attempts=3), store) == []
    old, new = new_key(), new_key()
    for tenant in ("a", "b", "c"):
        values = {"name": "n", "provider": "openai", "model": "gpt-4o", "context_limit": 128, "api_key": "sk-secret"}
        with contextlib.closing(open_configs(kind, keyed(settings, old))) as configs:
            configs.create(tenant, "u", values)
    rotating = keyed(settings, f"{new},{old}")
    rotation = answered(ConfigFlows(rotating, SecretBox(rotating.config_keys)).rotate(), store)
    assert rotation == Rotation(rotated=3)


def test_the_start_check_looks_at_every_primary(cluster: LocalCluster, settings: Settings) -> None:
    with Store(settings) as store:
        assert len(store.primaries()) == 3
        before = check_server(store, settings)
        assert [finding.level for finding in before] == ["ok", "ok"]
        with cluster.client(1) as second:
            second.config_set("maxmemory-policy", "allkeys-lru")
            try:
                findings = check_server(store, settings)
            finally:
                second.config_set("maxmemory-policy", "noeviction")
    assert [(each.check, each.level) for each in findings if each.level != "ok"] == [("eviction", "failed")]


def test_a_client_follows_a_session_that_moved(
    cluster: LocalCluster, memory: Client, store: StoreClient, settings: Settings
) -> None:
    session = memory.session("t/moved", ROOMY)
    session.push(user("before"))
    slot = slot_of(settings.namespace, "t/moved")
    target = (cluster.owner_of(slot) + 1) % 3
    source = cluster.start_moving(slot, target)
    assert cluster.move_keys(slot, source, target) > 0
    cluster.end_moving(slot, target)
    session.push(user("after"))
    assert session.prepare().messages == [user("before"), user("after")]
    assert listed(store, settings.namespace) == ["t/moved"]


def test_while_a_slot_is_on_its_way_a_push_says_so_in_time_and_its_repeat_is_stored_once(
    cluster: LocalCluster, memory: Client, settings: Settings
) -> None:
    session = memory.session("t/moving", ROOMY)
    session.push(user("before"))
    slot = slot_of(settings.namespace, "t/moving")
    target = (cluster.owner_of(slot) + 1) % 3
    source = cluster.start_moving(slot, target)
    try:
        cluster.move_keys(slot, source, target, most=1)
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            session.push(user("after"), idempotency_key="after")
        own = [user("before"), user("own")]
        assert session.prepare(own).verdict.fit == "degraded"
        assert time.monotonic() - began < 5
        while cluster.move_keys(slot, source, target):
            pass
        assert session.estimate().history == recount([user("before")])  # one key, so an ASK can be followed
    finally:
        cluster.end_moving(slot, target)
    session.push(user("after"), idempotency_key="after")
    session.push(user("after"), idempotency_key="after")
    assert session.prepare().messages == [user("before"), user("after")]


def test_a_node_that_takes_a_slot_over_learns_the_scripts_it_is_asked_for(
    cluster: LocalCluster, store: StoreClient, settings: Settings
) -> None:
    """Also where the script is one of several commands: the error stands inside the answer to EXEC then."""
    key = crowded_key(settings.namespace)
    store.run(enter_crowded(settings.namespace, "first"))
    slot = key_slot(key.encode())
    target = (cluster.owner_of(slot) + 1) % 3
    source = cluster.start_moving(slot, target)
    try:
        while cluster.move_keys(slot, source, target):
            pass
        with cluster.client(target) as taking:
            taking.script_flush()
        entering = enter_crowded(settings.namespace, "second")
        both = Command(list[int], entering.script, entering.keys, entering.args, (("ZCARD", key),))
        assert store.run(both) == [2, 2]
    finally:
        cluster.end_moving(slot, target)


def test_pushes_go_on_exactly_once_while_their_slot_moves_back_and_forth(
    cluster: LocalCluster, memory: Client, settings: Settings
) -> None:
    session = memory.session("t/tossed", ROOMY)
    session.push(user("0"))
    slot = slot_of(settings.namespace, "t/tossed")
    stop = threading.Event()

    def toss() -> None:
        while not stop.wait(0.02):
            target = (cluster.owner_of(slot) + 1) % 3
            source = cluster.start_moving(slot, target)
            while cluster.move_keys(slot, source, target, most=1):
                pass
            cluster.end_moving(slot, target)

    tossing = threading.Thread(target=toss)
    tossing.start()
    try:
        for order in range(1, 150):
            while True:
                with contextlib.suppress(StoreUnavailableError):
                    session.push(user(str(order)), idempotency_key=str(order))
                    break
    finally:
        stop.set()
        tossing.join()
    assert session.prepare().messages == [user(str(order)) for order in range(150)]


@pytest.mark.parametrize(
    ("given", "meant"), [("redis://", r"redis\+cluster://"), ("redis+cluster://", "redis://")], ids=["node", "alone"]
)
def test_the_wrong_scheme_is_named(
    cluster: LocalCluster, server: EmbeddedServer, kind: str, given: str, meant: str
) -> None:
    port = server.port if "cluster" in given else cluster.nodes[0].port
    settings = read_settings(redis_url=f"{given}127.0.0.1:{port}/0", broker_url=server.url)
    anywhere = [SessionId(f"t/{order}") for order in range(50)]  # a node has a third of the slots
    with (
        contextlib.closing(open_store(kind, settings)) as store,
        pytest.raises(StoreUnavailableError, match=f"Write {meant}"),
    ):
        store.run(sessions.read_seen("n", anywhere, max_attempts=3))


def test_a_primary_that_hangs_costs_two_time_limits(
    cluster: LocalCluster, connect: Connect, settings: Settings
) -> None:
    short = settings.model_copy(update={"read_timeout": 0.3})
    session = connect(short).session(session_on(cluster, 2, settings.namespace), ROOMY)
    session.push(user("one"))
    process = cluster.nodes[2].child.process
    process.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            session.push(user("two"), idempotency_key="two")
        assert time.monotonic() - began < 2
    finally:
        process.send_signal(signal.SIGCONT)
    session.push(user("two"), idempotency_key="two")
    assert session.prepare().messages == [user("one"), user("two")]


async def test_rates_are_counted_for_all_processes(settings: Settings) -> None:
    limited = settings.model_copy(update={"http_key_requests": 3})
    caller = Caller("t", None, "k")
    stores = [AsyncStore(limited) for _ in range(2)]
    here, there = (RateLimits(store, limited) for store in stores)
    for rates in (here, there, here):
        await rates.admit(caller)
    with pytest.raises(Problem):
        await there.admit(caller)
    for store in stores:
        await store.close()
