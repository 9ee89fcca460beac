"""docs/faults.md and the tests of this folder name each other, and together every known kind of fault."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

HERE: Final = Path(__file__).resolve().parent
PAGE: Final = HERE.parents[1] / "docs" / "faults.md"
CATALOGUE: Final = HERE.parents[2] / "shared" / "fault_catalogue.md"
ROW: Final = re.compile(r"^\| ([A-Z])(\d+) \| ([^|]+) \| ([^|]+) \|$")


def rows() -> dict[str, str]:
    """The last column of each entry, by section and number such as `a01`."""
    found: dict[str, str] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if match := ROW.match(line):
            name = f"{match[1].lower()}{int(match[2]):02}"
            assert name not in found, f"{name} stands twice"
            found[name] = match[4].strip()
    return found


def written() -> Iterator[str]:
    """The test functions of this folder."""
    for path in sorted(HERE.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
                yield node.name


def test_every_entry_has_a_test_of_its_name_or_a_reason() -> None:
    tests = set(written())
    for entry, last in rows().items():
        named = re.findall(r"`(test_\w+)`", last)
        assert set(named) <= tests, f"{entry}: {set(named) - tests} not found"
        own = [name for name in named if name.startswith(f"test_{entry}_")]
        assert own or (not named and len(last.split()) >= 5), f"{entry}: neither a test nor a reason"
        assert all(re.match(rf"test_{entry[0]}(_|\d)", name) for name in named), f"{entry}: a test of another section"


def test_every_test_of_an_entry_is_named_in_its_row() -> None:
    listed = rows()
    for name in written():
        if match := re.match(r"test_([a-z]\d\d)_", name):
            assert f"`{name}`" in listed.get(match[1], ""), f"{name}: is in no row of docs/faults.md"


def test_what_is_open_is_said() -> None:
    page = PAGE.read_text(encoding="utf-8")
    said = page.partition("## Open")[2].partition("## A.")[0]
    for path in HERE.glob("test_[a-z]_*.py"):
        for mark in re.finditer(r"xfail\(", text := path.read_text(encoding="utf-8")):
            section = path.name[5].upper()
            assert re.search(rf"\| (?:\w+, )*{section}\d+", said), f"{path.name}: {text[mark.start() :][:80]}"


def test_no_known_kind_of_fault_is_missing() -> None:
    if not CATALOGUE.exists():
        pytest.skip("the catalogue of faults is absent: ../shared/fault_catalogue.md")
    known: set[str] = set()
    section = ""
    for line in CATALOGUE.read_text(encoding="utf-8").splitlines():
        if heading := re.match(r"## ([A-Z])\. ", line):
            section = heading[1].lower()
        elif (entry := re.match(r"(\d+)\. ", line)) and section:
            known.add(f"{section}{int(entry[1]):02}")
    assert len(known) > 100
    assert known == set(rows())
