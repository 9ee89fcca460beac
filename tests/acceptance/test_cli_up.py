"""`compactor up`: everything with one command, restarted when it falls, stopped without a trace."""

from __future__ import annotations

import base64
import json
import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from compactor import Code, Compactor, ModelConfig
from compactor.embedded import EmbeddedServer, free_port
from tests.acceptance.cli_process import Command, is_alive, run
from tests.acceptance.waiting import wait_until

CONFIG = ModelConfig("gpt-4o", 4)
GIVEN = "given-password-4711"


class Up:
    """A running `compactor up` and its ready line."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.ready: dict[str, Any] = json.loads(command.line())

    def flower(self, password: str | None) -> int:
        """The HTTP status of Flower's first page."""
        request = urllib.request.Request(self.ready["flower_url"] + "/")
        if password is not None:
            token = base64.b64encode(f"flower:{password}".encode()).decode()
            request.add_header("Authorization", f"Basic {token}")
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def stop(self, number: signal.Signals) -> int:
        """Ends it by a signal, and waits until nothing that it started is left."""
        started = self.command.descendants()
        assert len(started) == len(self.ready["pids"])
        self.command.process.send_signal(number)
        code = self.command.end().code
        assert not [process for process in started if is_alive(process)]
        return code


def _ports() -> tuple[str, ...]:
    return "--redis-port", str(free_port()), "--flower-port", str(free_port())


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One that has all its parts."""
    folder = tmp_path_factory.mktemp("up")
    with Command("up", "--json", "--data", str(folder), *_ports()) as command:
        up = Up(command)
        yield up
        command.process.send_signal(signal.SIGTERM)
        assert command.end().code == 0


def _compacted(url: str, name: str) -> Code:
    with Compactor(redis_url=url) as memory:
        session = memory.session(name, CONFIG)
        session.push({"role": "user", "content": "read them all"})
        for number in range(8):
            call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f"[{number}]"}}
            session.push({"role": "assistant", "content": None, "tool_calls": [call]})
            text = "\n".join(f"row {row} of {number}: value {row * number}" for row in range(60))
            session.push({"role": "tool", "tool_call_id": f"c{number}", "content": text})
        return session.compact(wait=30).outcome


def test_one_command_serves_a_bot(running: Up) -> None:
    assert running.ready["ready"] is True
    assert _compacted(running.ready["redis_url"], "up/bot") is Code.APPLIED


def test_flower_takes_the_password_that_was_made_and_nothing_else(running: Up) -> None:
    assert len(running.ready["flower_password"]) >= 12
    assert running.flower(running.ready["flower_password"]) == 200
    assert running.flower(None) == 401
    assert running.flower("flower") == 401


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_worker_that_ends_whatever_its_exit_code_is_started_again(running: Up, number: signal.Signals) -> None:
    (worker,) = [process for process in running.command.descendants() if _is_worker(process)]
    said = running.command.errors.count("worker runs again")
    worker.send_signal(number)
    wait_until(lambda: running.command.errors.count("worker runs again") > said, what="the new worker")
    assert not is_alive(worker)
    assert _compacted(running.ready["redis_url"], f"up/after-{number.name}") is Code.APPLIED


def _is_worker(process: psutil.Process) -> bool:
    return "worker" in process.cmdline()


def test_keeps_its_data_and_a_given_password_to_itself(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    arguments = ("up", "--json", "--data", str(folder), *_ports())
    env = {"FLOWER_BASIC_AUTH": f"flower:{GIVEN}"}
    with Command(*arguments, env=env) as command:
        up = Up(command)
        assert up.flower(GIVEN) == 200
        assert "flower_password" not in up.ready
        assert GIVEN not in json.dumps(up.ready) + command.errors
        with Compactor(redis_url=up.ready["redis_url"]) as memory:
            memory.session("up/kept", CONFIG).push({"role": "user", "content": "still there?"})
        assert up.stop(signal.SIGTERM) == 0
    assert (folder.stat().st_mode & 0o777) == 0o700 or os.name == "nt"
    with Command(*arguments, "--no-flower") as command:
        up = Up(command)
        assert "flower_url" not in up.ready
        with Compactor(redis_url=up.ready["redis_url"]) as memory:
            assert memory.session("up/kept", CONFIG).originals() == [{"role": "user", "content": "still there?"}]
        assert up.stop(signal.SIGINT) == 0


def test_a_second_one_on_the_same_folder_is_refused(running: Up) -> None:
    ended = run("up", "--no-flower", "--data", running.ready["data"], "--redis-port", str(free_port()))
    assert ended.code == 2
    assert "another `compactor up` uses it" in ended.err


@pytest.mark.parametrize("option", ["--redis-port", "--flower-port"])
def test_a_taken_port_is_named_with_the_way_out(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        other = "--flower-port" if option == "--redis-port" else "--redis-port"
        ended = run("up", "--data", str(tmp_path), option, port, other, str(free_port()))
    assert ended.code == 2
    assert f"port {port}: another program listens there. Choose another with {option}" in ended.err
    assert ended.out == ""


def test_uses_the_server_of_redis_url_and_starts_none(server: EmbeddedServer, tmp_path: Path) -> None:
    env = {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": "up-given"}
    with Command("up", "--json", "--no-flower", "--data", str(tmp_path), env=env) as command:
        up = Up(command)
        assert list(up.ready["pids"]) == ["worker"]
        assert up.ready["queue"] == "compaction.up-given"
        assert up.stop(signal.SIGTERM) == 0


def test_starts_the_http_service_when_asked(server: EmbeddedServer, tmp_path: Path) -> None:
    env = {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": "up-http"}
    port = str(free_port())
    with Command("up", "--json", "--no-flower", "--http-port", port, "--data", str(tmp_path), env=env) as command:
        up = Up(command)
        assert list(up.ready["pids"]) == ["worker", "web"]
        with urllib.request.urlopen(f"{up.ready['http_url']}/readyz", timeout=5) as answer:
            assert answer.status == 200
        assert up.stop(signal.SIGTERM) == 0
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run("up", "--no-flower", "--http-port", port, "--data", str(tmp_path), env=env)
    assert ended.code == 2
    assert f"http port {port}: another program listens there. Choose another with --http-port" in ended.err


def test_refuses_a_server_that_evicts(tmp_path: Path) -> None:
    with EmbeddedServer(extra=["--maxmemory-policy", "allkeys-lru"]) as evicting:
        ended = run("up", "--no-flower", "--data", str(tmp_path), env={"REDIS_URL": evicting.url})
    assert ended.code == 2
    assert "allkeys-lru" in ended.err
    assert "COMPACTOR_ALLOW_EVICTION_POLICY=allkeys-lru" in ended.err


def test_an_unreachable_server_is_an_error_not_a_wait(tmp_path: Path) -> None:
    url = f"redis://user:hidden-71@127.0.0.1:{free_port()}/0"
    ended = run("up", "--no-flower", "--data", str(tmp_path), env={"REDIS_URL": url})
    assert ended.code == 2
    assert "redis: no answer" in ended.err
    assert "hidden-71" not in ended.err
