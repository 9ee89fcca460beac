"""What condensing alone spares of tool results, and what it keeps, next to a peer where one is installed (peer.py)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import pytest

from compactor.condense import Form, condense
from compactor.encodings import encoder
from compactor.formats.openai import text_of
from compactor.identifiers import Known, find
from compactor.line_groups import shown_lines
from compactor.planning import MEDIUM
from tests.benchmarks.peer import Peer, peer
from tests.conftest import recorded
from tests.unit.condensed_reader import read_lines, read_tables, source_value

pytestmark = pytest.mark.benchmark

SOURCES: Final = (
    "taubench_airline_gpt4o", "tau2_gpt41", "tau2_gpt5_parallel", "tau2_gptoss_loops", "tau2_sft_openai_format",
    "msagent_finance_zh", "deerflow_replays", "deerflow_threads", "openhands_claude35_swe", "miniswe_deepseek",
    "claudecode_cua", "livemcp_claude4", "sweagent_demos", "sweagent_live_zh_issue", "toolbench_legacy",
)  # fmt: skip
API_JSON: Final = SOURCES[:5]


@dataclass(frozen=True, slots=True)
class Spared:
    """Shares of tokens spared, and of identifiers and numbers that the changed results still show.

    `exact` counts only what was changed without losing one of them.
    """

    all: float
    exact: float
    shown: float
    speed: float


def judged(before: list[str], after: list[str], seconds: float) -> Spared:
    encode = encoder("o200k_base")
    tokens = spared = exact = wanted = kept = 0
    for old, new in zip(before, after, strict=True):
        count = encode(old)
        tokens += count
        if new == old:
            continue
        freed = max(0, count - encode(new))
        named, missing = len(set(find(old))), len(list(Known(new).missing(old)))
        spared += freed
        exact += 0 if missing else freed
        wanted += named
        kept += named - missing
    return Spared(spared / tokens, exact / tokens, kept / wanted if wanted else 1.0, tokens / seconds / 1e6)


def ours(texts: list[str]) -> Spared:
    """Our share, after the way back of every condensed text was checked."""
    started = time.perf_counter()
    found = [condense(text) for text in texts]
    seconds = time.perf_counter() - started
    for text, short in zip(texts, found, strict=True):
        if short is not None and short.form is Form.LINES:
            assert read_lines(short.text) == shown_lines(text).split("\n")
        elif short is not None:
            assert read_tables(short.text) == source_value(text)
    shown = [text if short is None else short.text for text, short in zip(texts, found, strict=True)]
    return judged(texts, shown, seconds)


def peers(texts: list[str], other: Peer | None) -> Spared | None:
    return None if other is None else judged(texts, *other.compress(texts))


def row(name: str, spared: Spared) -> str:
    return f"{name:32} {spared.all:6.1%} {spared.exact:6.1%} {spared.shown:6.1%} {spared.speed:6.2f}"


@pytest.mark.timeout(1_200)
def test_condensing_spares_at_least_what_a_peer_does_without_loss() -> None:
    encode = encoder("o200k_base")
    print("\nsource, tokens                    spared  exact  shown Mtok/s")
    behind: list[str] = []
    with peer() as other:
        for source in SOURCES:
            messages = [message for session in recorded(source) for message in session["messages"]]
            results = [text_of(message) for message in messages if message["role"] in ("tool", "function")]
            texts = [text for text in results if encode(text) > MEDIUM]
            mine, theirs = ours(texts), peers(texts, other)
            print(row(f"{source} {sum(map(encode, texts))}", mine))
            if theirs is not None:
                print(row("  the peer", theirs))
                least = theirs.exact * (1.4 if source in API_JSON else 1.0)
                behind += [source] if mine.all < least else []
    assert not behind
