"""A process full of bots: `python -m compactor.cli.chaos.host SPEC`, started and killed by `compactor chaos`."""

from __future__ import annotations

import json
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, Self

from compactor.cli.chaos.board import Board
from compactor.cli.chaos.bot import Bot, Part, Place
from compactor.cli.chaos.journal import Journal, read_journal
from compactor.cli.chaos.lister import Lister
from compactor.cli.chaos.seed import drawn
from compactor.client import Compactor
from compactor.settings import read_settings

_HELD_BACK: Final = 0.15  # seconds between the sends of a thread while pushes are held back


@dataclass(frozen=True, slots=True)
class Spec:
    """What a bot process needs to know; `settings` as `read_settings` takes them."""

    row: int
    rows: int
    life: int
    seed: int
    threads: int
    board: str
    journal: str
    settings: dict[str, Any]
    parts: tuple[Part, ...]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Self:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        parts = tuple(Part(**part) for part in raw.pop("parts"))
        return cls(**raw, parts=parts)


def run(spec: Spec) -> bool:
    """Lets the bots talk until the board says stop; False when one of them failed in a way none may."""
    path = Path(spec.journal)
    known = read_journal(path).entries
    with (
        Board(Path(spec.board), spec.rows) as board,
        closing(Journal(path)) as journal,
        Compactor(settings=read_settings(**spec.settings)) as memory,
    ):
        board.clear(spec.row, "open")
        place = Place(memory, journal, board, spec.row, spec.life)
        bots = [
            (Lister if part.owns else Bot)(
                part, place, drawn(spec.seed, "bot", part.bot, spec.life), [e for e in known if e.bot == part.bot]
            )
            for part in spec.parts
        ]
        random = drawn(spec.seed, "row", spec.row, spec.life)
        random.shuffle(bots)
        threads = [
            _Thread(bots[number :: spec.threads], board, drawn(random.random())) for number in range(spec.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return not any(thread.failed for thread in threads)


class _Thread(threading.Thread):
    """Lets its bots take turns."""

    def __init__(self, bots: Sequence[Bot | Lister], board: Board, random: Random) -> None:
        super().__init__()
        self._bots, self._board, self._random = list(bots), board, random
        self.failed = False

    def run(self) -> None:
        while self._bots and not self._board.stopping:
            bot = self._random.choice(self._bots)
            may_push = self._board.total("pushes") < self._board.allowed
            try:
                bot.step(may_push=may_push)
            except Exception:  # noqa: BLE001 # why: whatever a bot meets belongs into the report, and ends this bot alone
                traceback.print_exc()
                self.failed = bot.ended = True
            if bot.ended:
                self._bots.remove(bot)
            if not may_push:
                time.sleep(_HELD_BACK)


if __name__ == "__main__":
    sys.exit(0 if run(Spec.read(Path(sys.argv[1]))) else 1)
