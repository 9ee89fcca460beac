"""The end of a chaos run: what is stored against what the bots wrote down, message by message."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

from compactor.cli.chaos.bot import TOOLS
from compactor.cli.chaos.checks import KEPT_ROLES, refused
from compactor.cli.chaos.journal import Entry, Fate, Record
from compactor.cli.chaos.lister import plain
from compactor.cli.reading import stored_session
from compactor.client import Compactor, Session
from compactor.commands.read import Stored
from compactor.encodings import encoder
from compactor.exceptions import CompactorError, SessionNotFoundError
from compactor.model_config import ModelConfig
from compactor.models import Code, Kind, Outcome, recall_id
from compactor.records import write_json
from compactor.tokens import count_message

PROMISES: Final = ("lost", "duplicated", "reordered", "invalid", "changed")
BEYOND: Final = ("miscounted", "damaged")  # running totals that differ from a recount; sessions that cannot be read
_MOST_DETAILS: Final = 200


@dataclass(slots=True)
class Findings:
    """What broke, counted, with the first cases in detail."""

    counts: Counter[str] = field(default_factory=Counter[str])
    details: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, fault: str, session: str, **detail: Any) -> None:
        self.counts[fault] += 1
        if len(self.details) < _MOST_DETAILS:
            self.details.append({"fault": fault, "session": session, **detail})


@dataclass(slots=True)
class Audited:
    """The figures of the whole run."""

    findings: Findings = field(default_factory=Findings)
    messages: int = 0
    pushes: int = 0
    doubtful: int = 0
    replaced: int = 0
    recalled: int = 0
    outcomes: Counter[str] = field(default_factory=Counter[str])
    runs: dict[str, list[Outcome]] = field(default_factory=dict[str, list[Outcome]])


def audit(memory: Compactor, configs: Mapping[str, ModelConfig], records: Sequence[Record]) -> Audited:
    """Compares every session with the journals; what the bots found in their lists is counted in."""
    audited = Audited()
    pushed: dict[str, list[Entry]] = defaultdict(list)
    for record in records:
        for entry in record.entries:
            pushed[entry.session].append(entry)
        for finding in record.findings:
            rest = {key: value for key, value in finding.items() if key not in ("s", "fault")}
            audited.findings.add(finding["fault"], finding["s"], seen_by="bot", **rest)
    for name, entries in pushed.items():
        try:
            _Session(memory.session(name, configs[name]), name, entries, audited).check(stored_session(memory, name))
        except SessionNotFoundError:
            for entry in entries:
                for order in range(len(entry.messages) if entry.fate is Fate.STORED else 0):
                    audited.findings.add("lost", name, bot=entry.bot, number=entry.number, order=order)
        except CompactorError as error:
            audited.findings.add("damaged", name, error=f"{type(error).__name__}: {error}")
    return audited


@dataclass(slots=True)
class _Session:
    session: Session
    name: str
    entries: list[Entry]
    audited: Audited

    def check(self, stored: Stored) -> None:
        originals = self.session.originals()
        texts = [write_json(plain(message))[0] for message in originals]
        places: dict[bytes, list[int]] = defaultdict(list)
        for place, text in enumerate(texts):
            places[text].append(place)
        self._check_pushes(places)
        known = {write_json(message)[0] for entry in self.entries for message in entry.messages}
        for place, text in enumerate(texts):
            if text not in known:
                self._finds("changed", position=place, what="nobody pushed this")
        self._check_order(places)
        self._check_shown(stored, originals)
        self._check_send(originals)
        runs = self.session.compactions()
        self.audited.runs[self.name] = runs
        self.audited.outcomes.update(run.outcome.value for run in runs)

    def _check_pushes(self, places: Mapping[bytes, list[int]]) -> None:
        """Each message exactly once; of a push in doubt all or nothing."""
        for entry in self.entries:
            texts = [write_json(message)[0] for message in entry.messages]
            found = [len(places.get(text, ())) for text in texts]
            self.audited.pushes += entry.fate is Fate.STORED
            self.audited.messages += len(texts) if entry.fate is Fate.STORED else 0
            self.audited.doubtful += entry.fate is not Fate.STORED
            for order, count in enumerate(found):
                if count > 1:
                    self._finds("duplicated", bot=entry.bot, number=entry.number, order=order, times=count)
                if count == 0 and (entry.fate is Fate.STORED or any(found)):
                    self._finds("lost", bot=entry.bot, number=entry.number, order=order, fate=entry.fate)
            if not all(found):
                continue
            at = tuple(places[text][0] for text in texts)
            if any(after != before + 1 for before, after in pairwise(at)):
                self._finds("reordered", bot=entry.bot, number=entry.number, what="a batch was torn apart")
            if entry.positions and entry.positions != at:
                self._finds("reordered", bot=entry.bot, number=entry.number, what="not where its receipt says", at=at)

    def _check_order(self, places: Mapping[bytes, list[int]]) -> None:
        """The messages of each bot stand in the order in which it pushed them."""
        last: dict[int, int] = defaultdict(lambda: -1)
        for entry in sorted(self.entries, key=lambda entry: (entry.bot, entry.number)):
            at = [places[text][0] for text in (write_json(m)[0] for m in entry.messages) if places.get(text)]
            if entry.fate is not Fate.STORED or not at:
                continue
            if at[0] <= last[entry.bot]:
                self._finds("reordered", bot=entry.bot, number=entry.number, position=at[0])
            last[entry.bot] = max(last[entry.bot], at[-1])

    def _check_shown(self, stored: Stored, originals: Sequence[Any]) -> None:
        """Only results, and steps in folds, are replaced; each original can be recalled; the totals are right."""
        totals = dict.fromkeys(stored.state.totals, 0)
        encoders = {name: encoder(name) for name in totals}
        live = [(place, record) for place, record in enumerate(stored.records) if record.kind is not Kind.TOMBSTONE]
        for (place, record), original in zip(live, originals, strict=False):
            shown = record.value()
            for name, encode in encoders.items():
                totals[name] += 0 if record.kind is Kind.FOLDED else count_message(shown, encode)
            if not record.kind:
                continue
            self.audited.replaced += 1
            text = write_json(original)[0]
            if original.get("role") in KEPT_ROLES:
                self._finds("changed", position=place, role=original.get("role"))
            if write_json(self.session.recall(recall_id(place + stored.state.offset)))[0] != text:
                self._finds("changed", position=place, what="recall differs")
            else:
                self.audited.recalled += 1
        for name, (total, _) in stored.state.totals.items():
            if total != totals[name]:
                self._finds("miscounted", encoding=name, total=total, recount=totals[name])

    def _check_send(self, originals: Sequence[Any]) -> None:
        """The list of a send at the end is one that a provider takes."""
        if all(message.get("role") == "system" for message in originals):  # killed before its first question
            return
        context = self.session.prepare(tools=TOOLS)
        if found := refused(context.messages):
            self._finds("invalid", refused=dict(found), fit=context.verdict.fit)

    def _finds(self, fault: str, **detail: Any) -> None:
        self.audited.findings.add(fault, self.name, **detail)


def applied(audited: Audited) -> int:
    """Compactions that replaced something."""
    return audited.outcomes[Code.APPLIED.value]
