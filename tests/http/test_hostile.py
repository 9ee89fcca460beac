"""Whatever comes in: a clear 4xx, nothing of it repeated, and nothing stored."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import pytest

from compactor.store import Store
from tests.http.routes import ALL, HELLO, Operation
from tests.http.service import CONFIG, Bot, Service
from tests.http.test_tenancy import stored

MARK: Final = "PRIVATE-4711"
WITH_BODY: Final = [operation for operation in ALL if operation.takes_body]
IDS: Final = [str(operation) for operation in WITH_BODY]
DEEP: Final = b"[" * 100_000 + b"]" * 100_000
BROKEN: Final = {
    "no JSON": (b"{" + MARK.encode(), 400),
    "NaN": (b'{"messages": NaN}', 400),
    "Infinity": (b'{"wait": Infinity}', 400),
    "lone surrogate": (b'{"messages": "\\ud800"}', 400),
    "not UTF-8": (b'{"messages": "\xff"}', 400),
    "NUL bytes": (b"\0" * 100, 400),
    "nested deeply": (DEEP, 400),
    "nested deeper than is stored": (b'{"messages": ' + b"[" * 300 + b"]" * 300 + b"}", 400),
    "an integer beyond 64 bits": (b'{"messages": 123456789012345678901234567890}', 400),
    "ten thousand digits": (b'{"messages": ' + b"9" * 10_000 + b"}", 400),
    "a key twice": (b'{"config": {}, "config": {}}', 400),
    "a key twice, escaped": (b'{"config": 1, "\\u0063onfig": 2}', 400),
    "another type": (b'["' + MARK.encode() + b'"]', 422),
    "an unknown field": (json.dumps({MARK: MARK, "Else": 1}).encode(), 422),
}


@pytest.fixture(scope="module")
def raw(service: Service) -> Iterator[Any]:
    with Store(service.settings) as store:
        yield store.client


@pytest.mark.parametrize("operation", WITH_BODY, ids=IDS)
def test_a_body_that_is_not_clear_is_refused(
    operation: Operation, bot: Bot, service: Service, tenant: str, raw: Any
) -> None:
    for name, (body, status) in BROKEN.items():
        answer = bot.call(operation.method, operation.at(), raw=body)
        # What is JSON, but not of this request, is refused by the first check that sees it.
        assert answer.status in ((400,) if status == 400 else (422, 428)), (name, answer.status, answer.body[:300])
        assert MARK.encode() not in answer.body
        assert answer.json["detail"]
    assert stored(raw, service.settings.namespace, tenant) == {}


NEEDS_BODY: Final = [each for each in WITH_BODY if each.body != {} and not each.path.endswith("/compact")]


@pytest.mark.parametrize("operation", [each for each in NEEDS_BODY if each.method != "DELETE"], ids=str)
def test_no_body_where_one_is_needed_is_refused(operation: Operation, bot: Bot) -> None:
    for headers in ({}, {"Content-Type": "application/json"}):
        answer = bot.call(operation.method, operation.at(), headers=headers)
        assert answer.status in (400, 415, 422), answer.body
        assert answer.json["detail"]


@pytest.mark.parametrize("operation", WITH_BODY, ids=IDS)
def test_a_body_of_another_kind_is_refused(
    operation: Operation, bot: Bot, service: Service, tenant: str, raw: Any
) -> None:
    content = json.dumps(operation.body).encode()
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "application/json; charset=utf-16",
        "nonsense",
        ";",
    ):
        bot.call(operation.method, operation.at(), raw=content, headers={"Content-Type": kind}).problem(
            415, "unsupported_media_type"
        )
    assert stored(raw, service.settings.namespace, tenant) == {}


BAD_VALUES: Final[list[tuple[str, dict[str, Any], int]]] = [
    ("messages", {"messages": MARK}, 422),
    ("messages", {"messages": [HELLO, {"role": "nobody", "content": MARK}]}, 422),
    ("messages", {"messages": [HELLO, None]}, 422),
    ("messages", {"messages": {"content": MARK}}, 422),
    ("messages", {"messages": {"role": ["user"], "content": MARK}}, 422),
    ("messages", {"messages": HELLO, "config_id": MARK}, 404),
    ("messages", {"messages": HELLO, "config": CONFIG, "config_id": "cfg_1"}, 422),
    ("messages", {"messages": HELLO, "config": {**CONFIG, "encoding": MARK}}, 422),
    ("messages", {"messages": HELLO, "config": {**CONFIG, "context_strategy": MARK}}, 422),
    ("messages", {"messages": HELLO, "config": {"model": "", "context_limit": 8}}, 422),
    ("messages", {"messages": HELLO, "config": {"model": "gpt-4o", "context_limit": MARK}}, 422),
    ("messages", {"messages": HELLO, "config": {**CONFIG, "max_output_tokens": 9_000}}, 422),
    ("messages", {"messages": HELLO, "limit_result": MARK, "config": CONFIG}, 422),
    ("messages", {"messages": HELLO, "limit_result": -1, "config": CONFIG}, 422),
    ("prepare", {"variables": [MARK], "config": CONFIG}, 422),
    ("prepare", {"system": "{{a b}}", "variables": {"other": MARK}, "config": CONFIG}, 422),
    ("prepare", {"extra": MARK, "config": CONFIG}, 422),
    ("prepare", {"extra": [{"role": MARK}], "config": CONFIG}, 422),
    ("prepare", {"tool_text": 1, "config": CONFIG}, 422),
    ("estimate", {"system": "{{x}}", "variables": {"x": {"y": MARK}, "z": 1}, "config": CONFIG}, 422),
    ("prepare", {"wait": -1, "config": CONFIG}, 422),
    ("prepare", {"wait": 21, "config": CONFIG}, 422),
    ("prepare", {"wait": True, "config": CONFIG}, 422),
    ("prepare", {"wait_for": MARK, "config": CONFIG}, 422),
    ("prepare", {"repair": "yes", "config": CONFIG}, 422),
    ("prepare", {"tools": MARK, "config": CONFIG}, 422),
    ("prepare", {"system": {"text": MARK}, "config": CONFIG}, 422),
    ("prepare", {"max_output_tokens": 0, "config": CONFIG}, 422),
    ("prepare", {"max_output_tokens": "10", "config": CONFIG}, 422),
    ("prepare", {"max_output_tokens": 10**9, "config": CONFIG}, 422),
    ("prepare", {"messages": {"role": "user", "content": MARK}, "config": CONFIG}, 422),
    ("prepare", {"messages": [MARK], "config": CONFIG}, 422),
    ("sync", {"messages": HELLO, "config": CONFIG}, 422),
    ("rewind", {"position": MARK}, 422),
    ("rewind", {"position": True}, 422),
    ("rewind", {"position": 1.5}, 422),
    ("rewind", {"position": -(2**62)}, 404),
    ("fork", {"new_name": "a/b"}, 422),
    ("fork", {"new_name": "x" * 151}, 422),
    ("fork", {"new_name": "copy", "at": MARK}, 422),
    ("fork", {"new_name": "copy", "at": 2**62}, 404),
    ("release", {"what": []}, 422),
    ("release", {"what": [1]}, 422),
    ("release", {"what": ["m99999999999999999999"]}, 422),
    ("undo", {"compaction_id": ""}, 422),
    ("compact", {"wait": 1e9, "config": CONFIG}, 422),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "status"), BAD_VALUES)
def test_a_wrong_value_is_named_and_nothing_stored(
    bot: Bot, service: Service, tenant: str, raw: Any, path: str, body: dict[str, Any], status: int
) -> None:
    answer = bot.post(f"/v1/sessions/chat/{path}", body)
    assert answer.status == status, answer.body
    assert MARK.encode() not in answer.body
    assert len(answer.json["detail"]) > 15
    assert stored(raw, service.settings.namespace, tenant) == {}


@pytest.mark.parametrize("name", ["x" * 151, "a b", "ä", "a%0Ab", "a\\b", "{name}", "a%00", "~"])
def test_a_wrong_name_is_refused(bot: Bot, name: str) -> None:
    from urllib.parse import quote

    answer = bot.post(f"/v1/sessions/{quote(name, safe='%')}/messages", {"messages": HELLO, "config": CONFIG})
    told = answer.problem(422, "invalid_request")
    assert told["errors"][0]["field"] == "name"


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PATCH", "TRACE", "BREW", "PUT"])
def test_a_wrong_method_is_told_which_are_right(bot: Bot, method: str) -> None:
    answer = bot.call(method, "/v1/sessions/chat/prepare")
    assert answer.status == 405
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize("key", ["", "x" * 256])
def test_a_wrong_idempotency_key_is_refused(bot: Bot, key: str) -> None:
    body = {"messages": HELLO, "config": CONFIG}
    told = bot.post("/v1/sessions/chat/messages", body, **{"Idempotency-Key": key}).problem(422, "invalid_request")
    assert "idempotency-key" in told["detail"].lower()


def test_an_unknown_address_is_not_found(bot: Bot) -> None:
    for path in (
        "/",
        "/v1",
        "/v1/sessions/",
        "/v1/sessions/a/nothing",
        "/docs",
        "/redoc",
        "/v1/sessions/a/recall/m1/x",
    ):
        bot.get(path).problem(404, "not_found")


def test_answers_carry_no_hint_of_the_server_and_sane_headers(bot: Bot, service: Service) -> None:
    for answer in (bot.get("/v1/sessions/none"), service.anybody.get("/healthz"), service.anybody.get("/nowhere")):
        assert "server" not in answer.headers
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert not [name for name in answer.headers if name.startswith("access-control")]
