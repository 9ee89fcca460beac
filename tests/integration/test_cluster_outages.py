"""A primary of a cluster dies: its sessions say so in time, the others go on, and its replica has everything."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from compactor import StoreUnavailableError
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings, read_settings
from tests.clusters import LocalCluster, session_on, until
from tests.integration.clients import Connect, SessionClient
from tests.integration.conversations import ROOMY, user


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    """A cluster of one test, whose first primary has a replica; it does not elect by itself in time."""
    with LocalCluster(replicas=1, timeout_ms=60_000) as running:
        yield running


@pytest.fixture
def settings(cluster: LocalCluster, server: EmbeddedServer) -> Settings:
    return read_settings(redis_url=cluster.url, broker_url=server.url, namespace="down")


def test_a_primary_that_died_is_said_in_time_and_its_replica_goes_on(
    cluster: LocalCluster, connect: Connect, settings: Settings
) -> None:
    memory = connect(settings)
    lost = memory.session(session_on(cluster, 0, settings.namespace), ROOMY)
    other = memory.session(session_on(cluster, 1, settings.namespace), ROOMY)
    for session in (lost, other):
        session.push(user("one"), idempotency_key="one")
        session.prepare()
    with cluster.client(0) as first:
        assert first.wait(1, 5_000) == 1
    cluster.nodes[0].child.kill()

    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match="no answer from the cluster"):
        lost.push(user("two"), idempotency_key="two")
    assert lost.prepare().verdict.fit == "degraded"
    assert time.monotonic() - began < 3
    other.push(user("two"))
    assert other.prepare().messages == [user("one"), user("two")]

    with cluster.client(3) as replica:
        replica.execute_command("CLUSTER FAILOVER", "TAKEOVER")
    until(lambda: "myself,master" in flags_of(cluster, 3))
    until(lambda: _pushed(lost))
    lost.push(user("one"), idempotency_key="one")
    assert lost.prepare().messages == [user("one"), user("two")]


def flags_of(cluster: LocalCluster, node: int) -> str:
    with cluster.client(node) as client:
        nodes = client.execute_command("CLUSTER NODES")
    return " ".join(each["flags"] for each in nodes.values())


def _pushed(session: SessionClient) -> bool:
    with contextlib.suppress(StoreUnavailableError):
        return session.push(user("two"), idempotency_key="two").length == 2
    return False
