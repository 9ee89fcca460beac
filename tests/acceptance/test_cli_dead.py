"""`compactor dead` and `compactor retry`: sessions that every worker fails at, found and brought back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from compactor import Code, Compactor, Session
from compactor.commands.dead import add
from compactor.effects import run as running
from compactor.embedded import EmbeddedServer, free_port
from compactor.models import session_id
from compactor.settings import Settings
from tests.acceptance.cli_process import Ended, run
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.conversations import SMALL, conversation

_REDIS: Any = redis.Redis
SECRET = "words-of-a-user-91"
BUG = """
import pathlib
from compactor import compaction
plan = compaction.plan
def broken(*args, **kwargs):
    if pathlib.Path({flag!r}).exists():
        raise ValueError({secret!r})
    return plan(*args, **kwargs)
compaction.plan = broken
"""


class Ward:
    """A namespace with a client, and the commands an operator types."""

    def __init__(self, settings: Settings, memory: Compactor, client: Any) -> None:
        self.settings, self.memory, self.client = settings, memory, client

    def session(self, name: str, *, attempts: int = 0) -> Session:
        """A session over its threshold; with `attempts` used up, every send finds it dead."""
        session = self.memory.session(name, SMALL)
        session.push(conversation(9))
        if attempts:
            self.set(name, attempts=attempts)
            assert session.prepare().verdict.compaction == "held(dead)"
        return session

    def set(self, name: str, **fields: Any) -> None:
        self.client.hset(f"{{{self.settings.namespace}:{name}}}:state", mapping=fields)

    def run(self, *command: str, **env: str) -> Ended:
        own = {
            "REDIS_URL": self.settings.redis_url.get_secret_value(),
            "COMPACTOR_NAMESPACE": self.settings.namespace,
            "COMPACTOR_MAX_ATTEMPTS": str(self.settings.max_attempts),
        }
        return run(*command, env=own | env)

    def dead(self) -> dict[str, dict[str, Any]]:
        return {row["session"]: row for row in self.run("dead", "--json").rows}


@pytest.fixture
def bug(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bug in the planning of every worker that starts from now on, for as long as this file exists."""
    flag = tmp_path / "bug"
    flag.touch()
    (tmp_path / "sitecustomize.py").write_text(BUG.format(flag=str(flag), secret=SECRET), encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return flag


@pytest.fixture
def ward(server: EmbeddedServer) -> Iterator[Ward]:
    settings = short_settings(server.url, f"dead-{uuid.uuid4().hex[:8]}")
    with Compactor(settings=settings) as memory, _REDIS.from_url(server.url) as client:
        yield Ward(settings, memory, client)


def test_a_session_that_crashes_every_attempt_is_listed_with_the_place_and_comes_back_when_mended(
    ward: Ward, tmp_path: Path, bug: Path
) -> None:
    with running_worker(ward.settings, tmp_path / "worker.log") as worker:
        session = ward.session("dead/poisoned")
        assert session.prepare().verdict.compaction == "queued"
        row = wait_until(lambda: _found_dead(ward, session), seconds=40, what="its death")
        assert row["reason"].startswith("ValueError at ")
        assert row["attempts"] == ward.settings.max_attempts
        assert "CompactionCrashed" in worker.tail(20_000)
        assert SECRET not in worker.tail(20_000)
        table = ward.run("dead").out
        assert "dead/poisoned" in table
        assert "1 dead" in table

        bug.unlink()
        assert ward.run("retry", "dead/poisoned", "--json").row["outcome"] in ("queued", "running", "applied")
        assert ward.dead() == {}
        last = wait_until(lambda: session.status().last, what="the outcome")
        assert last.outcome is Code.APPLIED
        assert session.status().attempts == 0


def _found_dead(ward: Ward, session: Session) -> dict[str, Any] | None:
    """The bot goes on: its sends queue the next attempt after each pause."""
    session.prepare()
    return ward.dead().get("dead/poisoned")


@pytest.mark.usefixtures("bug")
def test_a_crash_gives_the_claim_back_before_its_lease_ends(ward: Ward, tmp_path: Path) -> None:
    slow = ward.settings.model_copy(update={"claim_lease": 5.9})
    with running_worker(slow, tmp_path / "worker.log"):
        session = ward.session("dead/soon")
        session.prepare()
        held = wait_until(
            lambda: next(iter(ward.run("sessions", "--json", "--state", "held").rows), None), what="the hold"
        )
        assert held["reason"] == "crashed"


def test_a_worker_lists_a_session_that_killed_the_workers_before_it(ward: Ward, tmp_path: Path) -> None:
    session = ward.session("dead/killer")
    assert session.prepare().verdict.compaction == "queued"
    ward.set("dead/killer", attempts=ward.settings.max_attempts)  # its task was delivered as often, and none ended
    with running_worker(ward.settings, tmp_path / "worker.log"):
        row = wait_until(lambda: ward.dead().get("dead/killer"), what="its death")
    assert (row["reason"], row["attempts"]) == ("attempts_used_up", ward.settings.max_attempts)
    assert session.prepare().verdict.compaction == "held(dead)"


def test_a_session_with_a_part_missing_is_dead_until_its_caller_brings_the_list(ward: Ward, tmp_path: Path) -> None:
    session = ward.session("dead/evicted")
    assert session.prepare().verdict.compaction == "queued"
    ward.client.delete(f"{{{ward.settings.namespace}:dead/evicted}}:messages")
    with running_worker(ward.settings, tmp_path / "worker.log"):
        row = wait_until(lambda: ward.dead().get("dead/evicted"), what="its death")
        assert row["reason"] == "session_damaged"
        ended = ward.run("retry", "dead/evicted")
        assert ended.code == 2
        assert "its state and its messages disagree" in ended.err
        assert session.prepare(messages=conversation(9)).verdict.problems == ("evicted",)
        assert ward.dead() == {}
        assert session.originals() == conversation(9)[1:], "leading system text of a list is not stored"


def test_retry_all_brings_every_dead_session_back_and_leaves_the_living_alone(ward: Ward) -> None:
    for name in ("dead/a", "dead/b"):
        ward.session(name, attempts=9)
    living = ward.session("dead/living")
    _enter(ward, "dead/a", "dead/b", "dead/living")
    assert sorted(ward.dead()) == ["dead/a", "dead/b"]
    ended = ward.run("retry", "--all", "--json")
    assert sorted((row["session"], row["outcome"]) for row in ended.rows) == [
        ("dead/a", "queued"),
        ("dead/b", "queued"),
    ]
    assert living.status().claim == "idle"
    assert ward.dead() == {}
    assert ward.run("retry", "--all").out == "none is dead\n"


def _enter(ward: Ward, *names: str) -> None:
    for name in names:
        ward.memory.drive(running(add(ward.settings.namespace, session_id(name))))


def test_an_unknown_session_is_named_and_keeps_no_other_from_its_turn(ward: Ward) -> None:
    ward.session("dead/known", attempts=9)
    ended = ward.run("retry", "dead/never", "dead/known")
    assert ended.code == 2
    assert ended.err.startswith("error dead/never: session: not found.")
    assert ended.out == "dead/known: queued\n"


def test_a_session_that_no_send_judged_has_nothing_to_retry(ward: Ward) -> None:
    ward.session("dead/unjudged")
    ended = ward.run("retry", "dead/unjudged")
    assert ended.code == 2
    assert "no send of it was judged yet" in ended.err


@pytest.mark.parametrize("arguments", [(), ("dead/one", "--all")])
def test_retry_wants_ids_or_all(ward: Ward, arguments: tuple[str, ...]) -> None:
    ended = ward.run("retry", *arguments)
    assert ended.code == 2
    assert "expected ids of sessions, or --all alone" in ended.err


def test_a_broker_that_is_away_leaves_the_new_attempts(ward: Ward) -> None:
    session = ward.session("dead/offline", attempts=9)
    ended = ward.run("retry", "dead/offline", CELERY_BROKER_URL=f"redis://127.0.0.1:{free_port()}/0")
    assert ended.code == 2
    assert "broker: the task was not published" in ended.err
    status = session.status()
    assert (status.attempts, status.held) == (0, "broker_down")


def test_without_a_server_both_end_with_an_error() -> None:
    env = {"REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"}
    for command in (("dead",), ("retry", "--all"), ("retry", "dead/one")):
        ended = run(*command, env=env)
        assert ended.code == 2
        assert "redis: no answer" in ended.err
