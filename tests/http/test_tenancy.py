"""A tenant can neither see nor change, guess nor exhaust what is another's; tried on every operation there is."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from compactor.store import Store
from tests.http.routes import ALL, EACH, HELLO, Operation
from tests.http.service import CONFIG, Answer, Bot, Service

CONFIG_BODY = {"name": "theirs", "provider": "openai", "model": "secret-model-4711", "context_limit": 128}
WORDS = "secret words 4711"


@pytest.fixture(scope="module")
def raw(service: Service) -> Iterator[Any]:
    with Store(service.settings) as store:
        yield store.client


@pytest.fixture(scope="module")
def owner(service: Service) -> Bot:
    """A tenant that has one of everything."""
    bot = service.bot("owner")
    bot.post("/v1/sessions/chat/messages", {"messages": {**HELLO, "content": WORDS}, "config": CONFIG}).good()
    return bot


@pytest.fixture(scope="module")
def config_id(owner: Bot) -> str:
    return str(owner.post("/v3/users/user/llm-model-configs", CONFIG_BODY).good(201)["id"])


@pytest.fixture(scope="module")
def thief(service: Service) -> Bot:
    return service.bot("thief", "user")


def stored(raw: Any, namespace: str, tenant: str) -> dict[bytes, Any]:
    """Every key that names a tenant, with its value; times of rate limits aside."""
    its = re.compile(rf":{tenant}[/}}]".encode())
    keys = [key for key in raw.scan_iter(f"*{namespace}*", 1_000) if its.search(key) and b":rate:" not in key]
    return {key: raw.dump(key) for key in keys}


def told(answer: Answer) -> tuple[int, bytes]:
    """What an answer tells: all of it but times that the server itself counts."""
    return answer.status, answer.body


@pytest.mark.parametrize("operation", ALL, ids=EACH)
def test_what_is_anothers_is_answered_as_what_never_was(
    operation: Operation, service: Service, owner: Bot, thief: Bot, config_id: str, raw: Any
) -> None:
    before = stored(raw, service.settings.namespace, "owner")
    assert before
    body = json.loads(json.dumps(operation.body).replace("cfg_0123456789abcdef0123456789abcdef", config_id))
    theirs = thief.call(operation.method, operation.at(config_id=config_id), body)
    nothing = service.bot("nobody", "user").call(operation.method, operation.at(), operation.body)
    assert stored(raw, service.settings.namespace, "owner") == before
    assert WORDS.encode() not in theirs.body
    assert b"4711" not in theirs.body
    if theirs.status == 404:
        assert told(theirs) == told(nothing)
    elif operation.path.startswith("/v1"):
        assert theirs.status == nothing.status


@pytest.mark.parametrize(
    "name", ["owner/chat", "owner%2Fchat", "..%2Fowner%2Fchat", "%2e%2e/owner/chat", "chat%00", "ch*"]
)
def test_no_name_reaches_out_of_a_tenant(thief: Bot, owner: Bot, name: str) -> None:
    for path in ("originals", "recall/m0"):
        answer = thief.get(f"/v1/sessions/{name}/{path}")
        assert answer.status in (404, 422), answer.body
        assert WORDS.encode() not in answer.body


def test_a_config_of_another_tenant_judges_nothing(thief: Bot, config_id: str) -> None:
    body = {"messages": HELLO, "config_id": config_id}
    theirs = thief.post("/v1/sessions/mine/messages", body)
    unknown = thief.post("/v1/sessions/mine/messages", {**body, "config_id": "cfg_" + "0" * 32})
    assert told(theirs) == told(unknown)
    assert theirs.status == 404
    thief.get("/v1/sessions/mine").problem(404, "session_not_found")


def test_a_key_of_one_user_sees_its_users_configs_only(service: Service, owner: Bot, config_id: str) -> None:
    place = f"/v3/users/user/llm-model-configs/{config_id}"
    assert owner.get(place).good()["model"] == "secret-model-4711"
    assert service.bot("owner", "user").get(place).good()["model"] == "secret-model-4711"
    service.bot("owner", "other").get(place).problem(404, "not_found")


@pytest.mark.parametrize("operation", ALL, ids=EACH)
def test_without_a_key_nothing_is_told(operation: Operation, service: Service, owner: Bot, config_id: str) -> None:
    bare = service.anybody.call(operation.method, operation.at(config_id=config_id), operation.body)
    bare.problem(401, "unauthenticated")
    assert bare.headers["www-authenticate"].startswith("Bearer")


def wrong_keys(service: Service) -> dict[str, str]:
    right = service.key("owner")
    _, key_id, secret = right.split("_", 2)
    other = service.key("owner").split("_", 2)[2]
    return {
        "none": "",
        "noise": "x" * 40,
        "unknown id": f"cptr_{'0' * 16}_{secret}",
        "another's secret": f"cptr_{key_id}_{other}",
        "cut": right[:-1],
        "longer": right + "x",
        "not ascii": right[:-1] + "é",
        "huge": "cptr_" + "a" * 10_000,
        "expired": service.key("owner", expires=1.0),
    }


def test_every_wrong_key_gets_the_same_answer(service: Service) -> None:
    answers = {
        name: service.anybody.call(
            "GET", "/v1/sessions/chat", headers={"Authorization": f"Bearer {key}".encode("latin-1").decode("latin-1")}
        )
        for name, key in wrong_keys(service).items()
    }
    (only,) = {told(answer) for answer in answers.values()}
    assert only[0] == 401
    basic = base64.b64encode(b"owner:password").decode()
    assert told(service.anybody.call("GET", "/v1/sessions/chat", headers={"Authorization": f"Basic {basic}"})) == only
    assert told(service.anybody.get("/nowhere")) == only
