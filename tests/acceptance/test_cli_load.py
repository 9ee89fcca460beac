"""`compactor bench soak` and `bench workers`, small: that they measure what they say."""

from __future__ import annotations

import json
from pathlib import Path
from xml.dom.minidom import parseString

import pytest

from compactor.cli.bench_workers import worked_off
from compactor.cli.load.rig import rig
from tests.acceptance.cli_process import run


def test_a_small_soak_tells_how_the_workers_kept_up_and_draws_it(tmp_path: Path) -> None:
    picture = tmp_path / "soak.svg"
    size = ("--sessions", "12", "--minutes", "0.1", "--pause", "0.6", "--latency", "0.1", "--concurrency", "8")
    ended = run("bench", "soak", *size, "--picture", str(picture), "--json")
    assert ended.code == 0, ended.err
    *samples, summary = [json.loads(line) for line in ended.out.splitlines()]
    assert summary["turns"] > 40
    assert summary["ended"].keys() == {"applied"}
    assert samples[-1]["workers_mb"] > samples[-1]["server_mb"] > 0
    assert [sample["turns"] for sample in samples] == sorted(sample["turns"] for sample in samples)
    assert len(parseString(picture.read_text(encoding="utf-8")).getElementsByTagName("polyline")) == 7


def test_a_picture_that_cannot_be_written_is_told_before_the_run(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "none" / "soak.svg"):
        ended = run("bench", "soak", "--picture", str(place))
        assert ended.code == 2
        assert "picture: expected a file" in ended.err


def test_a_run_of_workers_counts_its_calls_after_the_start_up() -> None:
    with rig(latency=0.5) as running:
        found = worked_off(running, sessions=12, results=2, processes=1, concurrency=4)
        calls, most = len(running.model.requests), running.model.most_in_flight
    assert (calls, found.calls) == (24, 16)
    assert found.seconds >= 0.9, "two more waves of half a second"
    assert found.rate == pytest.approx(16 / found.seconds)
    assert found.cpu_per_call > 0
    assert most <= 8
