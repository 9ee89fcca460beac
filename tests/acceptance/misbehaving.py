"""One session whose model misbehaves, from push to outcome, through a worker process."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from compactor import Code, Outcome, Session
from compactor.formats.openai import text_of
from compactor.models import Kind
from compactor.records import PROVISIONAL, Record, unpack
from tests.acceptance.conftest import Service
from tests.acceptance.scripted_model import long_talk
from tests.acceptance.waiting import wait_until
from tests.integration.conversations import SMALL
from tests.integration.stored import records

BELOW, ABOVE = 7, 10  # steps: between threshold and ceiling, above the ceiling


@dataclass(frozen=True, slots=True)
class Case:
    """What was pushed and stored, and what a compaction made of it."""

    session: Session
    name: str
    pushed: list[dict[str, Any]]
    before: list[bytes]
    outcome: Outcome
    records: list[bytes]

    def read(self) -> list[Record]:
        return [unpack(row) for row in self.records]

    def replaced(self) -> list[str]:
        """The text of each replacement."""
        found = self.read()
        return [text_of(found[position].value()) for position in self.outcome.positions]

    def bodies(self) -> list[str]:
        """The text of each replacement without its header."""
        return [text.partition("\n")[2] for text in self.replaced()]

    def is_untouched(self) -> bool:
        return self.records == self.before and self.outcome.positions == ()

    def is_extracted(self, *, provisional: bool) -> bool:
        """Whether every result taken was replaced by an extract of itself, and nothing else changed."""
        found = self.read()
        changed = [at for at, (old, new) in enumerate(zip(self.before, self.records, strict=True)) if old != new]
        return (
            self.outcome.outcome is Code.APPLIED
            and self.outcome.by_extract == self.outcome.items > 0
            and self.outcome.by_model == 0
            and tuple(changed) == self.outcome.positions
            and all(
                (found[at].kind, bool(found[at].flags & PROVISIONAL), found[at].value()["role"])
                == (Kind.EXTRACT, provisional, "tool")
                for at in self.outcome.positions
            )
            and self.session.originals() == self.pushed
        )


def begin(service: Service, raw: Any, fault: str, steps: int, *, mark: str = "mark") -> Case:
    """Pushes a talk whose results make the model behave as named, and queues its compaction."""
    name = f"faults/{fault}-{steps}-{mark}"
    session = service.memory.session(name, SMALL)
    pushed = long_talk(steps, fault, f"{mark}-{fault}-{steps}")
    session.push(pushed)
    before = records(raw, service.settings, name)
    verdict = session.prepare().verdict
    assert verdict.compaction == "queued"
    assert (verdict.total > verdict.ceiling) == (steps == ABOVE)
    return Case(session, name, pushed, before, Outcome(Code.QUEUED), before)


def finish(service: Service, raw: Any, case: Case) -> Case:
    """The case with the outcome of its compaction."""
    outcome = wait_until(lambda: case.session.status().last, seconds=30, what=f"the outcome of {case.name}")
    return replace(case, outcome=outcome, records=records(raw, service.settings, case.name))
