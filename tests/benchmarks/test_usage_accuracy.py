"""How close what is expected comes to what providers billed, on the usage that recorded sessions hold.

The table: `python -m pytest tests/benchmarks/test_usage_accuracy.py -m benchmark -s`. The promise, after
the second report within 3 % at the median and 10 % at p95, is kept by a test of every run.
"""

from __future__ import annotations

import statistics
import warnings
from collections import defaultdict
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pytest

from compactor.correction import Anchor, first_correction, reported
from compactor.encodings import encoder, encoding_name, prior_of
from compactor.formats.openai import text_of
from compactor.records import ENCODINGS
from compactor.tokens import PER_REQUEST, count_json, count_message, count_text
from tests.conftest import recorded

SOURCES = (
    "claudecode_cua", "miniswe_deepseek", "openhands_claude35_swe", "sweagent_live_zh_issue", "tau2_gpt41",
    "msagent_finance_zh",
)  # fmt: skip
MEDIAN, P95 = 3.0, 10.0  # percent
Errors = dict[str, list[float]]


def reports(session: dict[str, Any], most: int | None) -> Iterator[tuple[int, int]]:
    """Our count of each request of a session, and the tokens that the provider billed for it."""
    told: list[dict[str, Any]] = session.get("usage") or []
    usage = [each for each in told if each.get("prompt_tokens")][:most]
    if not usage:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a model that tiktoken does not know; it is what is measured
        encode = encoder(encoding_name(session.get("model") or "unknown"))
    read = session["messages"][: max(each["sent"] for each in usage)]
    fixed = PER_REQUEST + count_json(session.get("tools"), encode)
    counted = [0, *accumulate(count_message(message, encode) for message in read)]
    for each in usage:
        yield fixed + counted[each["sent"]], each["prompt_tokens"]


def errors(sessions: list[dict[str, Any]], most: int | None = None) -> dict[str, Errors]:
    """Percent between expected and billed, by model and by how many reports came before."""
    found: dict[str, Errors] = defaultdict(lambda: defaultdict(list))
    for session in sessions:
        model = session.get("model") or "unknown"
        anchor: Anchor | None = None
        for order, (count, billed) in enumerate(reports(session, most)):
            line = first_correction(prior_of(model)) if anchor is None else anchor.correction
            error = 100 * abs(line.expected(count) - billed) / billed
            for column in [str(order)] if order < 2 else ["2", "later"] if order == 2 else ["later"]:
                found[model][column].append(error)
            found[model]["share"].append(count / billed)
            anchor = reported(anchor, count, billed)
    return found


def p95(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(0.95 * len(values)))]


@pytest.mark.parametrize("source", SOURCES)
def test_after_two_reports_the_next_bill_is_expected_within_3_and_10_percent(source: str) -> None:
    for model, found in errors(recorded(source), most=3).items():
        third = found["2"]
        assert statistics.median(third) <= MEDIAN, model
        assert p95(third) <= P95, model


def both(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} / {p95(values):.2f}"


@pytest.mark.benchmark
def test_the_table_of_errors() -> None:
    print("\n| source | model | reports | our count / billed | before any | after one | after two | all later |")
    print("|---|---|---|---|---|---|---|---|")
    for source in SOURCES:
        for model, found in errors(recorded(source)).items():
            share, total = statistics.median(found["share"]), len(found["share"])
            cells = " | ".join(both(found[column]) for column in ("0", "1", "2", "later"))
            print(f"| {source} | {model} | {total:,} | {share:.2f} | {cells} |")
            assert p95(found["2"]) <= P95


KINDS = {
    "English": ("taubench_airline_gpt4o", "assistant"),
    "Chinese": ("glaive_zh_synthetic", "assistant"),
    "code": ("openhands_claude35_swe", "tool"),
}


@pytest.mark.benchmark
def test_the_table_of_characters_per_token() -> None:
    print(f"\n| text | {' | '.join(ENCODINGS)} |\n|---|{'---|' * len(ENCODINGS)}")
    for kind, (source, role) in KINDS.items():
        texts = [text_of(m) for s in recorded(source, most=40) for m in s["messages"] if m["role"] == role]
        characters = sum(map(len, texts))
        ratios = [characters / sum(count_text(text, encoder(name)) for text in texts) for name in ENCODINGS]
        assert all(0.5 < ratio < 8 for ratio in ratios)
        print(f"| {kind} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")
