"""Keys: shown once, stored as a hash, revoked within seconds, never written anywhere."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping
from typing import Any

import pytest

from compactor.commands.api_keys import new_key
from compactor.embedded import EmbeddedServer
from compactor.exceptions import ConfigurationError
from compactor.http.credentials import CACHE
from compactor.store import Store
from tests.acceptance.cli_process import run
from tests.acceptance.waiting import wait_until
from tests.http.routes import HELLO
from tests.http.service import CONFIG, Bot, Service


@pytest.fixture
def env(server: EmbeddedServer, service: Service) -> Mapping[str, str]:
    return {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": service.settings.namespace}


def test_a_key_is_made_listed_and_revoked_from_the_command_line(
    service: Service, env: Mapping[str, str], tenant: str
) -> None:
    made = run("keys", "create", tenant, "--user", "ann", "--name", "the bot", "--json", env=env).row
    bot = Bot(service.port, made["key"])
    bot.post("/v1/sessions/chat/messages", {"messages": HELLO, "config": CONFIG}).good()
    (row,) = run("keys", "list", "--tenant", tenant, "--json", env=env).rows
    assert (row["id"], row["user"], row["name"], row["state"]) == (made["id"], "ann", "the bot", "active")
    assert made["key"] not in json.dumps(row)

    assert run("keys", "revoke", made["id"], env=env).code == 0
    revoked = time.monotonic()
    wait_until(lambda: bot.get("/v1/sessions/chat").status == 401, what="the refusal")
    assert time.monotonic() - revoked < CACHE + 2
    assert run("keys", "list", "--tenant", tenant, "--json", env=env).row["state"] == "revoked"
    assert run("keys", "revoke", made["id"], env=env).code == 0
    unknown = run("keys", "revoke", "0" * 16, env=env)
    assert (unknown.code, "no such key" in unknown.err) == (2, True)


def test_only_a_hash_of_a_key_is_stored(service: Service, tenant: str) -> None:
    key = service.key(tenant)
    secret = key.split("_", 2)[2].encode()
    with Store(service.settings) as store:
        client: Any = store.client
        for name in client.scan_iter("*", 1_000):
            assert secret not in client.dump(name)


def test_no_log_line_holds_a_key_a_name_a_query_or_content(
    service: Service, bot: Bot, caplog: pytest.LogCaptureFixture, tenant: str
) -> None:
    assert bot.key is not None
    with caplog.at_level(logging.DEBUG):
        bot.post("/v1/sessions/private-name/messages?secret=query", {"messages": HELLO, "config": CONFIG}).good()
        bot.post("/v1/sessions/private-name/messages", {"messages": "private words", "config": CONFIG})
        bot.get("/v1/private-name?secret=query")
        bot.holding("private key").get("/v1/sessions/private-name")
        wait_until(lambda: caplog.text.count("compactor.http.access") >= 4, what="the log lines")
    # uvicorn's own access log is off in `compactor serve`, which another test looks at; caplog switches it on.
    told = [f"{each.name}: {each.getMessage()}" for each in caplog.records if each.name != "uvicorn.access"]
    lines = [each.partition(": ")[2] for each in told if each.startswith("compactor.http.access: ")]
    assert lines[0].startswith("POST /v1/sessions/{name}/messages 200 ")
    assert f"tenant {tenant}, key {bot.key.split('_')[1]}" in lines[0]
    for word in ("private", "query", "Bearer", bot.key.split("_", 2)[2], "hello"):
        assert word not in "\n".join(told)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("create", "a/b"), "tenant: expected"), (("revoke", "cptr_whole_key"), "key id: expected")],
)
def test_wrong_arguments_are_told(env: Mapping[str, str], arguments: tuple[str, ...], said: str) -> None:
    ended = run("keys", *arguments, env=env)
    assert ended.code == 2
    assert said in ended.err
    assert ended.out == ""


@pytest.mark.parametrize(
    ("tenant", "user", "name", "said"),
    [
        ("", None, "", "tenant"),
        ("x" * 50, None, "", "tenant"),
        ("acme\n", None, "", "tenant"),
        ("acme", "a b", "", "user"),
        ("acme", "", "", "user"),
        ("acme", None, "\x1b[31m", "name"),
    ],
)
def test_what_a_key_cannot_be_bound_to_is_told(tenant: str, user: str | None, name: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{said}: expected"):
        new_key(tenant, user=user, name=name, now=0.0)


def test_the_longest_tenant_and_name_make_a_session(service: Service) -> None:
    bot = service.bot("t" * 49)
    path = f"/v1/sessions/{'n' * 150}/messages"
    assert bot.post(path, {"messages": HELLO, "config": CONFIG}).good()["length"] == 1


def test_a_key_opens_only_itself() -> None:
    key, stored = new_key("acme", now=0.0, expires=10.0)
    other, _ = new_key("acme", now=0.0)
    assert stored.opens(key, 9.0)
    assert not stored.opens(key, 10.0)
    assert not stored.opens(other, 9.0)
    assert key not in repr(stored)
    with pytest.raises(ConfigurationError, match="no slash"):
        new_key("acme/x", now=0.0)
