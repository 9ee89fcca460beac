"""CPU of a whole compaction in the worker, with extracts: from the claim to the swap, on recorded sessions."""

from __future__ import annotations

import gc
import time
from typing import Any, Final

import pytest

from compactor import Code, Compactor, ModelConfig
from compactor.encodings import encoder
from compactor.settings import Settings
from compactor.store import Store
from compactor.tokens import count_messages
from tests.conftest import recorded
from tests.integration.inline_worker import InlineWorker

pytestmark = pytest.mark.benchmark

SOURCES: Final = (
    "taubench_airline_gpt4o", "tau2_gpt5_parallel", "livemcp_claude4", "msagent_finance_zh", "deerflow_threads",
    "openhands_claude35_swe", "miniswe_deepseek", "claudecode_cua",
)  # fmt: skip
ENCODE: Final = encoder("o200k_base")
LEAST: Final = 6_000  # tokens of a session
SESSIONS: Final = 8  # of each source
PER_TOKEN: Final = 1.5e-6  # seconds
FIXED: Final = 5e-3


def timed(work: Any) -> tuple[float, Any]:
    gc.collect()
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


@pytest.mark.timeout(600)
def test_a_compaction_takes_little_cpu(settings: Settings) -> None:
    print(f"\n{'source':24}{'sessions':>9}{'tokens':>8}{'ms':>7}{'allowed':>9}{'us/token':>10}{'x count':>9}")
    took: dict[str, tuple[float, float]] = {}
    with Compactor(settings=settings) as memory, Store(settings) as store:
        worker = InlineWorker(settings, store)
        for source in SOURCES:
            spent = counting = 0.0
            sizes: list[int] = []
            for session in recorded(source):
                seconds, tokens = timed(lambda messages=session["messages"]: count_messages(messages, ENCODE))
                if tokens < LEAST or len(sizes) == SESSIONS:
                    continue
                name = f"cpu/{source}-{len(sizes)}"
                kept = memory.session(name, ModelConfig("gpt-4o", 200, context_limit_tokens=int(1.2 * tokens)))
                kept.push(session["messages"])
                kept.prepare()
                one, ended = timed(lambda name=name: worker.work(name))
                if ended.outcome.outcome is Code.APPLIED:
                    spent, counting = spent + one, counting + seconds
                    sizes.append(tokens)
            allowed = PER_TOKEN * sum(sizes) + FIXED * len(sizes)
            took[source] = spent, allowed
            print(
                f"{source:24}{len(sizes):9}{sum(sizes) // len(sizes):8}{1e3 * spent / len(sizes):7.1f}"
                f"{1e3 * allowed / len(sizes):9.1f}{1e6 * spent / sum(sizes):10.2f}{spent / counting:9.1f}"
            )
    assert sum(spent for spent, _ in took.values()) <= sum(allowed for _, allowed in took.values())
