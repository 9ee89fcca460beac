"""Hosts of a test: network namespaces, each with a loopback of its own, joined to this machine by a cable."""

from __future__ import annotations

import os
import shutil
import subprocess
import uuid
from typing import Final, Self

import pytest

_IP: Final = shutil.which("ip") or "/sbin/ip"


class Host:
    """A namespace that reaches this machine at `here`, and nothing else; needs root on Linux, else the test skips."""

    def __init__(self, number: int) -> None:
        self._name = f"cptr-{uuid.uuid4().hex[:8]}"
        self._cable = f"{self._name[-8:]}h"
        net = f"10.213.{os.getpid() % 250}.{4 * number}"
        base = net.rpartition(".")[0]
        self.here, self._there = f"{base}.{4 * number + 1}", f"{base}.{4 * number + 2}"

    @property
    def prefix(self) -> tuple[str, ...]:
        """What a command begins with to run there."""
        return (_IP, "netns", "exec", self._name)

    def cut(self) -> None:
        """Pulls the cable: what is sent gets lost without an answer."""
        _ip("link", "set", self._cable, "down")

    def join(self) -> None:
        """Puts it back."""
        _ip("link", "set", self._cable, "up")

    def __enter__(self) -> Self:
        try:
            _ip("netns", "add", self._name)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("network namespaces cannot be made here: this needs root on Linux, and the command ip")
        _ip("link", "add", self._cable, "type", "veth", "peer", "name", "eth0", "netns", self._name)
        _ip("address", "add", f"{self.here}/30", "dev", self._cable)
        _ip("link", "set", self._cable, "up")
        for words in (
            ("address", "add", f"{self._there}/30", "dev", "eth0"),
            ("link", "set", "eth0", "up"),
            ("link", "set", "lo", "up"),
        ):
            _ip("-n", self._name, *words)
        return self

    def __exit__(self, *_: object) -> None:
        _ip("netns", "delete", self._name)  # the cable goes with it


def _ip(*words: str) -> None:
    subprocess.run([_IP, *words], check=True, capture_output=True, timeout=20)
