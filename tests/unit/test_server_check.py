"""Which server configurations are refused, doubted and trusted."""

from __future__ import annotations

import pytest

from compactor.exceptions import ConfigurationError
from compactor.server_check import Finding, Level, judge_configuration, refuse_unsafe

GOOD = {"maxmemory-policy": "noeviction", "appendonly": "yes", "save": ""}


def _judged(*, allowed: str | None = None, **changed: str | None) -> dict[str, Finding]:
    """Findings on GOOD with some values changed; None takes one away."""
    values = {**GOOD, **{name.replace("_", "-"): value for name, value in changed.items()}}
    known = {name: value for name, value in values.items() if value is not None}
    return {finding.check: finding for finding in judge_configuration(known, allowed=allowed)}


def test_a_server_that_keeps_everything_is_fine() -> None:
    assert {finding.level for finding in _judged().values()} == {Level.OK}


@pytest.mark.parametrize(
    "policy",
    ["allkeys-lru", "allkeys-lfu", "allkeys-random", "allkeys-lrm", "volatile-lru", "volatile-lfu", "volatile-random"],
)
def test_policies_that_evict_parts_of_sessions_are_refused_with_a_way_out(policy: str) -> None:
    finding = _judged(maxmemory_policy=policy)["eviction"]
    assert finding.level is Level.FAILED
    assert policy in finding.text
    assert f"COMPACTOR_ALLOW_EVICTION_POLICY={policy}" in finding.advice
    assert "instance of its own" in finding.advice


def test_only_the_policy_that_is_named_is_allowed_and_stays_a_warning() -> None:
    assert _judged(allowed="allkeys-lru", maxmemory_policy="allkeys-lru")["eviction"].level is Level.WARNING
    assert _judged(allowed="allkeys-lru", maxmemory_policy="allkeys-lfu")["eviction"].level is Level.FAILED


def test_oldest_first_is_doubtful() -> None:
    assert _judged(maxmemory_policy="volatile-ttl")["eviction"].level is Level.WARNING


def test_no_advice_changes_the_policy_of_a_server_that_others_use() -> None:
    advice = _judged(maxmemory_policy="allkeys-lru")["eviction"].advice
    assert "leave the policy alone" in advice


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"appendonly": "no", "save": ""}, "memory only"),
        ({"appendonly": "no", "save": "3600 1"}, "snapshots only"),
        ({"appendonly": "no", "save": None}, "whether it saves snapshots is unknown"),
        ({"appendonly": None, "save": None}, "persistence is unknown"),
    ],
)
def test_less_than_an_append_only_file_is_a_warning(changed: dict[str, str | None], said: str) -> None:
    finding = _judged(**changed)["persistence"]
    assert finding.level is Level.WARNING
    assert said in finding.text
    assert finding.advice


def test_what_nobody_tells_is_a_warning() -> None:
    assert [finding.level for finding in judge_configuration({})] == [Level.WARNING, Level.WARNING]


def test_a_start_is_refused_for_a_failed_finding_only() -> None:
    refuse_unsafe(judge_configuration({}))
    refuse_unsafe(judge_configuration(GOOD))
    with pytest.raises(ConfigurationError, match="maxmemory-policy is volatile-lru"):
        refuse_unsafe(judge_configuration({**GOOD, "maxmemory-policy": "volatile-lru"}))
