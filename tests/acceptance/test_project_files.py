"""Procfile, compose file, licence and CI scripts: what they promise, and that their commands start."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
import pytest
import yaml

from compactor.embedded import FLOWER_OPTIONS, Child, EmbeddedServer, free_port
from compactor.json_values import is_array, is_object
from compactor.settings import read_settings
from tests.acceptance.watched import FLOWER_PASSWORD, Flower, eventually

pytest.importorskip("flower", reason="Flower is not installed: pip install 'compactor[worker]'")

ROOT: Final = Path(__file__).resolve().parents[2]
AUTH: Final = f"flower:{FLOWER_PASSWORD}"
Start = Callable[[str, Mapping[str, str]], Child]


def compose(values: Mapping[str, str]) -> Any:
    """The compose file with its variables filled in, as Compose does it; a required one that is missing fails."""
    return filled(yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8")), values)


def filled(node: Any, values: Mapping[str, str]) -> Any:
    def value(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        assert kind != ":?" or values.get(name), f"{name}: {rest}"
        return values.get(name) or rest

    if isinstance(node, str):
        return re.sub(r"\$\{(\w+)(:-|:\?)([^}]*)\}", value, node)
    if is_array(node):
        return [filled(item, values) for item in node]
    if is_object(node):
        return {key: filled(item, values) for key, item in node.items()}
    return node


@pytest.fixture(scope="module")
def services() -> dict[str, dict[str, Any]]:
    parsed: dict[str, dict[str, Any]] = compose({"FLOWER_BASIC_AUTH": AUTH})["services"]
    assert set(parsed) == {"redis", "worker", "web", "flower"}
    return parsed


@pytest.fixture(scope="module")
def procfile() -> dict[str, str]:
    lines = (ROOT / "Procfile").read_text(encoding="utf-8").splitlines()
    return dict(re.split(r":\s+", line, maxsplit=1) for line in lines)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a shell command in the checkout, with this environment's programs on PATH."""
    children: list[Child] = []

    def run(command: str, env: Mapping[str, str]) -> Child:
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        log = tmp_path / f"{len(children)}.log"
        children.append(Child(["/bin/sh", "-c", command], log=log, env={"PATH": path, **env}, cwd=ROOT))
        return children[-1]

    yield run
    for child in children:
        child.stop()


def dockerfile(services: Mapping[str, Any]) -> str:
    text: str = services["worker"]["build"]["dockerfile_inline"]
    assert services["flower"]["build"] == services["web"]["build"] == services["worker"]["build"]
    return text


def test_nothing_is_published_beyond_loopback(services: dict[str, dict[str, Any]]) -> None:
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:6379:6379", "127.0.0.1:8080:8080", "127.0.0.1:5555:5555"]


def test_every_service_comes_back_and_is_checked(services: dict[str, dict[str, Any]]) -> None:
    for service in services.values():
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["retries"] <= 5
    for name in ("worker", "web", "flower"):
        assert services[name]["depends_on"] == {"redis": {"condition": "service_healthy"}}
        assert "celery" not in " ".join(services[name]["healthcheck"]["test"])


def test_a_stop_leaves_a_compaction_its_time(services: dict[str, dict[str, Any]]) -> None:
    settings = read_settings()
    assert services["worker"]["stop_grace_period"] == f"{settings.stop_grace:.0f}s"
    assert settings.stop_grace > settings.compaction_deadline


def test_only_the_worker_gets_the_models_key(services: dict[str, dict[str, Any]]) -> None:
    assert "OPENAI_API_KEY" in services["worker"]["environment"]
    for service in ("flower", "web"):
        assert not [name for name in services[service]["environment"] if name.startswith("OPENAI")]


@contextmanager
def store(services: Mapping[str, Any], folder: Path) -> Generator[Any, None, None]:
    import redis

    clients: Any = redis.Redis
    command: list[str] = services["redis"]["command"]
    with EmbeddedServer(folder=folder, extra=command[1:]) as server, clients.from_url(server.url) as client:
        yield client


def test_the_store_keeps_everything(services: dict[str, dict[str, Any]], tmp_path: Path) -> None:
    assert services["redis"]["volumes"] == ["redis:/data"]
    assert services["redis"]["command"][0] == "valkey-server"
    with store(services, tmp_path) as client:
        assert client.config_get("appendonly", "maxmemory-policy", "save", "requirepass") == {
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
            "save": "",
            "requirepass": "",
        }


def test_the_image_does_not_run_as_root(services: dict[str, dict[str, Any]]) -> None:
    users = re.findall(r"^USER (\S+)$", dockerfile(services), re.MULTILINE)
    assert users[-1:] == ["compactor"]
    for name in ("worker", "web", "flower"):
        assert services[name]["read_only"] is True
        assert services[name]["cap_drop"] == ["ALL"]


@pytest.fixture(scope="module")
def wheel(services: dict[str, dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from those files alone that the image's build copies."""
    pytest.importorskip("hatchling", reason="hatchling is not installed: the wheel is not built")
    source = tmp_path_factory.mktemp("source")
    for line in re.findall(r"^COPY (.+)$", dockerfile(services), re.MULTILINE):
        *names, target = line.split()
        for name in names:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, source / target / (name if target == "./" else ""))
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "out"]
    done = subprocess.run(build, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return next((source / "out").glob("*.whl"))


def test_the_wheel_holds_scripts_vocabularies_and_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
        metadata = packed.read(next(name for name in names if name.endswith("METADATA"))).decode()
    parts = [
        str(path.relative_to(ROOT)) for path in (ROOT / "compactor").rglob("*") if path.suffix in (".lua", ".gz", ".py")
    ]
    assert set(parts) <= set(names)
    assert {"workers/__init__.py", "workers/app.py", "workers/tasks.py"} <= set(names)
    assert "License-Expression: Apache-2.0" in metadata
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "docs", ".ci"))]


def test_the_image_counts_without_a_network(services: dict[str, dict[str, Any]], wheel: Path, tmp_path: Path) -> None:
    check = re.findall(r'^RUN python -c "(.+)"$', dockerfile(services), re.MULTILINE)[-1]
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path)
    offline = f"import socket\nsocket.socket.connect = None\nimport sys\nsys.path.insert(0, '.')\n{check}"
    done = subprocess.run([sys.executable, "-c", offline], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_flower_is_started_alike_everywhere(services: dict[str, dict[str, Any]], procfile: dict[str, str]) -> None:
    from flower.options import options  # type: ignore[import-untyped] # why: Flower ships no types

    known: Any = options
    place = ("--address=", "--port=", "--db=")
    for command in (services["flower"]["command"], shlex.split(procfile["flower"])):
        given = [word for word in command if word.startswith("--")]
        assert {word for word in given if not word.startswith(place)} == set(FLOWER_OPTIONS)
        # Flower passes over options that it does not know, a misspelt --read_only too.
        assert [word for word in given if not hasattr(known, word[2:].split("=")[0])] == []


def test_no_flower_without_a_password(procfile: dict[str, str], start: Start) -> None:
    with pytest.raises(AssertionError, match="FLOWER_BASIC_AUTH"):
        compose({})
    refused = start(procfile["flower"], {})
    assert refused.process.wait(10) != 0
    assert "set it to user:password" in refused.tail()


def in_compose(services: Mapping[str, Any], folder: Path) -> str:
    """Flower's command of the compose file, moved out of its container."""
    command = [
        word.replace("0.0.0.0", "127.0.0.1").replace("/var/lib/compactor", str(folder))
        for word in services["flower"]["command"]
        if not word.startswith("--port=")
    ]
    return f"exec {shlex.join(command)}"


@pytest.mark.parametrize("place", ["Procfile", "compose"])
def test_flower_starts_closed_and_read_only(
    place: str,
    services: dict[str, dict[str, Any]],
    procfile: dict[str, str],
    server: EmbeddedServer,
    start: Start,
    tmp_path: Path,
) -> None:
    port = free_port()
    command = procfile["flower"] if place == "Procfile" else in_compose(services, tmp_path)
    env = {"FLOWER_BASIC_AUTH": AUTH, "FLOWER_PORT": str(port), "FLOWER_DB": str(tmp_path / "db")}
    child = start(command, {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": f"files-{place}", **env})
    *shell, code = services["flower"]["healthcheck"]["test"]
    assert shell == ["CMD", "python", "-c"]
    probe = [sys.executable, "-c", code.replace("5555", str(port))]
    eventually(lambda: subprocess.run(probe, capture_output=True, check=False).returncode == 0, "a healthy Flower")
    flower = Flower(child, port)
    assert flower.ask("/tasks", password=None)[0] == 401
    assert flower.ask("/tasks")[0] == 200
    assert flower.ask("/api/task/send-task/x", method="POST")[0] == 403
    listening = {
        socket.laddr.ip for socket in psutil.Process(child.process.pid).net_connections("tcp") if not socket.raddr
    }
    assert listening == {"127.0.0.1"}


@pytest.mark.parametrize("place", ["Procfile", "compose"])
def test_the_worker_starts_and_stops_cleanly(
    place: str, services: dict[str, dict[str, Any]], procfile: dict[str, str], server: EmbeddedServer, start: Start
) -> None:
    command = procfile["worker"] if place == "Procfile" else f"exec {shlex.join(services['worker']['command'])}"
    child = start(command, {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": f"files-{place}"})
    child.wait_until(lambda: " ready." in child.tail(20_000), "worker")
    assert child.stop() == 0


@pytest.mark.parametrize("place", ["Procfile", "compose"])
def test_the_http_service_starts_healthy_and_stops_cleanly(
    place: str, services: dict[str, dict[str, Any]], procfile: dict[str, str], server: EmbeddedServer, start: Start
) -> None:
    port = str(free_port())
    words = [word.replace("0.0.0.0", "127.0.0.1").replace("8080", port) for word in services["web"]["command"]]
    command = procfile["web"] if place == "Procfile" else f"exec {shlex.join(words)}"
    child = start(command, {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": f"files-{place}", "PORT": port})
    *shell, code = services["web"]["healthcheck"]["test"]
    assert shell == ["CMD", "python", "-c"]
    probe = [sys.executable, "-c", code.replace("8080", port)]
    eventually(lambda: subprocess.run(probe, capture_output=True, check=False).returncode == 0, "a healthy service")
    assert child.stop() == 0


def test_the_workers_health_is_a_file_it_touches(
    services: dict[str, dict[str, Any]], server: EmbeddedServer, start: Start, tmp_path: Path
) -> None:
    place: str = services["worker"]["environment"]["COMPACTOR_HEARTBEAT_FILE"]
    shell, check = services["worker"]["healthcheck"]["test"]
    file = tmp_path / "heartbeat"
    probe = ["/bin/sh", "-c", check.replace(place, str(file))]

    def healthy() -> bool:
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0

    assert shell == "CMD-SHELL"
    assert not healthy()
    env = {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": "files-health", "COMPACTOR_HEARTBEAT_FILE": str(file)}
    child = start(f"exec {shlex.join(services['worker']['command'])}", env)
    eventually(healthy, "a healthy worker", timeout=20)
    os.utime(file, (0, 0))
    assert not healthy()
    eventually(healthy, "the next heartbeat", timeout=20)
    child.stop()
    os.utime(file, (0, 0))
    assert not healthy()


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert re.search(r"Apache License\s+Version 2.0, January 2004", text)
    assert "END OF TERMS AND CONDITIONS" in text


@pytest.mark.parametrize("script", ["check", "run"])
def test_ci_scripts_are_sound_shell(script: str) -> None:
    path = ROOT / ".ci" / script
    assert subprocess.run(["bash", "-n", str(path)], check=False).returncode == 0
    assert "set -euo pipefail" in path.read_text(encoding="utf-8")


def test_ci_runs_the_command_that_the_readme_names() -> None:
    for place in (".ci/run", "README.md"):
        assert "bash .ci/check" in (ROOT / place).read_text(encoding="utf-8")
