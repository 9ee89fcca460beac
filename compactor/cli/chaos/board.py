"""Counters that the processes of a chaos run share: a mapped file, which outlives the kill of any of them."""

from __future__ import annotations

import mmap
import struct
import threading
from pathlib import Path
from typing import Final, Self

COUNTERS: Final = ("pushes", "prepares", "failed", "degraded", "open")
_NUMBER: Final = struct.Struct("<q")
_HEAD: Final = ("allowed", "stopping")


class Board:
    """One row of counters for each bot process, and what the run tells them all.

    `pushes` were acknowledged; `failed` calls raised because Redis did not answer; `degraded` lists
    came from memory; `open` bots stand between a call and its result right now. `allowed` is the
    number of pushes that all bots together may have made by now.
    """

    def __init__(self, path: Path, rows: int) -> None:
        self._rows = rows
        size = _NUMBER.size * (len(_HEAD) + rows * len(COUNTERS))
        if not path.exists():
            path.write_bytes(bytes(size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), size)
        self._lock = threading.Lock()

    def total(self, counter: str) -> int:
        """The sum over all processes."""
        return sum(self.row(row, counter) for row in range(self._rows))

    def row(self, row: int, counter: str) -> int:
        """The counter of one process."""
        return self._read(self._place(row, counter))

    def add(self, row: int, counter: str, change: int = 1) -> None:
        """Counts; each row has one process that writes it."""
        with self._lock:
            place = self._place(row, counter)
            self._write(place, self._read(place) + change)

    def clear(self, row: int, counter: str) -> None:
        """Back to 0."""
        self._write(self._place(row, counter), 0)

    @property
    def allowed(self) -> int:
        return self._read(0)

    @allowed.setter
    def allowed(self, pushes: int) -> None:
        self._write(0, pushes)

    @property
    def stopping(self) -> bool:
        return bool(self._read(1))

    def stop(self) -> None:
        """Asks the bots to end their present call and go."""
        self._write(1, 1)

    def _place(self, row: int, counter: str) -> int:
        return len(_HEAD) + row * len(COUNTERS) + COUNTERS.index(counter)

    def _read(self, place: int) -> int:
        return int(_NUMBER.unpack_from(self._map, place * _NUMBER.size)[0])

    def _write(self, place: int, value: int) -> None:
        _NUMBER.pack_into(self._map, place * _NUMBER.size, value)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._map.close()
