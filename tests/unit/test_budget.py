"""From limit and strategy to threshold, ceiling and target."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.budget import Budget, budget_for
from compactor.correction import first_correction
from compactor.exceptions import ConfigurationError
from compactor.model_config import STRATEGIES, ModelConfig

configs = st.builds(
    ModelConfig,
    st.just("gpt-4o"),
    st.integers(1, 20_000),
    st.sampled_from(sorted(STRATEGIES)),
    compact_at=st.one_of(st.none(), st.integers(1, 20_000)),
    max_output_tokens=st.one_of(st.none(), st.integers(1, 999)),
)
outputs = st.one_of(st.none(), st.integers(1, 30_000_000))


@pytest.mark.parametrize(
    ("strategy", "ceiling"), [("conservative", 102_400), ("balanced", 112_000), ("aggressive", 118_400)]
)
def test_without_an_output_size_the_ceiling_leaves_half_the_reserve(strategy: str, ceiling: int) -> None:
    assert budget_for(ModelConfig("gpt-4o", 128, strategy), fixed=0).ceiling == ceiling


def test_an_output_size_sets_the_ceiling_and_lowers_the_threshold() -> None:
    config = ModelConfig("gpt-4o", 128, max_output_tokens=64_000)
    assert budget_for(config, fixed=0).ceiling == 64_000
    assert budget_for(config, fixed=0).threshold == 60_800


def test_the_send_s_own_output_size_wins() -> None:
    config = ModelConfig("gpt-4o", 128, max_output_tokens=64_000)
    assert budget_for(config, fixed=0, max_output_tokens=4_000).ceiling == 124_000


def test_compact_at_only_ever_lowers_the_threshold() -> None:
    assert budget_for(ModelConfig("gpt-4o", 1000, compact_at=200), fixed=0).threshold == 200_000
    assert budget_for(ModelConfig("gpt-4o", 128, compact_at=200), fixed=0).threshold == 96_000


def test_the_documents_walk_leaves_3738_for_the_history() -> None:
    budget = budget_for(ModelConfig("gpt-4o", 16, "conservative"), fixed=1_862 + 4_000)
    assert (budget.threshold, budget.room) == (9_600, 3_738)


def test_a_compaction_aims_at_half_the_room_and_must_free_a_tenth() -> None:
    budget = Budget(limit=16_000, threshold=10_000, ceiling=14_000, fixed=2_000)
    assert (budget.room, budget.target, budget.min_reclaim, budget.rearm) == (8_000, 6_000, 800, 4_000)


@given(configs, st.integers(0, 50_000_000), outputs)
def test_the_levels_are_in_order_and_never_negative(config: ModelConfig, fixed: int, output: int | None) -> None:
    if output is not None and output >= config.limit:
        with pytest.raises(ConfigurationError, match="max_output_tokens"):
            budget_for(config, fixed=fixed, max_output_tokens=output)
        return
    budget = budget_for(config, fixed=fixed, max_output_tokens=output)
    assert budget.threshold >= 1
    assert budget.threshold <= max(1, budget.ceiling)
    assert budget.ceiling <= budget.limit
    assert budget.room >= 0
    assert budget.fixed <= budget.target
    assert 0 <= budget.min_reclaim <= budget.room
    assert budget.rearm >= 1


@given(configs, st.integers(0, 1_000_000))
def test_the_target_is_clearly_below_the_threshold_while_there_is_room(config: ModelConfig, fixed: int) -> None:
    budget = budget_for(config, fixed=fixed)
    if budget.room > 1:
        assert budget.target < budget.threshold


def test_what_a_compaction_must_free_can_be_set() -> None:
    config = ModelConfig("gpt-4o", 16, min_reclaim=0.25)
    budget = budget_for(config, fixed=2_000)
    assert budget.min_reclaim == budget.room // 4
    assert first_correction(1.15).levels(budget).reclaim == 0.25, "however the provider counts"
    assert budget_for(replace(config, min_reclaim=0), fixed=2_000).min_reclaim == 0


def test_a_cold_cut_goes_down_by_half_of_what_stands_there() -> None:
    budget = budget_for(ModelConfig("gpt-4o", 16), fixed=2_000)
    cold = budget.cold(8_000)
    assert (cold.threshold, cold.target, cold.ceiling) == (8_000, 5_000, budget.ceiling)
    assert budget.cold(10**6) == budget, "never above the threshold"
