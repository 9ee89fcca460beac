"""A bot of a chaos run that owns its list: it never pushes, it hands the list in and gets it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from compactor.cli.chaos.bot import TOOLS, UNDOES, Part, Place, undo_last
from compactor.cli.chaos.checks import Fault, check_own_list
from compactor.cli.chaos.journal import Entry, Fate
from compactor.cli.chaos.talk import Message, Push, Send, Talk
from compactor.client import Session
from compactor.exceptions import SessionDamagedError, StoreUnavailableError
from compactor.models import Fit

OWN: Final = "own"  # hands in the list as it was said
RETURNED: Final = "returned"  # goes on with the list that it got back, whatever its fit
REWORDS: Final = "rewords"  # adds found text to the newest question, another one for each send
WAYS: Final = (OWN, RETURNED, REWORDS)
_FOUND: Final = "\n(found for this send: "
_MOST_STALE: Final = 8  # messages that an old list of its own may lack


@dataclass(slots=True)
class Lister:
    """One bot in one life of its process; its list is as lasting as its journal."""

    part: Part
    place: Place
    random: Random
    entries: list[Entry] = field(default_factory=list[Entry])
    ended: bool = False
    _back: list[Any] | None = None
    _talk: Talk = field(init=False)
    _turns: Iterator[Push | Send] = field(init=False)
    _session: Session = field(init=False)

    def __post_init__(self) -> None:
        self._talk = self.part.talk(self.random, self.place.life)
        self._turns = self._talk.turns()
        self._session = self.place.memory.session(self.part.session, self.part.config)

    @property
    def said(self) -> list[Message]:
        """The whole conversation as it was said, its system message first."""
        return [self.part.system, *(message for entry in self.entries for message in entry.messages)]

    def step(self, *, may_push: bool) -> None:
        """Says something and now and then hands the list in; a send alone while pushes are held back."""
        try:
            if self.random.random() < UNDOES:
                undo_last(self._session, self.place)
                return
            if not may_push:
                self._send_some_list()
                return
            turn = next(self._turns)
            if isinstance(turn, Send):
                self._send_some_list()
            else:
                self._say(turn)
        except SessionDamagedError as error:
            self._finds([Fault("damaged", {"error": str(error)})])
            self.ended = True

    def _say(self, push: Push) -> None:
        entry = Entry(self.part.bot, self.part.session, len(self.entries), push.messages)
        self.place.journal.tries(entry)
        self.entries.append(entry)
        if self._back is not None:
            self._back += push.messages
        if self.random.random() < 0.7:
            self._sync()

    def _sync(self) -> None:
        try:
            self._session.sync(self._back or self._worded(self.said))
        except SessionDamagedError:
            raise
        except StoreUnavailableError:
            self.place.board.add(self.place.row, "failed")
        else:
            self._confirm()

    def _send_some_list(self) -> None:
        """The present list; at times an older one, or one without its head, both of which change nothing."""
        if not self.entries:
            return
        way = self.random.random()
        said = self.said
        # An older list is one that was stored once: in the middle of a push that failed it would store a part of it.
        may_lag = len(said) > _MOST_STALE + 2 and self.entries[-1].fate is Fate.STORED
        if way < 0.1 and may_lag and self.part.owns != REWORDS:
            self._send(said[: -self.random.randint(1, _MOST_STALE)])
        elif way < 0.2 and (head := _second_turn(said)):
            self._send([said[0], *said[head:]])
        else:
            self._send(said, present=True)

    def _send(self, said: Sequence[Message], *, present: bool = False) -> None:
        said = self._worded(said)
        given = self._back if present and self._back is not None else said
        try:
            context = self._session.prepare(list(given), tools=TOOLS)
        except SessionDamagedError:
            raise
        except StoreUnavailableError:
            self.place.board.add(self.place.row, "failed")
            return
        self.place.board.add(self.place.row, "prepares")
        kept = context.verdict.fit is not Fit.DEGRADED and "contended" not in context.verdict.compaction
        if not kept:
            self.place.board.add(self.place.row, "degraded")
        self._finds(check_own_list(said, context, mark=f"[{self.part.manner.name} ", placed=kept, whole=given is said))
        if present and self.part.owns == RETURNED:
            self._back = list(context.messages)
        if present and kept:
            self._confirm()

    def _worded(self, said: Sequence[Message]) -> Sequence[Message]:
        """The list with found text in its newest question, when this bot adds any."""
        users = [index for index, message in enumerate(said) if message["role"] == "user"]
        if self.part.owns != REWORDS or not users:
            return said
        question = said[users[-1]]
        worded = {**question, "content": f"{question['content']}{_FOUND}{self.random.getrandbits(32)})"}
        return [*said[: users[-1]], worded, *said[users[-1] + 1 :]]

    def _confirm(self) -> None:
        position = 0
        for entry in self.entries:
            positions = tuple(range(position, position + len(entry.messages)))
            position += len(entry.messages)
            if entry.fate is not Fate.STORED:
                self.place.journal.ends(entry, Fate.STORED, positions)
                self.place.board.add(self.place.row, "pushes")

    def _finds(self, faults: Iterator[Fault] | Sequence[Fault]) -> None:
        for fault in faults:
            self.place.journal.finds(self.part.bot, self.part.session, fault.name, **fault.detail)


def plain(message: Any) -> Any:
    """A stored question without the text that a bot had found for one send."""
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, str) or _FOUND not in content:
        return message
    return {**message, "content": content.partition(_FOUND)[0]}


def _second_turn(said: Sequence[Message]) -> int:
    """Where the second user message stands, 0 when there is none."""
    users = [index for index, message in enumerate(said) if message["role"] == "user"]
    return users[1] if len(users) > 1 else 0
