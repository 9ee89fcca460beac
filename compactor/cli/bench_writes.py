"""What pushes cost: one, a batch, a large one in an event loop; and the room a session takes."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any, Final

from compactor.async_client import AsyncCompactor
from compactor.cli.bench_ground import CONFIG, Ground, new_name, texts
from compactor.cli.bench_ratio import Ratio, at_most, timed
from compactor.cli.load.conversations import source
from compactor.records import encode_message
from compactor.tokens import count_message

_BATCH: Final = 500
_RATE: Final = 15_000  # messages per second of one connection
_STALL: Final = 0.005  # seconds
_TICK: Final = 0.0005  # seconds between looks at the loop


def writes(ground: Ground) -> list[Ratio]:
    """All figures on writes."""
    return [_push(ground), _batch(ground), _stall(ground), _room(ground)]


def _push(ground: Ground) -> Ratio:
    """A push against its encode plus 1.8 times a bare RPUSH of the same bytes."""
    session, client, key = ground.session(texts(10)), ground.client, ground.key("list")
    messages = iter(texts(ground.rounds * 4 + 20, tokens=450))

    def floor() -> float:
        message = next(messages)
        started = time.perf_counter()
        text = _encoded(message, ground)
        counted = time.perf_counter()
        client.rpush(key, text)
        return (counted - started) + 1.8 * (time.perf_counter() - counted)

    def ours() -> float:
        message = next(messages)
        started = time.perf_counter()
        session.push(message)
        return time.perf_counter() - started

    pairs = [(ours(), floor()) for _ in range(ground.rounds * 2 + 10)]
    return at_most("push of 2 KB / its encode + 1.8 x bare RPUSH", pairs[10:], 1.0)


def _encoded(message: dict[str, Any], ground: Ground) -> bytes:
    text = encode_message(message, max_bytes=1 << 20).text
    count_message(message, ground.encode)
    return text


def _batch(ground: Ground) -> Ratio:
    """A message of a batch, its encode excluded, against the time that the goal allows it."""
    pairs: list[tuple[float, float]] = []
    for number in range(ground.rounds // 4 + 5):
        batch = texts(_BATCH, tokens=30)
        session = ground.session(batch[:1])
        anew = [{**message, "content": f"{number} {message['content']}"} for message in batch]
        began = time.process_time()  # never more than it takes by the clock, so nothing is excluded that was a wait
        for message in batch:
            _encoded(message, ground)
        encode = time.process_time() - began
        pairs.append(((timed(partial(session.push, anew)) - encode) / _BATCH, 1 / _RATE))
    return at_most(f"a message of a batch, encode excluded / 1 s : {_RATE:,}", pairs[5:], 1.0)


def _stall(ground: Ground) -> Ratio:
    """The longest time in which an event loop did nothing else while 1 MB was pushed."""
    with asyncio.Runner() as runner:
        longest = [runner.run(_longest_stall(ground, number)) for number in range(9)]
    return at_most("longest stall of the event loop, 1 MB pushed / 5 ms", [(each, _STALL) for each in longest[2:]], 1.0)


async def _longest_stall(ground: Ground, number: int) -> float:
    text = f"{number} {source(1_000_000)}"
    longest, pushed = 0.0, asyncio.Event()

    async def look() -> None:
        nonlocal longest
        last = time.perf_counter()
        while not pushed.is_set():
            await asyncio.sleep(_TICK)
            now = time.perf_counter()
            longest, last = max(longest, now - last - _TICK), now

    async with AsyncCompactor(settings=ground.settings) as memory:
        session = memory.session(f"bench/loop-{number}", CONFIG)
        await session.push({"role": "user", "content": "hi"})
        looking = asyncio.create_task(look())
        await asyncio.sleep(0)
        await session.push({"role": "user", "content": text})
        pushed.set()
        await looking
    return longest


def _room(ground: Ground) -> Ratio:
    """Bytes that Redis takes for a session against the JSON of its history and 1 KB."""
    pairs: list[tuple[float, float]] = []
    for count in (50, 200, 1_000):
        name = new_name()
        session = ground.session(texts(count, tokens=120), name=name)
        session.prepare()
        keys = ground.keys(name)
        held = sum(int(ground.client.memory_usage(key, samples=0) or 0) for key in keys.all)
        plain = sum(len(encode_message(message).text) for message in session.originals())
        pairs.append((held, plain + 1_000))
    return at_most("bytes in Redis of a session / its JSON + 1 KB", pairs, 1.2, unit="bytes")
