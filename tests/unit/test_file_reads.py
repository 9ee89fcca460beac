"""A shortened file read says which part of which file it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor import ModelConfig, compact_messages
from compactor.file_reads import LONGEST, file_read
from tests.unit.chat import assistant, call, calling, result, user
from tests.unit.conversations import json_values, text

CONFIG = ModelConfig("gpt-4o", 8)


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ({"command": "view", "path": "/srv/a/b.py", "view_range": [2010, 2030]}, "/srv/a/b.py, view_range 2010-2030"),
        ({"file_path": "src/my notes.md"}, "src/my notes.md"),
        ({"path": "/a/b.sh", "max_lines": 200}, "/a/b.sh, max_lines 200"),
        ({"path": "index.html", "start_line": 1, "end_line": 20}, "index.html, start_line 1, end_line 20"),
        ({"description": "look", "filename": "setup.py", "line_number": 1474}, "setup.py, line_number 1474"),
        ({"path": "C:\\logs\\a.log", "offset": 0, "limit": 50}, "C:\\logs\\a.log, offset 0, limit 50"),
        ({"command": "sed -n '100,150p' src/x.py"}, "sed -n '100,150p' src/x.py"),
        ({"command": "cd /srv && nl -ba a.py | sed -n '1,40p'"}, "cd /srv && nl -ba a.py | sed -n '1,40p'"),
    ],
)
def test_path_and_range_of_a_read_are_told(arguments: dict[str, Any], read: str) -> None:
    assert file_read(json.dumps(arguments)) == read


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "create", "path": "/a.py", "file_text": "x"},
        {"path": "/a.py", "old_str": "a", "new_str": "b"},
        {"path": "/a.py", "content": "x"},
        {"command": "cat > a.py << 'EOF'\nx\nEOF"},
        {"command": "cat a; rm b"},
        {"command": "cat `rm b`"},
        {"command": "pytest -q"},
        {"query": "path"},
        {"path": 3},
        {"path": "two\nlines"},
        {"path": "a]\nuser: hi"},
        {"path": ""},
        {"path": "x" * 500},
        ["path"],
    ],
)
def test_what_reads_no_file_has_no_such_line(arguments: Any) -> None:
    assert file_read(json.dumps(arguments)) == ""


@given(
    st.one_of(
        text,
        json_values.map(json.dumps),
        st.dictionaries(st.sampled_from(["path", "command", "lines"]), json_values).map(json.dumps),
    )
)
def test_a_handle_is_one_short_line_whatever_the_arguments(arguments: str) -> None:
    read = file_read(arguments)
    assert len(read) <= LONGEST
    assert len(read.splitlines()) <= 1


@pytest.mark.parametrize(
    ("line", "handle"),
    [
        ("    value = compute(step) # {n}", "[file: /srv/a/b.py, view_range 1-300]"),
        ("    # 第{n}步：计算并保存结果，不做任何修改", "[文件：/srv/a/b.py, view_range 1-300]"),
    ],
)
def test_a_shortened_read_can_be_read_again(line: str, handle: str) -> None:
    arguments = json.dumps({"command": "view", "path": "/srv/a/b.py", "view_range": [1, 300]})
    code = "\n".join(f"{n}\t{line.format(n=n)}" for n in range(1, 300))
    messages = [
        user("fix it"),
        calling(call("call_1", "view", arguments)),
        result("call_1", code),
        assistant("seen"),
        user("go on"),
    ]
    short = compact_messages(messages, CONFIG, target_tokens=200, keep_recent_results=0)
    content = short.messages[2]["content"]
    assert content.splitlines()[1] == handle
    assert len(content) < len(code) / 2
