"""The very commands that clients and workers send, one for each script, caught before they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from compactor import Compactor
from compactor.commands.command import Command
from compactor.embedded import free_port
from compactor.exceptions import SummarizerRateLimited
from compactor.settings import Settings
from compactor.store import Store
from tests.integration.conversations import OTHER_ENCODING, SMALL, conversation, step, user
from tests.integration.inline_worker import InlineWorker

T = TypeVar("T")
NAME = "cut/session"


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

    def by_client(self, call: Callable[[Compactor], object], settings: Settings | None = None) -> Command[Any]:
        """What a client's call sends; the client is a fresh process."""
        with Compactor(settings=settings or self.settings) as caller:
            caller._store = Catching(caller._store, self._script)  # type: ignore[assignment] # why: stands in for it
            return self._caught(lambda: call(caller))

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


@dataclass(frozen=True, slots=True)
class Case:
    """How a command comes about; what of its answer is told, when carried out first and when repeated after that."""

    sent: Callable[[Stage], Command[Any]]
    told: Callable[[Any], object]
    first: object
    again: object
    reads: bool = False  # changes nothing


def _pushed(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda memory: memory.session(NAME, SMALL).push(step(1)))


def _prepared(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    return stage.by_client(lambda memory: memory.session(NAME, SMALL).prepare())


def _recounted(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda memory: memory.session(NAME, OTHER_ENCODING).estimate())


def _recalled(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda memory: memory.session(NAME, SMALL).recall("m3"))


def _cleared(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda memory: memory.session(NAME, SMALL).clear())


def _unqueued(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    nowhere = type(stage.settings.redis_url)(f"redis://127.0.0.1:{free_port()}/0")
    settings = stage.settings.model_copy(update={"broker_url": nowhere})
    return stage.by_client(lambda memory: memory.session(NAME, SMALL).prepare(), settings)


def _compacted(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    stage.session.prepare()
    return stage.by_worker()


def _released(stage: Stage) -> Command[Any]:
    stage.session.push([user("word " * 1_000) for _ in range(7)])
    stage.session.prepare()
    return stage.by_worker()


def _retried(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(7))
    stage.session.prepare()
    stage.worker.tools = replace(stage.worker.tools, summarize=rate_limited)
    return stage.by_worker()


def rate_limited(requests: Any, *, done: Callable[[int, Any], None], **_: Any) -> list[Any]:
    """A summarizer whose server asks for a pause."""
    answers = [SummarizerRateLimited(retry_after=7.5) for _ in requests]
    for order, answer in enumerate(answers):
        done(order, answer)
    return list(answers)


def _whole(answer: Any) -> object:
    return answer


CASES = {
    "push": Case(_pushed, lambda pushed: (pushed.first, pushed.length), (5, 7), (5, 7)),
    "prepare": Case(_prepared, lambda answer: (answer.claim, answer.claimed), ("queued", True), ("queued", True)),
    "recount": Case(_recounted, _whole, True, True),
    "recall": Case(_recalled, lambda record: record.value(), conversation(1)[3], conversation(1)[3], reads=True),
    "clear": Case(_cleared, _whole, 5, 5),
    "unqueue": Case(_unqueued, _whole, True, False),
    "begin": Case(_compacted, lambda begin: begin.begun.value, "running", "busy"),
    "archive": Case(_compacted, _whole, "ok", "ok"),
    "swap": Case(_compacted, _whole, "applied", "applied"),
    "release": Case(_released, _whole, True, False),
    "retry": Case(_retried, _whole, True, True),
}
