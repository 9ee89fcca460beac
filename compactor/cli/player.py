"""One recorded session played as an agent would, with every promise checked on the way."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from compactor.archive import decompress
from compactor.budget import Budget
from compactor.cli.recordings import Recording
from compactor.cli.simulated_worker import Pace, SimulatedWorker
from compactor.client import Compactor, Session
from compactor.commands.command import session_keys
from compactor.commands.read import read_history
from compactor.model_config import ModelConfig
from compactor.models import Code, Context, Fit, Outcome, Verdict, session_id
from compactor.records import unpack, write_json
from compactor.settings import Settings
from compactor.store import Store
from compactor.validity import faults

KEPT_ROLES = ("system", "developer", "user")
FINAL_WAIT = 60.0  # seconds for the last compaction of a session


@dataclass(slots=True)
class Played:
    """What one session showed; `lost`, `invalid` and `changed` must be 0.

    `shortened` counts the sends that needed the view, `sudden` those of them that a single step took
    from below the threshold past the ceiling: no compaction could have been there before.
    Of the compactions that the talk itself started, `halved` reached their target; of each two in a row
    (`pairs`), `early` are those where the later one came after fewer than threshold - target new tokens.
    """

    id: str
    source: str
    limit: int  # K tokens
    messages: int = 0
    prepares: int = 0
    shortened: int = 0
    sudden: int = 0
    impossible: int = 0
    compactions: int = 0
    outcome: str = ""
    reason: str = ""
    max_estimate: int = 0
    final_tokens: int = 0
    threshold: int = 0
    tokens_saved: int = 0
    started: int = 0
    halved: int = 0
    pairs: int = 0
    early: int = 0
    lost: int = 0
    invalid: int = 0
    changed: int = 0


@dataclass(slots=True)
class Player:
    """Plays one recording against a session, and keeps what it pushed to compare with.

    With a simulated worker, the swap of a compaction lands between the messages of the time it takes.
    """

    session: Session
    recording: Recording
    played: Played
    worker: SimulatedWorker | None = None
    pushed: list[Any] = field(default_factory=list[Any])
    texts: list[bytes] = field(default_factory=list[bytes])
    kept: Counter[bytes] = field(default_factory=Counter[bytes])
    _next: int = 0
    _unsaid: Any = None
    _was_over: bool = False

    def play(self) -> None:
        """Pushes message by message, with a send before every assistant message and one at the end."""
        while self._step():
            pass
        own = self._applied()
        outcome = self._last_compaction()
        self.played.outcome, self.played.reason = outcome.outcome.value, outcome.reason
        last = self.session.prepare(tools=self.recording.tools)
        self._check(last)
        self.played.final_tokens, self.played.threshold = last.verdict.expected, last.verdict.threshold
        applied = self._applied()
        self.played.compactions = len(applied)
        self.played.tokens_saved = sum(run.saved for run in applied)
        self.played.started, self.played.halved = len(own), sum(run.reached for run in own)
        self.played.pairs, self.played.early = max(0, len(own) - 1), early(own, levels_of(last.verdict))

    def _applied(self) -> list[Outcome]:
        return [run for run in self.session.compactions() if run.outcome is Code.APPLIED]

    def _step(self, before: float | None = None) -> bool:
        """One message; False at the end, or when the send before it would not come before this time."""
        self._say()
        if self._next == len(self.recording.messages):
            return False
        message = self.recording.messages[self._next]
        sends = message.get("role") == "assistant" and bool(self.pushed)
        if sends and self.worker is not None and not self.worker.pace.take_step(before):
            return False
        self._next += 1
        self._unsaid = message
        if sends:
            context = self._send()
            self._check(context)
            if self.worker is not None and context.verdict.compaction == "queued":
                self.worker.work(self._step)
        self._say()
        return True

    def _say(self) -> None:
        """Pushes the message that a send was for, unless that happened while a compaction took its time."""
        if self._unsaid is not None:
            message, self._unsaid = self._unsaid, None
            self._push(message)

    def _last_compaction(self) -> Outcome:
        if self.worker is None:
            return self.session.compact(wait=FINAL_WAIT)
        asked = self.session.compact()
        return self.worker.work(self._step) if asked.outcome is Code.QUEUED else asked

    def _push(self, message: Any) -> None:
        self.session.push(message)
        self.pushed.append(message)
        self.texts.append(write_json(message)[0])
        if message.get("role") in KEPT_ROLES:
            self.kept[self.texts[-1]] += 1
        self.played.messages += 1

    def _send(self) -> Context:
        context = self.session.prepare(tools=self.recording.tools)
        self.played.prepares += 1
        shortened = context.verdict.fit in (Fit.SHORTENED, Fit.IMPOSSIBLE)
        self.played.shortened += shortened
        self.played.sudden += shortened and not self._was_over
        self._was_over = context.verdict.over_threshold
        self.played.impossible += context.verdict.fit is Fit.IMPOSSIBLE
        return context

    def _check(self, context: Context) -> None:
        """Compares a prepared list with what was pushed."""
        self.played.max_estimate = max(self.played.max_estimate, context.verdict.expected)
        found = faults(context.messages)
        added = bool(found) and bool(found - faults(self.pushed))
        self.played.invalid += added or context.messages[-1].get("role") != self.pushed[-1].get("role")
        shown = Counter(write_json(m)[0] for m in context.messages if m.get("role") in KEPT_ROLES)
        self.played.changed += sum(max(0, count - self.kept[text]) for text, count in shown.items())

    def check_store(self, store: Store, settings: Settings, name: str) -> None:
        """Compares what is stored, live and archived, with what was pushed, byte for byte."""
        stored = store.run(read_history(session_keys(settings.namespace, session_id(name)), archive=True))
        self.played.lost += abs(len(stored.records) - len(self.texts))
        rows = zip(stored.records, self.texts, self.pushed, strict=False)
        for position, (record, text, message) in enumerate(rows, start=stored.state.offset):
            blob = stored.archive.get(position)
            original = unpack(decompress(blob)).text if blob is not None and record.kind else record.text
            self.played.lost += original != text
            self.played.changed += message.get("role") in KEPT_ROLES and record.text != text


def levels_of(verdict: Verdict) -> Budget:
    """The budget that a verdict was made by."""
    return Budget(verdict.limit, verdict.threshold, verdict.ceiling, verdict.total - verdict.history)


def early(runs: Sequence[Outcome], budget: Budget) -> int:
    """How many compactions came after fewer than threshold - target tokens since the one before them."""
    return sum(later.before - run.after < budget.threshold - budget.target for run, later in pairwise(runs))


def play(memory: Compactor, store: Store, config: ModelConfig, pace: Pace | None, recording: Recording) -> Played:
    """Plays one recording in a session of its own."""
    name = f"replay/{re.sub(r'[^A-Za-z0-9._-]', '_', recording.id)[:120]}-{secrets.token_hex(4)}"
    worker = None if pace is None else SimulatedWorker(memory.settings, store, name, pace.anew())
    played = Played(recording.id, recording.source, int(config.context_limit or 0))
    player = Player(memory.session(name, config), recording, played, worker)
    player.play()
    player.check_store(store, memory.settings, name)
    return player.played
