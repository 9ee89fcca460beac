"""A headless Chromium for tests of web pages, spoken to over its DevTools pipe.

No driver and no port: the browser reads commands from file descriptor 3 and answers on 4, JSON
texts with a zero byte behind each.
"""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final, Self

import pytest

# Descriptors of the pipes start above 10, so that taking the numbers 3 and 4 overwrites neither.
_ON_PIPES: Final = (
    "import os, sys\nos.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4)\nos.execv(sys.argv[3], sys.argv[3:])"
)
_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--window-size=1600,1000",
    "--remote-debugging-pipe",
)
PATIENCE: Final = 60.0  # seconds for an answer or a text; the machine of a test run may be busy


def chromium() -> str:
    """The browser's program; skips the test where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.skip("no Chromium on PATH: the web pages are not looked at (on Debian: apt-get install chromium)")


class Browser:
    """One browser with one page; use it as a context manager."""

    def __init__(self, *, user: str = "", password: str = "") -> None:
        self._credentials = base64.b64encode(f"{user}:{password}".encode()).decode() if user else ""
        self._profile = tempfile.mkdtemp(prefix="chromium-")
        self._process, self._commands, self._answers = _started(chromium(), self._profile)
        self._unread = b""
        self._last = 0
        self._session = ""

    def __enter__(self) -> Self:
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._call("Page.enable")
        if self._credentials:
            self._call("Network.enable")
            self._call("Network.setExtraHTTPHeaders", headers={"Authorization": f"Basic {self._credentials}"})
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._commands)
        os.close(self._answers)
        os.killpg(self._process.pid, signal.SIGKILL)  # its renderers are in the process group of its own
        self._process.wait()
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, url: str) -> None:
        """Goes to a page, and waits until it and its scripts are loaded."""
        navigated = self._call("Page.navigate", url=url)
        assert "errorText" not in navigated, navigated
        self.wait_for(lambda: self.value("document.readyState") == "complete" and self.value("location.href") != "")

    def text(self) -> str:
        """What a person reads on the page."""
        return str(self.value("document.body ? document.body.innerText : ''"))

    def source(self) -> str:
        """The whole document, with what is hidden and what scripts made."""
        return str(self.value("document.documentElement.outerHTML"))

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        answer = self._call("Runtime.evaluate", expression=expression, returnByValue=True)
        return answer["result"].get("value")

    def wait_for(self, condition: Any, timeout: float = PATIENCE) -> None:
        """Waits until `condition()` holds, or fails with what the page shows."""
        until = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < until, f"not seen within {timeout:.0f} s; the page shows:\n{self.text()}"
            time.sleep(0.05)

    def wait_for_text(self, text: str, timeout: float = PATIENCE) -> str:
        """Waits until the page shows a text; returns everything that it shows then."""
        self.wait_for(lambda: text in self.text(), timeout)
        return self.text()

    def screenshot(self, path: Path) -> None:
        """The page as a PNG, to be looked at."""
        path.write_bytes(base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"]))

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._last += 1
        command: dict[str, Any] = {"id": self._last, "method": method, "params": parameters}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            message = self._next(until, method)
            if message.get("id") == self._last:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result

    def _next(self, until: float, method: str) -> dict[str, Any]:
        while b"\0" not in self._unread:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            assert ready, f"the browser did not answer {method} within {PATIENCE:.0f} s"
            received = os.read(self._answers, 1 << 20)
            assert received, f"the browser ended during {method}"
            self._unread += received
        message, _, self._unread = self._unread.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed


def _started(program: str, profile: str) -> tuple[subprocess.Popen[bytes], int, int]:
    """The browser's process, the pipe for commands, the pipe for answers."""
    their_commands, commands = os.pipe()
    answers, their_answers = os.pipe()
    theirs = (_above_ten(their_commands), _above_ten(their_answers))
    arguments = [sys.executable, "-c", _ON_PIPES, *map(str, theirs), program, *_FLAGS, f"--user-data-dir={profile}"]
    process = subprocess.Popen(
        [*arguments, "about:blank"],
        pass_fds=theirs,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    for descriptor in theirs:
        os.close(descriptor)
    return process, commands, answers


def _above_ten(descriptor: int) -> int:
    import fcntl

    moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD, 11)
    os.close(descriptor)
    return moved
