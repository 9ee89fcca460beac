"""The scripts: each names its keys, arguments and answers, and touches no key that it was not given."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

SCRIPTS = {
    path.name: path.read_text(encoding="utf-8")
    for path in files("compactor.lua").iterdir()
    if path.name.endswith(".lua")
}
KEYLESS = {"TIME"}
WRITES = {
    "RPUSH", "LPUSH", "LSET", "LTRIM", "HSET", "HDEL", "HINCRBY", "DEL", "UNLINK", "RENAME", "PEXPIRE", "EXPIRE", "SET",
    "SADD", "ZADD", "PERSIST", "INCR",
}  # fmt: skip


def code(text: str) -> str:
    """The script without its comments."""
    return re.sub(r"--[^\n]*", "", text)


def commands(text: str) -> list[tuple[str, str]]:
    """Every redis.call as (command, its first argument)."""
    found: list[tuple[str, str]] = re.findall(r"redis\.call\(\s*'(\w+)'(?:,\s*(\w+(?:\[\w+\])?))?", code(text))
    return found


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 10


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_every_call_names_its_key_literally(name: str) -> None:
    text = code(SCRIPTS[name])
    assert len(re.findall(r"redis\.p?call", text)) == len(commands(SCRIPTS[name]))
    for command, key in commands(SCRIPTS[name]):
        if command not in KEYLESS:
            assert re.fullmatch(r"KEYS\[(?:\d+|i)\]", key), f"{command} {key}"


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_computed_index_walks_the_given_keys_only(name: str) -> None:
    text = code(SCRIPTS[name])
    for line in text.splitlines():
        if "KEYS[i]" in line:
            assert re.search(r"for i = 1, #KEYS do", line), line


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_every_key_is_one_of_the_sessions(name: str) -> None:
    assert all(1 <= int(number) <= 9 for number in re.findall(r"KEYS\[(\d+)\]", SCRIPTS[name]))


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_both_keys_of_a_rename_are_given(name: str) -> None:
    for arguments in re.findall(r"redis\.call\('RENAME',([^)]*)\)", code(SCRIPTS[name])):
        assert re.fullmatch(r"\s*KEYS\[\d\],\s*KEYS\[\d\]", arguments)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_header_says_what_it_does_and_names_keys_arguments_and_answers(name: str) -> None:
    lines = SCRIPTS[name].splitlines()
    header = lines[: next(i for i, line in enumerate(lines) if not line.startswith("--"))]
    assert re.match(r"-- [A-Z].+[.;]?", header[0])
    assert any(line.startswith("-- KEYS ") for line in header)
    assert any(line.startswith("-- ARGV ") for line in header)
    assert any(line.startswith("-- returns ") for line in header)


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_the_header_names_every_argument_that_the_script_reads(name: str) -> None:
    text = SCRIPTS[name]
    head = text[: text.index("-- returns")]
    for number in {int(found) for found in re.findall(r"ARGV\[(\d+)\]", code(text))}:
        assert re.search(rf"(?:ARGV|\||,|--|;)\s+{number} |, {number} ", head), number


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_messages_stay_opaque_bytes(name: str) -> None:
    text = code(SCRIPTS[name])
    assert "cjson" not in text
    assert "cmsgpack" not in text


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_a_script_keeps_nothing_between_calls(name: str) -> None:
    text = code(SCRIPTS[name])
    assigned = re.findall(r"^(\w+)(?:\s*,\s*\w+)*\s*=", text, re.MULTILINE)
    local = set(re.findall(r"\blocal\s+([\w\s,]+?)\s*(?:=|$)", text, re.MULTILINE))
    names = {part.strip() for group in local for part in group.split(",")}
    assert set(assigned) <= names


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_time_is_asked_of_the_server_before_anything_is_written(name: str) -> None:
    found = [command for command, _ in commands(SCRIPTS[name])]
    first = next((place for place, command in enumerate(found) if command in WRITES), len(found))
    assert "TIME" not in found[first:]


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_unpack_is_bounded(name: str) -> None:
    """Lua's stack holds 8,000 values: what is as long as a caller's list is unpacked in slices."""
    short = ("changes", "'>I8', now", "'>I4', record, 4 * place", "'>I4', draft, place")
    for arguments in re.findall(r"unpack\(([^()]*(?:\([^()]*\))?[^()]*)\)", code(SCRIPTS[name])):
        assert arguments in short or re.search(r"\bi\b.*i \+ \d{1,4}", arguments), arguments


def test_lists_that_grow_with_a_session_are_not_read_by_scripts_without_a_bound() -> None:
    whole = [(name, key) for name, text in SCRIPTS.items() for command, key in commands(text) if command == "LRANGE"]
    # A branch moves what it leaves, and reads no more than that; a prepare reads what is new, as long as it is little.
    assert sorted(name for name, key in whole if key == "KEYS[2]") == ["prepare.lua", "sync.lua"]
    assert "redis.call('LRANGE', KEYS[2], known_length, known_length + 999)" in code(SCRIPTS["prepare.lua"])
