"""How fast text is searched for secrets and personal data, and how often recorded tool output raises an alarm."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from typing import Final

import pytest

from compactor.formats.openai import text_of
from compactor.personal_data import PersonalData
from compactor.redaction import MARK, redact
from tests.conftest import SHARED, recorded
from tests.unit.test_redaction_properties import UNITS

LEAST: Final = 2.0  # MB of text a second and core
MOST_ALARMS: Final = 0.01  # of results; they are looked at by hand in docs/decisions.md
HOSTILE_SECONDS: Final = 8.0  # of CPU for a million characters written to be slow


@dataclass
class Row:
    """One source: its text in MB, results, results with an alarm, secrets and personal values, seconds of CPU."""

    size: float = 0.0
    results: int = 0
    alarms: int = 0
    marks: int = 0
    values: int = 0
    for_secrets: float = 0.0
    for_personal: float = 0.0

    def take(self, text: str, data: PersonalData) -> None:
        begun = time.process_time()
        (hidden,) = redact(text)
        between = time.process_time()
        _, personal = data.hide(text)
        self.for_secrets += between - begun
        self.for_personal += time.process_time() - between
        self.size += len(text.encode("utf-8", "replace")) / 1e6
        self.results += 1
        self.alarms += hidden != text
        self.marks += len(set(MARK.findall(hidden))) if hidden != text else 0
        self.values += len(personal.values)

    def show(self, name: str) -> None:
        print(f"{name:28}{self.size:7.2f}{self.results:9}{self.alarms:8}{self.marks:7}{self.values:8}")


def seconds(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


@pytest.mark.benchmark
def test_redaction_is_fast_and_seldom_wrong() -> None:
    data, rows = PersonalData(), dict[str, Row]()
    for name in sorted(path.name.removesuffix(".jsonl.gz") for path in SHARED.glob("*.jsonl.gz")):
        if not name.startswith("stitched"):
            messages = [message for session in recorded(name) for message in session["messages"]]
            for text in (text_of(message) for message in messages if message["role"] == "tool"):
                rows.setdefault(name, Row()).take(text, data)
    print(f"\n{'source':28}{'MB':>7}{'results':>9}{'alarms':>8}{'marks':>7}{'values':>8}")
    for name, row in rows.items():
        row.show(name)
    names = [field.name for field in fields(Row)]
    every = Row(**{name: sum(getattr(row, name) for row in rows.values()) for name in names})
    every.show("all")
    rates = every.size / every.for_secrets, every.size / every.for_personal
    print(f"secrets {rates[0]:.1f} MB/s, personal data {rates[1]:.1f} MB/s")
    assert every.alarms <= MOST_ALARMS * every.results
    assert min(rates) > LEAST


@pytest.mark.benchmark
def test_a_million_hostile_characters_take_seconds() -> None:
    spent = {unit: seconds(partial(redact, unit * (1_000_000 // len(unit)))) for unit in UNITS}
    for unit, took in sorted(spent.items(), key=lambda item: -item[1])[:8]:
        print(f"{unit!r:60} {took:.2f} s")
    assert max(spent.values()) < HOSTILE_SECONDS
