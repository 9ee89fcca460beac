"""10,000 live sessions for half an hour, or as many as the environment says: `compactor bench soak`.

Run by name: `python -m pytest tests/benchmarks/test_soak.py -m soak -s`, and with
SOAK="--sessions 300 --minutes 1 --pause 10" before it for a short run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.acceptance.cli_process import run


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_every_compaction_of_thousands_of_sessions_is_applied(tmp_path: Path) -> None:
    picture = tmp_path / "soak.svg"
    ended = run("bench", "soak", *os.environ.get("SOAK", "").split(), "--picture", str(picture))
    print("", ended.out, sep="\n")
    assert ended.code == 0, ended.err
    assert picture.stat().st_size > 1_000
