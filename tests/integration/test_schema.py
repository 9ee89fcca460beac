"""A session that a newer release wrote is refused by everything that writes, and stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from compactor import Code, CompactorError, SessionDamagedError
from compactor.exceptions import SchemaVersionError
from compactor.settings import Settings
from tests.integration import snapshot
from tests.integration.clients import Client, Connect, SessionClient
from tests.integration.conversations import OTHER_ENCODING, SMALL, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of

NAME = "schema/newer"
WRITES: dict[str, Callable[[SessionClient], object]] = {
    "push": lambda session: session.push(user("more")),
    "push with a key": lambda session: session.push(user("more"), idempotency_key="k"),
    "prepare": lambda session: session.prepare(),
    "compact": lambda session: session.compact(),
    "clear": lambda session: session.clear(),
    "prepare with a list": lambda session: session.prepare(messages=[*conversation(9), user("more")]),
    "sync": lambda session: session.sync([user("another conversation")]),
    "rewind": lambda session: session.rewind("m3"),
    "release": lambda session: session.release("m3"),
    "close_open_calls": lambda session: session.close_open_calls(),
    "erase": lambda session: session.erase(),
    "fork": lambda session: session.fork("schema/copy"),
}


def everything(raw: Any, settings: Settings) -> dict[str, object]:
    """All that is stored of the session; a dump would tell of the order of a hash's fields, too."""
    return snapshot.everything(raw, settings, NAME)


def age(raw: Any, settings: Settings, schema: int = 2) -> None:
    """What a newer release does when it changes the form of a session."""
    raw.hset(keys_of(settings, NAME).state, "schema", schema)


@pytest.fixture
def session(memory: Client) -> SessionClient:
    opened = memory.session(NAME, SMALL)
    opened.push(conversation(9))
    return opened


def test_a_session_says_its_schema(session: SessionClient, settings: Settings, raw: Any) -> None:
    assert session.status().exists
    assert raw.hget(keys_of(settings, NAME).state, "schema") == b"1"


@pytest.mark.parametrize("name", WRITES)
def test_no_call_writes_to_a_session_of_a_newer_release(
    session: SessionClient, settings: Settings, raw: Any, name: str
) -> None:
    age(raw, settings)
    before = everything(raw, settings)
    with pytest.raises(SchemaVersionError, match="newer release"):
        WRITES[name](session)
    assert everything(raw, settings) == before


def test_an_undo_does_not_write_to_it(
    session: SessionClient, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session.prepare()
    assert worker.work(NAME).outcome.outcome is Code.APPLIED
    age(raw, settings)
    before = everything(raw, settings)
    with pytest.raises(SchemaVersionError):
        session.undo()
    assert everything(raw, settings) == before


def test_a_process_that_holds_the_history_is_refused_too(session: SessionClient, settings: Settings, raw: Any) -> None:
    session.prepare()
    age(raw, settings)
    before = everything(raw, settings)
    with pytest.raises(SchemaVersionError):
        session.prepare()
    assert everything(raw, settings) == before


def test_a_model_with_another_encoding_stores_no_count(
    session: SessionClient, connect: Connect, settings: Settings, raw: Any
) -> None:
    assert session.status().exists
    other = connect(settings).session(NAME, OTHER_ENCODING)
    age(raw, settings)
    before = everything(raw, settings)
    with suppress(SchemaVersionError):
        other.estimate()
    with pytest.raises(SchemaVersionError):
        other.prepare()
    assert everything(raw, settings) == before


def test_a_worker_that_begins_on_it_leaves_the_claim(
    session: SessionClient, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    assert session.prepare().verdict.compaction == "queued"
    age(raw, settings)
    before = everything(raw, settings)
    with pytest.raises(SchemaVersionError):
        worker.work(NAME)
    assert everything(raw, settings) == before


@pytest.mark.parametrize("station", ["snapshot", "swapping"])
def test_a_session_that_was_migrated_during_its_compaction_is_left_alone(
    session: SessionClient, settings: Settings, worker: InlineWorker, raw: Any, station: str
) -> None:
    assert session.prepare().verdict.compaction == "queued"
    seen: list[dict[str, object]] = []

    def migrate() -> None:
        age(raw, settings)
        seen.append(everything(raw, settings))

    with suppress(SchemaVersionError):  # its swap finds the claim's session changed, or says why it may not
        assert worker.work(NAME, at=station, then=migrate).outcome.outcome is not Code.APPLIED
    assert [everything(raw, settings)] == seen


def test_reading_goes_on(session: SessionClient, settings: Settings, raw: Any) -> None:
    age(raw, settings)
    assert session.originals() == conversation(9)
    assert session.recall("m3") == conversation(9)[3]
    assert session.status().length == len(conversation(9))
    assert session.compactions() == []


def test_rolled_back_it_works_again(session: SessionClient, settings: Settings, worker: InlineWorker, raw: Any) -> None:
    age(raw, settings)
    with pytest.raises(SchemaVersionError):
        session.push(user("more"))
    age(raw, settings, schema=1)
    assert session.push(user("more")).length == len(conversation(9)) + 1
    assert session.prepare().verdict.compaction == "queued"
    assert worker.work(NAME).outcome.outcome is Code.APPLIED


def test_it_is_no_fault_of_the_server() -> None:
    """Callers that repeat on an outage, or heal what is damaged, must do neither here."""
    assert issubclass(SchemaVersionError, CompactorError)
    assert not issubclass(SchemaVersionError, SessionDamagedError)
    assert str(SchemaVersionError()).startswith("session: written by a newer release")
