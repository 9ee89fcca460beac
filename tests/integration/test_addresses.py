"""Wrong passwords, URLs and session ids: a clear error, no secret in it, nothing stored."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import ConfigurationError, StoreUnavailableError
from compactor.embedded import EmbeddedServer, free_port
from compactor.settings import read_settings
from compactor.store import AsyncStore, Store
from compactor.testing import ModelServer
from tests.integration.clients import Client, Connect
from tests.integration.conversations import ROOMY, user
from tests.integration.stored import bare


@pytest.mark.parametrize("login", ["", ":wrong-sesame@", "nobody:sesame@"], ids=["none", "wrong", "unknown-user"])
def test_a_wrong_password_is_said_without_showing_it(connect: Connect, own_server: EmbeddedServer, login: str) -> None:
    with bare(own_server) as client:
        client.config_set("requirepass", "sesame")
    session = connect(read_settings(redis_url=f"redis://{login}127.0.0.1:{own_server.port}/0")).session("a/b", ROOMY)
    for call in (lambda: session.push(user("hello")), session.prepare, session.status):
        with pytest.raises(StoreUnavailableError, match="refused the user or password") as caught:
            call()
        assert "sesame" not in str(caught.value)
        assert caught.value.__cause__ is None
    right = connect(read_settings(redis_url=f"redis://:sesame@127.0.0.1:{own_server.port}/0")).session("a/b", ROOMY)
    assert right.push(user("hello")).length == 1


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:6379", "127.0.0.1:6379", "", "redis//x", "redis://127.0.0.1:sesame/0"]
)
@pytest.mark.parametrize("make", [Store, AsyncStore])
def test_a_url_that_is_none_is_a_configuration_error(make: Any, url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"redis://127\.0\.0\.1:6379/0") as caught:
        make(read_settings(redis_url=url))
    assert "sesame" not in str(caught.value)


def test_nobody_listening_is_unavailable(connect: Connect) -> None:
    session = connect(read_settings(redis_url=f"redis://:sesame@127.0.0.1:{free_port()}/0")).session("a/b", ROOMY)
    with pytest.raises(StoreUnavailableError, match="REDIS_URL") as caught:
        session.push(user("hello"))
    assert "sesame" not in str(caught.value)


def test_something_else_listening_is_unavailable(connect: Connect) -> None:
    with ModelServer() as http:
        url = http.url.replace("http://", "redis://").removesuffix("/v1")
        session = connect(read_settings(redis_url=url, read_timeout=0.3)).session("a/b", ROOMY)
        with pytest.raises(StoreUnavailableError):
            session.push(user("hello"))


@pytest.mark.parametrize(
    "name",
    ["", "a{b}", "{x}:state", "a b", "a\n", "a\nb", "a\0b", "émile", "x" * 201, "a*b", "a?b", "a[b]", None, 42, b"a/b"],
)
def test_a_session_id_with_other_characters_is_refused(memory: Client, name: Any) -> None:
    with pytest.raises(ConfigurationError, match="1-200"):
        memory.session(name, ROOMY)


@pytest.mark.parametrize("name", ["a", "tenant/chat-42", "x" * 200, "A.b_c:d@e/f-g", "..", "state", ":", "/"])
def test_a_session_id_of_the_allowed_characters_works(memory: Client, name: str) -> None:
    session = memory.session(name, ROOMY)
    session.push(user(f"for {name}"))
    assert session.prepare().messages == [user(f"for {name}")]
