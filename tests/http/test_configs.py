"""The config API over HTTP: the document's request and error, guarded changes, masked keys, bound sessions."""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from compactor.config_store import ConfigStore
from compactor.embedded import EmbeddedServer
from compactor.secret_box import new_key
from compactor.settings import read_settings
from compactor.store import Store
from tests.http.service import Answer, Bot, Service, serving

SECRET = "sk-live-Zq8vT3nB6mK1xR5w"
GPT: dict[str, Any] = {
    "name": "GPT-4o Configuration",
    "model_type": "text",
    "is_default": True,
    "provider": "openai",
    "base_url": "https://api.openai.com/v1",
    "model": "gpt-4o",
    "temperature": 0.7,
    "api_key": SECRET,
    "context_limit": 128,
    "context_strategy": "balanced",
}
OTHER: dict[str, Any] = {"name": "other", "provider": "local", "model": "gpt-4o-mini", "context_limit": 32}
PATH = "/v3/users/u1/llm-model-configs"
WORDS = "word " * 1_000


@pytest.fixture(scope="module")
def service(server: EmbeddedServer) -> Iterator[Service]:
    """A service with a keyring."""
    namespace = f"h{uuid.uuid4().hex[:12]}"
    with serving(read_settings(redis_url=server.url, namespace=namespace, config_keys=new_key())) as running:
        yield running


@pytest.fixture(scope="module")
def raw(service: Service) -> Iterator[Any]:
    with Store(service.settings) as store:
        yield store.client


def made(bot: Bot, values: dict[str, Any] = GPT) -> dict[str, Any]:
    """A new config as it was answered."""
    stored: dict[str, Any] = bot.post(PATH, values).good(201)
    return stored


def at(config: dict[str, Any]) -> str:
    return f"{PATH}/{config['id']}"


def change(bot: Bot, method: str, config: dict[str, Any], body: Any, **headers: str) -> Answer:
    return bot.call(method, at(config), body, headers={name.replace("_", "-"): text for name, text in headers.items()})


def test_the_documents_request_is_created_and_answered_with_the_key_masked(bot: Bot) -> None:
    answer = bot.post(PATH, GPT)
    stored = answer.good(201)
    assert {name: stored[name] for name in GPT} == GPT | {"api_key": "sk-…xR5w"}
    assert answer.headers["location"] == at(stored)
    assert (answer.headers["etag"], stored["version"], stored["user_id"]) == ('"1"', 1, "u1")
    assert re.fullmatch(r"cfg_[0-9a-f]{32}", stored["id"])
    assert datetime.fromisoformat(stored["created_at"]).tzinfo is not None
    assert bot.get(answer.headers["location"]).good() == stored
    assert bot.get(PATH).good() == {"configs": [stored], "default_config_id": stored["id"]}


def test_without_context_limit_the_detail_is_the_documents(bot: Bot) -> None:
    answer = bot.post(PATH, {"name": "Invalid Config", "provider": "openai", "model": "gpt-4o"})
    assert answer.problem(422, "invalid_config")["detail"] == (
        "context_limit is required (unit: K tokens, e.g., 128 = 128K = 128,000 tokens). Please check your model "
        "provider's documentation for the current context window size and specify it in the configuration."
    )
    assert bot.get(PATH).good()["configs"] == []


def test_every_wrong_field_is_named_with_what_was_expected_and_nothing_is_stored(bot: Bot) -> None:
    wrong = GPT | {
        "temprature": 1,
        "temperature": 3,
        "base_url": f"https://me:{SECRET}@host/",
        "context_limit": 128_000,
    }
    answer = bot.post(PATH, wrong)
    told = answer.problem(422, "invalid_config")
    assert {each["field"] for each in told["errors"]} == {"temprature", "temperature", "base_url", "context_limit"}
    assert "did you mean temperature" in told["detail"]
    assert SECRET.encode() not in answer.body
    assert bot.get(PATH).good()["configs"] == []


@pytest.mark.parametrize("limit", [1, 17, 128, 200, 1000, 2800, "128K"])
def test_the_documents_limits_are_stored(bot: Bot, limit: Any) -> None:
    assert made(bot, OTHER | {"context_limit": limit})["context_limit"] == int(str(limit).removesuffix("K"))


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "abc", "", 128_000])
def test_a_limit_that_is_none_says_the_unit_and_an_example(bot: Bot, limit: Any) -> None:
    told = bot.post(PATH, OTHER | {"context_limit": limit}).problem(422, "invalid_config")
    assert "K tokens" in told["detail"]
    assert "128" in told["detail"]


def test_a_change_needs_a_version_in_the_header_or_the_body(bot: Bot) -> None:
    config = made(bot)
    for method, body in (("PUT", GPT), ("PATCH", {"name": "x"}), ("DELETE", None)):
        told = change(bot, method, config, body).problem(428, "version_required")
        assert "If-Match" in told["detail"]
    assert change(bot, "PATCH", config, {"name": "by header"}, If_Match='"1"').headers["etag"] == '"2"'
    assert change(bot, "PATCH", config, {"name": "by body", "expected_version": 2}).good()["version"] == 3
    both = {"name": "by both", "expected_version": 3}
    assert change(bot, "PUT", config, GPT | both, If_Match='"3"').good()["version"] == 4
    assert change(bot, "DELETE", config, None, If_Match='"4"').status == 204
    bot.get(at(config)).problem(404, "not_found")


def test_a_stale_version_is_told_with_the_current_one(bot: Bot) -> None:
    config = made(bot)
    change(bot, "PATCH", config, {"context_limit": 64}, If_Match='"1"').good()
    for method, body in (("PUT", GPT), ("PATCH", {"name": "x"}), ("DELETE", None)):
        told = change(bot, method, config, body, If_Match='"1"').problem(412, "config_changed")
        assert told["current_version"] == 2
        told = change(bot, method, config, {**(body or {}), "expected_version": 1}).problem(409, "config_changed")
        assert told["current_version"] == 2
    assert bot.get(at(config)).good()["context_limit"] == 64


@pytest.mark.parametrize("header", ["1", "*", 'W/"1"', '"1", "2"', '"0"', '"x"', '"1', '"' + "9" * 40 + '"', '"١"'])
def test_an_if_match_that_names_no_version_is_refused(bot: Bot, header: str) -> None:
    config = made(bot)
    answer = bot.call("PATCH", at(config), {"name": "x"}, headers={"If-Match": header.encode().decode("latin-1")})
    answer.problem(400, "bad_if_match")
    assert bot.get(at(config)).good()["name"] == GPT["name"]


@pytest.mark.parametrize("version", [0, -1, "1", 1.5, True, None, [], 2])
def test_a_version_in_the_body_that_is_none_or_differs_from_the_header_is_refused(bot: Bot, version: Any) -> None:
    config = made(bot)
    body = {"name": "x", "expected_version": version}
    change(bot, "PATCH", config, body, If_Match='"1"').problem(422, "invalid_request")


def test_a_merge_patch_has_its_own_media_type_too(bot: Bot) -> None:
    config = made(bot)
    sent = {"If-Match": '"1"', "Content-Type": "application/merge-patch+json; charset=utf-8"}
    raw = json.dumps({"temperature": None, "context_limit": "64K"}).encode()
    changed = bot.call("PATCH", at(config), raw=raw, headers=sent).good()
    assert (changed["temperature"], changed["context_limit"], changed["api_key"]) == (None, 64, "sk-…xR5w")
    bot.call("PUT", at(config), raw=raw, headers=sent).problem(415, "unsupported_media_type")
    bot.call("PATCH", at(config), raw=raw, headers=sent | {"Content-Type": "text/plain"}).problem(
        415, "unsupported_media_type"
    )


def test_putting_back_what_was_read_says_which_fields_to_leave_out(bot: Bot) -> None:
    config = made(bot)
    told = change(bot, "PUT", config, config, If_Match='"1"').problem(422, "invalid_config")
    named = {each["field"] for each in told["errors"]}
    assert named == {"id", "user_id", "version", "created_at", "updated_at", "api_key"}
    back = {name: value for name, value in config.items() if name not in named}
    assert change(bot, "PUT", config, back, If_Match='"1"').good()["api_key"] == "sk-…xR5w"


def test_the_key_does_not_follow_the_address_to_another_server(bot: Bot) -> None:
    config = made(bot)
    away = {"base_url": "https://elsewhere.example"}
    told = change(bot, "PATCH", config, away, If_Match='"1"').problem(422, "invalid_config")
    assert told["errors"][0]["field"] == "api_key"
    change(bot, "PATCH", config, away | {"api_key": None}, If_Match='"1"').good()


def test_one_config_of_a_user_is_the_default(bot: Bot) -> None:
    first, second = made(bot), made(bot)
    assert bot.get(PATH).good()["default_config_id"] == second["id"]
    assert bot.get(at(first)).good()["is_default"] is False
    change(bot, "PATCH", first, {"is_default": True}, If_Match='"2"').good()
    assert bot.get(PATH).good()["default_config_id"] == first["id"]
    change(bot, "DELETE", first, None, If_Match='"3"')
    assert bot.get(PATH).good()["default_config_id"] is None


def test_a_key_of_one_user_sees_that_users_path_only(service: Service, tenant: str) -> None:
    whole, mine, theirs = service.bot(tenant), service.bot(tenant, "u1"), service.bot(tenant, "u2")
    config = made(mine)
    assert whole.get(at(config)).good() == mine.get(at(config)).good() == config
    nothing = mine.get(f"{PATH}/cfg_{'0' * 32}")
    nothing.problem(404, "not_found")
    tries = [
        theirs.get(PATH), theirs.get(at(config)), theirs.post(PATH, GPT),
        theirs.get(f"/v3/users/u2/llm-model-configs/{config['id']}"),
        service.bot(f"{tenant}-x", "u1").get(at(config)), service.bot(f"{tenant}-x").get(at(config)),
        *(change(theirs, method, config, GPT, If_Match='"1"') for method in ("PUT", "PATCH")),
        change(theirs, "DELETE", config, None, If_Match='"1"'),
        theirs.call("PUT", "/v1/sessions/chat/config", {"config_id": config["id"]}),
        theirs.call("PUT", "/v1/sessions/chat/config", {"config_id": config["id"], "user_id": "u1"}),
    ]  # fmt: skip
    assert {(each.status, each.body) for each in tries} == {(404, nothing.body)}
    assert mine.get(PATH).good()["configs"] == [config]


def test_what_a_session_of_another_user_is_bound_to_is_not_shown(service: Service, tenant: str) -> None:
    mine, theirs = service.bot(tenant, "u1"), service.bot(tenant, "u2")
    mine.call("PUT", "/v1/sessions/chat/config", {"config_id": made(mine)["id"]}).good()
    assert mine.get("/v1/sessions/chat/config").good()["api_key"] == "sk-…xR5w"
    theirs.get("/v1/sessions/chat/config").problem(404, "not_found")


@pytest.mark.parametrize("user", ["a%20b", "x" * 101, "%C3%BC", "a%00", "%7Bx%7D", "a*"])
def test_what_is_no_user_id_is_refused(bot: Bot, user: str) -> None:
    path = f"/v3/users/{user}/llm-model-configs"
    assert "user_id" in bot.get(path).problem(422, "invalid_request")["detail"]
    assert "user_id" in bot.post(path, GPT).problem(422, "invalid_request")["detail"]


BROKEN = [b"", b"{", b"\xff", b'{"name": NaN}', b'{"name": 1, "name": 2}', b"[" * 5_000, b'{"context_limit": 1e999}']


@pytest.mark.parametrize("body", BROKEN)
def test_what_is_no_clear_json_is_refused(bot: Bot, body: bytes) -> None:
    config = made(bot)
    for method, path in (("POST", PATH), ("PUT", at(config)), ("PATCH", at(config))):
        answer = bot.call(method, path, raw=body, headers={"If-Match": '"1"', "Content-Type": "application/json"})
        assert answer.status == 400, (method, answer.body)
    assert bot.get(PATH).good()["configs"] == [config]


@pytest.mark.parametrize("body", [[], "text", 5, True, [GPT], None])
def test_what_is_no_object_is_refused(bot: Bot, body: Any) -> None:
    raw = json.dumps(body).encode()
    bot.call("POST", PATH, raw=raw).problem(422, "invalid_config")
    config = made(bot)
    for method in ("PUT", "PATCH"):
        bot.call(method, at(config), raw=raw, headers={"If-Match": '"1"'}).problem(422, "invalid_config")


def test_a_delete_takes_nothing_but_the_version(bot: Bot) -> None:
    config = made(bot)
    change(bot, "DELETE", config, {"expected_version": 1, "name": "x"}).problem(422, "invalid_request")
    assert change(bot, "DELETE", config, {"expected_version": 1}).status == 204


def test_a_change_of_the_config_takes_effect_on_the_next_prepare(bot: Bot) -> None:
    config = made(bot, OTHER | {"context_limit": 8, "context_strategy": "conservative"})
    session = "/v1/sessions/chat"
    bot.call("PUT", f"{session}/config", {"config_id": config["id"], "user_id": "u1"}).good()
    bot.post(f"{session}/messages", {"messages": {"role": "user", "content": WORDS}}).good()
    before = bot.post(f"{session}/prepare", {}).good()["verdict"]
    assert (before["limit"], before["threshold"]) == (8_000, 4_800)
    change(bot, "PATCH", config, {"context_limit": 2, "context_strategy": "aggressive"}, If_Match='"1"').good()
    after = bot.post(f"{session}/prepare", {}).good()["verdict"]
    assert (after["limit"], after["threshold"]) == (2_000, 1_700)
    assert bot.get(f"{session}/config").good()["context_limit"] == 2


def test_a_deleted_config_is_told_on_the_next_prepare_and_never_guessed(bot: Bot) -> None:
    config = made(bot, OTHER)
    bot.call("PUT", "/v1/sessions/chat/config", {"config_id": config["id"]}).good()
    bot.post("/v1/sessions/chat/messages", {"messages": {"role": "user", "content": "hello"}}).good()
    change(bot, "DELETE", config, None, If_Match='"1"')
    for path in ("prepare", "estimate"):
        told = bot.post(f"/v1/sessions/chat/{path}", {}).problem(409, "config_deleted")
        assert config["id"] in told["detail"]
    bot.call("DELETE", "/v1/sessions/chat/config")
    bot.post("/v1/sessions/chat/prepare", {}).problem(422, "config_missing")


def test_a_request_may_name_a_config_by_id(bot: Bot) -> None:
    config = made(bot, OTHER)
    body = {"messages": [{"role": "user", "content": "hello"}], "config_id": config["id"]}
    assert bot.post("/v1/sessions/chat/prepare", body).good()["verdict"]["limit"] == 32_000
    bot.post("/v1/sessions/chat/prepare", body | {"config_id": "cfg_" + "0" * 32}).problem(404, "not_found")


def test_the_api_key_never_comes_out_and_is_in_no_log_and_no_key_of_redis(
    bot: Bot, service: Service, raw: Any, tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    config = made(bot)
    answers = [
        bot.get(PATH), bot.get(at(config)), bot.post(PATH, GPT),
        bot.post(PATH, GPT | {"typo": SECRET, SECRET: 1}), bot.post(PATH, GPT | {"api_key": [SECRET]}),
        bot.post(PATH, GPT | {"api_key": SECRET + " "}), bot.post(PATH, GPT | {"context_limit": SECRET}),
        bot.post(PATH, [SECRET]), bot.call("POST", PATH, raw=f'{{"api_key": "{SECRET}"'.encode()),
        change(bot, "PUT", config, GPT, If_Match='"1"'), change(bot, "PUT", config, GPT, If_Match='"9"'),
        change(bot, "PATCH", config, {"api_key": SECRET, "expected_version": SECRET}),
        bot.call("PUT", "/v1/sessions/chat/config", {"config_id": config["id"]}), bot.get("/v1/sessions/chat/config"),
    ]  # fmt: skip
    assert {each.status for each in answers} == {200, 201, 400, 412, 422}
    shown = b"".join(each.body + str(each.headers).encode() for each in answers)
    assert SECRET.encode() not in shown
    assert SECRET not in caplog.text
    assert caplog.text
    stored = [raw.dump(key) for key in raw.scan_iter(f"*{service.settings.namespace}*{tenant}*")]
    assert len(stored) >= 3
    assert not [each for each in stored if SECRET.encode() in each]
    with ConfigStore(service.settings) as store:  # the bot beside the service has it
        key = store.api_key(tenant, "u1", config["id"])
    assert key is not None
    assert key.get_secret_value() == SECRET


def test_the_window_in_use_is_logged_as_the_document_has_it(bot: Bot, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "compactor.context")
    config = made(bot)
    bot.post("/v1/sessions/chat/estimate", {"config_id": config["id"]}).good()
    assert "Using database config context limit: 128000 tokens for model 'gpt-4o'" in caplog.messages


def test_without_a_keyring_a_key_is_refused_and_the_rest_works(server: EmbeddedServer) -> None:
    namespace = f"h{uuid.uuid4().hex[:12]}"
    with serving(read_settings(redis_url=server.url, namespace=namespace)) as bare:
        bot = bare.bot("acme")
        answer = bot.post(PATH, GPT)
        assert "COMPACTOR_CONFIG_KEYS" in answer.problem(503, "config_keys_missing")["detail"]
        assert SECRET.encode() not in answer.body
        assert bot.get(PATH).good()["configs"] == []
        assert made(bot, OTHER)["api_key"] is None
