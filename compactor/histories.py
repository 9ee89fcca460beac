"""What one process keeps between calls: histories it read, and fixed parts it counted."""

from __future__ import annotations

import threading
from typing import Final

from cachetools import LRUCache

from compactor.cached_history import CachedHistory
from compactor.encodings import encoder
from compactor.judging import Fixed, Request, count_fixed
from compactor.tokens import json_text

_OVERHEAD: Final = 3  # times the JSON: what parsed messages weigh in memory, measured on the shared sessions
_ENTRY: Final = 2_048  # bytes


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


class CountedRequests:
    """Counts what stands beside a history once: bots send the same tools and system text every turn."""

    def __init__(self) -> None:
        self._cache: LRUCache[tuple[str, str | None, str, str], Fixed] = LRUCache(256)
        self._lock = threading.Lock()

    def __call__(self, request: Request, encoding: str) -> Fixed:
        tools = "" if request.tools is None else json_text(request.tools)
        form = "" if request.response_format is None else json_text(request.response_format)
        key = (encoding, request.system, tools, form)
        with self._lock:
            known = self._cache.get(key)
        if known is None:
            known = count_fixed(request, encoder(encoding))
            with self._lock:
                self._cache[key] = known
        return known
