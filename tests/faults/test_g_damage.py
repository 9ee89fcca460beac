"""Section G, 6 and 12: records that cannot be read, and sessions of which a part is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from compactor import Code, Compactor, CompactorError, ModelConfig, Session, SessionDamagedError
from compactor.commands.command import SessionKeys
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings, read_settings
from compactor.validity import faults
from tests.integration.conversations import SMALL, assistant, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import bare, keys_of, records
from tests.unit.chat import Chat

WIDE: Final = ModelConfig("gpt-4o", 2_000)
HEAD: Final = 51  # bytes before the JSON of a record


def cut(row: bytes) -> bytes:
    return row[: HEAD + 14]


def foreign(_row: bytes) -> bytes:
    return b'{"role":"us'


def newer(row: bytes) -> bytes:
    return bytes([row[0] + 1]) + row[1:]


def another_kind(row: bytes) -> bytes:
    return row[:2] + bytes([200]) + row[3:]


def no_object(row: bytes) -> bytes:
    return row[:HEAD] + b"[1, 2]"


def not_utf8(row: bytes) -> bytes:
    return row[:HEAD] + b'{"role":"user","content":"\xff\xfe"}'


def empty(_row: bytes) -> bytes:
    return b""


DAMAGE: Final = {
    "cut": cut,
    "foreign": foreign,
    "of a newer release": newer,
    "of an unknown kind": another_kind,
    "no object": no_object,
    "not UTF-8": not_utf8,
    "empty": empty,
}
damages: Final = pytest.mark.parametrize("damage", [pytest.param(each, id=name) for name, each in DAMAGE.items()])


def spoil(raw: Any, settings: Settings, name: str, position: int, damage: Any) -> bytes:
    """Damages one stored record; what stands there now."""
    spoilt: bytes = damage(records(raw, settings, name)[position])
    raw.lset(keys_of(settings, name).messages, position, spoilt)
    return spoilt


@damages
def test_g06_one_damaged_record_costs_that_record(damage: Any, memory: Compactor, settings: Settings, raw: Any) -> None:
    chat = [user("a"), assistant("b"), user("c")]
    memory.session("g06", WIDE).push(chat)
    spoilt = spoil(raw, settings, "g06", 1, damage)
    with Compactor(settings=settings) as another:
        session = another.session("g06", WIDE)
        context = session.prepare()
        assert context.messages == [chat[0], chat[2]]
        assert "corrupt_record@m1" in context.verdict.problems
        assert session.push(user("d")).length == 4
        assert session.prepare().messages == [chat[0], chat[2], user("d")]
        with pytest.raises(SessionDamagedError, match="stored record"):
            session.originals()
    assert records(raw, settings, "g06")[1] == spoilt, "it stays stored, for a release that can read it"


@damages
@pytest.mark.parametrize("position", [0, 4, 5, 20], ids=["system", "call", "result", "answer"])
def test_g06_a_damaged_session_is_compacted_without_touching_the_damage(
    position: int, damage: Any, memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    memory.session("g06/work", SMALL).push(conversation(9))
    before = records(raw, settings, "g06/work")
    spoilt = spoil(raw, settings, "g06/work", position, damage)
    with Compactor(settings=settings) as another:
        session = another.session("g06/work", SMALL)
        assert session.prepare().verdict.compaction == "queued"
        outcome = worker.work("g06/work").outcome
        assert outcome.outcome is Code.APPLIED
        context = session.prepare()
        assert f"corrupt_record@m{position}" in context.verdict.problems
        assert not faults(context.messages)
        assert context.messages
        after = records(raw, settings, "g06/work")
        changed = {i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new}
        assert changed == {*outcome.positions, position}
        assert after[position] == spoilt
        assert [session.recall(f"m{p}") for p in outcome.positions] == [conversation(9)[p] for p in outcome.positions]


@damages
def test_g06_the_callers_own_list_still_gets_an_answer(
    damage: Any, memory: Compactor, settings: Settings, raw: Any
) -> None:
    chat = conversation(4)[1:]
    memory.session("g06/list", WIDE).prepare(chat)
    spoilt = spoil(raw, settings, "g06/list", 3, damage)
    with Compactor(settings=settings) as another:
        session = another.session("g06/list", WIDE)
        assert session.prepare(chat).messages == chat
        longer: list[Chat] = [*chat, user("and?")]
        assert session.prepare(longer).messages == longer
    rows = records(raw, settings, "g06/list")
    assert rows[3] == spoilt
    assert len(rows) == len(longer)


ROWS: Final[dict[str, Callable[[Any, SessionKeys], object]]] = {
    "a row of the audit": lambda raw, keys: raw.lset(keys.audit, 0, b'{"outc'),
    "a row that is no outcome": lambda raw, keys: raw.lset(keys.audit, 0, b"[1]"),
    "an archived original": lambda raw, keys: raw.hset(keys.archive, "3", b"garbage"),
    "the last outcome": lambda raw, keys: raw.hset(keys.state, "last", b'{"x'),
    "what the last send was judged by": lambda raw, keys: raw.hset(keys.state, "judged", b'{"x'),
    "the log of changes": lambda raw, keys: raw.lset(keys.changes, 0, b"\xff\xfe"),
    "the operations": lambda raw, keys: raw.hset(
        keys.operations, mapping=dict.fromkeys(raw.hkeys(keys.operations), "x")
    ),
}
FIELDS: Final = ("length", "revision", "o200k_base.total")


def answers(session: Session) -> dict[str, str]:
    """What each reading call of a bot or an operator ends in: an answer, or the name of an error of ours."""
    calls: dict[str, Callable[[], object]] = {
        "prepare": session.prepare, "estimate": session.estimate, "status": session.status,
        "compactions": session.compactions, "originals": session.originals, "recall": lambda: session.recall("m3"),
        "compact": session.compact, "push": lambda: session.push(user("on")), "undo": session.undo,
    }  # fmt: skip
    ended: dict[str, str] = {}
    for name, call in calls.items():
        try:
            call()
        except CompactorError as error:
            ended[name] = type(error).__name__
        else:
            ended[name] = "answered"
    return ended


def compacted(memory: Compactor, worker: InlineWorker, name: str) -> None:
    """A session of which some results are replaced."""
    session = memory.session(name, SMALL)
    session.push(conversation(9))
    session.prepare()
    assert worker.work(name).outcome.outcome is Code.APPLIED


@pytest.mark.parametrize("damage", ROWS.values(), ids=ROWS.keys())
def test_g06_damage_beside_the_messages_stops_no_send(
    damage: Any, memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    compacted(memory, worker, "g06/beside")
    damage(raw, keys_of(settings, "g06/beside"))
    with Compactor(settings=settings) as another:
        ended = answers(another.session("g06/beside", SMALL))
    sending = {ended[name] for name in ("prepare", "estimate", "status", "compactions", "push", "compact")}
    assert sending == {"answered"}
    assert set(ended.values()) <= {"answered", "SessionDamagedError", "CompactionNotFoundError"}


@pytest.mark.parametrize("field", FIELDS)
def test_g06_a_damaged_state_ends_in_errors_of_ours(
    field: str, memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    compacted(memory, worker, "g06/state")
    raw.hset(keys_of(settings, "g06/state").state, field, "abc")
    with Compactor(settings=settings) as another:
        assert set(answers(another.session("g06/state", SMALL)).values()) > {"answered"}


PARTS: Final = ("state", "messages")


@pytest.mark.parametrize("part", PARTS)
def test_g12_a_half_evicted_session_is_named_and_healed_by_the_callers_list(
    part: str, memory: Compactor, settings: Settings, raw: Any
) -> None:
    chat = conversation(5)[1:]
    memory.session("g12", WIDE).prepare(chat)
    raw.unlink(getattr(keys_of(settings, "g12"), part))
    with Compactor(settings=settings) as another:
        session = another.session("g12", WIDE)
        with pytest.raises(SessionDamagedError):
            session.prepare()
        with pytest.raises(SessionDamagedError):
            session.push(user("never half stored"))
        longer: list[Chat] = [*chat, user("and?")]
        context = session.prepare(longer)
        assert context.messages == longer
        assert "evicted" in context.verdict.problems
        assert session.prepare(longer).verdict.problems == ()
        assert session.originals() == longer


def test_g12_an_evicting_server_under_pressure_never_gives_a_part_for_the_whole(own_server: EmbeddedServer) -> None:
    settings = read_settings(redis_url=own_server.url, namespace="own")
    with Compactor(settings=settings) as memory, bare(own_server) as server:
        lists = {f"g12/{n}": [user(f"{n} {'x' * 4_000}"), *conversation(3)[1:]] for n in range(12)}
        for name, chat in lists.items():
            memory.session(name, WIDE).push(chat)
        server.config_set("maxmemory-policy", "volatile-random")
        server.config_set("maxmemory", str(int(server.info("memory")["used_memory"] * 0.97)))
        for order in range(60):
            server.set(f"other:{order}", "x" * 2_000, ex=600)
        server.config_set("maxmemory", "0")
        seen = [outcome(settings, name, chat) for name, chat in lists.items()]
    assert set(seen) <= {"whole", "gone", "damaged"}
    assert "whole" in seen or "gone" in seen


def outcome(settings: Settings, name: str, chat: list[Chat]) -> str:
    """What a fresh process gets of a session."""
    with Compactor(settings=settings) as memory:
        try:
            messages = memory.session(name, WIDE).prepare().messages
        except SessionDamagedError:
            return "damaged"
    return "gone" if not messages else "whole" if messages == chat else "a part"
