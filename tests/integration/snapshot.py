"""All that is stored of a session or a namespace at one moment: to be compared with another moment, or put back."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

from compactor.json_values import is_array
from compactor.records import unpack
from compactor.settings import Settings
from tests.integration.stored import keys_of

_TIME: Final = re.compile(rb"(?<!\d)1[5-9]\d{8}(?:\d{3})?(?!\d)")  # seconds or ms since the epoch


def everything(raw: Any, settings: Settings, session: str) -> dict[str, object]:
    """The value of each key of a session."""
    return {key: _value(raw, key) for key in keys_of(settings, session).all if raw.exists(key)}


def whole_namespace(raw: Any, settings: Settings) -> dict[str, object]:
    """The value of each key of a namespace, times left out."""
    return {key: _timeless(key, _value(raw, key)) for key in _keys(raw, settings)}


class Backup:
    """A namespace as it stands, to be put back."""

    def __init__(self, raw: Any, settings: Settings) -> None:
        self._raw, self._settings = raw, settings
        self._dumps = {key: raw.dump(key) for key in _keys(raw, settings)}

    def put_back(self) -> None:
        """Undoes whatever was changed since."""
        if changed := _keys(self._raw, self._settings):
            self._raw.delete(*changed)
        for key, dump in self._dumps.items():
            self._raw.restore(key, 0, dump)


def _keys(raw: Any, settings: Settings) -> list[str]:
    """The keys of a namespace without those of the broker."""
    found = [key.decode() for key in raw.scan_iter(match=f"*{settings.namespace}*", count=1_000)]
    return sorted(key for key in found if key.startswith("{") or ":breaker:" in key)


def _value(raw: Any, key: str) -> Any:
    readers = {
        b"hash": lambda: raw.hgetall(key),
        b"list": lambda: raw.lrange(key, 0, -1),
        b"zset": lambda: raw.zrange(key, 0, -1, withscores=True),
    }
    return readers.get(raw.type(key), lambda: raw.get(key))()


def _timeless(key: str, value: Any) -> object:
    if key.endswith((":messages", ":cleared")):
        return [replace(unpack(row), pushed_ms=0) for row in value]
    if key.endswith((":audit", ":changes")):
        return value
    if isinstance(value, bytes):
        return value
    if is_array(value):  # a sorted set, by time
        return [name for name, _ in value]
    return {name: _TIME.sub(b"", stored) for name, stored in value.items()}
