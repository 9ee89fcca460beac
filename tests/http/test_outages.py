"""Without Redis: own lists are answered, everything else says 503 and when to come back, and no key is let in anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compactor.embedded import EmbeddedServer
from compactor.settings import read_settings
from tests.http.routes import ALL, HELLO, Operation
from tests.http.service import CONFIG, Bot, Service, serving

LEARNING = [each for each in ALL if each.path.endswith(("/usage", "/overflow"))]
FIXED = [each for each in ALL if str(each) == "GET /v1/sessions/{name}/recall-tool"]
OWN = [HELLO, {"role": "assistant", "content": "Hello."}]


@pytest.fixture(scope="module")
def gone() -> Iterator[tuple[Service, Bot, str]]:
    """A service whose Redis went away after it had answered one caller; and a key that nobody has used."""
    with EmbeddedServer() as server, serving(read_settings(redis_url=server.url, namespace="gone")) as service:
        bot, unused = service.bot("acme", "user"), service.key("acme")
        config = {"name": "n", "provider": "openai", "model": "gpt-4o", "context_limit": 16}
        stored = bot.post("/v3/users/user/llm-model-configs", config).good(201)
        bot.call("PUT", "/v1/sessions/bound/config", {"config_id": stored["id"]}).good()
        bot.post("/v1/sessions/bound/prepare", {"messages": OWN}).good()
        assert service.anybody.get("/readyz").good() == {"status": "ok"}
        server.stop()
        yield service, bot, unused


def test_an_own_list_is_answered(gone: tuple[Service, Bot, str]) -> None:
    context = gone[1].post("/v1/sessions/chat/prepare", {"messages": OWN, "config": CONFIG}).good()
    assert context["messages"] == OWN
    assert context["verdict"]["fit"] == "degraded"


def test_a_bound_session_is_judged_by_what_was_known_last(gone: tuple[Service, Bot, str]) -> None:
    context = gone[1].post("/v1/sessions/bound/prepare", {"messages": OWN}).good()
    assert context["verdict"]["limit"] == 16_000
    assert context["verdict"]["fit"] == "degraded"


@pytest.mark.parametrize("operation", LEARNING, ids=str)
def test_what_a_provider_told_is_known_to_this_process_at_least(
    gone: tuple[Service, Bot, str], operation: Operation
) -> None:
    assert gone[1].call(operation.method, operation.at(), operation.body).good() == {"learned": True}


@pytest.mark.parametrize("operation", FIXED, ids=str)
def test_what_is_the_same_for_every_session_is_told(gone: tuple[Service, Bot, str], operation: Operation) -> None:
    assert gone[1].call(operation.method, operation.at(), operation.body).good()["schema"]["type"] == "function"


@pytest.mark.parametrize("operation", [each for each in ALL if each not in (*LEARNING, *FIXED)], ids=str)
def test_everything_else_says_when_to_come_back(gone: tuple[Service, Bot, str], operation: Operation) -> None:
    answer = gone[1].call(operation.method, operation.at(), operation.body)
    told = answer.problem(503, "store_unavailable")
    assert int(answer.headers["retry-after"]) >= 1
    assert "127.0.0.1" not in told["detail"]


def test_a_key_that_is_not_known_is_not_let_in(gone: tuple[Service, Bot, str]) -> None:
    service, bot, unused = gone
    body = {"messages": OWN, "config": CONFIG}
    bot.holding(unused).post("/v1/sessions/chat/prepare", body).problem(503, "store_unavailable")
    assert bot.key is not None
    forged = bot.key[:-1] + ("A" if bot.key[-1] != "A" else "B")
    bot.holding(forged).post("/v1/sessions/chat/prepare", body).problem(503, "store_unavailable")
    service.anybody.post("/v1/sessions/chat/prepare", body).problem(401, "unauthenticated")


def test_the_process_is_up_but_not_ready(gone: tuple[Service, Bot, str]) -> None:
    assert gone[0].anybody.get("/healthz").good() == {"status": "ok"}
    assert gone[0].anybody.get("/readyz").good(503) == {"status": "unavailable"}
