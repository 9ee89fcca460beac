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
    rounds = max(5, ground.rounds // 6)
    small, large = [_Swapped(ground, _SMALL) for _ in range(rounds)], [_Swapped(ground, _LARGE) for _ in range(rounds)]
    by_size = [(a.server, b.server) for a, b in zip(large, small, strict=True)]
    return [
        at_most("swap of 50 results / 50 LSETs in one script, on the server", [(s.server, s.bare) for s in small], 2.5),
        at_most("swap of 50 originals of 100 KB / of 4 KB, on the server", by_size, 1.25),
        at_least("rewriting the list / swap, for the client", [(s.client, s.rewritten) for s in small], 10),
    ]


class _Swapped:
    """One swap of 50 results in 1,000 messages and its rivals on the same list; all in seconds."""

    def __init__(self, ground: Ground, size: int) -> None:
        self._ground = ground
        self._keys, stored, owner = _begun(ground, size)
        new = [(position, _short(stored.records[position])) for position in range(_ITEMS)]
        originals = {position: compress(stored.records[position].pack()) for position in range(_ITEMS)}
        run = ground.store.run
        assert run(claim.archive(self._keys, owner=owner, originals=originals)) == "ok"
        swap = claim.swap(
            self._keys, owner=owner, last_position=_ITEMS - 1, replacements=new, saved={ENCODING: 1},
            bytes_saved=1, rearm=0, held="", outcome={"id": owner, "outcome": "applied"},
        )  # fmt: skip
        before, started = self._spent(), time.perf_counter()
        assert run(swap) == "applied"
        self.client = time.perf_counter() - started
        self.server = self._spent() - before
        self.bare = self._set(new)
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
        """What others do: read the list, write it anew."""
        client, key = self._ground.client, self._keys.messages
        started = time.perf_counter()
        rows = client.lrange(key, 0, -1)
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
