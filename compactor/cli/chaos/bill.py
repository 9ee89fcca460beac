"""Which model calls were paid twice, and which ones the faults put at risk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from compactor.cli.chaos.faults import FROZEN
from compactor.cli.chaos.injector import Hit
from compactor.cli.chaos.journal import Record
from compactor.cli.chaos.model import Call
from compactor.formats.openai import text_of
from compactor.models import Code, Outcome


@dataclass(frozen=True, slots=True)
class Bill:
    """Model calls of a run: those that gave a summary, those that did not, those for a content that had one.

    `at_risk` counts the calls whose compaction a fault hit on its way, at its worker or by the
    failure of another of its calls, or that an undo made stale: these may have to be made again.
    `unexplained` counts repeats of calls that were not, and that no worker sent on waking from a freeze.
    """

    calls: int
    failed: int
    twice: int
    at_risk: int
    unexplained: int


def bill(
    calls: Sequence[Call],
    hits: Sequence[Hit],
    records: Sequence[Record],
    runs: Mapping[str, Sequence[Outcome]],
    *,
    lease: float,
) -> Bill:
    """Compares the model's own account with the audit of the sessions; `lease` in seconds ends every compaction."""
    good = [call for call in calls if call.answered]
    settled = _settled(records, runs)
    spoilt = _Spoilt(calls, records, runs, lease)
    at_risk = [
        spoilt.holds(call) or _is_cut(call, (*settled.get(call.content, ()), call.began + lease), hits) for call in good
    ]
    last: dict[str, bool] = {}
    repeats: list[bool] = []
    for call, risk in zip(good, at_risk, strict=True):
        if call.content in last:
            repeats.append(last[call.content] or _was_frozen(call, hits))
        last[call.content] = risk
    return Bill(len(good), len(calls) - len(good), len(repeats), sum(at_risk), repeats.count(False))


def _is_cut(call: Call, ends: Sequence[float], hits: Sequence[Hit]) -> bool:
    """Whether a fault hit the worker between a call and the swap that brought its summary in."""
    end = min(at for at in ends if at >= call.began)
    return any(call.slot in hit.slots and hit.began <= end and hit.ended >= call.began for hit in hits)


def _was_frozen(call: Call, hits: Sequence[Hit]) -> bool:
    """Whether its worker was frozen while it sent it, and another had the work done by then."""
    return any(
        hit.kind.name == FROZEN and call.slot in hit.slots and hit.began <= call.began <= hit.ended for hit in hits
    )


class _Spoilt:
    """Compactions in which a call to the model failed, or an earlier one was undone, by session and time."""

    def __init__(
        self, calls: Sequence[Call], records: Sequence[Record], runs: Mapping[str, Sequence[Outcome]], lease: float
    ) -> None:
        self._lease = lease
        self._sessions = {
            _content(message): entry.session
            for record in records
            for entry in record.entries
            for message in entry.messages
            if message.get("role") == "tool"
        }
        self._failed: dict[str, list[float]] = defaultdict(list)
        for session, outcomes in runs.items():
            self._failed[session] += [run.at for run in outcomes if run.outcome is Code.UNDONE]
        for call in calls:
            if not call.answered:
                self._failed[self._sessions.get(call.content, "")].append(call.began)

    def holds(self, call: Call) -> bool:
        failed = self._failed.get(self._sessions.get(call.content, ""), ())
        return any(abs(at - call.began) <= self._lease for at in failed)


def _settled(records: Sequence[Record], runs: Mapping[str, Sequence[Outcome]]) -> dict[str, list[float]]:
    """For each tool result, by the hash that the prompt carries, when a compaction replaced it."""
    at: dict[tuple[str, int], float] = {
        (session, position): run.at
        for session, outcomes in runs.items()
        for run in outcomes
        if run.outcome is Code.APPLIED
        for position in run.positions
    }
    found: dict[str, list[float]] = defaultdict(list)
    for record in records:
        for entry in record.entries:
            for position, message in zip(entry.positions, entry.messages, strict=False):
                if (entry.session, position) in at and message.get("role") == "tool":
                    found[_content(message)].append(at[entry.session, position])
    return found


def _content(message: Mapping[str, Any]) -> str:
    return blake2b(text_of(message).encode("utf-8", "replace"), digest_size=8).hexdigest()
