"""What stands in Redis, read past the product: keys, record texts, expiry, published tasks."""

from __future__ import annotations

from typing import Any

import redis

from compactor.commands.command import SessionKeys, session_keys
from compactor.dispatch import queue_name
from compactor.embedded import EmbeddedServer
from compactor.models import SessionId
from compactor.records import unpack
from compactor.settings import Settings


def bare(server: EmbeddedServer) -> Any:
    """A plain client on a server, as a context manager."""
    return redis.Redis(port=server.port)


def keys_of(settings: Settings, session: str) -> SessionKeys:
    return session_keys(settings.namespace, SessionId(session))


def texts(raw: Any, settings: Settings, session: str) -> list[bytes]:
    """The JSON bytes of each live record."""
    return [unpack(row).text for row in raw.lrange(keys_of(settings, session).messages, 0, -1)]


def records(raw: Any, settings: Settings, session: str) -> list[bytes]:
    """The live records, heads included."""
    return list(raw.lrange(keys_of(settings, session).messages, 0, -1))


def expiries(raw: Any, settings: Settings, session: str) -> dict[str, int]:
    """When each existing key of the session expires, in ms since the epoch; -1 for never."""
    return {key: raw.pexpiretime(key) for key in keys_of(settings, session).all if raw.exists(key)}


def set_life(raw: Any, settings: Settings, session: str, seconds: int) -> None:
    """Gives every key of the session the same time to live."""
    now, _ = raw.time()
    for key in keys_of(settings, session).all:
        raw.pexpireat(key, (now + seconds) * 1000)


def published(raw: Any, settings: Settings) -> int:
    """Tasks that wait in the queue of the namespace."""
    return int(raw.llen(f"{settings.namespace}:{queue_name(settings.namespace)}"))
