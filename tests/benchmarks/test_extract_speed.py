"""How fast extracts are, next to tiktoken and to a peer, session by session in one run (see peer.py)."""

from __future__ import annotations

import time
from dataclasses import dataclass, fields
from typing import Final

import pytest

from compactor.encodings import encoder
from compactor.extract import Source, extracts
from compactor.formats.openai import text_of
from compactor.tokens import count_text
from compactor.wording import wording_for
from compactor.worth import values_of_word
from tests.benchmarks.peer import Peer, peer
from tests.conftest import recorded

pytestmark = pytest.mark.benchmark

SOURCES: Final = (
    "taubench_airline_gpt4o", "tau2_gpt41", "tau2_gpt5_parallel", "tau2_sft_openai_format", "msagent_finance_zh",
    "deerflow_threads", "openhands_claude35_swe", "miniswe_deepseek", "claudecode_cua", "livemcp_claude4",
)  # fmt: skip
ENCODE: Final = encoder("o200k_base")
SHARE: Final = 0.2  # of the tokens that extracts may take
LEAST_SPEED: Final = 1.0  # M tokens a second and core; or
LEAST_RATIO: Final = 3.0  # times the peer's


@dataclass
class Row:
    """Tokens, and the seconds of CPU that extracts, counting them once and the peer took; tokens the peer leaves."""

    tokens: int = 0
    ours: float = 0.0
    counting: float = 0.0
    other: float = 0.0
    left: int = 0

    def take(self, texts: list[str], other: Peer | None) -> None:
        begun = time.process_time()
        counts = [count_text(text, ENCODE) for text in texts]
        between = time.process_time()
        total = int(SHARE * sum(counts))
        extracts([Source(text, total, wording_for(text)) for text in texts], total=total, encode=ENCODE)
        self.ours += time.process_time() - between
        self.counting += between - begun
        self.tokens += sum(counts)
        if other is not None:
            shown, seconds = other.compress(texts)
            self.other += seconds
            self.left += sum(count_text(text, ENCODE) for text in shown)

    def show(self, name: str) -> None:
        def speed(seconds: float) -> float:
            return self.tokens / seconds / 1e6 if seconds else 0.0

        beside = f"{speed(self.other):7.2f} {self.other / self.ours:6.1f} {self.left / self.tokens:6.0%}"
        print(
            f"{name:26}{self.tokens:9}{speed(self.ours):7.2f}{speed(self.counting):9.2f}"
            f"{self.ours / self.counting:7.1f} {beside if self.other else ''}"
        )


@pytest.mark.timeout(900)
def test_extracts_are_fast(capsys: pytest.CaptureFixture[str]) -> None:
    rows: dict[str, Row] = {}
    with peer() as other:
        for name in SOURCES:
            values_of_word.cache_clear()
            row = rows[name] = Row()
            for session in recorded(name):
                messages = [message for message in session["messages"] if message["role"] in ("tool", "function")]
                texts = [text for text in map(text_of, messages) if text]
                if texts:
                    row.take(texts, other)
    with capsys.disabled():
        print(f"\n{'source':26}{'tokens':>9}{'Mtok/s':>7}{'tiktoken':>9}{'times':>7}{'peer':>8}{'ratio':>7}{'left':>7}")
        for name, row in rows.items():
            row.show(name)
        every = Row(*(sum(getattr(row, field.name) for row in rows.values()) for field in fields(Row)))
        every.show("all")
    assert every.tokens / every.ours >= LEAST_SPEED * 1e6 or every.other >= LEAST_RATIO * every.ours
