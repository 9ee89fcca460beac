"""Every example runs, and every table tells the truth."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from compactor.embedded import EmbeddedServer
from compactor.models import Code
from compactor.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
SAID = {
    "agent_loop.py": (
        "runaway: [stopped: the same call came 5 times in a row] after 4 steps",
        "after 200 steps",
        "recalled whole: True",
        "times inside the turn",
        "recalled by the model: As the log says: host-0 request 13 took 1 ms.",
    )
}
BLOCKS = [
    pytest.param(match[1], id=f"{page.name}-{number}")
    for page in PAGES
    for number, match in enumerate(re.finditer(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL))
]


def run(arguments: list[str], server: EmbeddedServer) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "REDIS_URL": server.url}
    return subprocess.run(arguments, env=env, cwd=ROOT, capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.parametrize("code", BLOCKS)
def test_every_code_block_runs(code: str, server: EmbeddedServer) -> None:
    done = run([sys.executable, "-W", "error", "-c", code], server)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_every_example_runs_without_arguments_keys_or_servers(example: Path, server: EmbeddedServer) -> None:
    done = run([sys.executable, "-W", "error", str(example)], server)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    for said in SAID.get(example.name, ()):
        assert said in done.stdout


def test_the_bot_example_compacts_and_recalls(server: EmbeddedServer) -> None:
    done = run([sys.executable, str(ROOT / "examples" / "bot.py")], server)
    assert "applied:" in done.stdout
    assert "2031-04-09 host-0 request 0" in done.stdout


def test_the_settings_table_lists_every_setting_with_its_default() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    for name, field in Settings.model_fields.items():
        alias = getattr(field.validation_alias, "choices", [None, f"COMPACTOR_{name.upper()}"])[-1]
        row = next((line for line in page.splitlines() if line.startswith("| `") and f"`{alias}`" in line), None)
        assert row is not None, f"{alias} is missing in the settings table"
        if isinstance(field.default, (int, float)):
            assert f"{field.default:g}" in row or str(int(field.default)) in row, row


def test_the_outcome_table_explains_every_outcome() -> None:
    page = (ROOT / "docs" / "operating.md").read_text(encoding="utf-8")
    for code in Code:
        if code not in (Code.QUEUED, Code.RUNNING):
            assert f"| `{code}` |" in page


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
