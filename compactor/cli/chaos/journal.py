"""What each bot pushed, written down before and after each call, in a file that survives the bot."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import orjson


class Fate(StrEnum):
    """What a bot knows of one push."""

    TRIED = "tried"  # its process died in the call: stored or not, but never twice
    STORED = "stored"
    ABSENT = "absent"  # looked for after a restart, and not there at that time


@dataclass(slots=True)
class Entry:
    """One push of one bot; `number` orders the pushes of a bot."""

    bot: int
    session: str
    number: int
    messages: list[Any]
    key: str | None = None
    fate: Fate = Fate.TRIED
    positions: tuple[int, ...] = ()


@dataclass(slots=True)
class Record:
    """A journal read back: pushes in the order they were tried, and faults that the bots saw."""

    entries: list[Entry] = field(default_factory=list[Entry])
    findings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])


class Journal:
    """Appends lines to one file; each line reaches the system before the call returns."""

    def __init__(self, path: Path) -> None:
        torn = path.exists() and not path.read_bytes().endswith(b"\n")
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lock = threading.Lock()
        if torn:
            os.write(self._file, b"\n")

    def tries(self, entry: Entry) -> None:
        """Before the first attempt."""
        self._append({"b": entry.bot, "s": entry.session, "n": entry.number, "k": entry.key, "m": entry.messages})

    def ends(self, entry: Entry, fate: Fate, positions: tuple[int, ...] = ()) -> None:
        """After the push returned, or after a restart looked for it."""
        entry.fate, entry.positions = fate, positions
        self._append({"b": entry.bot, "n": entry.number, "fate": fate.value, "p": positions})

    def finds(self, bot: int, session: str, fault: str, **detail: Any) -> None:
        """A fault in a list that a bot was given."""
        self._append({"b": bot, "s": session, "fault": fault, **detail})

    def _append(self, line: dict[str, Any]) -> None:
        text = orjson.dumps(line, option=orjson.OPT_NON_STR_KEYS) + b"\n"
        with self._lock:
            os.write(self._file, text)

    def close(self) -> None:
        os.close(self._file)


def read_journal(path: Path) -> Record:
    """The journal as far as it was written; a line torn by a kill is left out."""
    record = Record()
    by_name: dict[tuple[int, int], Entry] = {}
    for line in _lines(path):
        if "fault" in line:
            record.findings.append(line)
        elif "fate" in line:
            entry = by_name[line["b"], line["n"]]
            entry.fate, entry.positions = Fate(line["fate"]), tuple(line["p"])
        else:
            entry = Entry(line["b"], line["s"], line["n"], line["m"], line["k"])
            by_name[entry.bot, entry.number] = entry
            record.entries.append(entry)
    return record


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                yield orjson.loads(line)
            except orjson.JSONDecodeError:
                continue
