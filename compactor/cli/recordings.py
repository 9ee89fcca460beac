"""Reading recorded conversations: JSON lines or gzip, one session a line, or a plain message list."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from compactor.exceptions import ConfigurationError
from compactor.formats.openai import leading_system
from compactor.json_values import is_array, is_object


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded session: its messages as recorded, the tools sent beside them, and the name of its file."""

    id: str
    messages: list[Any]
    tools: list[Any] | None = None
    source: str = ""


def read_recordings(paths: list[Path]) -> Iterator[Recording]:
    """Every session of every file, in order. Raises ConfigurationError naming file and line."""
    for path in paths:
        name = path.name.removesuffix(".gz").removesuffix(".jsonl").removesuffix(".json")
        yield from (replace(recording, source=name) for recording in _sessions(path, name))


def joined(recordings: Iterable[Recording]) -> list[Recording]:
    """The sessions of each file as one long session; the system text that opens it is that of the first."""
    found: dict[str, Recording] = {}
    for each in recordings:
        first = found.get(each.source)
        if first is None:
            found[each.source] = replace(each, id=each.source, messages=[*each.messages], tools=None)
        else:
            first.messages.extend(each.messages[leading_system(each.messages) :])
    return list(found.values())


def _sessions(path: Path, name: str) -> Iterator[Recording]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path.name}: cannot be read ({type(error).__name__}).") from None
    whole = _parse(text)
    if whole is not None:
        yield _recording(whole, name, f"{path.name}")
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            value = _parse(line)
            yield _recording(value, f"{name}-{number}", f"{path.name}, line {number}")


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _recording(value: Any, name: str, where: str) -> Recording:
    if is_array(value):
        return Recording(name, list(value))
    if is_object(value) and is_array(value.get("messages")):
        tools = value.get("tools")
        listed = list(tools) if is_array(tools) else None
        return Recording(str(value.get("id") or name), list(value["messages"]), listed)
    raise ConfigurationError(
        f"{where}: expected a JSON list of chat messages, or an object with 'messages' (and 'tools', 'id')."
    )
