"""`compactor sessions` lists what lives, however much of it there is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from compactor import Compactor, ModelConfig
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from tests.acceptance.cli_process import Ended, run
from tests.integration.conversations import SMALL, conversation, user

MANY = 100_000
LATER = "99999999999999"  # ms since the epoch
_REDIS: Any = redis.Redis


@pytest.fixture
def memory(settings: Settings) -> Iterator[Compactor]:
    with Compactor(settings=settings) as opened:
        yield opened


def listed(settings: Settings, *options: str) -> Ended:
    env = {"REDIS_URL": settings.redis_url.get_secret_value(), "COMPACTOR_NAMESPACE": settings.namespace}
    return run("sessions", *options, env=env)


def ids(settings: Settings, *options: str) -> list[str]:
    return sorted(row["session"] for row in listed(settings, "--json", *options).rows)


def test_a_row_tells_how_full_a_session_is_and_who_works_on_it(memory: Compactor, settings: Settings) -> None:
    session = memory.session("shop/chat", SMALL)
    session.push(conversation(9))
    verdict = session.prepare(tools=[{"type": "function", "function": {"name": "grep"}}]).verdict
    assert verdict.compaction == "queued"
    (row,) = listed(settings, "--json").rows
    status = session.status()
    assert (row["session"], row["state"], row["reason"]) == ("shop/chat", "queued", "")
    assert (row["messages"], row["tokens"]) == (len(conversation(9)), status.totals["o200k_base"])
    assert row["percent"] == verdict.percent
    assert row["stored_bytes"] == status.stored_bytes
    assert 0 < row["expires_in"] <= settings.session_ttl


def test_a_session_that_no_send_judged_has_no_percentage(memory: Compactor, settings: Settings) -> None:
    memory.session("shop/new", ModelConfig("gpt-4", 8)).push(user("hi"))
    (row,) = listed(settings, "--json").rows
    assert (row["state"], row["percent"], row["messages"]) == ("idle", None, 1)
    assert row["tokens"] > 0
    table = listed(settings)
    assert table.out.splitlines()[1].split()[:4] == ["shop/new", "1", str(row["tokens"]), "?"]
    assert table.err == "1 sessions\n"


STANDING: dict[str, tuple[dict[str, str], str, str]] = {
    "shop/due": ({"claim": "idle"}, "due", ""),
    "shop/running": ({"claim": "running", "until": LATER}, "running", ""),
    "shop/lease-over": ({"claim": "running", "until": "1"}, "due", ""),
    "shop/paused": ({"held": "summarizer_failed", "not_before": LATER}, "held", "summarizer_failed"),
    "shop/pause-over": ({"held": "summarizer_failed", "not_before": "1"}, "due", ""),
    "shop/no-gain": ({"held": "no_gain", "rearm": "900000"}, "held", "no_gain"),
    "shop/used-up": ({"attempts": "3"}, "dead", "attempts_used_up"),
    "shop/crashed": ({"held": "dead", "error": "KeyError at view.py:8"}, "dead", "KeyError at view.py:8"),
    "shop/damaged": ({"held": "damaged"}, "dead", "damaged"),
    "shop/unreadable": ({"judged": "{"}, "unreadable", ""),
}


def test_the_state_is_what_the_next_send_would_meet(
    memory: Compactor, settings: Settings, server: EmbeddedServer
) -> None:
    with _REDIS.from_url(server.url) as client:
        for name, (fields, _, _) in STANDING.items():
            session = memory.session(name, SMALL)
            session.push(conversation(9))
            session.prepare()
            client.hset(f"{{{settings.namespace}:{name}}}:state", mapping={"claim": "idle", **fields})
    seen = {row["session"]: (row["state"], row["reason"]) for row in listed(settings, "--json").rows}
    assert seen == {name: (state, reason) for name, (_, state, reason) in STANDING.items()}
    for state in ("due", "held", "dead", "queued"):
        assert ids(settings, "--state", state) == sorted(name for name, each in STANDING.items() if each[1] == state)


def test_a_tenant_is_what_stands_before_the_first_slash(memory: Compactor, settings: Settings) -> None:
    names = ["a/1", "a/b/2", "a:b/3", "a@b/4", "ab/5", "plain", "default/6", "a"]
    for name in names:
        memory.session(name, SMALL).push(user("hi"))
    assert ids(settings) == sorted(names)
    assert ids(settings, "--tenant", "a") == ["a/1", "a/b/2"]
    assert ids(settings, "--tenant", "a:b") == ["a:b/3"]
    assert ids(settings, "--tenant", "a@b") == ["a@b/4"]
    assert ids(settings, "--tenant", "default") == ["a", "default/6", "plain"]
    assert ids(settings, "--tenant", "b") == []
    assert ids(settings, "--tenant", "*") == []
    assert len(listed(settings, "--json", "--limit", "3").rows) == 3


def test_a_word_that_is_no_state_is_an_error(settings: Settings) -> None:
    ended = listed(settings, "--state", "asleep")
    assert (ended.code, ended.out) == (2, "")
    assert "--state: expected one of idle, due, queued" in ended.err


def test_a_hundred_thousand_sessions_are_listed_once_each_page_by_page(
    own_server: EmbeddedServer,
) -> None:
    with _REDIS.from_url(own_server.url) as client:
        _fill(client)
        client.config_resetstat()
        ended = run("sessions", "--json", env={"REDIS_URL": own_server.url})
        stats: dict[str, Any] = client.info("commandstats")
    assert ended.code == 0
    assert len({json.loads(line)["session"] for line in ended.out.splitlines()}) == len(ended.out.splitlines()) == MANY
    assert "cmdstat_keys" not in stats
    assert stats["cmdstat_scan"]["calls"] >= MANY / 2_000, "no command looks at more than a page"


def _fill(client: Any) -> None:
    state = {"revision": 1, "length": 3, "bytes": 100, "o200k_base.total": 50, "o200k_base.counted": 3}
    with client.pipeline(transaction=False) as pipeline:
        for number in range(MANY):
            pipeline.hset(f"{{compactor:many/{number}}}:state", mapping=state)
            if number % 5_000 == 4_999:
                pipeline.execute()
