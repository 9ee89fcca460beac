"""`compactor chaos` in full: 20,000 pushes to 200 sessions under 300 faults, with a good model and with a bad one.

Run by name: `python -m pytest tests/benchmarks/test_chaos.py -m soak -s`.
"""

from __future__ import annotations

from typing import Any

import pytest

from compactor.cli.chaos.audit import BEYOND, PROMISES
from compactor.cli.chaos.table import lines
from tests.acceptance.cli_process import run

MINUTES = 6


@pytest.mark.soak
@pytest.mark.timeout(2 * 60 * MINUTES)
@pytest.mark.parametrize("fails", [0.0, 0.5], ids=["model-works", "model-fails-half-of-the-time"])
def test_nothing_is_lost_whatever_happens(fails: float) -> None:
    size = ("--pushes", "20000", "--sessions", "200", "--faults", "320", "--minutes", str(MINUTES))
    ended = run("chaos", *size, "--model-fails", str(fails), "--json")
    report: dict[str, Any] = ended.row
    print("", report["hits"], *lines(report), sep="\n")
    assert ended.code == 0, report["details"]
    assert {name: report[name] for name in (*PROMISES, *BEYOND)} == dict.fromkeys((*PROMISES, *BEYOND), 0)
    assert report["pushes"] >= 20_000
    assert report["sessions"] == 200
    assert report["faults"] >= 300
    assert report["kinds"] >= 12
    assert report["seconds"] <= 60 * MINUTES
    assert report["unexplained"] == 0
    # A worker that is frozen past its lease is as good as dead to all others.
    assert report["double-billed"] <= report["in_flight"] + report["frozen"]
    assert report["compactions"] >= 300
