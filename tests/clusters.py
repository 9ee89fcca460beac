"""A real cluster on loopback: three primaries, formed by CLUSTER MEET, and replicas where a test wants them."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Self

import redis
from redis.crc import key_slot

from compactor.embedded import EmbeddedServer, free_port

SLOTS: Final = 16_384
_PATIENCE: Final = 30.0


class LocalCluster:
    """Three primaries with a third of the slots each; `nodes` holds replicas behind them."""

    def __init__(self, *, replicas: int = 0, timeout_ms: int = 5_000) -> None:
        self._timeout_ms = timeout_ms
        self.nodes: list[EmbeddedServer] = []
        try:
            for _ in range(3 + replicas):
                self.nodes.append(self._start())
            self._join(replicas)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes[:2])

    def client(self, node: int) -> Any:
        """A bare client of one node."""
        return redis.Redis(port=self.nodes[node].port, socket_timeout=10)

    def id_of(self, node: int) -> str:
        with self.client(node) as client:
            return str(client.execute_command("CLUSTER MYID").decode())

    def owner_of(self, slot: int) -> int:
        """The place in `nodes` of the primary that has a slot."""
        with self.client(0) as client:
            for first, last, primary, *_ in client.execute_command("CLUSTER", "SLOTS"):
                if first <= slot <= last:
                    return [node.port for node in self.nodes].index(primary[1])
        raise AssertionError(f"nobody has slot {slot}")

    def start_moving(self, slot: int, target: int) -> int:
        """Opens a slot for the move of its keys; answers where they come from."""
        source = self.owner_of(slot)
        with self.client(target) as taking, self.client(source) as giving:
            taking.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", self.id_of(source))
            giving.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", self.id_of(target))
        return source

    def move_keys(self, slot: int, source: int, target: int, most: int = 1_000) -> int:
        """Moves some keys of a slot; answers how many."""
        with self.client(source) as giving:
            keys = giving.execute_command("CLUSTER GETKEYSINSLOT", slot, most)
            if keys:
                giving.execute_command("MIGRATE", "127.0.0.1", self.nodes[target].port, "", 0, 5_000, "KEYS", *keys)
            return len(keys)

    def end_moving(self, slot: int, target: int) -> None:
        """The slot is the target's, and every primary knows."""
        owner = self.id_of(target)
        for node in (target, *(each for each in range(3) if each != target)):
            with self.client(node) as client:
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", owner)

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> EmbeddedServer:
        # The bus takes the port 10,000 above by default, which may not exist.
        bus, wait = str(free_port()), str(self._timeout_ms)
        cluster = ("--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", wait)
        extra = (*cluster, "--repl-diskless-sync-delay", "0")
        return EmbeddedServer(extra=extra)

    def _join(self, replicas: int) -> None:
        with self.client(0) as first:
            for node in self.nodes[1:]:
                other: Any = redis.Redis(port=node.port)
                with other:
                    bus = other.config_get("cluster-port")["cluster-port"]
                first.execute_command("CLUSTER MEET", "127.0.0.1", node.port, bus)
        bounds = [SLOTS * part // 3 for part in range(4)]
        for part in range(3):
            with self.client(part) as client:
                client.execute_command("CLUSTER ADDSLOTSRANGE", bounds[part], bounds[part + 1] - 1)
        everybody = range(3 + replicas)
        until(lambda: all(self._sees(each, "cluster_known_nodes", str(3 + replicas)) for each in everybody))
        for replica in range(3, 3 + replicas):
            with self.client(replica) as client:
                client.execute_command("CLUSTER REPLICATE", self.id_of(replica - 3))
            until(partial(self._is_in_step, replica))
        until(lambda: all(self._sees(each, "cluster_state", "ok") for each in everybody))

    def _sees(self, node: int, figure: str, value: str) -> bool:
        with self.client(node) as client:
            return bool(client.execute_command("CLUSTER INFO")[figure] == value)

    def _is_in_step(self, replica: int) -> bool:
        with self.client(replica) as client:
            return bool(client.info("replication").get("master_link_status") == "up")


def slot_of(namespace: str, session: str) -> int:
    """The slot of a session's keys."""
    return int(key_slot(f"{{{namespace}:{session}}}".encode()))


def session_on(cluster: LocalCluster, node: int, namespace: str) -> str:
    """The name of a session whose slot a node has."""
    names = (f"t/on-{order}" for order in range(1_000))
    return next(name for name in names if cluster.owner_of(slot_of(namespace, name)) == node)


def until(condition: Callable[[], bool], *, patience: float = _PATIENCE) -> None:
    """Waits for a condition. Raises AssertionError when it does not come."""
    end = time.monotonic() + patience
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("what was waited for did not come")
        time.sleep(0.02)
