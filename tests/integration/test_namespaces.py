"""Two namespaces on one server never meet: keys, queues, broker keys."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.dispatch import queue_name
from compactor.embedded import EmbeddedServer
from compactor.exceptions import ConfigurationError
from compactor.settings import Settings, read_settings
from tests.integration.clients import Connect, open_store
from tests.integration.conversations import SMALL, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import bare, published


@pytest.fixture
def blue(settings: Settings) -> Settings:
    return settings.model_copy(update={"namespace": f"{settings.namespace}-blue"})


def test_the_same_session_id_is_two_sessions(connect: Connect, settings: Settings, blue: Settings) -> None:
    here, there = (connect(each).session("ns/same", SMALL) for each in (settings, blue))
    here.push(user("green"), idempotency_key="1")
    there.push(user("blue"), idempotency_key="1")
    assert here.prepare().messages == [user("green")]
    assert there.prepare().messages == [user("blue")]
    there.clear()
    assert here.originals() == [user("green")]


def test_tasks_wait_in_queues_of_their_own(connect: Connect, settings: Settings, blue: Settings, raw: Any) -> None:
    session = connect(settings).session("ns/queue", SMALL)
    session.push(conversation(9))
    session.prepare()
    assert (published(raw, settings), published(raw, blue)) == (1, 0)


def test_a_worker_of_one_namespace_cannot_take_a_claim_of_another(
    kind: str, connect: Connect, settings: Settings, blue: Settings, worker: InlineWorker
) -> None:
    for each in (settings, blue):
        session = connect(each).session("ns/claim", SMALL)
        session.push(conversation(9))
        session.prepare()
    store = open_store(kind, blue)
    ended = InlineWorker(blue, store).work("ns/claim", owner=worker.owner("ns/claim"))
    store.close()
    assert ended.outcome.outcome.value == "stale"
    assert connect(blue).session("ns/claim", SMALL).status().claim == "queued"
    assert connect(settings).session("ns/claim", SMALL).status().claim == "queued"


def test_every_key_begins_with_its_namespace(connect: Connect, own_server: EmbeddedServer, raw: Any) -> None:
    settings = read_settings(redis_url=own_server.url, namespace="green")
    session = connect(settings).session("ns/keys", SMALL)
    session.push(conversation(9))
    session.prepare()
    with bare(own_server) as client:
        keys: list[Any] = list(client.scan_iter())
    assert keys
    assert all(key.startswith((b"{green:ns/keys}:", b"{green:tenant:ns}:", b"green:")) for key in keys)


def test_the_default_namespace_has_the_plain_queue() -> None:
    assert queue_name("compactor") == "compaction"
    assert queue_name("staging") == "compaction.staging"


@pytest.mark.parametrize("name", ["", "a:b", "a{b", "x" * 65, "a b"])
def test_a_namespace_with_other_characters_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="namespace"):
        read_settings(namespace=name)
