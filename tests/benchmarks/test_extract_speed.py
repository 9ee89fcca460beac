"""How fast extracts are, next to tiktoken and to a peer (see peer.py), source by source in one run.

Of several passes over a source the fastest counts, each with nothing remembered from before: what else
runs on the machine only ever slows one down.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pytest

from compactor import json_passages, rows, words
from compactor.encodings import encoder
from compactor.extract import Source, extracts
from compactor.formats.openai import text_of
from compactor.tokens import count_text
from compactor.wording import wording_for
from tests.benchmarks.peer import Peer, peer
from tests.conftest import recorded

pytestmark = pytest.mark.benchmark

SOURCES: Final = (
    "taubench_airline_gpt4o", "tau2_gpt41", "tau2_gpt5_parallel", "tau2_sft_openai_format", "msagent_finance_zh",
    "deerflow_threads", "openhands_claude35_swe", "miniswe_deepseek", "claudecode_cua", "livemcp_claude4",
)  # fmt: skip
ENCODE: Final = encoder("o200k_base")
SHARE: Final = 0.2  # of the tokens that extracts may take
PASSES: Final = 5
MOST: Final = 8.0  # times what counting the same tokens once takes: what a step back would exceed
GOAL: Final = 1.0  # M tokens a second and core, or
GOAL_RATIO: Final = 3.0  # times the peer's speed

Results = Sequence[Sequence[str]]  # the results of each session


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens of one source, and the seconds of CPU for extracts, for counting, for the peer; tokens that it leaves."""

    tokens: int
    ours: float
    counting: float
    other: float
    left: int

    def show(self, name: str) -> None:
        def speed(seconds: float) -> float:
            return self.tokens / seconds / 1e6

        peers = f"{speed(self.other):8.2f}{self.other / self.ours:7.1f}{self.left / self.tokens:7.0%}"
        print(
            f"{name:24}{self.tokens:9}{speed(self.ours):8.2f}{speed(self.counting):10.2f}"
            f"{self.ours / self.counting:7.1f}{peers if self.other else ''}"
        )


def forget() -> None:
    words.known_words.clear()
    rows.forget_rows()
    json_passages.field_of.cache_clear()


def extract_all(sessions: Results) -> None:
    for texts in sessions:
        total = int(SHARE * sum(count_text(text, ENCODE) for text in texts))
        extracts([Source(text, total, wording_for(text)) for text in texts], total=total, encode=ENCODE)


def count_all(sessions: Results) -> int:
    return sum(count_text(text, ENCODE) for texts in sessions for text in texts)


def fastest(work: Callable[[], object]) -> float:
    spent: list[float] = []
    for _ in range(PASSES):
        forget()
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return min(spent)


def measured(sessions: Results, other: Peer | None) -> Row:
    counting = fastest(lambda: count_all(sessions))
    ours = fastest(lambda: extract_all(sessions)) - counting  # the budget was counted, too
    answers = [other.compress(texts) for texts in sessions] if other is not None else []
    left = sum(count_text(text, ENCODE) for shown, _ in answers for text in shown)
    return Row(count_all(sessions), ours, counting, sum(seconds for _, seconds in answers), left)


@pytest.mark.timeout(900)
def test_extracts_are_fast() -> None:
    print(f"\n{'source':24}{'tokens':>9}{'Mtok/s':>8}{'tiktoken':>10}{'times':>7}{'peer':>8}{'ratio':>7}{'left':>7}")
    rows: list[Row] = []
    with peer() as other:
        for name in SOURCES:
            chats = [session["messages"] for session in recorded(name)]
            sessions = [
                texts
                for chat in chats
                if (texts := [text for m in chat if m["role"] in ("tool", "function") and (text := text_of(m))])
            ]
            gc.collect()
            gc.freeze()  # what the tests keep is no part of a worker
            rows.append(measured(sessions, other))
            rows[-1].show(name)
    gc.unfreeze()
    tokens, left = sum(row.tokens for row in rows), sum(row.left for row in rows)
    ours, counting, others = (sum(getattr(row, name) for row in rows) for name in ("ours", "counting", "other"))
    every = Row(tokens, ours, counting, others, left)
    every.show("all")
    met = tokens / ours >= GOAL * 1e6 or others >= GOAL_RATIO * ours
    print(f"goal of {GOAL:g} M tokens/s or {GOAL_RATIO:g} x the peer: {'met' if met else 'missed'}")
    assert ours <= MOST * counting
