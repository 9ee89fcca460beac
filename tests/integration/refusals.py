"""Ways in which a real server refuses: read only, out of memory, loading its data, busy, failing disk, no replica."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Generator
from typing import Any, Final

import redis

from compactor.embedded import EmbeddedServer, free_port
from tests.integration.stored import bare

OPTIONS: Final = (  # of a server that takes its time to load, answers meanwhile, and is busy soon
    *("--key-load-delay", "20000", "--loading-process-events-interval-bytes", "1024"),
    *("--busy-reply-threshold", "20"),
)
_SPIN: Final = "while true do end"
_HEAVY_KEYS: Final = 300  # of 1 KB, 20 ms each to load


@contextlib.contextmanager
def read_only(server: EmbeddedServer) -> Generator[None]:
    """As after a failover: the server has become the replica of another, which cannot be reached."""
    with bare(server) as client:
        client.replicaof("127.0.0.1", free_port())
        try:
            yield
        finally:
            client.replicaof("NO", "ONE")


@contextlib.contextmanager
def _configured(server: EmbeddedServer, name: str, value: object, usual: object) -> Generator[None]:
    with bare(server) as client:
        client.config_set(name, value)
        try:
            yield
        finally:
            client.config_set(name, usual)


def out_of_memory(server: EmbeddedServer) -> contextlib.AbstractContextManager[None]:
    return _configured(server, "maxmemory", 1, 0)


def without_replicas(server: EmbeddedServer) -> contextlib.AbstractContextManager[None]:
    return _configured(server, "min-replicas-to-write", 1, 0)


@contextlib.contextmanager
def failing_disk(server: EmbeddedServer) -> Generator[None]:
    """The last snapshot could not be written, since a folder stands in its place."""
    place = server.folder / "dump.rdb"
    place.mkdir()
    with bare(server) as client, _configured(server, "save", "3600 1", ""):
        client.set("refusals:changed", 1)
        client.bgsave()
        while client.info("persistence")["rdb_last_bgsave_status"] != "err":
            pass
        try:
            yield
        finally:
            place.rmdir()
            client.bgsave()
            while client.info("persistence")["rdb_last_bgsave_status"] != "ok":
                pass
            place.unlink()


@contextlib.contextmanager
def busy(server: EmbeddedServer) -> Generator[None]:
    """Somebody's script runs and runs."""

    def spin() -> None:
        with bare(server) as client, contextlib.suppress(redis.ResponseError):
            client.eval(_SPIN, 0)

    spinning = threading.Thread(target=spin)
    spinning.start()
    with bare(server) as client:
        try:
            while _answers(client):
                pass
            yield
        finally:
            client.script_kill()
            spinning.join()


def _answers(client: Any) -> bool:
    try:
        client.ping()
    except redis.RedisError:
        return False
    return True


@contextlib.contextmanager
def loading(server: EmbeddedServer) -> Generator[None]:
    """Killed and started again, and reading its data for as long as this lasts."""
    with bare(server) as client:
        for order in range(_HEAVY_KEYS):
            client.set(f"refusals:heavy{order}", os.urandom(1024))
        client.bgrewriteaof()
        while client.info("persistence")["aof_rewrite_in_progress"]:
            pass
        server.child.kill()
        server.restart()
        assert client.info("persistence")["loading"]
        try:
            yield
        finally:
            client.config_set("key-load-delay", 0)
            while client.info("persistence")["loading"]:
                pass


REFUSALS: Final[dict[str, Callable[[EmbeddedServer], contextlib.AbstractContextManager[None]]]] = {
    "READONLY": read_only,
    "OOM": out_of_memory,
    "NOREPLICAS": without_replicas,
    "MISCONF": failing_disk,
    "BUSY": busy,
    "LOADING": loading,
}
