"""Where `compactor up` keeps its data, and that only one of them does at a time."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from compactor.exceptions import ConfigurationError


def default_folder() -> Path:
    """`$XDG_STATE_HOME/compactor`, else `~/.local/state/compactor`; on macOS in Application Support.

    Raises ConfigurationError when there is no home folder.
    """
    if given := os.environ.get("XDG_STATE_HOME"):
        return Path(given) / "compactor"
    try:
        home = Path.home()
    except RuntimeError:
        raise ConfigurationError("data folder: this user has no home folder. Choose one with --data.") from None
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "compactor"
    return home / ".local" / "state" / "compactor"


@contextmanager
def owned(folder: Path) -> Generator[Path, None, None]:
    """The folder, made for this user alone, while no other process owns it. Raises ConfigurationError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "logs").mkdir(exist_ok=True)
        lock = (folder / "lock").open("a")
    except OSError as error:
        raise ConfigurationError(
            f"data folder {folder}: cannot be used ({type(error).__name__}). Choose another one with --data."
        ) from None
    with lock:
        _lock(lock.fileno(), folder)
        yield folder


def _lock(descriptor: int, folder: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows: without a lock two servers could write one file, as with any Redis there
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise ConfigurationError(
            f"data folder {folder}: another `compactor up` uses it. Stop that one, or choose another with --data."
        ) from None
