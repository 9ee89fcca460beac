"""Worker, Flower and the HTTP service as children of a command."""

from __future__ import annotations

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from compactor.embedded import Child, start_flower, start_worker


def worker(*, env: Mapping[str, str], log: Path) -> Child:
    """A worker that is ready; `log` starts anew. Raises EmbeddedServerError."""
    _start_anew(log)
    return start_worker(env=env, log=log)


def flower(*, env: Mapping[str, str], log: Path, port: int, password: str, db: Path) -> Child:
    """Flower, listening; `log` starts anew. Raises ConfigurationError, EmbeddedServerError."""
    _start_anew(log)
    return start_flower(env=env, log=log, port=port, password=password, db=db)


def web(*, env: Mapping[str, str], log: Path, port: int) -> Child:
    """The HTTP service on loopback, listening; `log` starts anew. Raises EmbeddedServerError."""
    _start_anew(log)
    child = Child([sys.executable, "-m", "compactor", "serve", "--port", str(port)], log=log, env=env, cwd=log.parent)
    child.wait_until(lambda: _listens(port), "http service")
    return child


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _start_anew(log: Path) -> None:
    """Keeps one older log; a start reads readiness from the new one alone."""
    if log.exists():
        log.replace(log.with_suffix(".old.log"))
