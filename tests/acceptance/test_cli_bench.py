"""`compactor bench`: figures with their goals, and nothing left behind on a server that others use."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import redis

from compactor.embedded import EmbeddedServer
from tests.acceptance.cli_process import run

MEETS = {"≤": operator.le, "≥": operator.ge, "=": operator.eq}
FIELDS = {"name", "ours", "other", "unit", "ratio", "spread", "goal", "met"}


@pytest.mark.parametrize(("part", "figures"), [("writes", 4), ("swaps", 3), ("compactions", 3)])
def test_each_figure_has_its_goal_and_nothing_stays_on_the_server(
    server: EmbeddedServer, part: str, figures: int
) -> None:
    ended = run("bench", "--rounds", "5", "--only", part, "--json", env={"REDIS_URL": server.url})
    rows: list[dict[str, Any]] = ended.rows
    assert len(rows) == figures
    for row in rows:
        assert set(row) == FIELDS
        sign, goal = str(row["goal"]).split()
        assert row["ours"] > 0 < row["other"]
        assert row["met"] == MEETS[sign](row["ratio"], float(goal))
    assert ended.code == (0 if all(row["met"] for row in rows) else 1)
    client: Any = redis.Redis(port=server.port)
    assert not list(client.scan_iter("*bench-*"))
    client.close()


def test_an_unknown_part_is_told() -> None:
    ended = run("bench", "--only", "speed")
    assert ended.code == 2
    assert "only: expected one of reads, writes, swaps, compactions, texts." in ended.err


def test_growth_tells_what_each_call_costs_at_each_size(server: EmbeddedServer) -> None:
    sizes = ("--length", "5", "--length", "20", "--sessions", "3", "--sessions", "6")
    ended = run("bench", "growth", *sizes, "--rounds", "5", "--json", env={"REDIS_URL": server.url})
    assert ended.code == 0
    of_length = {"estimate", "push", "prepare, one new", "prepare, nothing new", "first prepare", "originals"}
    told = {(row["of"], row["count"], row["call"]) for row in ended.rows}
    assert told == {
        *(("messages", count, call) for count in (5, 20) for call in of_length),
        *(("sessions", count, call) for count in (3, 6) for call in ("estimate", "push", "prepare")),
    }
    assert all(row["us"] > 0 < row["hmgets"] for row in ended.rows)
    client: Any = redis.Redis(port=server.port)
    assert not list(client.scan_iter("*bench-*"))
    client.close()
