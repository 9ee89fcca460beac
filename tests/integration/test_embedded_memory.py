"""The embedded server keeps what large values leave free, unless whoever starts it says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from compactor import embedded
from compactor.embedded import EmbeddedServer, server_binary

NAME = "MALLOC_TRIM_THRESHOLD_"  # glibc's name


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], dict[str, str]]:
    """Starts a server, and tells the environment that it began with; it forgets it when it names its process."""
    told, script = tmp_path / "environment", tmp_path / "server"
    script.write_text(f'#!/bin/sh\nenv > {told}\nexec {server_binary()} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(embedded, "server_binary", lambda: script)

    def start() -> dict[str, str]:
        EmbeddedServer().stop()
        return dict(line.split("=", 1) for line in told.read_text().splitlines() if line.startswith("MALLOC_"))

    return start


def test_freed_values_are_not_given_back_one_by_one(
    monkeypatch: pytest.MonkeyPatch, started: Callable[[], dict[str, str]]
) -> None:
    monkeypatch.delenv(NAME, raising=False)
    assert int(started()[NAME]) >= 1 << 20


def test_a_setting_of_the_operators_own_is_kept(
    monkeypatch: pytest.MonkeyPatch, started: Callable[[], dict[str, str]]
) -> None:
    monkeypatch.setenv(NAME, "4096")
    assert started()[NAME] == "4096"
