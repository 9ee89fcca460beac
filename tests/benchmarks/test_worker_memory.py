"""A worker's memory over 1,000 compactions of 100K-token sessions, eight in flight.

Run by name: `python -m pytest tests/benchmarks/test_worker_memory.py -m soak -s`.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from compactor import Code, Compactor, ModelConfig
from compactor.embedded import Child, EmbeddedServer, start_worker
from compactor.settings import read_settings

IN_FLIGHT = 8
COMPACTIONS = 1_000
MB = 1024 * 1024


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[tuple[Compactor, Child]]:
    with EmbeddedServer() as server:
        child = start_worker(env={"REDIS_URL": server.url}, log=tmp_path / "worker.log", concurrency=IN_FLIGHT)
        settings = read_settings(redis_url=server.url, session_ttl=60.0)
        with Compactor(settings=settings) as memory:
            yield memory, child
        child.stop()


def conversation(tokens: int) -> list[dict[str, Any]]:
    """One user message and steps of 2,000-token results, no two alike."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look through the logs."}]
    for number in range(tokens // 2_000):
        rows = [f"2031-04-{row % 28 + 1:02d} job-{number}-{secrets.token_hex(4)} took {row} ms" for row in range(95)]
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {number}}}'}}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": "\n".join(rows)})
    return messages


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_a_worker_stays_within_60_mb_of_its_idle_self(worker: tuple[Compactor, Child]) -> None:
    memory, child = worker
    process = psutil.Process(child.process.pid)

    def compact_one(model: str, messages: list[dict[str, Any]], limit: int) -> Code:
        session = memory.session(f"soak/{secrets.token_hex(8)}", ModelConfig(model, limit))
        session.push(messages)
        outcome = session.compact(wait=120)
        session.clear()
        session.clear()
        return outcome.outcome

    small = conversation(8_000)
    assert compact_one("gpt-4", small, 8) is Code.APPLIED
    assert compact_one("gpt-4o", small, 8) is Code.APPLIED
    idle = process.memory_info().rss

    long = conversation(100_000)
    seen: dict[int, int] = {}
    highest = 0
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        runs = [pool.submit(compact_one, "gpt-4o", long, 100) for _ in range(COMPACTIONS)]
        for done, code in enumerate((run.result() for run in runs), start=1):
            assert code is Code.APPLIED
            resident = process.memory_info().rss
            highest = max(highest, resident)
            if done % 100 == 0:
                seen[done] = resident
                print(f"{done:5d} compactions: {(resident - idle) / MB:+.1f} MB over idle ({idle / MB:.0f} MB)")
    print(f"highest {(highest - idle) / MB:+.1f} MB over idle")
    assert highest - idle <= 60 * MB
    assert max(seen.values()) - seen[200] <= 5 * MB
