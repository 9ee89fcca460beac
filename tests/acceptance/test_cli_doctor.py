"""`compactor doctor` tells what works, what does not, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis

from compactor.embedded import EmbeddedServer, free_port
from compactor.testing import Answer, ModelServer, completion
from tests.acceptance.cli_process import Ended, run
from tests.acceptance.conftest import Service

PASSWORD = "right-password-83"
_REDIS: Any = redis.Redis  # its own types are partially unknown


def _doctor(env: Mapping[str, str]) -> tuple[Ended, dict[str, dict[str, Any]]]:
    """How it ended, and its checks by name."""
    ended = run("doctor", "--json", env=env)
    checks = {check["check"]: check for check in ended.row["checks"]}
    assert ended.row["ok"] is (ended.code == 0)
    assert all(check["advice"] for check in checks.values() if check["level"] != "ok")
    return ended, checks


def _client(url: str) -> Any:
    return _REDIS.from_url(url)


def _side_by_side(envs: Sequence[Mapping[str, str]]) -> list[tuple[Ended, dict[str, dict[str, Any]]]]:
    with ThreadPoolExecutor(len(envs)) as pool:
        return list(pool.map(_doctor, envs))


def _levels(checks: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: check["level"] for name, check in checks.items()}


def _env(service: Service, **more: str) -> dict[str, str]:
    settings = service.settings
    return {"REDIS_URL": settings.redis_url.get_secret_value(), "COMPACTOR_NAMESPACE": settings.namespace, **more}


def test_all_is_well_with_a_good_server_a_worker_and_a_model(modelless: Service, server: EmbeddedServer) -> None:
    with ModelServer() as model:
        named = {"OPENAI_BASE_URL": model.url, "COMPACTOR_SUMMARIZER_MODEL": "tiny"}
        ended, checks = _doctor(_env(modelless, **named))
        assert len(model.requests) == 1
    assert ended.code == 0
    order = ["vocabulary", "settings", "redis", "eviction", "persistence", "storage", "broker", "worker", "model"]
    assert _levels(checks) == dict.fromkeys(order, "ok")
    with _client(server.url) as client:
        probes = list(client.scan_iter(match="*compactor-doctor*"))
        assert probes
        assert all(0 < client.ttl(key) <= 60 for key in probes), "the probe's session ends by itself"


def test_a_person_reads_a_table_without_colours_in_a_pipe(modelless: Service) -> None:
    ended = run("doctor", env=_env(modelless))
    assert ended.code == 0
    assert "9 ok" in ended.out
    assert "\x1b" not in ended.out


def test_a_worker_of_another_namespace_is_no_worker_of_ours(server: EmbeddedServer, modelless: Service) -> None:
    assert modelless.worker.process.poll() is None
    ended, checks = _doctor({"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": "nobody-serves-this"})
    assert ended.code == 1
    assert checks["worker"]["level"] == "failed"
    assert "celery -A workers worker" in checks["worker"]["advice"]


def test_an_evicting_server_fails_unless_its_policy_is_allowed_by_name() -> None:
    allowed = [
        {},
        {"COMPACTOR_ALLOW_EVICTION_POLICY": "allkeys-lru"},
        {"COMPACTOR_ALLOW_EVICTION_POLICY": "volatile-lru"},
    ]
    with EmbeddedServer(extra=["--maxmemory-policy", "allkeys-lru"]) as evicting:
        seen = _side_by_side([{"REDIS_URL": evicting.url, **more} for more in allowed])
    assert [ended.code for ended, _ in seen] == [1, 1, 1], "no worker runs there either"
    assert [checks["eviction"]["level"] for _, checks in seen] == ["failed", "warning", "failed"]
    assert "instance of its own" in seen[0][1]["eviction"]["advice"]


def test_where_config_is_forbidden_it_is_unknown_and_a_warning(own_server: EmbeddedServer) -> None:
    with _client(own_server.url) as client:
        client.execute_command("ACL", "SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", "-config", "-info")
    _, checks = _doctor({"REDIS_URL": own_server.url.replace("redis://", "redis://limited:pw@")})
    assert {name: checks[name]["level"] for name in ("configuration", "eviction", "persistence", "storage")} == {
        "configuration": "warning",
        "eviction": "warning",
        "persistence": "warning",
        "storage": "ok",
    }


def test_a_user_who_may_not_run_scripts_fails_at_storage(own_server: EmbeddedServer) -> None:
    with _client(own_server.url) as client:
        client.execute_command("ACL", "SETUSER", "limited", "on", ">pw", "~*", "&*", "+@all", "-@scripting")
    _, checks = _doctor({"REDIS_URL": own_server.url.replace("redis://", "redis://limited:pw@")})
    assert checks["redis"]["level"] == "ok"
    assert checks["storage"]["level"] == "failed"


def test_without_a_server_redis_broker_and_worker_fail() -> None:
    ended, checks = _doctor({"REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"})
    assert ended.code == 1
    assert _levels(checks) == {
        "vocabulary": "ok",
        "settings": "ok",
        "redis": "failed",
        "broker": "failed",
        "worker": "failed",
        "model": "ok",
    }


def test_a_wrong_password_is_named_and_never_shown(own_server: EmbeddedServer) -> None:
    with _client(own_server.url) as client:
        client.config_set("requirepass", PASSWORD)
    ended, checks = _doctor({"REDIS_URL": own_server.url.replace("redis://", "redis://:wrong-secret-5@")})
    assert ended.code == 1
    assert "refused the user or password" in checks["redis"]["text"]
    assert checks["broker"]["level"] == "failed"
    assert "wrong-secret-5" not in ended.out + ended.err
    _, checks = _doctor({"REDIS_URL": own_server.url.replace("redis://", f"redis://:{PASSWORD}@")})
    assert checks["redis"]["level"] == checks["broker"]["level"] == "ok"


def test_a_model_that_fails_is_named_by_its_reason(modelless: Service) -> None:
    expected = {
        "unauthorized": (Answer({"error": {"message": "no"}}, status=401), "failed"),
        "server_error": (Answer(b"<html>hello</html>", content_type="text/html"), "failed"),
        "empty": (completion(""), "warning"),
    }
    with ModelServer(lambda body: expected[body["model"]][0]) as model:
        key = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "key-41"}
        seen = _side_by_side([_env(modelless, **key, COMPACTOR_SUMMARIZER_MODEL=name) for name in expected])
    for (reason, (_, level)), (ended, checks) in zip(expected.items(), seen, strict=True):
        assert checks["model"]["level"] == level
        assert reason in checks["model"]["text"].removeprefix(reason)
        assert ended.code == (1 if level == "failed" else 0)
        assert "key-41" not in ended.out + ended.err


def test_a_model_without_a_server_to_ask_is_a_warning(modelless: Service) -> None:
    ended, checks = _doctor(_env(modelless, COMPACTOR_SUMMARIZER_MODEL="tiny"))
    assert ended.code == 0
    assert checks["model"]["level"] == "warning"


def test_wrong_settings_are_the_first_thing_to_correct() -> None:
    ended, checks = _doctor({"COMPACTOR_CALL_TIMEOUT": "300"})
    assert ended.code == 1
    assert _levels(checks) == {"vocabulary": "ok", "settings": "failed"}
    assert "call_timeout must be below compaction_deadline" in checks["settings"]["text"]
