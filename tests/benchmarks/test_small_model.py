"""A dozen recorded tool results, summarised by a real model that is far too small: what gets through, and its worth.

    python -m pytest -m small_model -s tests/benchmarks/test_small_model.py

The first run fetches about 0.5 GB. No claim on quality rests on this: it shows that what is wrong does not get in.
"""

from __future__ import annotations

import json
import re
import statistics
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import psutil
import pytest

from compactor import Code, Compactor, ModelConfig, compact_messages
from compactor.embedded import EmbeddedServer, start_worker
from compactor.encodings import encoder
from compactor.formats.openai import text_of
from compactor.models import Outcome
from compactor.needles import Case, case_of
from compactor.retention import kept_of
from compactor.settings import read_settings
from compactor.tokens import count_messages, count_text
from tests.benchmarks.small_model import WINDOW, serving
from tests.conftest import recorded
from tests.integration.stored import bare, keys_of

EACH: Final = 2  # results of each source
SOURCES: Final = (
    "taubench_airline_gpt4o", "tau2_gpt41", "openhands_claude35_swe", "miniswe_deepseek", "livemcp_claude4",
    "deerflow_threads",
)  # fmt: skip
LEAST: Final = 420  # tokens of a result
MOST: Final = 800
_GOAL: Final = 800  # characters of the question: a longer one would fill the window that the result must cross
LIMITS: Final = {
    "call_timeout": 900, "compaction_deadline": 1_000, "claim_lease": 1_100, "visibility_timeout": 1_200,
    "stop_grace": 1_100,
}  # fmt: skip
ENCODE = encoder("o200k_base")


@dataclass(frozen=True, slots=True)
class Sample:
    """A recorded result with its call, as the past of a session, and what the recording went on to use of it."""

    source: str
    messages: list[Any]
    case: Case

    @property
    def tokens(self) -> int:
        return count_text(text_of(self.messages[2]), ENCODE)

    @property
    def config(self) -> ModelConfig:
        """A window in which this past is over the threshold and below the ceiling."""
        return ModelConfig("gpt-4o", context_limit_tokens=count_messages(self.messages, ENCODE) * 100 // 80)

    def kept(self, text: str) -> int:
        return kept_of(self.case, [text])[1]


def samples() -> Iterator[Sample]:
    """The first of each source, then the second."""
    found = [_samples(source) for source in SOURCES]
    for turn in zip(*found, strict=True):
        yield from turn


def _samples(source: str) -> list[Sample]:
    found: dict[str, Sample] = {}
    for session in recorded(source):
        sample = _sample(source, session["messages"])
        if sample is not None and len(found) < EACH:
            found.setdefault(text_of(sample.messages[2]), sample)
    return list(found.values())


def _sample(source: str, messages: list[Any]) -> Sample | None:
    """The first result of a session that is large, and of which its future used something."""
    question = next((m for m in messages if m.get("role") == "user"), None)
    for index, (calling, result) in enumerate(pairwise(messages)):
        call = (calling.get("tool_calls") or [None])[0]
        answers = result.get("role") == "tool" and call and call.get("id") == result.get("tool_call_id")
        if not (question and answers and LEAST <= count_text(text_of(result), ENCODE) <= MOST):
            continue
        past = [
            {"role": "user", "content": text_of(question)[:_GOAL]},
            {**calling, "tool_calls": [call]},
            result,
            {"role": "assistant", "content": "Noted."},
        ]
        case = case_of(past, [2], messages[index + 2 :])
        if any(not needle.is_line and not needle.restated for needle in case.needles.values()):
            return Sample(source, past, case)
    return None


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one sample: the text in its place, why a reply was rejected, CPU seconds of the model's server."""

    sample: Sample
    outcome: Outcome
    text: str
    rejected: str
    seconds: float

    @property
    def is_summary(self) -> bool:
        return self.outcome.by_model == 1

    @property
    def invented(self) -> list[str]:
        """Words with digits in them that neither the result nor its call holds."""
        given = json.dumps(self.sample.messages, ensure_ascii=False).replace("\\", "")
        body = self.text.partition("\n")[2]
        words = (word.strip(".,:;/-") for word in re.findall(r"[\w.:/@#-]*\d[\w.:/@#-]*", body))
        return [word for word in words if len(word) > 2 and word not in given]


@pytest.fixture(scope="module")
def rows(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> list[Row]:
    assert pytestconfig.cache is not None
    folder = pytestconfig.cache.mkdir("small_model")
    log = tmp_path_factory.mktemp("small") / "worker.log"
    with serving(folder) as (url, model), EmbeddedServer() as server, bare(server) as raw:
        settings = read_settings(redis_url=server.url, broker_url=server.url, namespace="small", **LIMITS)
        env = {
            "REDIS_URL": server.url, "COMPACTOR_NAMESPACE": "small", "OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none",
            "COMPACTOR_SUMMARIZER_MODEL": "small", "COMPACTOR_SUMMARIZER_CONTEXT_LIMIT": str(WINDOW),
            **{f"COMPACTOR_{name.upper()}": str(value) for name, value in LIMITS.items()},
        }  # fmt: skip
        worker = start_worker(env=env, log=log)
        try:
            with Compactor(settings=settings) as memory:
                return [_through(memory, sample, raw, model) for sample in samples()]
        finally:
            worker.stop(grace=10)


def _through(memory: Compactor, sample: Sample, raw: Any, model: psutil.Process) -> Row:
    """Push, prepare, worker, swap."""
    name = f"{sample.source}/{uuid.uuid4().hex[:8]}"
    session = memory.session(name, sample.config)
    session.push(sample.messages)
    before = sum(model.cpu_times()[:2])
    context = session.prepare(wait=1_100, wait_for="swap")
    assert session.originals() == sample.messages
    assert session.recall("m2") == sample.messages[2]
    (outcome,) = session.compactions()
    answers = [json.loads(kept) for kept in raw.hvals(keys_of(memory.settings, name).summaries) if kept]
    reason = next((answer["rejected"] for answer in answers if "rejected" in answer), "")
    row = Row(sample, outcome, text_of(context.messages[2]), reason, sum(model.cpu_times()[:2]) - before)
    print(told(row), flush=True)
    return row


def told(row: Row) -> str:
    """One line of the table: what stands there now, and what an extract keeps in its place."""
    sample, size = row.sample, count_text(row.text, ENCODE)
    extract, _ = extracted(sample)
    how = "summary" if row.is_summary else f"extract, since {row.rejected}"
    return (
        f"{sample.source:24} {sample.tokens:5} -> {size:4} tokens, {row.seconds:5.1f} CPU s, {how:30} "
        f"kept {sample.kept(row.text)} of {kept_of(sample.case, [''])[0]}; an extract "
        f"{count_text(extract, ENCODE):4} tokens, {sample.kept(extract)}; invented {row.invented}"
    )


def extracted(sample: Sample) -> tuple[str, float]:
    """What an extract makes of a sample, and its CPU seconds."""
    before = time.process_time()
    text = text_of(compact_messages(sample.messages, sample.config).messages[2])
    return text, time.process_time() - before


def print_table(rows: list[Row]) -> None:
    """The table of docs/small_model.md."""
    ways = {
        "its summaries": [(row.text, row.seconds) for row in rows],
        "extracts": [extracted(row.sample) for row in rows],
    }
    tokens = sum(row.sample.tokens for row in rows)
    used = sum(kept_of(row.sample.case, [""])[0] for row in rows)
    for name, texts in ways.items():
        left = sum(count_text(text, ENCODE) for text, _ in texts) / tokens
        kept = sum(row.sample.kept(text) for row, (text, _) in zip(rows, texts, strict=True))
        seconds = statistics.median(each for _, each in texts)
        print(
            f"{name}: {left:.0%} of the tokens left, {kept} of {used} values kept, {seconds:.3f} CPU s a result, median"
        )


@pytest.mark.small_model
@pytest.mark.timeout(3_600)
def test_a_very_small_model_does_no_harm(rows: list[Row]) -> None:
    assert len(rows) == EACH * len(SOURCES)
    for row in rows:
        assert row.outcome.outcome is Code.APPLIED
        assert row.outcome.saved > 0
        assert not row.invented
    summaries = [row for row in rows if row.is_summary]
    rejected = dict(Counter(row.rejected for row in rows if row.rejected))
    print(f"{len(summaries)} of {len(rows)} kept as summaries; rejected: {rejected}")
    print_table(rows)
