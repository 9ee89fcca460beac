"""Worker and Flower as children of a command."""

from __future__ import annotations

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


def _start_anew(log: Path) -> None:
    """Keeps one older log; a start reads readiness from the new one alone."""
    if log.exists():
        log.replace(log.with_suffix(".old.log"))
