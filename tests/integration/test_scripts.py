"""The Lua scripts: loaded again when the server forgot them, and within the rules of managed servers."""

from __future__ import annotations

import re

import pytest

from compactor import Code
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from compactor.store import SCRIPTS
from tests.integration.clients import Connect, StoreClient, open_store
from tests.integration.conversations import OTHER_ENCODING, SMALL, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import bare


class Forgetful:
    """A store whose server forgets every script before each command."""

    def __init__(self, store: StoreClient, server: EmbeddedServer) -> None:
        self._store, self._server = store, server

    def run(self, command: object) -> object:
        forget(self._server)
        return self._store.run(command)  # type: ignore[arg-type] # why: passes any command through

    def close(self) -> None:
        self._store.close()


def forget(server: EmbeddedServer) -> None:
    with bare(server) as client:
        client.script_flush()


def test_every_call_works_on_a_server_that_forgot_the_scripts(
    kind: str, connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session("scripts/forgotten", SMALL)
    forget(own_server)
    session.push(conversation(8))
    forget(own_server)
    assert connect(own_settings).session("scripts/forgotten", OTHER_ENCODING).prepare().verdict.recounted
    forget(own_server)
    assert session.prepare().verdict.compaction == "queued"
    store = open_store(kind, own_settings)
    worker = InlineWorker(own_settings, Forgetful(store, own_server))  # type: ignore[arg-type] # why: see Forgetful
    assert worker.work("scripts/forgotten").outcome.outcome is Code.APPLIED
    store.close()
    forget(own_server)
    assert session.recall("m3") == conversation(8)[3]
    forget(own_server)
    assert session.push(user("more")).length == 20
    forget(own_server)
    assert session.clear() == 20


def test_after_a_forgotten_script_a_call_is_one_round_trip_again(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session("scripts/again", SMALL)
    forget(own_server)
    session.push(user("a"))
    with bare(own_server) as client:
        client.config_resetstat()
        session.push(user("b"))
        stats: dict[str, dict[str, int]] = client.info("commandstats")
    assert stats["cmdstat_evalsha"]["calls"] == 1
    assert "cmdstat_script|load" not in stats


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_each_call_in_a_script_names_its_key_literally(name: str) -> None:
    calls = re.findall(r"redis\.call\(\s*'(\w+)'\s*(?:,\s*([^,)]+))?", SCRIPTS[name])
    assert calls
    for command, key in calls:
        assert command == "TIME" or re.fullmatch(r"KEYS\[(?:\d|i)\]", key), f"{command} {key}"


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_each_script_says_its_keys_arguments_and_answer(name: str) -> None:
    head = SCRIPTS[name].splitlines()[:12]
    assert all(any(line.startswith(f"-- {word}") for line in head) for word in ("KEYS", "ARGV", "returns"))
