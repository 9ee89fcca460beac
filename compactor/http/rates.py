"""How often a key and a tenant may call, counted in Redis for all processes; and how much at once in this one."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, Final, cast
from weakref import WeakValueDictionary

from cachetools import LRUCache
from pyrate_limiter import Rate
from pyrate_limiter.abstracts.algorithm import GCRA, Decision
from pyrate_limiter.buckets.redis_state import RedisStateStore
from pyrate_limiter.buckets.state_bucket import InMemoryStateStore
from redis.exceptions import RedisError

from compactor.exceptions import StoreUnavailableError
from compactor.http.authentication import Caller
from compactor.http.problems import Problem
from compactor.settings import Settings
from compactor.store import AsyncStore

_MINUTE: Final = 60_000  # ms
PATIENCE: Final = 0.5  # seconds for an answer of Redis
PAUSE: Final = 2.0
_MOST: Final = 10_000  # keys and tenants whose scripts stay at hand
_PART: Final = 100  # a process takes one part of so many of a minute's calls at once
Take = Callable[[], Awaitable[None]]


@dataclass(slots=True)
class _Taken:
    """Calls that Redis has counted and that were not made yet; `until` in monotonic seconds."""

    calls: int
    until: float


class RateLimits:
    """The rates of a namespace. Without an answer of Redis this process counts alone, and asks again after PAUSE.

    Each process takes a hundredth of a minute's calls at once, so that few calls cost a round trip.
    """

    def __init__(self, store: AsyncStore, settings: Settings) -> None:
        self._store, self._namespace = store, settings.namespace
        self._key_rate = [Rate(settings.http_key_requests, _MINUTE)]
        self._tenant_rate = [Rate(settings.http_tenant_requests, _MINUTE)]
        self._algorithm = GCRA()
        self._counters: LRUCache[str, RedisStateStore] = LRUCache(_MOST)
        self._alone: LRUCache[str, InMemoryStateStore] = LRUCache(_MOST)
        self._taken: LRUCache[str, _Taken] = LRUCache(_MOST)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._asks_again = 0.0

    async def admit(self, caller: Caller, cost: int = 1) -> None:
        """Counts a call that costs as much as so many. Raises Problem (429) with Retry-After."""
        for whose, name, rates in (
            ("key", caller.key_id, self._key_rate),  # what a key sends in vain is not taken from its tenant
            ("tenant", caller.tenant, self._tenant_rate),
        ):
            decision = await self._counted(f"{whose}:{name}", rates, min(cost, rates[0].limit))
            if decision is not None and not decision.allowed:
                raise _too_fast(whose, rates[0], decision)

    async def _counted(self, name: str, rates: list[Rate], cost: int) -> Decision | None:
        """The decision on a call; None for one that was counted before, with others."""
        part = rates[0].limit // _PART
        if part > cost:
            async with self._turn(name):  # of many calls at once one takes a part for all
                if self._spent(name, cost):
                    return None
                if (await self._decided(name, rates, part)).allowed:
                    self._taken[name] = _Taken(part - cost, time.monotonic() + _MINUTE / 1000)
                    return None
        return await self._decided(name, rates, cost)

    def _spent(self, name: str, cost: int) -> bool:
        """Takes a call from what was counted before; whether there was enough."""
        taken = self._taken.get(name)
        if taken is None or taken.calls < cost or time.monotonic() >= taken.until:
            return False
        taken.calls -= cost
        return True

    def _turn(self, name: str) -> asyncio.Lock:
        turn = self._turns.get(name)
        if turn is None:
            turn = self._turns[name] = asyncio.Lock()
        return turn

    async def _decided(self, name: str, rates: list[Rate], cost: int) -> Decision:
        if time.monotonic() >= self._asks_again:
            try:
                async with asyncio.timeout(PATIENCE):
                    return await self._asked(name, rates, cost)
            except (RedisError, OSError, StoreUnavailableError):  # a TimeoutError too
                self._asks_again = time.monotonic() + PAUSE
        counter = self._alone.get(name)
        if counter is None:
            counter = self._alone[name] = InMemoryStateStore()
        check: Any = counter.check  # its arguments are not annotated
        return cast("Decision", check(self._algorithm, rates, time.time_ns() // 1_000_000, cost))

    async def _asked(self, name: str, rates: list[Rate], cost: int) -> Decision:
        key = f"{{{self._namespace}:rate:{name}}}"
        counter, client = self._counters.get(name), await self._store.client_of(key)
        if counter is None or counter.redis is not client:
            counter = RedisStateStore(client, key)
            self._counters[name] = counter
        check: Any = counter.check  # its arguments are not annotated
        asked = check(self._algorithm, rates, time.time_ns() // 1_000_000, cost)
        return cast("Decision", await asked)


def _too_fast(whose: str, rate: Rate, decision: Decision) -> Problem:
    return _too_many(f"This {whose} may send {rate.limit} requests per minute.", decision.retry_after_ms)


class Concurrency:
    """Calls under way in this process and the bytes of their bodies, per tenant: one cannot take all there is."""

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._running, self._bytes = Counter[str](), Counter[str]()

    @contextmanager
    def place(self, tenant: str) -> Generator[Callable[[int], None], None, None]:
        """A place for one call, and what holds so many more bytes for it.

        Both raise Problem (429) when the tenant has all.
        """
        if self._running[tenant] >= self._most:
            raise _too_many(f"This tenant may have {self._most} requests under way at once.", None)
        self._running[tenant] += 1
        held = 0

        def hold(size: int) -> None:
            nonlocal held
            if self._bytes[tenant] + size > self._most_bytes:
                raise _too_many(f"This tenant may have bodies of {self._most_bytes} bytes under way at once.", None)
            self._bytes[tenant] += size
            held += size

        try:
            yield hold
        finally:
            for counted, size in ((self._running, 1), (self._bytes, held)):
                counted[tenant] -= size
                if not counted[tenant]:
                    del counted[tenant]


class LargeCalls:
    """Large calls of a tenant: few at once in this process, the others wait.

    Each takes many times its size in memory, and the time of everybody else.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def place(self, tenant: str) -> AsyncGenerator[Take]:
        """What waits for a place when a call turns out to be large; it is kept until the block ends."""
        places = self._places.get(tenant)
        if places is None:
            places = self._places[tenant] = asyncio.Semaphore(self._most)
        taken = False

        async def take() -> None:
            nonlocal taken
            if not taken:
                await places.acquire()
                taken = True

        try:
            yield take
        finally:
            if taken:
                places.release()


def _too_many(detail: str, wait_ms: int | None) -> Problem:
    seconds = max(1, -(-(wait_ms or 1_000) // 1_000))
    return Problem(
        429,
        "too_many_requests",
        "Too many requests",
        f"{detail} Call again after {seconds} s.",
        headers={"Retry-After": str(seconds)},
    )
