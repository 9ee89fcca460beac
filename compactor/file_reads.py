"""file_read(arguments): which part of which file a call read, so that it can be read again.

Recognised are a path beside numbers that tell a range (`view_range`, `start_line`, `offset` …), and shell
commands that only show a file. Calls that write, or hold long texts, read nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from compactor.json_values import is_array, is_object

LONGEST: Final = 200  # characters of a handle
_LONGEST_ARGUMENTS: Final = 2_000  # characters; what reads a file says so in fewer
_PATH_KEY: Final = re.compile(
    r"(?i)(?:(?:abs(?:olute)?|rel(?:ative)?|full|target)_?)?(?:file_?)?(?:path|file|filename|filepath)"
)
_RANGE_KEY: Final = re.compile(
    r"(?i)(?:view_?)?(?:range|lines?)|(?:start|end|first|last|from|to|begin|max|num|line)_?(?:lines?|rows?|numbers?|offset)?"
    r"|offset|limit|pages?"
)
_NO_READ: Final = re.compile(
    r"(?i)(?:new|old)_?(?:str|string|text)|content|contents|file_?text|edits?|patch|diff|replacement|insert_?line"
)
_WRITES: Final = re.compile(r"(?i)create|write|insert|str_replace|undo_edit|edit|delete|remove|append|move|copy")
_PATH: Final = re.compile(r"[^\s\"'\[\]{}]+(?: [^\s\"'\[\]{}]+)*")
_COMMAND: Final = re.compile(
    r"(?:cd [\w./~-]+ && )?(?:cat|head|tail|nl|less|more|bat|sed -n) [^\n;&<>|`$]{1,160}"
    r"(?: ?\| ?(?:sed -n|head|tail|cat -n|nl)(?: [^\n;&<>|`$]{1,60})?)?"
)


def file_read(arguments: str) -> str:
    """The path of the file that a call read, with the range; of a shell, the command. Empty when it read none."""
    if not arguments.lstrip().startswith("{") or len(arguments) > _LONGEST_ARGUMENTS:
        return ""
    try:
        value = orjson.loads(arguments.encode("utf-8", "replace"))
    except ValueError:
        return ""
    return _of_call(value) if is_object(value) else ""


def _of_call(value: Mapping[str, Any]) -> str:
    command = value.get("command", value.get("cmd"))
    if isinstance(command, str):
        command = command.strip()
        if len(command) <= LONGEST and _COMMAND.fullmatch(command):
            return command
        if _WRITES.match(command):
            return ""
    if any(_NO_READ.fullmatch(key) for key in value):
        return ""
    for key, path in value.items():
        if isinstance(path, str) and _PATH_KEY.fullmatch(key) and len(path) <= LONGEST and _PATH.fullmatch(path):
            shown = ", ".join([path, *_ranges(value)])
            return shown if len(shown) <= LONGEST else path
    return ""


def _ranges(value: Mapping[str, Any]) -> Iterator[str]:
    for key, item in value.items():
        if not _RANGE_KEY.fullmatch(key):
            continue
        if is_array(item) and len(item) == 2 and all(map(_is_place, item)):
            yield f"{key} {item[0]}-{item[1]}"
        elif _is_place(item):
            yield f"{key} {item}"


def _is_place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**9
