"""`compactor doctor` mentions sessions that need somebody, and none otherwise."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compactor import Compactor
from compactor.commands import counters, dead
from compactor.effects import run as running
from compactor.embedded import EmbeddedServer
from compactor.models import session_id
from compactor.settings import Settings
from tests.acceptance.cli_process import run
from tests.integration.conversations import SMALL, user
from tests.integration.stored import bare, keys_of


def checks(settings: Settings) -> dict[str, dict[str, Any]]:
    env = {"REDIS_URL": settings.redis_url.get_secret_value(), "COMPACTOR_NAMESPACE": settings.namespace}
    found = json.loads(run("doctor", "--json", env=env).out)["checks"]
    return {check["check"]: check for check in found}


def test_dead_sessions_are_a_warning_with_the_commands_that_help(settings: Settings, server: EmbeddedServer) -> None:
    with Compactor(settings=settings) as memory, bare(server) as client:
        for name in ("doctor/a", "doctor/b", "doctor/alive"):
            memory.session(name, SMALL).push(user("hi"))
            memory.drive(running(dead.add(settings.namespace, session_id(name))))
        for name in ("doctor/a", "doctor/b"):
            client.hset(keys_of(settings, name).state, "attempts", settings.max_attempts)
    found = checks(settings)["dead sessions"]
    assert (found["level"], found["text"].split(":")[0]) == ("warning", "2 dead")
    assert "compactor dead" in found["advice"]
    assert "doctor/a" not in json.dumps(found)


def test_evicted_sessions_are_counted(settings: Settings) -> None:
    with Compactor(settings=settings) as memory:
        counted = [memory.drive(running(counters.add(settings.namespace, counters.EVICTED))) for _ in range(3)]
    assert counted == [1, 2, 3]
    found = checks(settings)["evicted sessions"]
    assert (found["level"], found["text"].split(" ")[0]) == ("warning", "3")
    assert "noeviction" in found["advice"]


@pytest.mark.parametrize("name", ["dead sessions", "evicted sessions", "sessions"])
def test_without_any_there_is_nothing_to_read(settings: Settings, name: str) -> None:
    assert name not in checks(settings)
