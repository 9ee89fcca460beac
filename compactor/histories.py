"""What one process keeps between calls: histories it read, and small answers it can use again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, Final, TypeVar

from cachetools import LRUCache

from compactor.cached_history import CachedHistory

K = TypeVar("K")
V = TypeVar("V")
_OVERHEAD: Final = 3  # times the JSON: about what parsed messages weigh in memory
_ENTRY: Final = 2_048  # bytes
REPEAT_WITHIN: Final = 60.0  # seconds


class LruHistories:
    """Histories by (session, encoding), the least recently used go first; thread-safe."""

    def __init__(self, max_bytes: int) -> None:
        self._cache: LRUCache[tuple[str, str], CachedHistory] = LRUCache(
            max_bytes, getsizeof=lambda history: _ENTRY + history.size * _OVERHEAD
        )
        self._lock = threading.Lock()

    def get(self, key: tuple[str, str]) -> CachedHistory | None:
        with self._lock:
            return self._cache.get(key)

    def put(self, key: tuple[str, str], history: CachedHistory) -> None:
        """Keeps the history, unless it alone is larger than the cache."""
        with self._lock:
            try:
                self._cache[key] = history
            except ValueError:
                self._cache.pop(key, None)

    def drop(self, key: tuple[str, str]) -> None:
        """Forgets a history that is no more."""
        with self._lock:
            self._cache.pop(key, None)


class LockedCache(MutableMapping[K, V]):
    """A bounded mapping for threads; the least recently used entries go first."""

    def __init__(self, most: int) -> None:
        self._cache: LRUCache[K, V] = LRUCache(most)
        self._lock = threading.Lock()

    def __getitem__(self, key: K) -> V:
        with self._lock:
            return self._cache[key]

    def get(self, key: K, default: Any = None) -> Any:
        """As any mapping's, without an error raised on the way."""
        with self._lock:
            return self._cache.get(key, default)

    def __setitem__(self, key: K, value: V) -> None:
        with self._lock:
            self._cache[key] = value

    def __delitem__(self, key: K) -> None:
        with self._lock:
            del self._cache[key]

    def __iter__(self) -> Iterator[K]:
        with self._lock:
            return iter(list(self._cache))

    def __len__(self) -> int:
        return len(self._cache)


class UnconfirmedOperations:
    """Names of writing calls that raised, and may have been carried out all the same; thread-safe.

    The next call of the same kind and content takes such a name, so that the server knows it again:
    within REPEAT_WITHIN, and until this process has read the message back. Then the same text is a
    new message. A push's content begins with the fingerprint of its first message.
    """

    def __init__(self, clock: Callable[[], float], most: int = 4_096) -> None:
        self._clock = clock
        self._names: LRUCache[str, list[tuple[bytes, float, bytes, object]]] = LRUCache(most)
        self._lock = threading.Lock()

    def put(self, session: str, content: bytes, name: bytes, caller: object = None) -> None:
        """Remembers the name of a call that raised, and whose it was."""
        with self._lock:
            self._names.setdefault(session, []).append((content, self._clock(), name, caller))

    def take(self, session: str, content: bytes) -> bytes | None:
        """The oldest such name, which is then forgotten."""
        with self._lock:
            oldest = self._clock() - REPEAT_WITHIN
            entries = [entry for entry in self._names.get(session, ()) if entry[1] >= oldest]
            found = next((entry for entry in entries if entry[0] == content), None)
            self._keep(session, [entry for entry in entries if entry is not found])
        return found[2] if found else None

    def seen(self, session: str, own: Sequence[bytes], caller: object = None) -> None:
        """Forgets this caller's pushes whose first message has one of these fingerprints: they were stored.

        Another caller may still be about to repeat its own.
        """
        with self._lock:
            if entries := self._names.get(session):
                self._keep(session, [e for e in entries if e[3] is not caller or e[0][:8] not in own])

    def forget(self, session: str, content: bytes | None = None) -> None:
        """Forgets the names of a session, or those of one content: what came after makes them meaningless."""
        with self._lock:
            entries = self._names.get(session, [])
            self._keep(session, [entry for entry in entries if content is not None and entry[0] != content])

    def _keep(self, session: str, entries: list[tuple[bytes, float, bytes, object]]) -> None:
        if entries:
            self._names[session] = entries
        else:
            self._names.pop(session, None)
