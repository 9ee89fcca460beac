"""The demo fails on each promise alone when that promise is broken."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.cli.demo_checks import checks

GOOD: dict[str, Any] = {
    "messages": 90, "sends": 40, "compactions": 2, "before": 20_000, "after": 8_000, "results": 40, "replaced": 28,
    "kept_messages": 9, "kept_unchanged": 9, "recalled": 28, "recalled_same": 28, "lost": 0, "faults": {},
    "largest_send": 13_900, "ceiling": 14_000,
}  # fmt: skip


def _failed(*, changed: int = 0, in_order: bool = True, **broken: Any) -> list[str]:
    judged = checks({**GOOD, **broken}, goal=2, changed=changed, in_order=in_order)
    return [check.name for check in judged if not check.ok]


def test_good_figures_pass() -> None:
    assert _failed() == []


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        ({"compactions": 1}, "compacted"),
        ({"after": 20_000}, "smaller"),
        ({"replaced": 0}, "replaced"),
        ({"kept_unchanged": 8}, "unchanged"),
        ({"changed": 1}, "unchanged"),
        ({"recalled_same": 27}, "recalled"),
        ({"lost": 1}, "nothing_lost"),
        ({"in_order": False}, "nothing_lost"),
        ({"faults": {"open_call": 1}}, "valid"),
        ({"largest_send": 14_001}, "within_ceiling"),
    ],
)
def test_a_broken_promise_fails_its_check_alone(broken: dict[str, Any], name: str) -> None:
    assert _failed(**broken) == [name]
