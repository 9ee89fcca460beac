"""The config store through both clients: guarded changes, one default, tenancy, bounds, damage from outside."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from compactor.commands.configs import MOST, Place, Written, write
from compactor.config_store import ConfigStore
from compactor.exceptions import (
    ConfigDamagedError,
    ConfigNotFoundError,
    ConfigsFullError,
    ConfigurationError,
    ConfigVersionError,
    InvalidConfigError,
    StoreUnavailableError,
)
from compactor.model_config import ModelConfig
from compactor.settings import Settings, read_settings
from compactor.store import Store
from tests.integration.config_stores import GPT, NOBODYS, OTHER, SECRET, dump, with_keys
from tests.integration.lossy_proxy import LossyProxy


def defaults(configs: Any, user: str = "u1") -> list[str]:
    return [each.id for each in configs.all("acme", user) if each.is_default]


def test_a_config_is_stored_and_read_as_it_was_given(configs: Any) -> None:
    made = configs.create("acme", "u1", GPT)
    assert made == configs.get("acme", "u1", made.id) == configs.all("acme", "u1")[0]
    shown = made.as_json()
    assert {name: shown[name] for name in GPT} == GPT | {"api_key": "sk-…xR5w"}
    assert (shown["version"], shown["user_id"]) == (1, "u1")
    assert shown["created_at"] == shown["updated_at"]
    assert configs.model_config("acme", "u1", made.id) == ModelConfig("gpt-4o", 128)
    assert configs.api_key("acme", "u1", made.id).get_secret_value() == SECRET


def test_configs_are_listed_the_oldest_first_and_never_expire(configs: Any, raw: Any, settings: Settings) -> None:
    made = [configs.create("acme", "u1", OTHER | {"name": str(i)}) for i in range(3)]
    assert {each.id for each in configs.all("acme", "u1")} == {each.id for each in made}
    assert [each.created for each in configs.all("acme", "u1")] == sorted(each.created for each in made)
    assert [raw.ttl(key) for key in dump(raw, settings)] == [-1, -1]


def test_a_change_needs_the_version_that_it_was_made_from(configs: Any) -> None:
    made = configs.create("acme", "u1", GPT)
    changed = configs.update("acme", "u1", made.id, {"context_limit": "200K"}, expected_version=1)
    assert (changed.version, changed.model_config.limit, changed.created) == (2, 200_000, made.created)
    for call in (configs.update, configs.replace):
        with pytest.raises(ConfigVersionError) as caught:
            call("acme", "u1", made.id, GPT, expected_version=1)
        assert caught.value.current == 2
    with pytest.raises(ConfigVersionError):
        configs.delete("acme", "u1", made.id, expected_version=1)
    assert configs.get("acme", "u1", made.id) == changed


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0, None])
def test_what_is_no_version_is_refused(configs: Any, version: Any) -> None:
    made = configs.create("acme", "u1", OTHER)
    with pytest.raises(ConfigurationError, match="expected_version"):
        configs.delete("acme", "u1", made.id, expected_version=version)


def test_replacing_sets_every_field_and_keeps_the_key_unless_told(configs: Any) -> None:
    made = configs.create("acme", "u1", GPT)
    whole = {name: value for name, value in GPT.items() if name not in ("temperature", "api_key", "is_default")}
    replaced = configs.replace("acme", "u1", made.id, whole, expected_version=1)
    assert (replaced.fields.temperature, replaced.is_default, replaced.masked_key) == (None, False, "sk-…xR5w")
    assert configs.api_key("acme", "u1", made.id).get_secret_value() == SECRET
    without = configs.replace("acme", "u1", made.id, whole | {"api_key": None}, expected_version=2)
    assert without.masked_key is None
    assert configs.api_key("acme", "u1", made.id) is None


def test_a_new_key_takes_the_old_ones_place(configs: Any) -> None:
    made = configs.create("acme", "u1", GPT)
    configs.update("acme", "u1", made.id, {"api_key": "new-key"}, expected_version=1)
    assert configs.api_key("acme", "u1", made.id).get_secret_value() == "new-key"
    assert configs.get("acme", "u1", made.id).masked_key == "…"


def test_the_key_does_not_follow_the_address_to_another_server(configs: Any) -> None:
    made = configs.create("acme", "u1", GPT)
    away = {"base_url": "https://elsewhere.example/v1"}
    with pytest.raises(InvalidConfigError, match="given again"):
        configs.update("acme", "u1", made.id, away, expected_version=1)
    moved = configs.update("acme", "u1", made.id, away | {"api_key": "for-elsewhere"}, expected_version=1)
    assert configs.api_key("acme", "u1", moved.id).get_secret_value() == "for-elsewhere"


def test_one_config_of_a_user_is_the_default(configs: Any) -> None:
    first, second = configs.create("acme", "u1", GPT), configs.create("acme", "u1", GPT)
    assert defaults(configs) == [second.id]
    configs.create("acme", "u1", OTHER)
    assert defaults(configs) == [second.id]
    assert configs.default("acme", "u1").id == second.id
    configs.update("acme", "u1", first.id, {"is_default": True}, expected_version=2)
    assert defaults(configs) == [first.id]
    configs.update("acme", "u1", first.id, {"is_default": False}, expected_version=3)
    assert defaults(configs) == []


def test_losing_the_default_is_a_change_that_a_stale_writer_notices(configs: Any) -> None:
    first = configs.create("acme", "u1", GPT)
    configs.create("acme", "u1", GPT)
    assert configs.get("acme", "u1", first.id).version == 2
    with pytest.raises(ConfigVersionError):  # it would take the default back without knowing
        configs.replace("acme", "u1", first.id, GPT, expected_version=1)


def test_deleting_the_default_leaves_none_and_the_first_config_is_not_made_one(configs: Any) -> None:
    configs.create("acme", "u1", OTHER)
    made = configs.create("acme", "u1", GPT)
    configs.delete("acme", "u1", made.id, expected_version=1)
    assert defaults(configs) == []
    with pytest.raises(ConfigNotFoundError, match="is_default"):
        configs.default("acme", "u1")


def test_what_is_deleted_leaves_nothing_behind(configs: Any, raw: Any, settings: Settings) -> None:
    made = configs.create("acme", "u1", GPT)
    configs.delete("acme", "u1", made.id, expected_version=1)
    with pytest.raises(ConfigNotFoundError):
        configs.get("acme", "u1", made.id)
    left = dump(raw, settings)
    assert list(left.values()) == [b"1"]  # the mark of the delete, for a minute
    assert 0 < raw.pttl(next(iter(left))) <= 60_000


@pytest.mark.parametrize("place", [("acme", "u2"), ("other", "u1"), ("acme", "U1"), ("acme:u1", "u1")])
def test_an_id_means_nothing_to_another_user_or_tenant(configs: Any, place: tuple[str, str]) -> None:
    made = configs.create("acme", "u1", GPT)
    configs.create(*place, OTHER)  # so that both have a store of their own
    calls: list[Callable[[str], Any]] = [
        lambda config_id: configs.get(*place, config_id),
        lambda config_id: configs.api_key(*place, config_id),
        lambda config_id: configs.model_config(*place, config_id),
        lambda config_id: configs.update(*place, config_id, {"name": "x"}, expected_version=1),
        lambda config_id: configs.replace(*place, config_id, OTHER, expected_version=1),
        lambda config_id: configs.delete(*place, config_id, expected_version=1),
        lambda config_id: configs.bind(place[0], "chat-1", place[1], config_id),
    ]
    for call in calls:
        texts: set[str] = set()
        for config_id in (made.id, NOBODYS, "no id", "=default", "*", ""):
            with pytest.raises(ConfigNotFoundError) as caught:
                call(config_id)
            texts.add(str(caught.value))
        assert len(texts) == 1  # as for nothing at all
    assert configs.get("acme", "u1", made.id) == made
    assert made.id not in {each.id for each in configs.all(*place)}


def test_bad_values_store_nothing(configs: Any, raw: Any, settings: Settings) -> None:
    made = configs.create("acme", "u1", GPT)
    before = dump(raw, settings)
    for wrong in ({"context_limit": 0}, {"typo": 1}, {"temperature": 9}, {"name": ""}, {"api_key": "a b"}):
        with pytest.raises(InvalidConfigError):
            configs.create("acme", "u1", GPT | wrong)
        with pytest.raises(InvalidConfigError):
            configs.replace("acme", "u1", made.id, GPT | wrong, expected_version=1)
        with pytest.raises(InvalidConfigError):
            configs.update("acme", "u1", made.id, wrong, expected_version=1)
    for tenant, user in (("a/b", "u1"), ("", "u1"), ("acme", "u/1"), ("acme", "{u}"), ("x" * 151, "u1")):
        with pytest.raises(ConfigurationError):
            configs.create(tenant, user, GPT)
    assert dump(raw, settings) == before


def test_a_user_has_at_most_so_many(configs: Any) -> None:
    made = configs.create("acme", "u1", OTHER | {"is_default": True})
    for _ in range(MOST - 1):
        configs.create("acme", "u1", OTHER)
    with pytest.raises(ConfigsFullError, match=str(MOST)):
        configs.create("acme", "u1", OTHER)
    assert len(configs.all("acme", "u1")) == MOST
    configs.create("acme", "u2", OTHER)  # another user has room
    configs.delete("acme", "u1", made.id, expected_version=1)
    configs.create("acme", "u1", OTHER)


def test_a_tenant_has_at_most_so_many_whatever_names_of_users_it_makes_up(settings: Settings) -> None:
    few = read_settings(
        redis_url=settings.redis_url.get_secret_value(), namespace=settings.namespace, max_tenant_configs=3
    )
    with ConfigStore(few) as store:
        made = [store.create("acme", f"u{number}", OTHER) for number in range(3)]
        with pytest.raises(ConfigsFullError, match="COMPACTOR_MAX_TENANT_CONFIGS"):
            store.create("acme", "u3", OTHER)
        store.update("acme", "u0", made[0].id, {"name": "still"}, expected_version=1)
        store.create("other", "u0", OTHER)


def test_of_changes_at_the_same_time_one_wins_and_there_is_one_default(settings: Settings) -> None:
    with ConfigStore(settings) as store, ThreadPoolExecutor(8) as pool:
        made = [store.create("acme", "u1", OTHER) for _ in range(4)]

        def change(number: int) -> int:
            with suppress(ConfigVersionError):
                patch = {"is_default": True, "name": str(number)}
                store.update("acme", "u1", made[number % 4].id, patch, expected_version=1)
                return 1
            return 0

        won = sum(pool.map(change, range(32)))
        found = store.all("acme", "u1")
    assert 1 <= won <= 4
    assert sum(each.is_default for each in found) == 1
    assert all(each.version >= 2 for each in found)


def test_a_write_whose_answer_was_lost_happens_once(settings: Settings, ring: str, proxy: LossyProxy) -> None:
    with ConfigStore(with_keys(settings, ring, redis_url=proxy.url)) as store:
        store.all("acme", "u1")
        proxy.lose("config_write")
        made = store.create("acme", "u1", GPT)
        assert [each.id for each in store.all("acme", "u1")] == [made.id]
        proxy.lose("config_delete")
        store.delete("acme", "u1", made.id, expected_version=1)
        assert store.all("acme", "u1") == []


def test_the_script_itself_writes_over_no_config_of_another_user(settings: Settings) -> None:
    with ConfigStore(settings) as store, Store(settings) as direct:
        made = store.create("acme", "u1", OTHER)
        theirs = Place(settings.namespace, "acme", "u2", made.id)
        with pytest.raises(ConfigNotFoundError):
            direct.run(write(theirs, Written(b"{}", is_default=False), operation="op", expected=1, most=10))
        assert store.get("acme", "u1", made.id) == made


GARBLED = [None, b"", b"x", b"1 2 3", b"1 2 3 op u1 {", b"9" * 5000 + b" 1 1 op u1 {}", b"1 1 1 op u1 []", b"\xff\xfe"]


@pytest.mark.parametrize("garbled", GARBLED)
def test_a_record_garbled_from_outside_is_told_and_its_owner_can_delete_it(
    settings: Settings, raw: Any, garbled: bytes | None
) -> None:
    with ConfigStore(settings) as store:
        made = store.create("acme", "u1", OTHER)
        records = f"{{{settings.namespace}:configs:acme}}:records"
        if garbled is None:
            raw.hdel(records, made.id)
        else:
            raw.hset(records, made.id, garbled)
        with pytest.raises(ConfigDamagedError, match=made.id):
            store.all("acme", "u1")
        with pytest.raises(ConfigNotFoundError if garbled is None else ConfigDamagedError):
            store.update("acme", "u1", made.id, {"name": "x"}, expected_version=1)
        with pytest.raises(ConfigNotFoundError):
            store.delete("acme", "u2", made.id, expected_version=1)
        store.delete("acme", "u1", made.id, expected_version=1)
        assert store.all("acme", "u1") == []


def test_without_redis_the_error_says_so(ring: str) -> None:
    away = read_settings(redis_url="redis://127.0.0.1:1/0", config_keys=ring)
    with ConfigStore(away) as store, pytest.raises(StoreUnavailableError) as caught:
        store.create("acme", "u1", GPT)
    assert SECRET not in str(caught.value)
