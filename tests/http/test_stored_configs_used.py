"""Sessions judged by stored configs: named per call, or bound; a change takes effect on the next call."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.commands.configs import config_keys
from compactor.store import Store
from tests.http.routes import HELLO
from tests.http.service import CONFIG, Bot, Service

PLACE = "/v3/users/ann/llm-model-configs"
FIELDS: dict[str, Any] = {"name": "main", "provider": "openai", "model": "gpt-4o", "context_limit": 128}


def limit(bot: Bot, body: dict[str, Any]) -> int:
    return int(bot.post("/v1/sessions/chat/prepare", body).good()["verdict"]["limit"])


def test_a_bound_session_follows_its_config(bot: Bot) -> None:
    made = bot.post(PLACE, FIELDS).good(201)
    assert limit(bot, {"config_id": made["id"]}) == 128_000
    bot.post("/v1/sessions/chat/prepare", {}).problem(422, "config_missing")
    assert bot.call("PUT", "/v1/sessions/chat/config", {"config_id": made["id"]}).good()["id"] == made["id"]
    assert limit(bot, {}) == 128_000
    change = {"context_limit": 16, "context_strategy": "conservative", "expected_version": made["version"]}
    changed = bot.call("PATCH", f"{PLACE}/{made['id']}", change).good()
    verdict = bot.post("/v1/sessions/chat/prepare", {}).good()["verdict"]
    assert (verdict["limit"], verdict["threshold"]) == (16_000, 9_600)
    assert limit(bot, {"config": CONFIG}) == 8_000
    assert bot.get("/v1/sessions/chat/config").good()["context_limit"] == 16
    bot.call("DELETE", f"{PLACE}/{made['id']}", {"expected_version": changed["version"]})
    bot.post("/v1/sessions/chat/prepare", {}).problem(409, "config_deleted")
    assert bot.call("DELETE", "/v1/sessions/chat/config").status == 204
    bot.get("/v1/sessions/chat/config").problem(404, "not_found")
    bot.post("/v1/sessions/chat/prepare", {}).problem(422, "config_missing")


def test_rules_of_a_config_are_stored_checked_and_asked(bot: Bot) -> None:
    rules = [{"tool": "read_*", "arguments": {"path": "*.md"}, "never": True}, {"tool": "*", "keep_last": 2}]
    made = bot.post(PLACE, {**FIELDS, "rules": rules}).good(201)
    assert made["rules"] == rules
    assert bot.get(f"{PLACE}/{made['id']}").good()["rules"] == rules
    change = {"rules": [{"tool": "x", "nevr": True}], "expected_version": made["version"]}
    told = bot.call("PATCH", f"{PLACE}/{made['id']}", change).problem(422, "invalid_config")
    assert [(error["field"], error["expected"][:21]) for error in told["errors"]] == [
        ("rules", "[0].nevr: is no field")
    ]
    cleared = bot.call("PATCH", f"{PLACE}/{made['id']}", {**change, "rules": None}).good()
    assert cleared["rules"] == []
    assert limit(bot, {"config": {**CONFIG, "rules": rules}}) == 8_000
    wrong = {"config": {**CONFIG, "rules": [{"tool": "x"}]}}
    detail = bot.post("/v1/sessions/chat/prepare", wrong).problem(422, "invalid_request")["detail"]
    assert "rules[0].says nothing" in detail


def test_every_call_of_a_bound_session_goes_without_a_config(bot: Bot) -> None:
    made = bot.post(PLACE, FIELDS).good(201)
    bot.call("PUT", "/v1/sessions/chat/config", {"config_id": made["id"]}).good()
    assert bot.post("/v1/sessions/chat/messages", {"messages": HELLO}).good()["length"] == 1
    assert bot.post("/v1/sessions/chat/sync", {"messages": [HELLO]}).good()["length"] == 1
    assert bot.post("/v1/sessions/chat/estimate", {}).good()["limit"] == 128_000
    assert bot.post("/v1/sessions/chat/compact").good()["outcome"] == "below_threshold"


def test_an_erased_session_is_bound_to_nothing(bot: Bot) -> None:
    made = bot.post(PLACE, FIELDS).good(201)
    bot.call("PUT", "/v1/sessions/chat/config", {"config_id": made["id"]}).good()
    bot.post("/v1/sessions/chat/messages", {"messages": HELLO}).good()
    bot.call("DELETE", "/v1/sessions/chat").good()
    bot.get("/v1/sessions/chat/config").problem(404, "not_found")
    bot.post("/v1/sessions/chat/prepare", {}).problem(422, "config_missing")


def test_going_back_needs_no_config_that_still_exists(bot: Bot) -> None:
    made = bot.post(PLACE, FIELDS).good(201)
    bot.call("PUT", "/v1/sessions/chat/config", {"config_id": made["id"]}).good()
    bot.post("/v1/sessions/chat/messages", {"messages": [HELLO, HELLO]}).good()
    bot.call("DELETE", f"{PLACE}/{made['id']}", {"expected_version": 1})
    base = "/v1/sessions/chat"
    bot.post(f"{base}/prepare", {}).problem(409, "config_deleted")
    bot.post(f"{base}/undo").problem(404, "compaction_not_found")
    assert bot.post(f"{base}/release", {"what": ["m0"]}).good() == {"released": 0}
    assert bot.post(f"{base}/fork", {"new_name": "copy"}).good(201) == {"name": "copy"}
    assert bot.post(f"{base}/close-open-calls").good()["length"] == 2
    assert bot.post(f"{base}/rewind", {"position": 0}).good() == {"left": 1}
    bot.post(f"{base}/rewind", {"position": 0, "config_id": made["id"]}).problem(404, "not_found")


def test_a_config_that_cannot_be_read_binds_nothing(bot: Bot, service: Service, tenant: str) -> None:
    made = bot.post(PLACE, FIELDS).good(201)
    with Store(service.settings) as store:
        store.client.hset(config_keys(service.settings.namespace, tenant, "ann").records, made["id"], b"broken")
    told = bot.call("PUT", "/v1/sessions/chat/config", {"config_id": made["id"]}).problem(409, "config_damaged")
    assert made["id"] in told["detail"]
    bot.get("/v1/sessions/chat/config").problem(404, "not_found")


@pytest.mark.parametrize(
    "address",
    ["https://[::1]elsewhere.example/", "https://a;elsewhere.example", "https://a,b", "https://a%2eb", "https://a:/v1"],
)
def test_an_address_that_clients_read_differently_is_refused(bot: Bot, address: str) -> None:
    told = bot.post(PLACE, FIELDS | {"base_url": address}).problem(422, "invalid_config")
    assert told["errors"][0]["field"] == "base_url"
