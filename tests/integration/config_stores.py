"""Stores of model configs for tests: of both kinds, with a keyring, and what Redis holds of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from compactor.config_store import AsyncConfigStore, ConfigStore
from compactor.settings import Settings, read_settings
from tests.unit.configs import DOCUMENTED, SECRET

__all__ = ["GPT", "NOBODYS", "OTHER", "SECRET", "dump", "open_configs", "with_keys"]

GPT = DOCUMENTED
OTHER: dict[str, Any] = {"name": "other", "provider": "local", "model": "qwen3-8b", "context_limit": 32}
NOBODYS = "cfg_" + "0" * 32


class _Awaited:
    """An AsyncConfigStore whose calls are awaited on a loop of the test."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.Runner()
        self._store = AsyncConfigStore(settings)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *args, **named: self._loop.run(getattr(self._store, name)(*args, **named))

    def close(self) -> None:
        self._loop.run(self._store.close())
        self._loop.close()


def with_keys(settings: Settings, *keys: str, **values: Any) -> Settings:
    """The same server and namespace, with this keyring."""
    url = settings.redis_url.get_secret_value()
    given = {"redis_url": url, "namespace": settings.namespace, "config_keys": ",".join(keys)} | values
    return read_settings(**given)


def open_configs(kind: str, settings: Settings) -> Any:
    """A store of the kind under test; typed loosely, since one awaits and the other does not."""
    return ConfigStore(settings) if kind == "blocking" else _Awaited(settings)


def dump(raw: Any, settings: Settings) -> dict[bytes, Any]:
    """Everything that a namespace holds."""
    found: dict[bytes, Any] = {}
    for key in sorted(raw.scan_iter(match=f"*{settings.namespace}*")):
        found[key] = raw.hgetall(key) if raw.type(key) == b"hash" else raw.get(key)
    return found
