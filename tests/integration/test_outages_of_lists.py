"""Bots that keep their own list, on a store that loses requests and replies and is away at times.

They go on with what they got back, whatever its fit; send older lists and lists without a head in
between; undo; and their process is started anew. At any time the history is what was said so far, once and in order.
"""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from compactor import Compactor, CompactorError, SessionNotFoundError, StoreUnavailableError
from compactor.cli.chaos.bot import TOOLS, Part
from compactor.cli.chaos.talk import Push
from compactor.settings import Settings
from compactor.store import Store
from tests.integration.inline_worker import InlineWorker

STEPS = 60
MANY_SEEDS = range(1_000, 1_400)
MANY_STEPS = 200


class Bot:
    """One bot, its process, and a store that fails as often as it says."""

    def __init__(self, seed: int, settings: Settings) -> None:
        self.random = Random(seed)
        self.fails = self.random.choice((0.0, 0.1, 0.3))
        self.away = False
        self.stored = 0  # messages of the history
        draw = self.random.random
        self.part = Part(
            bot=seed, session=f"lists/{seed}", limit=self.random.choice((8, 16)), strategy="conservative",
            alone=True, opens=True, chinese=draw() < 0.2, reuses_ids=draw() < 0.5, owns="returned",
        )  # fmt: skip
        self.goes_on = draw() < 0.7  # with the list it got back
        self.said: list[Any] = [self.part.system]
        self.turns = self.part.talk(Random(seed), 0).turns()
        self._settings = settings
        self.memory = self._process()

    def _process(self) -> Compactor:
        self.back: list[Any] | None = None
        memory = Compactor(settings=self._settings)
        store: Any = vars(memory)["_store"]
        carry_out = store.run

        def run(command: Any) -> Any:
            fate = self.random.random()
            if self.away or fate < self.fails / 2:
                raise StoreUnavailableError("the request is lost")
            answer = carry_out(command)
            if fate < self.fails:
                raise StoreUnavailableError("the reply is lost")
            return answer

        store.run = run
        return memory

    def start_anew(self) -> None:
        self.memory.close()
        self.memory = self._process()

    def undo(self) -> None:
        with suppress(CompactorError):
            self.session.undo()

    @property
    def session(self) -> Any:
        return self.memory.session(self.part.session, self.part.config)

    @property
    def present(self) -> list[Any]:
        return self.said if self.back is None else self.back

    def go_on(self) -> None:
        turn = next(self.turns)
        if isinstance(turn, Push):
            self.said += turn.messages
            if self.back is not None:
                self.back += turn.messages
            if self.random.random() < 0.7:
                with suppress(StoreUnavailableError):
                    self.session.sync(self.present)
        elif len(self.said) > 1:
            self._send()

    def _send(self) -> None:
        way, given = self.random.random(), self.present
        second = [at for at, message in enumerate(self.said) if message["role"] == "user"][1:2]
        if way < 0.15 and len(self.said) > 10:
            given = self.said[: -self.random.randint(1, 8)]
        elif way < 0.3 and second and self.stored >= second[0]:  # one that is new as a whole begins a new history
            given = [self.said[0], *self.said[second[0] :]]
        with suppress(StoreUnavailableError):
            context = self.session.prepare(list(given), tools=TOOLS)
            if given is self.present and self.goes_on:
                self.back = list(context.messages)


def play(seed: int, settings: Settings, steps: int) -> None:
    """One bot's steps; after each of them the history is looked at."""
    bot = Bot(seed, settings)
    with Store(settings) as store, Compactor(settings=settings) as witness:
        worker, session = InlineWorker(settings, store), witness.session(bot.part.session, bot.part.config)
        for _ in range(steps):
            event = bot.random.random()
            if event < 0.04:
                bot.away = not bot.away
            elif event < 0.08:
                bot.start_anew()
            elif event < 0.11:
                bot.undo()
            elif event < 0.16 and worker.owner(bot.part.session):
                worker.work(bot.part.session)
            else:
                bot.go_on()
            with suppress(SessionNotFoundError):
                found = session.originals()
                bot.stored = len(found)
                assert found == bot.said[1 : bot.stored + 1], seed
        bot.away, bot.fails = False, 0.0
        bot.session.prepare(list(bot.present), tools=TOOLS)
        assert session.originals() == bot.said[1:], seed
        bot.memory.close()


@pytest.mark.parametrize("seed", range(40))
def test_the_history_is_what_was_said(settings: Settings, seed: int) -> None:
    play(seed, settings, STEPS)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_the_history_is_what_was_said_in_many_long_talks(settings: Settings) -> None:
    for seed in MANY_SEEDS:
        play(seed, settings, MANY_STEPS)
