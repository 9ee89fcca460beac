"""A session with a client and a worker, and a call on it that is stopped at the script of interest."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from compactor import Compactor, ModelConfig, Outcome, Session
from compactor.commands.command import Command, session_keys
from compactor.models import SessionId
from compactor.settings import Settings
from compactor.store import Store
from tests.integration.conversations import SMALL, conversation
from tests.integration.inline_worker import InlineWorker

T = TypeVar("T")
NAME = "cut/session"
SESSION = SessionId(NAME)


class Caught(Exception):
    """A command that was kept back; ends the call as planned."""

    def __init__(self, command: Command[Any]) -> None:
        super().__init__(command.script)
        self.command = command


class Catching:
    """A store that runs everything up to the first command of one script, and keeps that one back."""

    def __init__(self, store: Store, script: str) -> None:
        self._store, self._script = store, script

    def run(self, command: Command[T]) -> T:
        if command.script == self._script:
            raise Caught(command)
        return self._store.run(command)

    def close(self) -> None:
        self._store.close()


class Stage:
    """A session, and a call on it that is stopped at the script of interest."""

    def __init__(self, settings: Settings, script: str) -> None:
        self.settings, self._script = settings, script
        self.memory = Compactor(settings=settings)
        self.store = Store(settings)
        self.session = self.memory.session(NAME, SMALL)
        self.worker = InlineWorker(settings, self.store)
        self.keys = session_keys(settings.namespace, SESSION)

    def by_client(
        self,
        call: Callable[[Session], object],
        settings: Settings | None = None,
        *,
        config: ModelConfig = SMALL,
        knows: bool = False,
    ) -> Command[Any]:
        """What a client's call sends; the client is a fresh process, or one that knows the history."""
        with Compactor(settings=settings or self.settings) as caller:
            if knows:
                caller.session(NAME, config).prepare()
            caller._store = Catching(caller._store, self._script)  # type: ignore[assignment] # why: stands in for it
            return self._caught(lambda: call(caller.session(NAME, config)))

    def compact(self) -> Outcome:
        """A conversation that is compacted."""
        self.session.push(conversation(8))
        self.session.prepare()
        return self.worker.work(NAME).outcome

    def by_worker(self) -> Command[Any]:
        """What a worker sends in a run on the session's claim."""
        self.worker.tools = replace(self.worker.tools, runner=Catching(self.store, self._script))
        return self._caught(lambda: self.worker.work(NAME))

    def _caught(self, call: Callable[[], object]) -> Command[Any]:
        try:
            call()
        except Caught as caught:
            return caught.command
        raise AssertionError(f"no call of {self._script} was sent")

    def close(self) -> None:
        self.memory.close()
        self.store.close()
