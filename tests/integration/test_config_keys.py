"""api_keys in the config store: encrypted, rotated, bound to their place, shown nowhere."""

from __future__ import annotations

import logging
import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from compactor.config_store import ConfigStore
from compactor.exceptions import (
    ApiKeyUnreadableError,
    CompactorError,
    ConfigKeysMissingError,
    ConfigurationError,
)
from compactor.secret_box import new_key
from compactor.settings import Settings
from tests.integration.config_stores import GPT, OTHER, SECRET, dump, with_keys


def test_without_a_keyring_no_key_is_stored_and_the_rest_works(settings: Settings, raw: Any) -> None:
    with ConfigStore(settings) as store:
        with pytest.raises(ConfigKeysMissingError, match="COMPACTOR_CONFIG_KEYS"):
            store.create("acme", "u1", GPT)
        assert dump(raw, settings) == {}
        made = store.create("acme", "u1", OTHER)
        assert store.api_key("acme", "u1", made.id) is None
        with pytest.raises(ConfigKeysMissingError):
            store.update("acme", "u1", made.id, {"api_key": SECRET}, expected_version=1)
        with pytest.raises(ConfigKeysMissingError):
            store.rotate()
    assert SECRET.encode() not in pickle.dumps(dump(raw, settings))


def test_rotation_brings_every_key_to_the_first_of_the_ring(configs: Any, settings: Settings, ring: str) -> None:
    made = [configs.create(f"tenant-{i % 3}", "u1", GPT | {"api_key": f"key-{i}"}) for i in range(12)]
    new = new_key()
    with ConfigStore(with_keys(settings, new, ring)) as both:
        done = both.rotate()
        assert (done.rotated, done.current, done.unreadable) == (12, 0, ())
        again = both.rotate()
        assert (again.rotated, again.current) == (0, 12)
    with ConfigStore(with_keys(settings, new)) as only:
        for i, each in enumerate(made):
            key = only.api_key(f"tenant-{i % 3}", "u1", each.id)
            assert key is not None
            assert key.get_secret_value() == f"key-{i}"
            assert only.get(f"tenant-{i % 3}", "u1", each.id).version == each.version + (i < 9)
    with pytest.raises(ApiKeyUnreadableError):
        configs.api_key("tenant-0", "u1", made[0].id)


def test_a_rotation_tells_keys_that_nobody_can_open_and_goes_on(settings: Settings, ring: str) -> None:
    with ConfigStore(with_keys(settings, new_key())) as lost:
        gone = lost.create("acme", "u1", GPT)
    with ConfigStore(with_keys(settings, ring)) as old:
        old.create("acme", "u1", GPT)
    with ConfigStore(with_keys(settings, new_key(), ring)) as store:
        done = store.rotate()
        assert (done.rotated, done.unreadable) == (1, (("acme", gone.id),))
        with pytest.raises(ApiKeyUnreadableError):
            store.api_key("acme", "u1", gone.id)


def test_a_rotation_takes_back_nothing_that_users_change_meanwhile(settings: Settings, ring: str) -> None:
    """Users store new keys, by the old ring still, while the rotation runs: the newest key of each is what opens."""
    new = new_key()
    with ConfigStore(with_keys(settings, ring)) as service, ConfigStore(with_keys(settings, new, ring)) as operator:
        made = [service.create("acme", f"u{i}", GPT) for i in range(20)]

        def change() -> None:
            for i, each in enumerate(made):
                service.update("acme", f"u{i}", each.id, {"api_key": f"newer-{i}"}, expected_version=1)

        with ThreadPoolExecutor(2) as pool:
            writing = pool.submit(change)
            while not writing.done():
                operator.rotate()
            writing.result()
        operator.rotate()
        assert operator.rotate().rotated == 0
        with ConfigStore(with_keys(settings, new)) as only:
            keys = [only.api_key("acme", f"u{i}", each.id) for i, each in enumerate(made)]
    assert [key.get_secret_value() for key in keys if key is not None] == [f"newer-{i}" for i in range(20)]


def test_a_sealed_key_moved_to_another_config_opens_no_more(configs: Any, raw: Any, settings: Settings) -> None:
    mine, theirs = configs.create("acme", "u1", GPT), configs.create("acme", "u2", GPT | {"api_key": "theirs"})
    sealed = f"{{{settings.namespace}:configs:acme}}:sealed"
    raw.hset(sealed, mine.id, raw.hget(sealed, theirs.id))
    with pytest.raises(ApiKeyUnreadableError):
        configs.api_key("acme", "u1", mine.id)


def test_a_key_opens_no_more_when_somebody_changed_its_address_in_redis(
    configs: Any, raw: Any, settings: Settings
) -> None:
    made = configs.create("acme", "u1", GPT)
    records = f"{{{settings.namespace}:configs:acme}}:records"
    raw.hset(records, made.id, raw.hget(records, made.id).replace(b"api.openai.com", b"evil.example"))
    assert configs.get("acme", "u1", made.id).fields.base_url == "https://evil.example/v1"
    with pytest.raises(ApiKeyUnreadableError):
        configs.api_key("acme", "u1", made.id)


def test_the_key_is_nowhere_in_redis_logs_reprs_and_errors(
    configs: Any, raw: Any, settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    made = configs.create("acme", "u1", GPT)
    seen = [
        repr(made),
        str(made.as_json()),
        repr(configs.all("acme", "u1")),
        repr(configs.api_key("acme", "u1", made.id)),
    ]
    for values in (GPT | {"typo": 1}, GPT | {"api_key": [SECRET]}, GPT | {"base_url": f"https://{SECRET}@h/"}):
        with pytest.raises(CompactorError) as caught:
            configs.create("acme", "u1", values)
        seen += [str(caught.value), repr(caught.value)]
    assert SECRET.encode() not in pickle.dumps(dump(raw, settings))
    assert SECRET not in "".join(seen) + caplog.text


def test_a_keyring_that_is_none_stops_the_store_at_once(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="key 1 of 1") as caught:
        ConfigStore(with_keys(settings, "hunter2"))
    assert "hunter2" not in str(caught.value)
