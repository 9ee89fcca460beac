"""Storing messages exactly once."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

from compactor.agent_loop.tool_results import LimitPolicy, limit_message, limit_policy
from compactor.archive import compress, with_cut
from compactor.budget import budget_for
from compactor.commands import push
from compactor.commands.command import Command
from compactor.commands.push import Batch, Pushed
from compactor.copied_marks import known_tags, refusals, seems_copied
from compactor.effects import Flow, compute, run
from compactor.exceptions import InvalidMessageError, MessageTooLargeError, StoreUnavailableError, TenantFullError
from compactor.formats.openai import leading_system
from compactor.json_values import is_array, is_object
from compactor.models import Receipt, recall_id
from compactor.reader import HEAVY, MANY, SessionReader
from compactor.records import ENCODINGS, Encoded, encode_message
from compactor.tokens import PER_REQUEST, Encode, count_message

OWN_OPERATION_MS: Final = 10 * 60_000  # our own retries come within seconds
_CALLERS_OPERATION_MS: Final = 8 * 3_600_000  # chat platforms redeliver for hours
_ENDINGS: Final = (b"clear", b"erase")
_ATTEMPTS: Final = 64  # at a place in the history that others take first
_TEXTS_WITHIN: Final = 5  # levels of a message: tool_calls, a call, its function, its arguments
LimitResult = int | bool | LimitPolicy | None


@dataclass(frozen=True, slots=True)
class _Given:
    """The messages of one push, and the compressed originals of those that are stored cut, by index."""

    messages: Sequence[Encoded]
    policy: LimitPolicy = field(default_factory=LimitPolicy)
    originals: Mapping[int, bytes] = field(default_factory=dict[int, bytes])

    def stored(self, first: int) -> list[Encoded]:
        """The messages as they are stored when the first one gets this position."""
        stored = list(self.messages)
        for index in self.originals:
            cut = limit_message(stored[index].stored_value(), self.policy, recall_id(first + index))
            assert cut is not None, "it was over the limit when the originals were chosen"
            stored[index] = encode_message(cut)
        return stored


class Pushing:
    """Pushes of one session; each method yields effects."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        # Until a prepare tells tools and system.
        self.budget = reader.correction.levels(budget_for(reader.config, fixed=PER_REQUEST))
        self._next = 0  # the position that the next message gets, if nobody else pushes

    def push(
        self, messages: object, idempotency_key: str | None = None, limit_result: LimitResult = None
    ) -> Flow[Receipt]:
        """Stores one message or many, exactly once; no message at all answers how the session stands."""
        policy = limit_policy(limit_result)
        encoded = yield from self.encoded(messages)
        if not encoded:
            seen = yield from self._reader.current()
            length = len(seen.history.usable)
            return Receipt(seen.history.tokens, length, self._is_over(seen.history.tokens))
        given = yield from self._given(encoded, policy)
        batch = yield from self._batch(given)
        refusal = yield from self._refusal(batch)
        content = encoded[0].own + blake2b(b"".join(message.own for message in encoded), digest_size=16).digest()
        operation = operation_id(idempotency_key) if idempotency_key is not None else self.unconfirmed_or_new(content)
        try:
            not_run = yield from self._not_run(encoded)
            pushed = yield from self._placed(given, batch, operation, idempotency_key, refusal)
            yield from self._reader.ledger.report(pushed.stored_bytes)
            total = pushed.total
            if total is None:
                total, _ = yield from self._reader.recounted()
        except (StoreUnavailableError, GeneratorExit):  # it may have been stored: pushed again, it keeps its name
            if idempotency_key is None:
                self._reader.around.unconfirmed.put(self._reader.session, content, operation, self._reader)
            raise
        for ending in _ENDINGS:  # of the conversation before: the same call from now on is a new one
            self._reader.around.unconfirmed.forget(self._reader.session, ending)
        if pushed.behind:
            self._reader.around.encodings[self._reader.session] = frozenset(ENCODINGS)
        self._next = pushed.first + len(encoded)
        positions = tuple(range(pushed.first, self._next))
        over = pushed.over if pushed.total is not None else self._is_over(total)
        return Receipt(total, pushed.length, over, positions, not_run)

    def _not_run(self, encoded: Sequence[Encoded]) -> Flow[tuple[Mapping[str, Any], ...]]:
        """Results for calls that copy a mark of this session; only what looks like one costs a read."""
        seeming = [message.value for message in encoded if seems_copied(message.value)]
        if not seeming:
            return ()
        seen = yield from self._reader.current()
        known = known_tags(seen.history.usable)
        return tuple(result for value in seeming for result in refusals(value, known))

    def _refusal(self, batch: Batch) -> Flow[TenantFullError | None]:
        try:
            yield from self._reader.ledger.admit(batch.size)
        except TenantFullError as error:
            return error
        return None

    def _given(self, encoded: Sequence[Encoded], policy: LimitPolicy | None) -> Flow[_Given]:
        """Looks for results over the limit; what is whole is compressed once, however often a place is tried."""
        if policy is None:
            return _Given(encoded)
        heavy = sum(len(message.text) for message in encoded) > HEAVY
        return (yield from compute(lambda: _limited(encoded, policy), heavy=heavy))

    def _placed(
        self, given: _Given, batch: Batch, operation: bytes, key: str | None, refusal: TenantFullError | None
    ) -> Flow[Pushed]:
        """Stores a batch; cut texts name their position, so they are written anew when others took it first."""
        for _ in range(_ATTEMPTS):
            pushed = yield from self._stored(batch, operation, key, refusal)
            if not pushed.moved:
                return pushed
            self._next = pushed.first
            batch = yield from self._batch(given)
        raise StoreUnavailableError(
            "session: others push to it all the while, and a limited result must name its place; nothing was stored. "
            "Push the same messages again."
        )

    def _stored(self, batch: Batch, operation: bytes, key: str | None, refusal: TenantFullError | None) -> Flow[Pushed]:
        """Stores a batch; when its tenant is full, only a repeat of what is stored already gets its answer."""
        if refusal is None:
            return (yield from run(self._command(batch, operation, key)))
        try:
            return (yield from run(self._command(batch, operation, key, max_bytes=0)))
        except MessageTooLargeError:
            raise refusal from None

    def encoded(self, messages: object) -> Flow[list[Encoded]]:
        """One message or a list of them as they are stored. Raises InvalidMessageError."""
        given: Sequence[Any] = list(messages) if is_array(messages) else [messages]
        most = self._reader.settings.max_message_bytes
        heavy = len(given) > MANY or any(_room(message, HEAVY) < 0 for message in given)
        return (yield from compute(lambda: [encode_message(message, max_bytes=most) for message in given], heavy=heavy))

    def unconfirmed_or_new(self, content: bytes) -> bytes:
        """The name of an earlier call of this content that raised, or a new one."""
        return self._reader.around.unconfirmed.take(self._reader.session, content) or operation_id(None)

    def counted(self, encoded: Sequence[Encoded]) -> Flow[Mapping[str, list[int]]]:
        """Tokens of each message in every encoding that this session is known to be counted in."""
        encoders = {self._reader.encoding: (yield from self._reader.encoder())}
        for name in self._reader.encodings() - encoders.keys():
            encoders[name] = self._reader.around.encoder(name)
        if sum(len(message.text) for message in encoded) <= HEAVY:
            return _count(encoded, encoders)
        return (yield from compute(lambda: _count(encoded, encoders), heavy=True))

    def _is_over(self, total: int) -> bool:
        return total + self.budget.fixed >= self.budget.threshold

    def _batch(self, given: _Given) -> Flow[Batch]:
        stored = given.stored(self._next)
        tokens = yield from self.counted(stored)
        batch = Batch(stored, tokens, leading_system(message.value for message in stored))
        if not given.originals:
            return batch
        wholes = {index: given.messages[index] for index in given.originals}
        archived = {
            index: with_cut(blob, stored[index].limited(wholes[index].own, batch.tokens_of(index)).pack())
            for index, blob in given.originals.items()
        }
        return replace(batch, wholes=wholes, archived=archived, first=self._next)

    def _command(
        self, batch: Batch, operation: bytes, idempotency_key: str | None, *, max_bytes: int | None = None
    ) -> Command[Pushed]:
        return push.push(
            self._reader.keys,
            batch,
            operation=operation,
            remember_ms=OWN_OPERATION_MS if idempotency_key is None else _CALLERS_OPERATION_MS,
            ttl_ms=self._reader.ttl_ms,
            max_bytes=self._reader.settings.max_session_bytes if max_bytes is None else max_bytes,
            encoding=self._reader.encoding,
            threshold=self.budget.threshold,
            fixed=self.budget.fixed,
        )


def operation_id(idempotency_key: str | None) -> bytes:
    """8 bytes that name a writing call: of the caller's key, or random."""
    if idempotency_key is None:
        return secrets.token_bytes(8)
    if not isinstance(idempotency_key, str) or not idempotency_key:
        raise InvalidMessageError("idempotency_key: expected a non-empty text, for example the platform's message id.")
    return blake2b(idempotency_key.encode("utf-8", "surrogatepass"), digest_size=8, person=b"caller").digest()


def _room(value: Any, left: int, depth: int = _TEXTS_WITHIN) -> int:
    """What is left of so many characters when the text of a message is taken away; negative when there is more."""
    if isinstance(value, str):
        return left - len(value)
    inner: Any = value.values() if is_object(value) else value if is_array(value) else ()
    for item in inner if depth else ():
        if left < 0:
            break
        left = _room(item, left, depth - 1)
    return left


def _limited(encoded: Sequence[Encoded], policy: LimitPolicy) -> _Given:
    over = {
        index: compress(message.whole().pack())
        for index, message in enumerate(encoded)
        if limit_message(message.stored_value(), policy, recall_id(0)) is not None
    }
    return _Given(encoded, policy, over)


def _count(encoded: Sequence[Encoded], encoders: Mapping[str, Encode]) -> dict[str, list[int]]:
    values = [message.stored_value() for message in encoded]
    return {name: [count_message(value, encode) for value in values] for name, encode in encoders.items()}
