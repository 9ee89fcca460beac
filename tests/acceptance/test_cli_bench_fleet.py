"""`compactor bench fleet`: costs measured here, sizes and queue made of them."""

from __future__ import annotations

from tests.acceptance.cli_process import run

SMALL = ("--sample", "2", "--sessions", "300", "--turns", "30", "--seconds", "5")


def test_a_fleet_is_sized_from_what_is_measured_here() -> None:
    ended = run("bench", "fleet", *SMALL, "--json")
    assert ended.code == 0, ended.err
    told = ended.row
    costs = told["costs"]
    assert all(value > 0 for value in costs.values())
    assert 1_000 < costs["turn_tokens"] < 2_500
    assert costs["freed_tokens"] > costs["turn_tokens"]
    assert 10_000 < costs["session_bytes"] < 200_000
    assert costs["archive_turn"] < costs["session_bytes"]
    assert {need["resource"] for need in told["needs"]} >= {"Redis CPU", "Redis memory", "worker slots", "model calls"}
    assert told["load"]["sessions"] == 300


def test_the_same_as_tables() -> None:
    ended = run("bench", "fleet", *SMALL)
    assert ended.code == 0, ended.err
    for word in ("measured here", "turns/s of one", "wait p99", "Redis memory"):
        assert word in ended.out
