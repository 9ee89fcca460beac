"""A real RabbitMQ on loopback, where one is installed, or the one that COMPACTOR_TEST_RABBITMQ_URL names."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import tempfile
from pathlib import Path
from typing import Final, Self

import psutil
import pytest

from compactor.embedded import Child, free_port

GIVEN: Final = os.environ.get("COMPACTOR_TEST_RABBITMQ_URL")  # before the tests clean the environment
_DEBIAN: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")  # the one on PATH there wants to be root
_PATIENCE: Final = 90.0  # seconds; Erlang starts slowly on a busy machine


class RabbitServer:
    """A broker in a folder of its own, with a name server of its own; nothing of it is left behind."""

    def __init__(self) -> None:
        binary = str(_DEBIAN) if _DEBIAN.exists() else shutil.which("rabbitmq-server")
        names = shutil.which("epmd")
        if binary is None or names is None:
            pytest.skip("RabbitMQ is not installed, and COMPACTOR_TEST_RABBITMQ_URL names none")
        self._binary, self.port = binary, free_port()
        self._folder = Path(tempfile.mkdtemp(prefix="compactor-"))
        self._names_port = str(free_port())
        (self._folder / "plugins").write_text("[].", encoding="utf-8")
        arguments = [names, "-port", self._names_port, "-address", "127.0.0.1"]
        self._names = Child(arguments, log=self._folder / "names.log")
        try:
            self._child = self._start()
        except BaseException:
            self._clean()
            raise

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def shut_down(self) -> None:
        """Stops it in good order: killed outright, a quorum queue that is seconds old may have no leader afterwards."""
        for process in psutil.Process(self._child.process.pid).children(recursive=True):
            if process.name().startswith("beam"):
                process.terminate()
        self._child.process.wait(_PATIENCE)

    def restart(self) -> None:
        """Starts it again on its port and data, after `shut_down`."""
        self._child = self._start()

    def _signal(self, number: int) -> None:
        os.killpg(self._child.process.pid, number)  # a shell, and the machine of Erlang below it

    def _start(self) -> Child:
        folder = self._folder
        env = {
            "HOME": str(folder),
            "RABBITMQ_NODENAME": f"compactor{self.port}@localhost",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "logs"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
            "ERL_EPMD_PORT": self._names_port,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
        }
        child = Child([self._binary], log=folder / "server.log", env=env)
        child.wait_until(self._listens, "RabbitMQ", _PATIENCE)
        return child

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _clean(self) -> None:
        self._names.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):  # shut down already
            self._signal(signal.SIGKILL)
            self._child.process.wait()
        self._clean()
