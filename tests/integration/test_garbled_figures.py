"""Figures garbled from outside: seen before anything is written, and set right by whoever can."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from compactor import Code, ConfigurationError, Receipt, SessionDamagedError, StoreUnavailableError
from compactor.claims import Begun
from compactor.commands import dead
from compactor.commands.counters import add, counters_key, read_counters
from compactor.dead_list import dead_sessions
from compactor.models import SessionId
from compactor.settings import Settings
from tests.integration.clients import Client, Connect, StoreClient
from tests.integration.conversations import ROOMY, SMALL, assistant, conversation, user
from tests.integration.driving import answered
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of, records, texts

NAME: Final = "garbled/session"
TALK: Final = conversation(2)[1:]
FIGURES: Final = (
    "revision", "version", "offset", "length", "bytes", "tombs", "lead", "cleared_bytes",
    "o200k_base.total", "o200k_base.counted", "cl100k_base.total",
)  # fmt: skip
DAY_MS: Final = 86_400_000


@pytest.mark.parametrize(
    ("figure", "value"),
    [
        ("schema", "garbage"),
        *((figure, value) for figure in FIGURES for value in ("garbage", "3.5", "inf", "0x10", "", b"\xff")),
    ],
)
def test_neither_a_push_nor_a_list_is_half_stored(
    figure: str, value: str, connect: Connect, settings: Settings, raw: Any
) -> None:
    connect(settings).session(NAME, ROOMY).prepare(TALK)
    keys = keys_of(settings, NAME)
    raw.hset(keys.state, figure, value)
    before = records(raw, settings, NAME), raw.hgetall(keys.state), raw.hgetall(keys.operations)
    with pytest.raises(SessionDamagedError):
        connect(settings).session(NAME, ROOMY).push(user("new"))
    assert (records(raw, settings, NAME), raw.hgetall(keys.state), raw.hgetall(keys.operations)) == before
    longer = [*TALK, user("And?")]
    context = connect(settings).session(NAME, ROOMY).prepare(longer)
    assert context.messages == longer
    assert texts(raw, settings, NAME)[-1] == b'{"role":"user","content":"And?"}'
    assert raw.lrange(keys.cleared, 0, -1) in ([], before[0])
    session = connect(settings).session(NAME, ROOMY)
    assert session.push(assistant("Yes.")).length == len(longer) + 1
    assert session.originals() == [*longer, assistant("Yes.")]


def test_a_repeat_whose_first_answer_was_garbled_is_told_so_and_stores_nothing(
    memory: Client, settings: Settings, raw: Any
) -> None:
    session = memory.session(NAME, ROOMY)
    assert isinstance(session.push(user("a"), idempotency_key="one"), Receipt)
    operations = keys_of(settings, NAME).operations
    raw.hset(operations, mapping=dict.fromkeys(raw.hkeys(operations), "x"))
    with pytest.raises(SessionDamagedError):
        session.push(user("a"), idempotency_key="one")
    assert len(records(raw, settings, NAME)) == 1


def test_a_lost_chain_hides_no_branch(connect: Connect, settings: Settings, raw: Any) -> None:
    chat = [user("hi"), assistant("hello"), user("and?")]
    connect(settings).session(NAME, ROOMY).prepare(chat)
    raw.hset(keys_of(settings, NAME).state, "chain", "")
    other = [user("hi"), assistant("something else"), user("and?")]
    session = connect(settings).session(NAME, ROOMY)
    assert session.prepare(other).messages == other
    assert session.originals() == other


def test_a_worker_begins_again_on_a_claim_from_before_the_clock_was_set_back(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session, state = memory.session(NAME, SMALL), keys_of(settings, NAME).state
    session.push(conversation(9))
    session.prepare()
    owner = worker.owner(NAME)
    assert worker.begin(NAME, owner).begun is Begun.RUNNING
    assert worker.begin(NAME, owner).begun is Begun.BUSY
    raw.hset(state, "until", int(time.time() * 1000) + 10 * DAY_MS)
    assert worker.work(NAME, owner=owner).outcome.outcome is Code.APPLIED


def test_new_attempts_take_away_a_claim_from_before_the_clock_was_set_back(
    memory: Client, store: StoreClient, settings: Settings, raw: Any
) -> None:
    keys = keys_of(settings, NAME)
    memory.session(NAME, SMALL).push(conversation(9))
    memory.session(NAME, SMALL).prepare()
    assert store.run(dead.revive(keys)) == "busy"
    raw.hset(keys.state, "until", int(time.time() * 1000) + 10 * DAY_MS)
    assert store.run(dead.revive(keys)) == "revived"


def test_a_damaged_entry_or_state_hides_no_dead_session(
    memory: Client, store: StoreClient, settings: Settings, raw: Any
) -> None:
    names = ("garbled/entry", "garbled/state", "garbled/sound")
    for name in names:
        memory.session(name, SMALL).push(user("hi"))
        raw.hset(keys_of(settings, name).state, mapping={"attempts": 3, "held": "dead", "error": ""})
        store.run(dead.add(settings.namespace, SessionId(name)))
    listing = dead.dead_key(settings.namespace)
    raw.hset(listing, mapping={"garbled/entry": b'{"since":"x"}', b"\xff\xfe": b"\xff"})
    raw.hset(keys_of(settings, "garbled/state").state, mapping={"attempts": b"\xff", "error": b"\xff"})
    listed = {each.session: each for each in answered(dead_sessions(settings.namespace, max_attempts=3), store)}
    assert set(listed) == set(names)
    assert (listed[SessionId("garbled/entry")].reason, listed[SessionId("garbled/entry")].since) == (
        dead.SESSION_DAMAGED,
        0.0,
    )
    assert (listed[SessionId("garbled/sound")].reason, listed[SessionId("garbled/sound")].attempts) == (
        dead.ATTEMPTS_USED_UP,
        3,
    )


def test_a_counter_that_cannot_be_read_hides_no_other(store: StoreClient, settings: Settings, raw: Any) -> None:
    store.run(add(settings.namespace, "evicted"))
    raw.hset(counters_key(settings.namespace), mapping={"other": "garbage", b"\xff": b"\xff"})
    assert store.run(read_counters(settings.namespace)) == {"evicted": 1}


def test_going_back_on_a_version_that_never_matches_says_what_to_do(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session(NAME, SMALL)
    session.push(conversation(9))
    session.prepare()
    assert worker.work(NAME).outcome.outcome is Code.APPLIED
    raw.hset(keys_of(settings, NAME).state, "version", "3.5")
    before = records(raw, settings, NAME)
    with pytest.raises(StoreUnavailableError, match=r"nothing was changed.*clear the session"):
        session.undo()
    with pytest.raises(SessionDamagedError, match="clear the session"):
        session.rewind("m4")
    assert records(raw, settings, NAME) == before


@pytest.mark.parametrize("wait", [None, "x", True, float("nan"), [1]])
def test_a_wait_that_is_no_number_of_seconds_is_refused_before_anything_is_stored(
    wait: Any, memory: Client, settings: Settings, raw: Any
) -> None:
    session = memory.session(NAME, SMALL)
    with pytest.raises(ConfigurationError, match="wait: expected a number of seconds"):
        session.prepare(TALK, wait=wait)
    with pytest.raises(ConfigurationError, match="wait: expected a number of seconds"):
        session.compact(wait)
    assert not raw.exists(keys_of(settings, NAME).state)
