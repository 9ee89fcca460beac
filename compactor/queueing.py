"""Claims of a session from the caller's side: take one with a read, publish its task, hand it back, wait for it."""

from __future__ import annotations

import logging
from typing import Final
from uuid import uuid4

from compactor.claims import Claim, Held
from compactor.commands import claim, dead, read, turns
from compactor.commands.command import Command
from compactor.commands.prepare import Judgement, Load, Mode
from compactor.commands.sync import Synced
from compactor.effects import Flow, Pause, Publish, run
from compactor.exceptions import DispatchError, StoreUnavailableError
from compactor.models import CompactionId
from compactor.reader import Look, SessionReader
from compactor.tokens import Encode
from compactor.turns import TenantTurns

POLL: Final = 0.05  # seconds between looks at a claim that somebody waits for
QUEUED_TOO_LONG: Final = 60.0  # seconds; then no worker seems to run
_CLAIM: Final = b"claim"
_log = logging.getLogger("compactor")


class Queueing:
    """The claims of one session; each method yields effects."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._turns = TenantTurns(reader.settings)
        self._warned = False
        self._listed = False

    def look(
        self,
        judgement: Judgement,
        encode: Encode,
        *,
        mode: Mode = "send",
        load: Load | None = None,
        first: Command[Synced] | None = None,
    ) -> Flow[Look]:
        """One judged read under a new owner; a claim that an earlier call left unpublished is taken up."""
        owner, kept = new_id(), self._kept_claims()
        try:
            seen = yield from self._reader.look(
                judgement, owner, encode, kept=" ".join(kept), mode=mode, load=load, first=first
            )
        except (StoreUnavailableError, GeneratorExit):  # the claim may have been taken
            for name in (*kept, owner):
                self.keep(name)
            raise
        if seen.answer is not None and seen.answer.held == Held.DEAD and not self._listed:
            yield from self._enter_dead()
        return seen

    def _enter_dead(self) -> Flow[None]:
        try:
            yield from run(dead.add(self._reader.settings.namespace, self._reader.session))
            self._listed = True
        except StoreUnavailableError:  # the next send enters it
            _log.warning("session %s: is dead, and could not be listed as such", self._reader.session)

    def _kept_claims(self) -> list[CompactionId]:
        kept: list[CompactionId] = []
        while name := self._reader.around.unconfirmed.take(self._reader.session, _CLAIM):
            kept.append(CompactionId(name.decode()))
        return kept

    def publish(self, seen: Look) -> Flow[tuple[str, str]]:
        """The claim and hold that a read found; one that it took is published, in one short attempt."""
        answer = seen.answer
        if answer is None:
            return Claim.IDLE, ""
        yield from self._warn_about_worker(answer.queued_seconds)
        if not answer.claimed:
            return answer.claim, answer.held
        try:
            yield from self.publish_or_raise(answer.owner)
        except DispatchError as error:
            _log.warning("session %s: %s", self._reader.session, error)
            return Claim.IDLE, Held.BROKER_DOWN
        return Claim.QUEUED, ""

    def publish_or_raise(self, owner: CompactionId) -> Flow[None]:
        """Publishes the task of a claim, or lets it wait for its tenant's turn.

        Raises DispatchError, with the claim given back.
        """
        try:
            if (yield from self._turns.join(self._reader.session, owner)):
                yield Publish(self._reader.session, owner)
        except DispatchError:
            yield from self._unqueue(owner)
            yield from self._turns.leave(self._reader.session, owner, hand_on=False)
            raise
        except GeneratorExit:
            self.keep(owner)
            raise

    def _unqueue(self, owner: CompactionId) -> Flow[None]:
        try:
            yield from run(claim.unqueue(self._reader.keys, owner=owner))
        except StoreUnavailableError:
            self.keep(owner)

    def keep(self, owner: CompactionId) -> None:
        """A claim taken and not published: this process's next send takes it up."""
        self._reader.around.unconfirmed.put(self._reader.session, _CLAIM, owner.encode())

    def await_swap(self, wait: float) -> Flow[None]:
        """Polls until nobody holds the claim, or `wait` seconds have passed."""
        until = self._reader.around.clock() + wait
        while self._reader.around.clock() < until:
            yield Pause(POLL)
            state = yield from run(read.read_state(self._reader.keys, self._reader.encoding))
            if state.claim == Claim.IDLE:
                return

    def _warn_about_worker(self, queued_seconds: float) -> Flow[None]:
        if queued_seconds > QUEUED_TOO_LONG and not self._warned:
            self._warned = True
            if (yield from self._waits_its_turn()):
                return
            _log.warning(
                "session %s: its compaction is queued for %d s; no worker seems to run. Start one with: "
                "celery -A workers worker",
                self._reader.session,
                queued_seconds,
            )

    def _waits_its_turn(self) -> Flow[bool]:
        try:
            return (yield from run(turns.is_waiting(self._reader.settings.namespace, self._reader.session)))
        except StoreUnavailableError:
            return False


def new_id() -> CompactionId:
    """An id as Celery makes them, so that Flower shows one id for claim, task and compaction."""
    return CompactionId(str(uuid4()))
