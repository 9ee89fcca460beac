"""A real primary, its replica and a Sentinel that watches them, on loopback, all with passwords."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, Final, Self

import redis

from compactor.embedded import Child, EmbeddedServer, free_port, server_binary
from tests.clusters import until

SERVICE: Final = "mymaster"
PASSWORD, WATCHING = "pri/mary", "watch man"


class WatchedPair:
    """`servers` are the first primary and its replica; the Sentinel promotes the other one when one is gone."""

    def __init__(self) -> None:
        self.servers: list[EmbeddedServer] = []
        self._folder = Path(tempfile.mkdtemp(prefix="compactor-"))
        self._port = free_port()
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        """Its first address is of a Sentinel that is down."""
        hosts = f"127.0.0.1:{free_port()},127.0.0.1:{self._port}"
        return f"redis+sentinel://:pri%2Fmary@{hosts}/{SERVICE}/0?sentinel_password=watch%20man"

    def client(self, server: int) -> Any:
        """A bare client of one server."""
        return redis.Redis(port=self.servers[server].port, password=PASSWORD, socket_timeout=10)

    @property
    def primary(self) -> int:
        """The place in `servers` of the one that the Sentinel calls primary."""
        with self._sentinel() as sentinel:
            _, port = sentinel.sentinel_get_master_addr_by_name(SERVICE)
        return [server.port for server in self.servers].index(port)

    def wait_for_replica(self) -> None:
        """Until the replica has everything."""
        with self.client(self.primary) as primary:
            assert primary.wait(1, 10_000) == 1

    def fail_over(self) -> None:
        """Lets the Sentinel promote the replica of a primary that works."""
        before = self.primary
        with self._sentinel() as sentinel:
            sentinel.execute_command("SENTINEL FAILOVER", SERVICE)
        until(lambda: self.primary != before)

    def stop(self) -> None:
        if hasattr(self, "_child"):
            self._child.stop(grace=5)
        for server in self.servers:
            server.stop()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        quick = ("--repl-diskless-sync-delay", "0", "--masterauth", PASSWORD)
        self.servers.append(EmbeddedServer(extra=quick))
        primary = self.servers[0].port
        self.servers.append(EmbeddedServer(extra=(*quick, "--replicaof", f"127.0.0.1 {primary}")))
        for server in self.servers:  # after the start, which asks without a password
            client: Any = redis.Redis(port=server.port)
            with client:
                client.config_set("requirepass", PASSWORD)
        until(self._is_in_step)
        written = self._folder / "sentinel.conf"
        written.write_text(
            f'port {self._port}\nbind 127.0.0.1\ndir {self._folder}\nrequirepass "{WATCHING}"\n'
            f"sentinel monitor {SERVICE} 127.0.0.1 {primary} 1\nsentinel auth-pass {SERVICE} {PASSWORD}\n"
            f"sentinel down-after-milliseconds {SERVICE} 500\nsentinel failover-timeout {SERVICE} 3000\n",
            encoding="utf-8",
        )
        self._child = Child([str(server_binary()), str(written), "--sentinel"], log=self._folder / "sentinel.log")
        self._child.wait_until(self._knows_both, "sentinel")

    def _sentinel(self) -> Any:
        return redis.Redis(port=self._port, password=WATCHING, socket_timeout=10)

    def _is_in_step(self) -> bool:
        with self.client(1) as replica:
            return bool(replica.info("replication").get("master_link_status") == "up")

    def _knows_both(self) -> bool:
        try:
            with self._sentinel() as sentinel:
                return len(sentinel.sentinel_slaves(SERVICE)) == 1
        except redis.RedisError:
            return False
