"""The real `compactor` script as a child process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psutil

SCRIPT: Final = (str(Path(sys.executable).with_name("compactor")),)
TIMEOUT: Final = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        """Its JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def row(self) -> dict[str, Any]:
        """Its only JSON line."""
        (row,) = self.rows
        return row


class Command:
    """A running command; everything it started is ended with it."""

    def __init__(
        self,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        program: Sequence[str] = SCRIPT,
    ) -> None:
        self.process = subprocess.Popen(
            [*program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            env={**os.environ, **(env or {})},
            cwd=cwd,
        )
        assert self.process.stderr is not None
        self._errors: list[str] = []
        self._reader = threading.Thread(target=self._errors.extend, args=(self.process.stderr,), daemon=True)
        self._reader.start()

    @property
    def errors(self) -> str:
        """What it wrote to stderr so far."""
        return "".join(self._errors)

    def line(self) -> str:
        """The next line of stdout; fails when the command ended without one."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"ended with {self.process.wait(TIMEOUT)}: {self.errors}"
        return line

    def descendants(self) -> list[psutil.Process]:
        """The processes it started and theirs."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self) -> Ended:
        """Waits for the end."""
        assert self.process.stdout is not None
        out = self.process.stdout.read()
        code = self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        return Ended(code, out, self.errors)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            left = self.descendants()
            self.process.kill()
            self.process.wait()
            for process in left:
                if process.is_running():
                    process.kill()
        for stream in (self.process.stdout, self.process.stderr):
            assert stream is not None
            self._reader.join(TIMEOUT)
            stream.close()


def run(*arguments: str, env: Mapping[str, str] | None = None, program: Sequence[str] = SCRIPT) -> Ended:
    """Runs a command to its end."""
    with Command(*arguments, env=env, program=program) as command:
        return command.end()


def is_alive(process: psutil.Process) -> bool:
    """Whether it still runs; a zombie does not."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
