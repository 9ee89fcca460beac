"""Many threads at one session: bots, workers, and those who clear and refill, compact and undo."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from compactor import Compactor, Outcome, Session
from compactor.exceptions import CompactionNotFoundError, SessionNotFoundError
from compactor.settings import Settings
from compactor.store import Store
from compactor.validity import faults
from tests.integration.conversations import SMALL, call, result, rows, user
from tests.integration.inline_worker import InlineWorker

PACE = 0.01  # seconds between two looks


@dataclass
class Crowd:
    """What all did, by the receipts they got: each position and the message pushed there."""

    settings: Settings
    name: str
    pushed: list[tuple[int, dict[str, Any]]] = field(default_factory=list[tuple[int, dict[str, Any]]])
    moved: list[int] = field(default_factory=list[int])  # how many messages each clear moved aside
    ended: list[Outcome] = field(default_factory=list[Outcome])
    _over: threading.Event = field(default_factory=threading.Event)

    def push(self, session: Session, messages: Sequence[dict[str, Any]]) -> None:
        receipt = session.push(list(messages))
        self.pushed.extend(zip(receipt.positions, messages, strict=True))

    def bot(self, number: int, steps: int) -> None:
        """Pushes whole steps and sends; it has a client of its own, as a process has."""
        with Compactor(settings=self.settings) as memory:
            session = memory.session(self.name, SMALL)
            for order in range(steps):
                id_ = 1_000 * number + order
                self.push(session, [call(id_), result(id_, rows(id_, 25))])
                if order % 5 == 4:
                    self.push(session, [user(f"{number}: and then? ({order})")])
                context = session.prepare()
                assert not context.messages or not faults(context.messages)  # it may have been cleared meanwhile
                assert context.verdict.sent <= context.verdict.ceiling

    def clearer(self, clears: int, every: int) -> None:
        """Ends the conversation now and then, and begins another of the same length at once."""
        with Compactor(settings=self.settings) as memory:
            session = memory.session(self.name, SMALL)
            for order in range(clears):
                while session.status().length < every and not self._over.wait(PACE):
                    pass
                self.moved.append(session.clear())
                self.push(session, [user(f"clear {order}, {place}") for place in range(self.moved[-1])])

    def worker(self) -> None:
        """Takes every claim it sees, though other workers have its task as well."""
        with Store(self.settings) as store:
            worker = InlineWorker(self.settings, store)
            while not self._over.wait(PACE):
                if owner := worker.owner(self.name):
                    self.ended.append(worker.work(self.name, owner=owner).outcome)

    def impatient(self) -> None:
        """Asks for a compaction again and again."""
        with Compactor(settings=self.settings) as memory:
            while not self._over.wait(PACE):
                memory.session(self.name, SMALL).compact()

    def undoer(self, undos: int) -> None:
        """Takes back whatever compaction came last, so many times."""
        with Compactor(settings=self.settings) as memory:
            while undos and not self._over.wait(PACE):
                with contextlib.suppress(SessionNotFoundError, CompactionNotFoundError):
                    undos -= memory.session(self.name, SMALL).undo().items > 0

    def run(self, busy: Sequence[Callable[[], None]], beside: Sequence[Callable[[], None]]) -> None:
        """All at once; those beside go on until the busy ones are done. Raises what any of them raised."""
        with ThreadPoolExecutor(len(busy) + len(beside)) as threads:
            lasting: list[Future[None]] = [threads.submit(work) for work in beside]
            try:
                for done in [threads.submit(work) for work in busy]:
                    done.result(90)
            finally:
                self._over.set()
            for done in lasting:
                done.result(30)
