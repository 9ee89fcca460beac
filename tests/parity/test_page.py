"""docs/parity.md holds every row, and what it quotes is there."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "parity.md"
ROWS = [*(f"A{number}" for number in range(1, 18)), *(f"B{number}" for number in range(1, 7))]
HEADING = re.compile(r"### (\S+) · (.+) · (done|open)")
CODE = re.compile(r"- code: `([^`]+)` `(.+)`")
TEST = re.compile(r"- test: `([^`:]+)::([^`]+)`")


@dataclass(frozen=True)
class Row:
    """One row of the page: lines of code by file, tests by file."""

    name: str
    done: bool
    asks: str
    code: tuple[tuple[str, str], ...]
    tests: tuple[tuple[str, str], ...]


@cache
def rows() -> tuple[Row, ...]:
    found: list[Row] = []
    for part in re.split(r"^(?=### )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        heading, *lines = part.splitlines()
        match = HEADING.fullmatch(heading)
        assert match is not None, f"no row: {heading}"
        entries = [line for line in lines if line.startswith("- ")]
        code = [(m[1], m[2]) for line in entries if (m := CODE.fullmatch(line))]
        tests = [(m[1], m[2]) for line in entries if (m := TEST.fullmatch(line))]
        others = [line for line in entries if not line.startswith("- corrected: ")]
        assert len(others) == len(code) + len(tests), f"{match[1]}: an entry of no known kind"
        found.append(Row(match[1], match[3] == "done", lines[1], tuple(code), tuple(tests)))
    return tuple(found)


@cache
def stripped_lines(file: str) -> frozenset[str]:
    return frozenset(line.strip() for line in (ROOT / file).read_text(encoding="utf-8").splitlines())


@cache
def collected_from(file: str) -> frozenset[str]:
    """The functions that pytest collects from a file: those at its top level."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_")
    )


def test_all_23_rows_are_there_once_and_in_order() -> None:
    assert [row.name for row in rows()] == ROWS


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_row_that_is_done_names_its_code_and_its_tests(row: Row) -> None:
    assert row.asks[:1].isalpha(), "what the document asks stands below the heading"
    if row.done:
        assert row.code, "no line of code"
        assert row.tests, "marked done without a test"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_every_line_of_code_stands_in_its_file(row: Row) -> None:
    for file, line in row.code:
        assert line in stripped_lines(file), f"{file} no longer has the line: {line}"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_every_test_exists(row: Row) -> None:
    for file, name in row.tests:
        assert Path(file).parts[0] == "tests"
        assert Path(file).name.startswith("test_")
        assert name in collected_from(file), f"{file} has no test {name}"


def test_every_test_of_a_row_is_on_the_page() -> None:
    """A test named after a row belongs to it: `test_a7_…` of this folder stands under A7."""
    named = {row.name.lower(): {test for _, test in row.tests} for row in rows()}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for test in collected_from(f"tests/parity/{path.name}"):
            for name in re.findall(r"(?<=_)[ab]\d+(?=_)", test):
                assert test in named[name], f"{test} is missing under {name.upper()}"
