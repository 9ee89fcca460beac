"""The list of the dead: who stands in it, why, and how a session leaves it."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import Code
from compactor.commands import dead
from compactor.commands.command import SessionKeys
from compactor.commands.dead import Dead
from compactor.dead_list import dead_sessions
from compactor.exceptions import SchemaVersionError
from compactor.models import CompactionId, SessionId
from compactor.settings import Settings
from tests.integration.clients import Client, SessionClient, StoreClient
from tests.integration.conversations import SMALL, conversation
from tests.integration.driving import answered
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of

PLACE = "KeyError at planning.py:88"


class Poisoned:
    """A session whose every compaction ends in the same bug."""

    def __init__(
        self, name: str, memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any
    ) -> None:
        self.name = SessionId(name)
        self.session: SessionClient = memory.session(name, SMALL)
        self.settings, self.store, self.worker, self.raw = settings, store, worker, raw
        self.session.push(conversation(9))

    @property
    def keys(self) -> SessionKeys:
        return keys_of(self.settings, self.name)

    def crash(self, *, owner: CompactionId | None = None, pause_ms: int = 0) -> str:
        """The next attempt, as a worker that meets the bug."""
        assert self.session.prepare().verdict.compaction == "queued"
        taken = self.worker.owner(self.name)
        self.worker.begin(self.name, taken)
        return self.store.run(
            dead.crash(
                self.keys,
                owner=owner or taken,
                pause_ms=pause_ms,
                error=PLACE,
                max_attempts=self.settings.max_attempts,
            )
        )

    def die(self) -> None:
        """Uses up the attempts, and enters the list as a worker does."""
        assert [self.crash() for _ in range(3)] == ["released", "released", "dead"]
        self.store.run(dead.add(self.settings.namespace, self.name, PLACE, attempts=3, anew=True))

    def listed(self) -> list[Dead]:
        flow = dead_sessions(self.settings.namespace, max_attempts=self.settings.max_attempts)
        return answered(flow, self.store)

    def entries(self) -> dict[bytes, bytes]:
        """What is stored of the list."""
        found: dict[bytes, bytes] = self.raw.hgetall(dead.dead_key(self.settings.namespace))
        return found


@pytest.fixture
def poisoned(memory: Client, settings: Settings, store: StoreClient, worker: InlineWorker, raw: Any) -> Poisoned:
    return Poisoned("dead/poisoned", memory, settings, store, worker, raw)


def test_a_crash_gives_the_claim_back_at_once_and_keeps_its_attempt(poisoned: Poisoned) -> None:
    assert poisoned.crash(pause_ms=60_000) == "released"
    status = poisoned.session.status()
    assert (status.claim, status.held, status.attempts) == ("idle", "crashed", 1)
    assert poisoned.session.prepare().verdict.compaction == "held(crashed)"
    assert poisoned.raw.hget(poisoned.keys.state, "error").decode() == PLACE


def test_after_the_pause_the_next_send_tries_again_and_forgets_the_error(poisoned: Poisoned) -> None:
    poisoned.crash(pause_ms=0)
    assert poisoned.session.prepare().verdict.compaction == "queued"
    assert poisoned.worker.work(poisoned.name).outcome.outcome is Code.APPLIED
    assert poisoned.session.status().attempts == 0
    assert not poisoned.raw.hget(poisoned.keys.state, "error")


def test_a_crash_after_the_claim_was_lost_changes_nothing(poisoned: Poisoned) -> None:
    assert poisoned.crash(owner=CompactionId("an-older-run")) == "lost"
    assert poisoned.session.status().claim == "running"


def test_the_last_crash_makes_the_session_dead_with_its_reason(poisoned: Poisoned) -> None:
    poisoned.die()
    assert poisoned.session.prepare().verdict.compaction == "held(dead)"
    (each,) = poisoned.listed()
    now, _ = poisoned.raw.time()
    assert (each.session, each.reason, each.attempts) == (poisoned.name, PLACE, 3)
    assert 0 <= now - int(each.since) < 60


def test_workers_that_were_killed_leave_a_reason_too(poisoned: Poisoned) -> None:
    for _ in range(3):
        assert poisoned.session.prepare().verdict.compaction == "queued"
        poisoned.worker.begin(poisoned.name, poisoned.worker.owner(poisoned.name), lease=0)
    assert poisoned.session.prepare().verdict.compaction == "held(dead)"
    poisoned.store.run(dead.add(poisoned.settings.namespace, poisoned.name))
    (each,) = poisoned.listed()
    assert (each.reason, each.attempts) == ("attempts_used_up", 3)


def test_a_send_after_the_death_keeps_when_it_was(poisoned: Poisoned) -> None:
    poisoned.die()
    before = poisoned.entries()
    assert not poisoned.store.run(dead.add(poisoned.settings.namespace, poisoned.name))
    assert poisoned.entries() == before


def test_new_attempts_bring_it_back_and_it_leaves_the_list(poisoned: Poisoned) -> None:
    poisoned.die()
    assert poisoned.store.run(dead.revive(poisoned.keys)) == "revived"
    assert poisoned.listed() == []
    assert poisoned.entries() == {}
    assert poisoned.session.prepare().verdict.compaction == "queued"
    assert poisoned.worker.work(poisoned.name).outcome.outcome is Code.APPLIED


def test_a_claim_that_somebody_holds_is_not_taken_away_by_a_retry(poisoned: Poisoned) -> None:
    assert poisoned.session.prepare().verdict.compaction == "queued"
    assert poisoned.store.run(dead.revive(poisoned.keys)) == "busy"
    assert poisoned.worker.work(poisoned.name).outcome.outcome is Code.APPLIED


def test_a_session_that_does_not_exist_cannot_be_retried(settings: Settings, store: StoreClient, raw: Any) -> None:
    keys = keys_of(settings, "dead/never")
    assert store.run(dead.revive(keys)) == "gone"
    assert raw.exists(*keys.all) == 0


def test_a_forced_compaction_takes_it_off_the_list_too(poisoned: Poisoned) -> None:
    poisoned.die()
    assert poisoned.session.compact().outcome is Code.QUEUED
    assert poisoned.listed() == []
    assert poisoned.entries() == {}


@pytest.mark.parametrize("end", ["cleared", "expired"])
def test_a_session_that_ended_leaves_the_list(poisoned: Poisoned, end: str) -> None:
    poisoned.die()
    if end == "cleared":
        poisoned.session.clear()
    else:
        poisoned.raw.delete(*poisoned.keys.all)
    assert poisoned.listed() == []
    assert poisoned.entries() == {}


def test_an_entry_written_since_it_was_read_stays(poisoned: Poisoned) -> None:
    poisoned.die()
    namespace = poisoned.settings.namespace
    read = poisoned.store.run(dead.read_page(namespace, 0)).entries
    poisoned.raw.hset(dead.dead_key(namespace), poisoned.name, '{"reason":"newer","attempts":3,"since":1}')
    assert poisoned.store.run(dead.forget(namespace, read)) == 0
    assert len(poisoned.entries()) == 1


def test_a_long_list_is_read_whole_and_cleaned(poisoned: Poisoned) -> None:
    namespace, many = poisoned.settings.namespace, 2_000
    poisoned.die()
    for number in range(many):
        poisoned.raw.hset(dead.dead_key(namespace), f"dead/gone-{number}", '{"reason":"x","attempts":3,"since":1}')
    assert [each.session for each in poisoned.listed()] == [poisoned.name]
    assert len(poisoned.entries()) == 1


def test_the_list_holds_codes_and_ends_by_itself(poisoned: Poisoned) -> None:
    poisoned.die()
    (entry,) = poisoned.entries().values()
    assert set(entry.decode()) <= set('{}":,. ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789')
    assert 0 < poisoned.raw.pttl(dead.dead_key(poisoned.settings.namespace)) <= dead.LIFE_MS


def test_a_session_of_a_newer_release_is_not_touched(poisoned: Poisoned) -> None:
    poisoned.die()
    poisoned.raw.hset(poisoned.keys.state, "schema", 2)
    before = poisoned.raw.hgetall(poisoned.keys.state)
    with pytest.raises(SchemaVersionError, match="newer release"):
        poisoned.store.run(dead.revive(poisoned.keys))
    crash = dead.crash(poisoned.keys, owner=poisoned.worker.owner(poisoned.name), pause_ms=1, error="x", max_attempts=3)
    assert poisoned.store.run(crash) == "newer"
    assert poisoned.raw.hgetall(poisoned.keys.state) == before
