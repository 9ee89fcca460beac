"""What Python printed is condensed like JSON, and only where the way back is exact."""

from __future__ import annotations

import ast
import json
import time
from typing import Any

import pytest
from hypothesis import example, given

from compactor.condense import Form, condense
from compactor.json_tables import condense_json
from compactor.literals import json_of_literal
from tests.unit.condensed_reader import read_tables, source_value
from tests.unit.conversations import json_values

ROWS = [{"name": f"it's part {n}", "price": n * 1.25, "in stock": n % 2 == 0, "note": None} for n in range(30)]


@given(json_values)
@example({"a": ["it's", 'a "quote"', "line\nend", "\x00\ud800", -0.0, 10**30, None, True]})
def test_the_value_of_a_literal_is_that_of_its_json(value: Any) -> None:
    text = repr(value)
    found = json_of_literal(text)
    if found is not None:
        assert repr(json.loads(found)) == text == repr(ast.literal_eval(text))


def test_rows_that_python_printed_become_a_table() -> None:
    found = condense(repr(ROWS))
    assert found is not None
    assert found.form is Form.TABLES
    assert found.part < 0.6
    assert read_tables(found.text) == source_value(json.dumps(ROWS))
    assert condense_json(repr(ROWS)) == condense_json(json.dumps(ROWS))


@pytest.mark.parametrize(
    "text",
    [
        "{'a': 1, 'a': 2}", "{'a': (1, 2)}", "{1: 'a'}", "{'a'}", "{'a': 1.50}", "{'a':1}", "{'a': b'x'}", "['\\d']",
        "{'a': f(1)}", "[1 + 1]", "{'a': nan}", "[" * 5_000, "{'a': " * 3_000 + "1", "[1," * 2_000,
        "[" + "-" * 9_000 + "1]",
        "[" + "1+" * 9_000 + "1]", "[" + "9" * 5_000 + "]", "['" + "\\x41" * 20_000 + "']", "not {'a': 1}",
        "[" * 60 + "]" * 60,
    ],
)  # fmt: skip
def test_what_python_would_not_print_so_is_left_alone(text: str) -> None:
    started = time.process_time()
    assert json_of_literal(text) is None
    assert time.process_time() - started < 1.0
