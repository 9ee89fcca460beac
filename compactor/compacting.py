"""compact(): a compaction asked for by name."""

from __future__ import annotations

import math

from compactor.claims import Claim
from compactor.commands import read
from compactor.effects import Flow, Pause, run
from compactor.exceptions import ConfigurationError
from compactor.judging import Request, kept_judgement
from compactor.models import Code, CompactionId, Outcome
from compactor.outcomes import from_json
from compactor.queueing import POLL, Queueing
from compactor.reader import SessionReader


def check_wait(wait: object) -> None:
    """Raises ConfigurationError for what is no number of seconds."""
    if isinstance(wait, bool) or not isinstance(wait, (int, float)) or math.isnan(wait):
        raise ConfigurationError("wait: expected a number of seconds, for example 2.5.")


class Compacting:
    """Compactions that a caller asks for; each method yields effects."""

    def __init__(self, reader: SessionReader, queueing: Queueing) -> None:
        self._reader, self._queueing = reader, queueing

    def compact(self, wait: float = 0.0) -> Flow[Outcome]:
        """Queues a compaction now, ignoring back-off and re-arm; with `wait` seconds, its outcome."""
        check_wait(wait)
        until = self._reader.around.clock() + wait
        encode = yield from self._reader.encoder()
        while True:
            state = yield from run(read.read_state(self._reader.keys, self._reader.encoding))
            judgement = kept_judgement(state.judged)
            if judgement is None or judgement.encoding != self._reader.encoding:
                # Nobody prepared yet with this model: judged without tools and system text.
                judgement = self._reader.judge(Request(), (yield from self._reader.fixed(Request())))
            seen = yield from self._queueing.look(judgement, encode, mode="force")
            answer, total = seen.answer, seen.history.tokens + judgement.budget.fixed
            if answer is not None and answer.claimed:
                yield from self._queueing.publish_or_raise(answer.owner)
                return (yield from self._outcome_of(answer.owner, total, until))
            if answer is None or answer.claim == Claim.IDLE:
                return Outcome(Code.BELOW_THRESHOLD, before=total, after=total)
            if self._reader.around.clock() >= until:
                return Outcome(Code(answer.claim), id=answer.owner, before=total, after=total)
            yield Pause(POLL)

    def _outcome_of(self, owner: CompactionId, total: int, until: float) -> Flow[Outcome]:
        while True:
            state = yield from run(read.read_state(self._reader.keys, self._reader.encoding))
            if state.last.get("id") == owner:
                return from_json(state.last)
            if state.owner != owner or not state.exists:
                return Outcome(Code.STALE if state.exists else Code.GONE, id=owner, before=total, after=total)
            if self._reader.around.clock() >= until:
                return Outcome(
                    Code(state.claim) if state.claim != Claim.IDLE else Code.STALE, id=owner, before=total, after=total
                )
            yield Pause(POLL)
