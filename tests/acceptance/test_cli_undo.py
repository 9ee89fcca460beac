"""`compactor undo` brings originals back, `compactor erase` removes content for good."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
import redis

from compactor import Code, Compactor, Session
from tests.acceptance.cli_process import Ended, run
from tests.acceptance.conftest import Service
from tests.integration.conversations import SMALL, SYSTEM, conversation, step, user
from tests.integration.stored import keys_of

PUSHED = conversation(9)
_REDIS: Any = redis.Redis  # its own types are partially unknown


class Case:
    """A session of its own that was compacted, and the commands an operator types."""

    def __init__(self, service: Service) -> None:
        self.settings, self.memory = service.settings, service.memory
        self.name = f"undo/{uuid.uuid4().hex[:8]}"
        self.session: Session = self.memory.session(self.name, SMALL)
        self.session.push(PUSHED)
        self.first = self.compacted()

    def compacted(self) -> str:
        """The id of a compaction that was applied."""
        outcome = self.session.compact(wait=30)
        assert outcome.outcome is Code.APPLIED
        return outcome.id

    def again(self) -> str:
        """New content, and a second compaction."""
        self.session.push([message for order in range(20, 28) for message in step(order)])
        self.session.push(user("Go on."))
        # Without folds: one would take up what the first compaction replaced.
        self.session.prepare(keep_rows=True, wait=30, wait_for="swap")
        first, second = self.session.compactions()
        assert (first.id, first.outcome, second.outcome) == (self.first, Code.APPLIED, Code.APPLIED)
        return second.id

    def run(self, command: str, *arguments: str) -> Ended:
        env = {
            "REDIS_URL": self.settings.redis_url.get_secret_value(),
            "COMPACTOR_NAMESPACE": self.settings.namespace,
        }
        return run(command, *arguments, env=env)

    def live(self) -> list[Any]:
        """The messages as they stand, read by a process that holds nothing."""
        with Compactor(settings=self.settings) as fresh:
            return list(fresh.session(self.name, SMALL).prepare().messages)


@pytest.fixture
def case(modelless: Service) -> Case:
    return Case(modelless)


def replaced(case: Case) -> list[int]:
    return [row["position"] for row in case.run("show", case.name, "--json").rows if row["replaced"]]


def test_without_an_id_the_last_compaction_is_undone(case: Case) -> None:
    first = replaced(case)
    second = case.again()
    row = case.run("undo", case.name, "--json").row
    assert (row["outcome"], row["reason"]) == ("undone", second)
    assert replaced(case) == first
    assert row["after"] > row["before"]
    assert case.run("undo", case.name, "--json").row["reason"] == case.first
    assert replaced(case) == []


def test_the_beginning_of_an_id_is_enough(case: Case) -> None:
    case.again()
    ended = case.run("undo", case.name, case.first[:8])
    assert ended.code == 0, ended.err
    assert ended.out.startswith(f"undone {case.first}: ")
    rows: list[dict[str, Any]] = case.run("show", case.name, "--json").rows
    assert [row["message"] for row in rows[:11]] == PUSHED[:11]


def test_what_came_back_is_not_replaced_again(case: Case) -> None:
    before = replaced(case)
    case.run("undo", case.name)
    case.session.compact(wait=30)
    assert not set(before) & set(replaced(case))
    assert case.session.originals() == PUSHED


def test_an_id_that_is_none_or_several_changes_nothing(case: Case) -> None:
    before = replaced(case)
    unknown = case.run("undo", case.name, "zzzz")
    assert (unknown.code, unknown.out) == (2, "")
    assert "no applied one whose id begins so" in unknown.err
    empty = case.run("undo", case.name, "")
    assert empty.code == 2
    assert "give more of the id" in empty.err
    assert replaced(case) == before


def test_an_undone_compaction_cannot_be_undone_again(case: Case) -> None:
    assert case.run("undo", case.name).code == 0
    assert case.run("undo", case.name).code == 2
    assert case.session.originals() == PUSHED


def test_erase_asks_for_a_yes_and_does_nothing_without_one(case: Case) -> None:
    ended = case.run("erase", case.name)
    assert (ended.code, ended.out) == (2, "")
    assert "give --yes" in ended.err
    assert case.session.originals() == PUSHED


def test_erase_removes_the_content_and_counts_it(case: Case) -> None:
    archived = case.session.status().archived
    assert archived > 0
    row = case.run("erase", case.name, "--yes", "--json").row
    assert (row["messages"], row["archived"], row["cleared"]) == (len(PUSHED), archived, 0)
    assert row["audit"] == len(case.session.compactions()) == 1
    assert case.live() == []
    assert case.session.status().length == 0


def test_after_an_erase_no_byte_of_the_content_is_stored(case: Case) -> None:
    mark = f"mark-{uuid.uuid4().hex}"
    case.session.push(user(mark))
    assert mark in stored_text(case)
    case.session.clear()
    case.session.push([SYSTEM, user(f"{mark} again")])
    table = case.run("erase", case.name, "--yes")
    assert table.code == 0, table.err
    assert f"{case.name}: erased 2 messages, 0 archived originals" in table.out
    assert mark not in stored_text(case)


def stored_text(case: Case) -> str:
    """Every value of every key of the session, as far as it is text."""
    with _REDIS.from_url(case.settings.redis_url.get_secret_value()) as client:
        parts: list[bytes] = []
        for key in keys_of(case.settings, case.name).all:
            kind = client.type(key)
            parts += client.lrange(key, 0, -1) if kind == b"list" else []
            parts += [part for pair in client.hgetall(key).items() for part in pair] if kind == b"hash" else []
    return b"\n".join(parts).decode("latin-1")


@pytest.mark.parametrize("command", [("undo",), ("erase", "--yes")])
def test_an_unknown_session_is_an_error(case: Case, command: tuple[str, ...]) -> None:
    name, *options = command
    ended = case.run(name, "undo/never", *options)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("error session: not found.")
