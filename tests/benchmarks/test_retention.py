"""What extracts keep of the values that later turns of recorded sessions used: floors for every source.

Run with `pytest -m benchmark tests/benchmarks/test_retention.py -s`; it takes a minute or two.
"""

from __future__ import annotations

import pytest

from compactor.encodings import encoder
from compactor.needles import Case, cases
from compactor.retention import by_extracts, by_oracle, measure
from tests.conftest import recorded

ENCODE = encoder("cl100k_base")
# sources, share of the tokens of old results, least values kept and least labelled ones, in percent
FLOORS: dict[str, tuple[tuple[str, ...], float, float, float]] = {
    "airline": (("taubench_airline_gpt4o",), 0.20, 80, 50),
    "airline, more": (("taubench_airline_gpt4o",), 0.30, 88, 72),
    "retail and telecom": (("tau2_gpt41",), 0.20, 80, 50),
    "retail and telecom, more": (("tau2_gpt41",), 0.30, 88, 72),
    "parallel calls": (("tau2_gpt5_parallel",), 0.20, 80, 50),
    "parallel calls, more": (("tau2_gpt5_parallel",), 0.30, 88, 72),
    "all three": (("tau2_sft_openai_format",), 0.20, 80, 50),
    "all three, more": (("tau2_sft_openai_format",), 0.30, 88, 72),
    "loops": (("tau2_gptoss_loops",), 0.20, 80, 50),
    "loops, more": (("tau2_gptoss_loops",), 0.30, 88, 72),
    "coding": (("openhands_claude35_swe", "miniswe_deepseek"), 0.20, 93, 60),
    "files and shell": (("openhands_claude35_swe",), 0.20, 93, 60),
    "shell": (("miniswe_deepseek",), 0.20, 93, 60),
    "installing": (("claudecode_cua",), 0.22, 80, 58),
    "everyday tools": (("livemcp_claude4",), 0.20, 85, 45),
    "research": (("deerflow_threads", "deerflow_replays"), 0.20, 85, 45),
    "finance in Chinese": (("msagent_finance_zh",), 0.22, 95, 80),
}
SOURCES = sorted({source for sources, *_ in FLOORS.values() for source in sources})


@pytest.fixture(scope="module")
def found() -> dict[str, list[Case]]:
    return {source: [case for row in recorded(source) for case in cases(row["messages"], ENCODE)] for source in SOURCES}


@pytest.mark.benchmark
@pytest.mark.parametrize("name", FLOORS)
def test_extracts_keep_what_later_turns_need(name: str, found: dict[str, list[Case]]) -> None:
    sources, share, values, labelled = FLOORS[name]
    sample = [case for source in sources for case in found[source]]
    told = measure(sample, by_extracts(share, ENCODE), ENCODE)
    oracle = measure(sample, by_oracle, ENCODE)
    print(f"\n{name}: {told}; the needles alone would take {oracle.left} %")
    assert told.left <= 100 * share
    assert told.values is not None
    assert told.values >= values
    assert told.labelled is not None
    assert told.labelled >= labelled


@pytest.mark.benchmark
def test_extracts_keep_lines_that_tell_of_failures(found: dict[str, list[Case]]) -> None:
    told = measure([case for every in found.values() for case in every], by_extracts(0.25, ENCODE), ENCODE)
    print(f"\nall sources: {told}")
    assert told.failures is not None
    assert told.failures >= 90
