"""What all workers together may ask of the cheap model per minute: requests, and tokens as providers count them.

One token bucket for each, in Redis. A call that finds its bucket empty waits a moment; when that is not
enough it is not made, and the session comes again later: a thread that waits compacts nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from importlib.util import find_spec
from random import uniform
from typing import Any, Final, Protocol

from redis.exceptions import RedisError

from compactor.commands.breaker import server_name
from compactor.exceptions import ConfigurationError, StoreUnavailableError, SummarizerThrottled
from compactor.settings import Settings

PATIENCE: Final = 2.0  # seconds that a call waits for its turn in a thread of the pool
_MINUTE: Final = 60_000  # ms
_AT_ONCE: Final = 10  # a bucket holds one part of so many of a minute's quota


class Clients(Protocol):
    """Where keys lie: the store."""

    def client_of(self, key: str) -> Any:
        """redis-py's client of the server that has a key. Raises StoreUnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class _Bucket:
    """One bucket: its key, what a minute brings and what it holds at most, and whether it counts tokens."""

    key: str
    per_minute: int
    burst: int
    is_of_tokens: bool


class Quota:
    """The buckets of one model on one server; thread-safe. Without an answer of Redis nothing is held back.

    Raises ConfigurationError without the library that keeps the buckets.
    """

    def __init__(self, settings: Settings, clients: Clients) -> None:
        self._clients = clients
        model = server_name(settings.openai_base_url or "", settings.summarizer_model or "")
        where = f"{{{settings.namespace}:quota:{model}}}"
        window = settings.summarizer_context_limit * 1000
        self._buckets = [
            _Bucket(f"{where}:{name}", *refill(limit, least=least), is_of_tokens=name == "tokens")
            for name, limit, least in (
                ("requests", settings.summarizer_rpm, 1),
                ("tokens", settings.summarizer_tpm, window),
            )
            if limit is not None
        ]
        if self._buckets and find_spec("pyrate_limiter") is None:
            raise ConfigurationError(
                "summarizer_rpm, summarizer_tpm: need pyrate-limiter. pip install 'compactor[worker]', or unset both."
            )

    def take(self, tokens: int, *, until: float) -> None:
        """Takes one request of so many tokens, prompt and reply together; waits PATIENCE for it, at most until `until`.

        `until` is monotonic seconds. Raises SummarizerThrottled with the seconds until the bucket may have enough.
        """
        until = min(until, time.monotonic() + PATIENCE)
        for bucket in self._buckets:
            cost = tokens if bucket.is_of_tokens else 1
            while (wait := self._wait(bucket, min(cost, bucket.burst))) > 0:
                pause = wait * uniform(1.0, 1.2)  # noqa: S311 # why: spreads those who wait, guards nothing
                if time.monotonic() + pause > until:
                    raise SummarizerThrottled(retry_after=wait)
                time.sleep(pause)

    def _wait(self, bucket: _Bucket, cost: int) -> float:
        """Seconds until the bucket has enough; 0 when it had, and the cost is taken."""
        from pyrate_limiter import Rate
        from pyrate_limiter.abstracts.algorithm import TokenBucket
        from pyrate_limiter.buckets.redis_state import RedisStateStore

        try:
            client = self._clients.client_of(bucket.key)
            seconds, microseconds = client.time()  # one clock for all hosts
            check: Any = RedisStateStore(client, bucket.key).check  # its arguments are not annotated
            rates = [Rate(bucket.per_minute, _MINUTE, bucket.burst)]
            decision: Any = check(TokenBucket(), rates, seconds * 1000 + microseconds // 1000, cost)
        except (StoreUnavailableError, RedisError, OSError):
            return 0.0
        return 0.0 if decision.allowed else max(0.001, (decision.retry_after_ms or 0) / 1000)


def refill(limit: int, *, least: int) -> tuple[int, int]:
    """What flows into a bucket per minute, and what it holds: together at most the limit, so no minute exceeds it.

    It holds a tenth of the limit, and `least` where that is more: the largest single call. Where that is more
    than half of the limit the two exceed it together, else next to nothing would flow.
    """
    burst = min(limit, max(limit // _AT_ONCE, least))
    return max(limit - burst, limit // 2, 1), burst
