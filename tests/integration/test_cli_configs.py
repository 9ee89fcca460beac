"""`compactor configs`: a key out of thin air, and every stored api_key encrypted anew."""

from __future__ import annotations

from compactor.config_store import ConfigStore
from compactor.secret_box import new_key
from compactor.settings import Settings, read_settings
from tests.acceptance.cli_process import Ended, run

GPT = {"name": "GPT", "provider": "openai", "model": "gpt-4o", "context_limit": 128, "api_key": "sk-secret-of-the-user"}


def rotate(settings: Settings, *keys: str, arguments: tuple[str, ...] = ("--json",)) -> Ended:
    env = {
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "COMPACTOR_NAMESPACE": settings.namespace,
        "COMPACTOR_CONFIG_KEYS": ",".join(keys),
    }
    return run("configs", "rotate", *arguments, env=env)


def opened(settings: Settings, key: str) -> ConfigStore:
    url = settings.redis_url.get_secret_value()
    return ConfigStore(read_settings(redis_url=url, namespace=settings.namespace, config_keys=key))


def test_a_rotation_by_hand_from_a_new_key_to_the_last_account(settings: Settings) -> None:
    old, made = new_key(), run("configs", "new-key")
    new = made.out.strip()
    with opened(settings, old) as store:
        stored = store.create("acme", "u1", GPT)
    first = rotate(settings, new, old)
    assert (first.code, first.row) == (0, {"rotated": 1, "current": 0, "unreadable": []})
    with opened(settings, new) as store:
        key = store.api_key("acme", "u1", stored.id)
        assert key is not None
        assert key.get_secret_value() == GPT["api_key"]
    lost = rotate(settings, old, arguments=())
    assert lost.code == 2
    assert stored.id in lost.out
    assert str(GPT["api_key"]) not in lost.out + lost.err


def test_without_a_keyring_the_command_says_how_to_get_one(settings: Settings) -> None:
    ended = rotate(settings)
    assert ended.code == 2
    assert "compactor configs new-key" in " ".join(ended.err.split())
