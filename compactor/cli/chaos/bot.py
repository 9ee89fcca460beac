"""One bot of a chaos run: it talks, repeats what failed, and checks every list it is given."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from compactor.cli.chaos.board import Board
from compactor.cli.chaos.checks import check_list, check_words
from compactor.cli.chaos.journal import Entry, Fate, Journal
from compactor.cli.chaos.talk import Manner, Message, Push, Send, Talk
from compactor.client import Compactor, Session
from compactor.exceptions import SessionDamagedError, SessionNotFoundError, StoreUnavailableError
from compactor.model_config import ModelConfig
from compactor.models import Fit, Receipt

UNDOES: Final = 0.004  # of all steps take the session's last compaction back
PATIENCE: Final = 40.0  # seconds of failing after which a bot gives up; the call is then in doubt
_INCARNATION: Final = 1_000_000  # numbers that one life of a bot may use for its messages
TOOLS: Final = [{"type": "function", "function": {"name": "query", "parameters": {"type": "object"}}}]


@dataclass(frozen=True, slots=True)
class Part:
    """The part that one bot plays; `alone` when no other bot pushes to its session."""

    bot: int
    session: str
    limit: int
    strategy: str
    alone: bool
    opens: bool
    chinese: bool
    reuses_ids: bool
    owns: str = ""  # how it hands in a list of its own; empty: it pushes

    @property
    def system(self) -> Message:
        """The system message of a bot that owns its list; it is sent and never stored."""
        return {"role": "system", "content": f"[{self.manner.name} 0] You are a careful operator."}

    def talk(self, random: Random, life: int) -> Talk:
        """What this bot says in one life."""
        return Talk(self.manner, random, start=_INCARNATION * life)

    @property
    def manner(self) -> Manner:
        return Manner(f"b{self.bot}", self.chinese, self.reuses_ids)

    @property
    def config(self) -> ModelConfig:
        return ModelConfig("gpt-4o", self.limit, self.strategy)


@dataclass(frozen=True, slots=True)
class Place:
    """What the bots of one process share."""

    memory: Compactor
    journal: Journal
    board: Board
    row: int
    life: int  # how often this process was started before


@dataclass(slots=True)
class Bot:
    """One bot in one life of its process."""

    part: Part
    place: Place
    random: Random
    entries: list[Entry] = field(default_factory=list[Entry])
    pushed: list[Message] = field(default_factory=list[Message])
    ended: bool = False
    _waiting: Push | None = None
    _open: bool = False
    _doubtful: bool = False

    def __post_init__(self) -> None:
        self._talk = self.part.talk(self.random, self.place.life)
        self._turns = self._talk.turns()
        self._session = self._connected()
        self._settled = not self.entries

    _talk: Talk = field(init=False)
    _turns: Any = field(init=False)
    _session: Session = field(init=False)
    _settled: bool = field(init=False)

    def _connected(self) -> Session:
        return self.place.memory.session(self.part.session, self.part.config)

    def step(self, *, may_push: bool) -> None:
        """One push or one send; a send alone while pushes are held back."""
        try:
            if not self._settled:
                self._settle()
            elif self.random.random() < UNDOES:
                undo_last(self._session, self.place)
            elif not may_push:
                self.send()
            else:
                self._next()
        except SessionDamagedError as error:
            self._finds("damaged", error=str(error))
            self.ended = True

    def _next(self) -> None:
        if not self.entries and self.part.opens:
            self._push(Push([self._talk.opening()]))
            return
        turn = next(self._turns)
        if isinstance(turn, Send):
            self.send()
        else:
            self._push(turn)

    def _push(self, push: Push) -> None:
        key = f"{self.part.bot}-{self.place.life}-{len(self.entries)}" if self.random.random() < 0.4 else None
        entry = Entry(self.part.bot, self.part.session, len(self.entries), push.messages, key)
        self.place.journal.tries(entry)
        self.entries.append(entry)
        self._store(entry)
        if push.open != self._open:
            self._open = push.open
            self.place.board.add(self.place.row, "open", 1 if push.open else -1)

    def _store(self, entry: Entry) -> None:
        """Pushes until it is stored, as a real bot does."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self._note(entry, self._attempt(entry))
            except SessionDamagedError:
                raise
            except StoreUnavailableError:
                self.place.board.add(self.place.row, "failed")
                if time.monotonic() > until:
                    raise
                time.sleep(self.random.uniform(0.05, 0.3))
            else:
                return

    def _note(self, entry: Entry, receipt: Receipt) -> None:
        self.place.journal.ends(entry, Fate.STORED, receipt.positions)
        self.place.board.add(self.place.row, "pushes")
        self.pushed += entry.messages

    def _attempt(self, entry: Entry) -> Receipt:
        if entry.key is not None:  # a name of its own makes a push known to every client
            self._session = self._connected()
        messages: Any = entry.messages if len(entry.messages) > 1 else entry.messages[0]
        return self._session.push(messages, idempotency_key=entry.key)

    def _settle(self) -> None:
        """After a restart: repeats a named push that was cut, looks for an unnamed one."""
        doubtful = [entry for entry in self.entries if entry.fate is Fate.TRIED]
        for entry in doubtful:
            if entry.key is None:
                self._look_for(entry)
        self.pushed = [message for entry in self.entries if entry.fate is Fate.STORED for message in entry.messages]
        for entry in doubtful:
            if entry.key is not None:
                self._store(entry)
        self._settled = True

    def _look_for(self, entry: Entry) -> None:
        found = entry.messages[0] in self._originals()
        self.place.journal.ends(entry, Fate.STORED if found else Fate.ABSENT)
        self._doubtful = self._doubtful or not found

    def _originals(self) -> list[Any]:
        while True:
            try:
                return self._session.originals()
            except SessionDamagedError:
                raise
            except StoreUnavailableError:
                self.place.board.add(self.place.row, "failed")
                time.sleep(0.1)

    def send(self) -> None:
        """Asks for the context of one model call, and checks it; without a question there is none."""
        if all(message["role"] == "system" for message in self.pushed):
            return
        try:
            context = self._session.prepare(tools=TOOLS)
        except SessionDamagedError:
            raise
        except StoreUnavailableError:
            self.place.board.add(self.place.row, "failed")
            return
        self.place.board.add(self.place.row, "prepares")
        if context.verdict.fit is Fit.DEGRADED:
            self.place.board.add(self.place.row, "degraded")
        mark = f"[{self.part.manner.name} "
        alone = self.part.alone
        for fault in (
            *check_words(self.pushed, context, mark=mark, alone=alone),
            *check_list(self.pushed, context, alone=alone, doubtful=self._doubtful),
        ):
            self._finds(fault.name, **fault.detail)

    def _finds(self, fault: str, **detail: Any) -> None:
        self.place.journal.finds(self.part.bot, self.part.session, fault, **detail)


def undo_last(session: Session, place: Place) -> None:
    """Takes back what the last compaction replaced, when there is one."""
    try:
        session.undo()
    except SessionNotFoundError:
        return
    except SessionDamagedError:
        raise
    except StoreUnavailableError:
        place.board.add(place.row, "failed")
