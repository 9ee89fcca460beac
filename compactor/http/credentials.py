"""Which key opens what: lookups in Redis, remembered for a few seconds.

A revoked key is refused within CACHE seconds. While Redis is away, keys that were good within the
last GRACE seconds stay good, so that bots get their own lists back.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

from cachetools import LRUCache

from compactor.commands.api_keys import ApiKey, digest_of, id_of, read_key
from compactor.exceptions import SessionDamagedError, StoreUnavailableError
from compactor.http.authentication import Caller
from compactor.store import AsyncStore

CACHE: Final = 5.0  # seconds until a revocation is seen
GRACE: Final = 900.0  # seconds that a good key stays good without Redis
PAUSE: Final = 2.0  # seconds without a question after one that Redis did not answer
LOOKUPS: Final = 16  # at once: whoever sends wrong keys takes no more of the connections
_MOST: Final = 10_000  # keys remembered


@dataclass(frozen=True, slots=True)
class _Seen:
    key: ApiKey
    at: float


class KeyRing:
    """The keys of a namespace, as one process knows them."""

    def __init__(self, store: AsyncStore, namespace: str) -> None:
        self._store, self._namespace = store, namespace
        self._seen: LRUCache[str, _Seen] = LRUCache(_MOST)
        self._asks_again = 0.0
        self._lookups = asyncio.Semaphore(LOOKUPS)

    async def caller(self, key: str) -> Caller | None:
        """Who holds a key; None when it opens nothing. Raises StoreUnavailableError when nobody can tell.

        Every wrong key costs one lookup, whether its id exists or not.
        """
        key_id = id_of(key)
        if key_id is None:
            return None
        if (known := self._known(key_id, key)) is not None:
            return _caller(known)
        async with self._lookups:
            # Meanwhile another call may have learned of the key, or that Redis is away.
            found = self._known(key_id, key) or await self._looked_up(key_id, key)
        if found is None:
            digest_of(key)  # as much work as for an id that exists
            return None
        return _caller(found) if found.opens(key, time.time()) else None

    def _known(self, key_id: str, key: str) -> ApiKey | None:
        """The key, when it is good and was looked up a moment ago; while Redis is away, in the last GRACE seconds."""
        seen, now = self._seen.get(key_id), time.monotonic()
        fresh = GRACE if now < self._asks_again else CACHE
        return seen.key if seen is not None and now - seen.at < fresh and seen.key.opens(key, time.time()) else None

    async def _looked_up(self, key_id: str, key: str) -> ApiKey | None:
        if time.monotonic() < self._asks_again:
            raise StoreUnavailableError("redis: did not answer a moment ago; the call can be repeated safely.")
        try:
            found = await self._store.run(read_key(self._namespace, key_id))
        except SessionDamagedError:
            return None
        except StoreUnavailableError:
            self._asks_again = time.monotonic() + PAUSE
            if (known := self._known(key_id, key)) is not None:
                return known
            raise
        if found is None:
            self._seen.pop(key_id, None)
        else:
            self._seen[key_id] = _Seen(found, time.monotonic())
        return found


def _caller(key: ApiKey) -> Caller:
    return Caller(key.tenant, key.user, key.id)
