"""What a swap costs the server, and what it spares against rewriting the list."""

from __future__ import annotations

import secrets
import time
from typing import Any, Final

from compactor.archive import compress
from compactor.cli.bench_ground import ENCODING, Ground, new_name, texts
from compactor.cli.bench_ratio import Ratio, at_least, at_most
from compactor.commands import claim
from compactor.commands.command import SessionKeys
from compactor.commands.read import Stored
from compactor.model_config import ModelConfig
from compactor.models import CompactionId, Kind
from compactor.records import Record, encode_message

_ITEMS: Final = 50
_BESIDE: Final = 950  # other messages
_SMALL, _LARGE = 4_000, 100_000  # bytes of an original
_FULL: Final = ModelConfig("gpt-4o", 8)  # so that a compaction may begin
_SUMMARY: Final = "What the tool told, in short. " * 30
_SET: Final = "for i = 1, #ARGV, 2 do redis.call('LSET', KEYS[1], ARGV[i], ARGV[i + 1]) end return 1"


def swaps(ground: Ground) -> list[Ratio]:
    """All figures on swaps."""
    pairs = [_pair(ground, number) for number in range(max(5, ground.rounds // 6) + 1)][1:]  # the first loads scripts
    by_size, small = [(large.server, small.server) for small, large in pairs], [small for small, _ in pairs]
    return [
        at_most("swap of 50 results / 50 LSETs in one script, on the server", [(s.server, s.bare) for s in small], 2.5),
        at_most("swap of 50 originals of 100 KB / of 4 KB, on the server", by_size, 1.25),
        at_least("rewriting the list / swap, for the client", [(s.client, s.rewritten) for s in small], 10),
    ]


def _pair(ground: Ground, number: int) -> tuple[_Swapped, _Swapped]:
    """A swap of small and one of large originals, both ready before either runs; they take turns to be the first."""
    small, large = _Swapped(ground, _SMALL), _Swapped(ground, _LARGE)
    for each in (small, large) if number % 2 else (large, small):
        each.run()
    small.rival()
    return small, large


class _Swapped:
    """One swap of 50 results in 1,000 messages and its rivals on the same list; all in seconds."""

    def __init__(self, ground: Ground, size: int) -> None:
        self._ground = ground
        self._keys, stored, owner = _begun(ground, size)
        self._old = [record.pack() for record in stored.records]
        self._new = [(position, _short(stored.records[position])) for position in range(_ITEMS)]
        originals = {position: compress(self._old[position]) for position in range(_ITEMS)}
        assert ground.store.run(claim.archive(self._keys, owner=owner, originals=originals)) == "ok"
        self._swap = claim.swap(
            self._keys, owner=owner, last_position=_ITEMS - 1, replacements=self._new, saved={ENCODING: 1},
            bytes_saved=1, rearm=0, held="", outcome={"id": owner, "outcome": "applied"},
        )  # fmt: skip
        self.client = self.server = self.bare = self.rewritten = 0.0

    def run(self) -> None:
        before, started = self._spent(), time.perf_counter()
        assert self._ground.store.run(self._swap) == "applied"
        self.client = time.perf_counter() - started
        self.server = self._spent() - before

    def rival(self) -> None:
        """The same 50 values set by a bare script, and the same change made by rewriting the list."""
        self.bare = self._set(self._new)
        self.rewritten = self._rewrite()

    def _spent(self) -> float:
        """Seconds that the server has spent in scripts."""
        stats: Any = self._ground.client.info("commandstats")
        return float(stats.get("cmdstat_evalsha", {}).get("usec", 0)) / 1e6

    def _set(self, new: list[tuple[int, Record]]) -> float:
        client = self._ground.client
        script = client.script_load(_SET)
        flat = [part for position, record in new for part in (position, record.pack())]
        before = self._spent()
        client.evalsha(script, 1, self._keys.messages, *flat)
        return self._spent() - before

    def _rewrite(self) -> float:
        """What others do, on the list as it was before the swap: read it, write it anew; no JSON is decoded."""
        client, key = self._ground.client, self._ground.key("rewritten")
        client.delete(key)
        client.rpush(key, *self._old)
        new = [record.pack() for _, record in self._new]
        started = time.perf_counter()
        rows = [*new, *client.lrange(key, 0, -1)[_ITEMS:]]
        with client.pipeline(transaction=True) as pipeline:
            pipeline.delete(key)
            pipeline.rpush(key, *rows)
            pipeline.execute()
        return time.perf_counter() - started


def _begun(ground: Ground, size: int) -> tuple[SessionKeys, Stored, CompactionId]:
    """A session whose first 50 messages are results of this size, with a compaction that has begun."""
    text = secrets.token_hex(size // 2)
    results = [{"role": "assistant", "content": text} for _ in range(_ITEMS)]
    name = new_name()
    session = ground.session([*results, *texts(_BESIDE, tokens=120)], name=name, config=_FULL)
    session.prepare()
    owner = CompactionId(session.compact().id)
    keys = ground.keys(name)
    begun = ground.store.run(claim.begin(keys, owner=owner, lease_ms=60_000, max_attempts=3))
    assert begun.stored is not None, begun.begun
    return keys, begun.stored, owner


def _short(record: Record) -> Record:
    encoded = encode_message({"role": "assistant", "content": _SUMMARY})
    return record.showing(encoded, Kind.SUMMARY, provisional=False, tokens={ENCODING: 200})
