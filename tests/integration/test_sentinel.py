"""Sessions on the primary that Sentinels name: it dies, and the next one goes on with everything it had."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from compactor import StoreUnavailableError
from compactor.embedded import free_port
from compactor.settings import read_settings
from tests.clusters import until
from tests.integration.clients import Connect, SessionClient
from tests.integration.conversations import ROOMY, user
from tests.sentinels import WatchedPair


@pytest.fixture(scope="module")
def pair() -> Iterator[WatchedPair]:
    with WatchedPair() as running:
        yield running


def pushed(session: SessionClient, text: str) -> bool:
    with contextlib.suppress(StoreUnavailableError):
        session.push(user(text), idempotency_key=text)
        return True
    return False


def test_a_primary_that_was_killed_is_said_in_time_and_the_next_one_has_everything(connect: Connect) -> None:
    with WatchedPair() as own:
        session = connect(read_settings(redis_url=own.url)).session("t/1", ROOMY)
        session.push(user("one"), idempotency_key="one")
        session.prepare()
        own.wait_for_replica()
        own.servers[0].child.kill()
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError, match="no answer from the primary that Sentinels call mymaster"):
            session.push(user("two"), idempotency_key="two")
        assert session.prepare().verdict.fit == "degraded"
        assert time.monotonic() - began < 4
        until(lambda: pushed(session, "two"))
        session.push(user("one"), idempotency_key="one")
        assert session.prepare().messages == [user("one"), user("two")]


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ("/mymaster", "/another", "no answer from the primary that Sentinels call another"),
        ("watch%20man", "sesame", "mymaster"),
        (":pri%2Fmary@", ":sesame@", "refused the user or password"),
        ("127.0.0.1:", "127.0.0.2:", "no answer from the primary that Sentinels call mymaster"),
    ],
    ids=["service", "password-of-sentinels", "password", "hosts"],
)
def test_what_is_wrong_is_said_without_a_secret(
    pair: WatchedPair, connect: Connect, right: str, wrong: str, said: str
) -> None:
    session = connect(read_settings(redis_url=pair.url.replace(right, wrong))).session("t/1", ROOMY)
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match=said) as caught:
        session.push(user("hello"))
    assert time.monotonic() - began < 4
    assert "sesame" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_sentinels_that_are_all_down_are_unavailable(connect: Connect) -> None:
    url = f"redis+sentinel://127.0.0.1:{free_port()},127.0.0.1:{free_port()}/mymaster"
    with pytest.raises(StoreUnavailableError, match="Sentinels call mymaster"):
        connect(read_settings(redis_url=url)).session("t/1", ROOMY).push(user("hello"))
