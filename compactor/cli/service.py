"""The parts of a Compactor on one machine: server, worker, Flower, HTTP service; started in order and supervised."""

from __future__ import annotations

import importlib.util
import socket
from dataclasses import dataclass
from pathlib import Path

from compactor.cli import children
from compactor.cli.serve import require_http
from compactor.cli.stopping import StopFlag
from compactor.cli.supervisor import Supervisor
from compactor.embedded import EmbeddedServer
from compactor.exceptions import ConfigurationError
from compactor.server_check import Level, check_server, refuse_unsafe
from compactor.settings import Settings, read_settings
from compactor.store import Store


@dataclass(frozen=True, slots=True)
class Parts:
    """What to start. Without `redis_port` the server of REDIS_URL is used; `flower_port` None: no Flower,
    `http_port` None: no HTTP service.
    """

    folder: Path
    redis_port: int | None
    flower_port: int | None
    flower_password: str = ""
    http_port: int | None = None

    @property
    def url(self) -> str | None:
        """The URL of a server that is started here."""
        return None if self.redis_port is None else f"redis://127.0.0.1:{self.redis_port}/0"


def start(parts: Parts, supervisor: Supervisor, flag: StopFlag) -> Settings:
    """Starts everything in order, unless a stop is asked for.

    Raises ConfigurationError (a port is taken, a package missing, a server unsafe),
    EmbeddedServerError, StoreUnavailableError.
    """
    _require(parts)
    settings = read_settings(redis_url=parts.url)
    env = {} if parts.url is None else {"REDIS_URL": parts.url}
    if parts.redis_port is None:
        _check(settings, supervisor)
    else:
        redis_port = parts.redis_port
        supervisor.add(
            "server", lambda: EmbeddedServer(port=redis_port, folder=parts.folder / "server").child, needed=True
        )
    logs = parts.folder / "logs"
    if not flag.asked:
        supervisor.add("worker", lambda: children.worker(env=env, log=logs / "worker.log"))
    if parts.flower_port is not None and not flag.asked:
        _add_flower(parts, parts.flower_port, supervisor, env)
    if parts.http_port is not None and not flag.asked:
        http_port = parts.http_port
        supervisor.add("web", lambda: children.web(env=env, log=logs / "web.log", port=http_port))
    return settings


def _add_flower(parts: Parts, port: int, supervisor: Supervisor, env: dict[str, str]) -> None:
    supervisor.add(
        "flower",
        lambda: children.flower(
            env=env,
            log=parts.folder / "logs" / "flower.log",
            port=port,
            password=parts.flower_password,
            db=parts.folder / "flower",
        ),
    )


def _check(settings: Settings, supervisor: Supervisor) -> None:
    """Refuses a server that loses data; says what is only doubtful."""
    with Store(settings) as store:
        findings = check_server(store, settings)
    refuse_unsafe(findings)
    for finding in findings:
        if finding.level is Level.WARNING:
            supervisor.say(f"redis: {finding.text}. {finding.advice}")


def _require(parts: Parts) -> None:
    if parts.flower_port is not None:
        if importlib.util.find_spec("flower") is None:
            raise ConfigurationError("flower: is not installed. pip install 'compactor[worker]', or use --no-flower.")
        if parts.flower_port == parts.redis_port:
            raise ConfigurationError("ports: Redis and Flower need two different ones.")
        _require_free(parts.flower_port, "flower", "another with --flower-port, or use --no-flower")
    if parts.http_port is not None:
        require_http()
        if parts.http_port in (parts.redis_port, parts.flower_port):
            raise ConfigurationError("ports: the HTTP service needs one of its own.")
        _require_free(parts.http_port, "http", "another with --http-port")
    if parts.redis_port is not None:
        way_out = "another with --redis-port, or set REDIS_URL to use a server that runs"
        _require_free(parts.redis_port, "redis", way_out)


def _require_free(port: int, name: str, way_out: str) -> None:
    """Raises ConfigurationError when the port cannot be listened on."""
    with socket.socket() as probe, socket.socket() as caller:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        caller.settimeout(0.5)
        try:
            taken = caller.connect_ex(("127.0.0.1", port)) == 0
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            taken = True
            if isinstance(error, PermissionError):
                raise ConfigurationError(f"{name} port {port}: not allowed for this user. Choose {way_out}.") from None
    if taken:
        raise ConfigurationError(f"{name} port {port}: another program listens there. Choose {way_out}.")
