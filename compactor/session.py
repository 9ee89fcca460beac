"""What each call on a session does, without I/O: one story for the sync and the async client."""

from __future__ import annotations

from dataclasses import replace

from compactor.checkpoints import Checkpointing
from compactor.commands import read
from compactor.commands.spending import caps_of, read_spending
from compactor.commands.tenants import tenant_of
from compactor.compacting import Compacting
from compactor.copied_marks import newest_refusals
from compactor.correcting import Correcting
from compactor.effects import Flow, run
from compactor.judging import Request, compaction_word, verdict
from compactor.model_config import ModelConfig
from compactor.models import Fit, Receipt, SessionId, Status, Verdict
from compactor.pinning import Pinning
from compactor.pushing import Pushing
from compactor.queueing import Queueing
from compactor.reader import SessionReader, Surroundings
from compactor.recalling import Recalling
from compactor.revising import Revising
from compactor.sending import Sending
from compactor.syncing import Syncing


class SessionFlows:
    """The flows of one session; each yields effects and returns its answer."""

    def __init__(self, surroundings: Surroundings, session: SessionId, config: ModelConfig) -> None:
        self._reader = SessionReader(surroundings, session, config)
        self._read_load = read.read_load(self._reader.keys, self._reader.encoding, self._reader.model)
        self._queueing = Queueing(self._reader)
        pushing = Pushing(self._reader)
        self._syncing = Syncing(self._reader, pushing, self._queueing)
        revising = Revising(self._reader, pushing)
        self.push = pushing.push
        self.prepare = Sending(self._reader, pushing, self._queueing, self._syncing).prepare
        correcting = Correcting(self._reader)
        self.report_usage, self.report_overflow = correcting.report_usage, correcting.report_overflow
        self.compact = Compacting(self._reader, self._queueing).compact
        self.recall, self.originals, self.compactions = revising.recall, revising.originals, revising.compactions
        self.recall_for_model = Recalling(self._reader).recall_for_model
        self.checkpoint = Checkpointing(self._reader).checkpoint
        self.undo, self.rewind, self.fork = revising.undo, revising.rewind, revising.fork
        pinning = Pinning(self._reader)
        self.pin, self.pins, self.release = pinning.pin, pinning.pins, pinning.release
        self.close_open_calls, self.clear, self.erase = revising.close_open_calls, revising.clear, revising.erase

    def estimate(self, request: Request) -> Flow[Verdict]:
        """How full the context would be; reads one hash and never queues."""
        fixed = yield from self._reader.fixed(request)
        load = yield from run(self._read_load)
        total, lead_tokens = load.total, load.lead_tokens
        if total is None:
            total, lead_tokens = yield from self._reader.recounted()
        self._reader.learn(load.anchor)
        correction = self._reader.correction
        budget = self._reader.judge(request, fixed).budget
        levels = self._reader.levels(budget, correction)
        over = fixed.total + total >= levels.threshold
        fits = fixed.total + total <= levels.ceiling
        return verdict(
            budget,
            fixed,
            history=total,
            lead_tokens=lead_tokens,
            length=load.length,
            correction=correction,
            compaction=compaction_word(*load.standing(self._reader.around.now(), fixed.total + total), over=over),
            fit=Fit.FITS if fits else Fit.SHORTENED if self._reader.settings.shadow == "off" else Fit.SHADOW,
            recounted=load.total is None,
        )

    def sync(self, messages: object) -> Flow[Receipt]:
        """Stores what a caller's own list has new, without a send."""
        read_list = yield from self._syncing.read(messages)
        request = Request(lead=read_list.lead)
        fixed = yield from self._reader.fixed(request)
        judgement = self._reader.judge(request, fixed)
        placed = yield from self._syncing.place(read_list, judgement, (yield from self._reader.encoder()), mode="look")
        placed.raise_unsaved(self._reader.settings.max_session_bytes)
        total = sum(message.tokens for message in placed.messages)
        positions = tuple(message.position for message in placed.messages)
        over = total + fixed.total >= placed.seen.correction.levels(judgement.budget).threshold
        return Receipt(total, len(placed.messages), over, positions, tuple(newest_refusals(placed.messages)))

    def status(self) -> Flow[Status]:
        """Where the session stands; an unknown one has `exists` False."""
        found = yield from run(read.read_status(self._reader.keys))
        if not found.exists:
            return found
        settings, tenant = self._reader.settings, tenant_of(self._reader.session)
        today, *_ = yield from run(read_spending(settings.namespace, tenant, caps_of(settings)))
        return replace(found, spending=today)
