"""Sessions bound to stored configs: judged by what a config says now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from compactor.config_store import ConfigStore
from compactor.embedded import EmbeddedServer
from compactor.exceptions import (
    ConfigGoneError,
)
from compactor.model_config import ModelConfig
from compactor.settings import Settings, read_settings
from compactor.stored_config import StoredConfig
from tests.integration.config_stores import GPT, OTHER
from tests.integration.stored import bare


def test_a_session_is_judged_by_what_its_config_says_now(configs: Any) -> None:
    assert configs.bound("acme", "chat-42") is None
    made = configs.create("acme", "u1", GPT)
    assert configs.bind("acme", "chat-42", "u1", made.id) == made
    assert configs.bound("acme", "chat-42") == made
    configs.update("acme", "u1", made.id, {"context_limit": 64, "context_strategy": "aggressive"}, expected_version=1)
    assert configs.bound("acme", "chat-42").model_config == ModelConfig("gpt-4o", 64, "aggressive")
    assert configs.bound("other", "chat-42") is None
    assert configs.unbind("acme", "chat-42") is True
    assert configs.bound("acme", "chat-42") is None
    assert configs.unbind("acme", "chat-42") is False


def test_a_session_whose_config_was_deleted_is_told(configs: Any) -> None:
    made = configs.create("acme", "u1", GPT)
    configs.bind("acme", "chat-42", None, made.id)
    configs.delete("acme", "u1", made.id, expected_version=1)
    with pytest.raises(ConfigGoneError, match=made.id):
        configs.bound("acme", "chat-42")
    other = configs.create("acme", "u1", OTHER)
    configs.bind("acme", "chat-42", "u1", other.id)
    assert configs.bound("acme", "chat-42").id == other.id


def test_a_binding_lives_as_long_as_it_is_used(configs: Any, raw: Any, settings: Settings) -> None:
    made = configs.create("acme", "u1", OTHER)
    configs.bind("acme", "chat-42", "u1", made.id)
    key = f"{{{settings.namespace}:configs:acme}}:bound:chat-42"
    life = raw.pttl(key)
    assert life > 1_900 * settings.session_ttl
    raw.pexpire(key, 5_000)
    configs.bound("acme", "chat-42")
    assert raw.pttl(key) > 1_900 * settings.session_ttl


@pytest.fixture
def raw_own(own_server: EmbeddedServer) -> Iterator[Any]:
    with bare(own_server) as client:
        yield client


def test_a_binding_is_read_with_its_config_in_one_round_trip(own_server: EmbeddedServer, raw_own: Any) -> None:
    with ConfigStore(read_settings(redis_url=own_server.url)) as store:
        made = store.create("acme", "u1", OTHER)
        store.bind("acme", "chat-42", "u1", made.id)
        store.bound("acme", "chat-42")
        before = raw_own.info("commandstats")
        assert isinstance(store.bound("acme", "chat-42"), StoredConfig)
        after = raw_own.info("commandstats")
    assert after["cmdstat_evalsha"]["calls"] - before["cmdstat_evalsha"]["calls"] == 1
    in_scripts = {"cmdstat_evalsha", "cmdstat_get", "cmdstat_hget", "cmdstat_pttl", "cmdstat_info"}
    assert {name for name in after if after[name]["calls"] != before.get(name, {}).get("calls")} <= in_scripts
