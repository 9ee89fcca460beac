"""docs/http.md tells the truth: every code of a problem, every operation."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from compactor.http import config_problems, problems
from tests.http.routes import ALL

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
KINDS_OF_CONFIGS: Final[dict[Any, tuple[int, str, str]]] = vars(config_problems)["_KINDS"]
SECTION: Final = PAGE.partition("## Problems")[2].partition("\n## ")[0]


def codes() -> set[str]:
    """Every code that stands in the sources: with a status before it, or after one in a table."""
    found: set[str] = set()
    for path in Path(problems.__file__).parent.glob("*.py"):
        found |= set(re.findall(r'\(\s*(?:status|\d{3}),\s*"([a-z]+_?[a-z_]*)"', path.read_text(encoding="utf-8")))
    found |= {kind.code for kind in problems.KINDS.values()}
    found |= {code for _, code, _ in KINDS_OF_CONFIGS.values()}
    return found | {code for code, _, _ in problems.PLAIN.values()}


def test_every_code_is_explained_and_no_other() -> None:
    told = {
        code
        for row in re.findall(r"^\| [\d, any]+ \| ([^|]+) \|", SECTION, re.MULTILINE)
        for code in re.findall(r"`(\w+)`", row)
    }
    assert codes() - told == set()
    assert told - codes() - {"http_error", "config_unusable"} == set()
    assert len(told) > 25


def test_every_operation_on_a_session_is_named() -> None:
    for operation in ALL:
        if operation.path.startswith("/v1/sessions/{name}"):
            rest = operation.path.removeprefix("/v1/sessions/{name}")
            assert f"`{operation.method}" in PAGE
            assert rest in PAGE, operation
