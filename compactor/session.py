"""What each call on a session does, without I/O: one story for the sync and the async client."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from typing import Any, Final, Literal
from uuid import uuid4

from compactor.archive import decompress
from compactor.budget import Budget, budget_for
from compactor.cached_history import CachedHistory
from compactor.claims import Claim, Held
from compactor.commands import claim, push, read, recall
from compactor.commands.command import Command
from compactor.commands.prepare import Judgement, Prepared
from compactor.commands.push import Batch, Pushed
from compactor.effects import Flow, Pause, Publish, Run, compute, run
from compactor.exceptions import ConfigurationError, DispatchError, InvalidMessageError, StoreUnavailableError
from compactor.formats.openai import leading_system
from compactor.frozen import freeze
from compactor.json_values import is_array
from compactor.judging import Fixed, Request, compaction_word, kept_judgement, verdict
from compactor.model_config import ModelConfig
from compactor.models import (
    Code,
    CompactionId,
    Context,
    Fit,
    Outcome,
    Receipt,
    SessionId,
    Status,
    Verdict,
    recall_position,
)
from compactor.outcomes import from_json
from compactor.reader import HEAVY, MANY, SessionReader, Surroundings
from compactor.records import ENCODINGS, Encoded, encode_message, unpack
from compactor.tokens import PER_REQUEST, Encode, count_message
from compactor.view import compose

POLL: Final = 0.05  # seconds between looks at a claim that somebody waits for
QUEUED_TOO_LONG: Final = 60.0  # seconds; then no worker seems to run
_OWN_OPERATION_MS: Final = 10 * 60_000  # our own retries come within seconds
_CALLERS_OPERATION_MS: Final = 8 * 3_600_000  # chat platforms redeliver for hours
_log = logging.getLogger("compactor")

_CLAIM: Final = b"claim"
_CLEAR: Final = b"clear"
WaitFor = Literal["fit", "swap"]


class SessionFlows:
    """The flows of one session; each method yields effects and returns its answer."""

    def __init__(self, surroundings: Surroundings, session: SessionId, config: ModelConfig) -> None:
        self._reader = SessionReader(surroundings, session, config)
        self._read_load = read.read_load(self._reader.keys, self._reader.encoding)
        self._pushers_budget = budget_for(config, fixed=PER_REQUEST)  # until a prepare tells tools and system
        self._warned = False

    def push(self, messages: object, idempotency_key: str | None = None) -> Flow[Receipt]:
        """Stores one message or many, exactly once."""
        given = list(messages) if is_array(messages) else [messages]
        encoded = yield from compute(lambda: self._encoded(given), heavy=len(given) > MANY)
        if not encoded:
            seen = yield from self.estimate(Request())
            return Receipt(seen.system + seen.history - PER_REQUEST, seen.length, seen.over_threshold)
        batch = yield from self._batch(encoded)
        content = encoded[0].own + blake2b(b"".join(message.own for message in encoded), digest_size=16).digest()
        operation = _operation(idempotency_key) if idempotency_key is not None else self._unconfirmed_or_new(content)
        try:
            pushed = yield from run(self._push_command(batch, operation, idempotency_key))
            total = pushed.total
            if total is None:
                total, _ = yield from self._reader.recounted()
        except (StoreUnavailableError, GeneratorExit):  # it may have been stored: pushed again, it keeps its name
            if idempotency_key is None:
                self._reader.around.unconfirmed.put(self._reader.session, content, operation)
            raise
        self._reader.around.unconfirmed.forget(self._reader.session, _CLEAR)
        if pushed.behind:
            self._reader.around.encodings[self._reader.session] = frozenset(ENCODINGS)
        positions = tuple(range(pushed.first, pushed.first + len(encoded)))
        over = pushed.over if pushed.total is not None else self._is_over(total)
        return Receipt(total, pushed.length, over, positions)

    def _is_over(self, total: int) -> bool:
        return total + self._pushers_budget.fixed >= self._pushers_budget.threshold

    def _encoded(self, given: Sequence[Any]) -> list[Encoded]:
        return [encode_message(message, max_bytes=self._reader.settings.max_message_bytes) for message in given]

    def _unconfirmed_or_new(self, content: bytes) -> bytes:
        return self._reader.around.unconfirmed.take(self._reader.session, content) or _operation(None)

    def _push_command(self, batch: Batch, operation: bytes, idempotency_key: str | None) -> Command[Pushed]:
        return push.push(
            self._reader.keys,
            batch,
            operation=operation,
            remember_ms=_OWN_OPERATION_MS if idempotency_key is None else _CALLERS_OPERATION_MS,
            ttl_ms=self._reader.ttl_ms,
            max_bytes=self._reader.settings.max_session_bytes,
            encoding=self._reader.encoding,
            threshold=self._pushers_budget.threshold,
            fixed=self._pushers_budget.fixed,
        )

    def _batch(self, encoded: Sequence[Encoded]) -> Flow[Batch]:
        """The messages counted in every encoding that this session is known to be counted in."""
        encoders = {self._reader.encoding: (yield from self._reader.encoder())}
        for name in self._reader.encodings() - encoders.keys():
            encoders[name] = self._reader.around.encoder(name)
        if sum(len(message.text) for message in encoded) <= HEAVY:
            return _count(encoded, encoders)
        return (yield from compute(lambda: _count(encoded, encoders), heavy=True))

    def estimate(self, request: Request) -> Flow[Verdict]:
        """How full the context would be; reads one hash and never queues."""
        fixed = yield from self._reader.fixed(request)
        load: read.Load = yield Run(self._read_load)
        total, lead_tokens = load.total, load.lead_tokens
        if total is None:
            total, lead_tokens = yield from self._reader.recounted()
        budget = self._reader.budget(request, fixed)
        over = fixed.total + total >= budget.threshold
        fits = fixed.total + total <= budget.ceiling
        return verdict(
            budget,
            fixed,
            history=total,
            lead_tokens=lead_tokens,
            length=load.length,
            compaction=compaction_word(*load.standing(self._reader.around.now(), fixed.total + total), over=over),
            fit=Fit.FITS if fits else Fit.SHORTENED,
            recounted=load.total is None,
        )

    def prepare(self, request: Request, *, wait: float = 0.0, wait_for: WaitFor = "fit") -> Flow[Context]:
        """The list for one send; queues a compaction when the threshold is crossed."""
        if wait_for not in ("fit", "swap"):
            raise ConfigurationError("wait_for: expected 'fit' or 'swap'.")
        encode = yield from self._reader.encoder()
        fixed = yield from self._reader.fixed(request)
        judgement = self._reader.judge(request, fixed)
        try:
            context = yield from self._send(request, fixed, judgement, encode)
            if wait > 0 and _is_worth_waiting(context.verdict, wait_for):
                yield from self._await_swap(wait)
                context = yield from self._send(request, fixed, judgement, encode)
        except StoreUnavailableError:
            held = self._reader.around.histories.get(self._reader.cache_key)
            if held is None:
                raise
            return self._compose(
                request, fixed, judgement.budget, encode, held, compaction="held(store_unavailable)", degraded=True
            )
        return context

    def _send(self, request: Request, fixed: Fixed, judgement: Judgement, encode: Encode) -> Flow[Context]:
        answer, history, recounted = yield from self._look(judgement, encode)
        word, lead = "not_needed", 0
        if answer is not None:
            state, held = answer.claim, answer.held
            if answer.claimed:
                state, held = yield from self._publish(answer.owner)
            self._warn_about_worker(answer.queued_seconds)
            over = fixed.total + history.tokens >= judgement.budget.threshold
            word, lead = compaction_word(state, held, over=over), answer.lead
        composer = partial(self._compose, request, fixed, judgement.budget, encode, history)
        shortened = fixed.total + history.tokens > judgement.budget.ceiling
        heavy = len(history.messages) > MANY and shortened
        return (yield from compute(partial(composer, compaction=word, lead=lead, recounted=recounted), heavy=heavy))

    def _look(
        self, judgement: Judgement, encode: Encode, *, force: bool = False
    ) -> Flow[tuple[Prepared | None, CachedHistory, bool]]:
        """One judged read under a new owner; a claim that an earlier call left unpublished is taken up."""
        owner, kept = _new_id(), self._kept_claims()
        try:
            return (yield from self._reader.look(judgement, owner, encode, kept=" ".join(kept), force=force))
        except (StoreUnavailableError, GeneratorExit):  # the claim may have been taken
            for name in (*kept, owner):
                self._keep_claim(name)
            raise

    def _kept_claims(self) -> list[CompactionId]:
        kept: list[CompactionId] = []
        while name := self._reader.around.unconfirmed.take(self._reader.session, _CLAIM):
            kept.append(CompactionId(name.decode()))
        return kept

    def _publish(self, owner: CompactionId) -> Flow[tuple[str, str]]:
        """Publishes a claim just taken; a broker that is down costs this one attempt."""
        try:
            yield Publish(self._reader.session, owner)
        except DispatchError as error:
            _log.warning("session %s: %s", self._reader.session, error)
            yield from self._unqueue(owner)
            return Claim.IDLE, Held.BROKER_DOWN
        except GeneratorExit:
            self._keep_claim(owner)
            raise
        return Claim.QUEUED, ""

    def _unqueue(self, owner: CompactionId) -> Flow[None]:
        try:
            yield from run(claim.unqueue(self._reader.keys, owner=owner))
        except StoreUnavailableError:
            self._keep_claim(owner)

    def _keep_claim(self, owner: CompactionId) -> None:
        """A claim taken and not published: this process's next send takes it up."""
        self._reader.around.unconfirmed.put(self._reader.session, _CLAIM, owner.encode())

    def _await_swap(self, wait: float) -> Flow[None]:
        until = self._reader.around.clock() + wait
        while self._reader.around.clock() < until:
            yield Pause(POLL)
            state = yield from run(read.read_state(self._reader.keys, self._reader.encoding))
            if state.claim == Claim.IDLE:
                return

    def _compose(
        self,
        request: Request,
        fixed: Fixed,
        budget: Budget,
        encode: Encode,
        history: CachedHistory,
        *,
        compaction: str,
        lead: int = 0,
        recounted: bool = False,
        degraded: bool = False,
    ) -> Context:
        lead_tokens = sum(message.tokens for message in history.messages[:lead])
        whole = replace(budget, fixed=budget.fixed + lead_tokens)
        view = compose(history.messages, whole, encode, beside=fixed.total, cut=history.cut)
        if view.cut != history.cut:
            self._reader.around.histories.put(self._reader.cache_key, replace(history, cut=view.cut))
        messages = [freeze(request.system_message)] if request.system_message else []
        figures = verdict(
            budget,
            fixed,
            history=history.tokens,
            lead_tokens=lead_tokens,
            length=len(history.messages),
            compaction=compaction,
            fit=Fit.DEGRADED if degraded else view.fit,
            sent=fixed.total + view.tokens,
            stable_until=view.stable_until + len(messages),
            recounted=recounted,
        )
        replaced = sum(1 for message in history.messages if message.replaced)
        return Context([*messages, *view.messages], figures, request.system, replaced, view.left_out)

    def compact(self, wait: float = 0.0) -> Flow[Outcome]:
        """Queues a compaction now, ignoring back-off and re-arm; with `wait` seconds, its outcome."""
        until = self._reader.around.clock() + wait
        encode = yield from self._reader.encoder()
        while True:
            state = yield from run(read.read_state(self._reader.keys, self._reader.encoding))
            judgement = kept_judgement(state.judged)
            if judgement is None or judgement.encoding != self._reader.encoding:
                # Nobody prepared yet with this model: judged without tools and system text.
                judgement = self._reader.judge(Request(), (yield from self._reader.fixed(Request())))
            answer, history, _ = yield from self._look(judgement, encode, force=True)
            total = history.tokens + judgement.budget.fixed
            if answer is not None and answer.claimed:
                yield from self._publish_or_raise(answer.owner)
                return (yield from self._outcome_of(answer.owner, total, until))
            if answer is None or answer.claim == Claim.IDLE:
                return Outcome(Code.BELOW_THRESHOLD, before=total, after=total)
            if self._reader.around.clock() >= until:
                return Outcome(Code(answer.claim), id=answer.owner, before=total, after=total)
            yield Pause(POLL)

    def _publish_or_raise(self, owner: CompactionId) -> Flow[None]:
        try:
            yield Publish(self._reader.session, owner)
        except DispatchError:
            yield from self._unqueue(owner)
            raise
        except GeneratorExit:
            self._keep_claim(owner)
            raise

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

    def recall(self, recall_id: str) -> Flow[Any]:
        """The original message that a recall id names."""
        record = yield from run(recall.recall(self._reader.keys, recall_position(recall_id)))
        return record.value()

    def originals(self) -> Flow[list[Any]]:
        """The live conversation as it was pushed, every replacement undone; nothing is changed."""
        stored = yield from run(read.read_history(self._reader.keys, archive=True))
        records = [
            unpack(decompress(stored.archive[position])) if record.kind and position in stored.archive else record
            for position, record in enumerate(stored.records, start=stored.state.offset)
        ]
        return [record.value() for record in records]

    def compactions(self) -> Flow[list[Outcome]]:
        """The compactions of this session, oldest first."""
        rows = yield from run(read.read_audit(self._reader.keys))
        return [from_json(row) for row in rows]

    def status(self) -> Flow[Status]:
        """Where the session stands; an unknown one has `exists` False."""
        return (yield from run(read.read_status(self._reader.keys)))

    def clear(self) -> Flow[int]:
        """Ends the conversation; it stays recallable until the next clear. Answers its number of messages."""
        self._reader.around.histories.drop(self._reader.cache_key)
        operation = self._unconfirmed_or_new(_CLEAR)
        command = recall.clear(self._reader.keys, operation=operation, remember_ms=_OWN_OPERATION_MS)
        try:
            moved = yield from run(command)
        except (StoreUnavailableError, GeneratorExit):
            self._reader.around.unconfirmed.put(self._reader.session, _CLEAR, operation)
            raise
        self._reader.around.unconfirmed.forget(self._reader.session)
        return moved

    def _warn_about_worker(self, queued_seconds: float) -> None:
        if queued_seconds > QUEUED_TOO_LONG and not self._warned:
            self._warned = True
            _log.warning(
                "session %s: its compaction is queued for %d s; no worker seems to run. Start one with: "
                "celery -A workers worker",
                self._reader.session,
                queued_seconds,
            )


def _count(encoded: Sequence[Encoded], encoders: Mapping[str, Encode]) -> Batch:
    lead = leading_system(message.value for message in encoded)
    values = [message.stored_value() for message in encoded]
    tokens = {name: [count_message(value, encode) for value in values] for name, encode in encoders.items()}
    return Batch(encoded, tokens, lead)


def _is_worth_waiting(seen: Verdict, wait_for: WaitFor) -> bool:
    if seen.compaction not in (Claim.QUEUED, Claim.RUNNING):
        return False
    return wait_for == "swap" or seen.fit in (Fit.SHORTENED, Fit.IMPOSSIBLE)


def _new_id() -> CompactionId:
    """An id as Celery makes them, so that Flower shows one id for claim, task and compaction."""
    return CompactionId(str(uuid4()))


def _operation(idempotency_key: str | None) -> bytes:
    """8 bytes that name a writing call: of the caller's key, or random."""
    if idempotency_key is None:
        return secrets.token_bytes(8)
    if not isinstance(idempotency_key, str) or not idempotency_key:
        raise InvalidMessageError("idempotency_key: expected a non-empty text, for example the platform's message id.")
    return blake2b(idempotency_key.encode("utf-8", "surrogatepass"), digest_size=8, person=b"caller").digest()
