"""Since when a worker of a chaos run had no Redis to save an answer in."""

from __future__ import annotations

import pytest

from compactor.cli.chaos.outages import RECOVERY, Outage, away_since

NOW = 100.0
SHORT = RECOVERY / 2


@pytest.mark.parametrize(
    ("outages", "since"),
    [
        ([], NOW),
        ([Outage(97, NOW - SHORT, (0, 1))], 97),
        ([Outage(97, NOW - 2 * RECOVERY, (0, 1))], NOW),
        ([Outage(97, NOW - SHORT, (1,))], NOW),
        ([Outage(96, 97, (0,)), Outage(97 + SHORT, NOW, (0,))], 96),
        ([Outage(95, 96, (0,)), Outage(96 + 2 * RECOVERY, NOW, (0,))], 96 + 2 * RECOVERY),
        ([Outage(95, NOW, (0,)), Outage(97, 98, (0,))], 95),
    ],
    ids=["none", "just over", "long over", "another's", "one after another", "a pause between", "one in another"],
)
def test_answers_are_stranded_from_the_first_of_the_faults_that_last_until_now(
    outages: list[Outage], since: float
) -> None:
    assert away_since(outages, 0, NOW) == since
