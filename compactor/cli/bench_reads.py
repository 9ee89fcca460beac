"""What reading costs: estimate, prepare with few new messages, a whole history."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import Any, Final

import orjson

from compactor.cli.bench_ground import CONFIG, Ground, new_name, texts
from compactor.cli.bench_ratio import Ratio, at_least, at_most, by_turns, timed
from compactor.client import Compactor
from compactor.tokens import count_messages

_FIELDS: Final = [f"field{number}" for number in range(15)]  # about what an estimate asks for
_NEW: Final = 5  # messages between two prepares
_COLD: Final = 9  # processes that see a session for the first time
_HEAD: Final = 51  # bytes of a record before its JSON


def reads(ground: Ground) -> list[Ratio]:
    """All figures on reads."""
    return [*_estimates(ground), _prepare(ground), _whole(ground)]


def _estimates(ground: Ground) -> list[Ratio]:
    long = texts(1_000, tokens=120)
    name = new_name()
    thousand = ground.session(long, name=name)
    small, large = ground.session(texts(10)), ground.session(texts(10_000))

    def recount() -> int:
        return count_messages(long, ground.encode)

    def warm() -> float:
        return median(timed(thousand.estimate) for _ in range(9))

    def cold() -> float:
        with Compactor(settings=ground.settings) as memory:
            memory.session("bench/another", CONFIG).estimate()  # connects
            session = memory.session(name, CONFIG)
            return timed(session.estimate)

    times = ground.rounds * 5
    return [
        at_least(
            "tiktoken recount / estimate, 1,000 messages, 120K tokens",
            [(warm(), timed(recount)) for _ in range(ground.rounds + 5)][5:],
            200,
        ),
        at_least("the same, the first estimate of a process", [(cold(), timed(recount)) for _ in range(_COLD)], 50),
        at_most("estimate / bare HMGET of 15 fields", by_turns(thousand.estimate, bare(ground), times), 1.5),
        at_most("estimate at 10,000 messages / at 10", by_turns(large.estimate, small.estimate, times), 1.2),
    ]


def bare(ground: Ground) -> Callable[[], Any]:
    """One HMGET by redis-py."""
    client, key = ground.client, ground.key("fields")
    client.hset(key, mapping=dict.fromkeys(_FIELDS, "12345678"))
    return lambda: client.hmget(key, _FIELDS)


def _prepare(ground: Ground) -> Ratio:
    session, hmget = ground.session(texts(1_000)), bare(ground)
    session.prepare()
    pairs: list[tuple[float, float]] = []
    for number in range(ground.rounds):
        session.push([{"role": "user", "content": f"And number {number}.{order}?"} for order in range(_NEW)])
        pairs.append((timed(session.prepare), timed(hmget)))
    return at_most("prepare with 5 new of 1,000 messages / bare HMGET", pairs[5:], 2.0)


def _whole(ground: Ground) -> Ratio:
    """What a caller gets by `originals()`: the whole history, nothing of it held before, as values of its own."""
    name = new_name()
    session = ground.session(texts(1_000, tokens=120), name=name)
    keys, client = ground.keys(name), ground.client

    def other() -> list[Any]:
        return [orjson.loads(record[_HEAD:]) for record in client.lrange(keys.messages, 0, -1)]

    return at_most("whole history of 0.5 MB / LRANGE + orjson", by_turns(session.originals, other, ground.rounds), 1.3)
