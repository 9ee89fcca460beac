"""Sizes of a fleet follow its load; its simulated queue keeps up where there are slots enough."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from compactor.cli.fleet_sizes import BUSY, Costs, Load, needs, simulate

COSTS = Costs(
    redis_turn=400e-6,
    redis_compaction=1e-3,
    bot_turn=2e-3,
    worker_compaction=15e-3,
    commands_turn=40,
    network_turn=20e3,
    session_bytes=60e3,
    archive_turn=2e3,
    turn_tokens=1_500,
    freed_tokens=6_000,
    calls_compaction=5,
)
SMALL = Load(sessions=5_000, turns=400.0)


def test_what_carries_the_fewest_turns_comes_first() -> None:
    found = needs(COSTS, Load())
    assert [need.turns_of_one for need in found] == sorted(need.turns_of_one for need in found)
    by_name = {need.resource: need for need in found}
    assert by_name["Redis memory"].taken == pytest.approx(140)  # GB: 60 KB and 40 turns of 2 KB, a million times
    assert by_name["worker slots"].taken == pytest.approx(10_000 / 4)
    assert by_name["worker slots"].count == -(-2_500 // (32 * BUSY)) == 131
    assert by_name["Redis CPU"].taken == pytest.approx(4 + 2.5)


@given(st.floats(0.1, 1e6), st.integers(1, 10**8), st.floats(1.1, 100))
def test_more_load_never_needs_less(turns: float, sessions: int, times: float) -> None:
    load = Load(sessions=sessions, turns=turns)
    more = replace(load, sessions=int(sessions * times), turns=turns * times)
    lighter = {need.resource: need for need in needs(COSTS, load)}
    for need in needs(COSTS, more):
        assert need.count >= lighter[need.resource].count >= 1
        assert need.taken >= lighter[need.resource].taken


def test_slots_enough_keep_up_with_what_the_steady_state_says() -> None:
    run = simulate(COSTS, SMALL, 10, seconds=30)
    assert run.turns == pytest.approx(12_000, rel=0.05)
    assert run.compactions == pytest.approx(run.turns * COSTS.compactions_turn, rel=0.1)
    assert (run.wait_median, run.wait_p99, run.waiting_at_end) == (0, 0, 0)
    assert 100 < run.in_flight_most <= 10 * 32


def test_too_few_slots_fall_behind_and_more_turns_meet_a_full_history() -> None:
    enough, few = (simulate(COSTS, SMALL, workers, seconds=30) for workers in (10, 2))
    assert few.in_flight_most == 64
    assert few.compactions < enough.compactions
    assert few.waiting_at_end > 500
    assert few.wait_p99 > few.wait_median > 1
    assert few.over_ceiling > 2 * enough.over_ceiling


@given(st.integers(0, 1_000), st.integers(1, 4), st.integers(2, 500))
@examples(max_examples=25)
def test_a_run_is_told_by_its_seed_and_loses_no_session(seed: int, workers: int, sessions: int) -> None:
    load = replace(SMALL, sessions=sessions, slots=2)
    run = simulate(COSTS, load, workers, seconds=2, seed=seed)
    assert run == simulate(COSTS, load, workers, seconds=2, seed=seed)
    assert run.waiting_at_end <= sessions
    assert run.in_flight_most <= min(sessions, workers * 2)
    assert 0 <= run.over_ceiling <= 1
