"""Model calls in flight: the figures of `compactor bench workers` before a model that takes a second.

Run by name: `python -m pytest tests/benchmarks/test_workers.py -m benchmark -s`. Needs two cores for itself.
"""

from __future__ import annotations

import pytest

from tests.acceptance.cli_process import run


@pytest.mark.benchmark
@pytest.mark.timeout(900)
def test_workers_keep_hundreds_of_calls_in_flight() -> None:
    ended = run("bench", "workers", "--json")
    for row in ended.rows:
        print(row)
    assert ended.code == 0, "a goal is not met; on busy cores calls per second fall, the CPU time of a call does not"
