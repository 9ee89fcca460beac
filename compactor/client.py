"""Compactor and AsyncCompactor: what a bot developer imports."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Self, TypeVar

from compactor.dispatch import Dispatcher
from compactor.effects import Compute, Effect, Flow, Pause, Publish, Run
from compactor.encodings import encoder, encoding_name
from compactor.histories import LockedCache, LruHistories, UnconfirmedOperations
from compactor.judging import Request
from compactor.model_config import ModelConfig
from compactor.models import Context, Outcome, Receipt, Status, Verdict, session_id
from compactor.reader import Surroundings
from compactor.session import SessionFlows, WaitFor
from compactor.settings import Settings, read_settings
from compactor.store import AsyncStore, Store

T = TypeVar("T")


def _surroundings(settings: Settings) -> Surroundings:
    return Surroundings(
        settings=settings,
        histories=LruHistories(settings.cache_bytes),
        encoding_name=encoding_name,
        encoder=encoder,
        clock=time.monotonic,
        counted=LockedCache(256),
        unconfirmed=UnconfirmedOperations(time.monotonic),
        encodings=LockedCache(65_536),
        now=time.time,
    )


def _settings(settings: Settings | None, redis_url: str | None, broker_url: str | None) -> Settings:
    return settings or read_settings(redis_url=redis_url, broker_url=broker_url)


class Session:
    """One session; made by `Compactor.session`, does no I/O until a method is called."""

    def __init__(self, memory: Compactor, flows: SessionFlows) -> None:
        self._memory = memory
        self._flows = flows

    def push(self, messages: Any, idempotency_key: str | None = None) -> Receipt:
        """Stores one message (dict or SDK object) or a list of them, exactly once.

        A repeat with the same `idempotency_key` within 8 hours stores nothing and gets the first
        receipt. Raises InvalidMessageError, MessageTooLargeError, StoreUnavailableError; after the
        last one push the same messages again: within a minute this process takes them for the same
        attempt, and they are stored once.
        """
        return self._memory.drive(self._flows.push(messages, idempotency_key))

    def estimate(
        self,
        tools: Any = None,
        system: str | None = None,
        response_format: Any = None,
        max_output_tokens: int | None = None,
    ) -> Verdict:
        """How full the context would be, in tokens; reads one hash and never queues."""
        return self._memory.drive(self._flows.estimate(Request(tools, system, response_format, max_output_tokens)))

    def prepare(
        self,
        *,
        tools: Any = None,
        system: str | None = None,
        response_format: Any = None,
        max_output_tokens: int | None = None,
        wait: float = 0.0,
        wait_for: WaitFor = "fit",
    ) -> Context:
        """The messages for one model call, and the verdict on them.

        Over the threshold one caller queues the compaction and goes on at once. `wait` seconds let
        a send that would be shortened wait for the swap; `wait_for="swap"` waits at the threshold
        too. Raises StoreUnavailableError only when Redis does not answer and this process holds no
        earlier context of the session.
        """
        request = Request(tools, system, response_format, max_output_tokens)
        return self._memory.drive(self._flows.prepare(request, wait=wait, wait_for=wait_for))

    def compact(self, wait: float = 0.0) -> Outcome:
        """Queues a compaction now; with `wait` seconds, waits for its outcome. Raises DispatchError."""
        return self._memory.drive(self._flows.compact(wait))

    def recall(self, recall_id: str) -> Any:
        """The original message behind a recall id such as `m12`. Raises SessionNotFoundError, RecallExpiredError."""
        return self._memory.drive(self._flows.recall(recall_id))

    def originals(self) -> list[Any]:
        """The live conversation exactly as it was pushed."""
        return self._memory.drive(self._flows.originals())

    def compactions(self) -> list[Outcome]:
        """Every run of a compaction that ended in more than "no need", oldest first; the newest 1,000."""
        return self._memory.drive(self._flows.compactions())

    def status(self) -> Status:
        """Where the session stands."""
        return self._memory.drive(self._flows.status())

    def clear(self) -> int:
        """Ends the conversation; it stays recallable until the next clear. Returns its number of messages."""
        return self._memory.drive(self._flows.clear())


class Compactor:
    """The blocking client; thread-safe, cheap to make, one per process is enough."""

    def __init__(
        self, redis_url: str | None = None, broker_url: str | None = None, *, settings: Settings | None = None
    ) -> None:
        """Settings come from the environment, the arguments on top. Raises ConfigurationError."""
        self.settings = _settings(settings, redis_url, broker_url)
        self._store = Store(self.settings)
        self._dispatcher = Dispatcher(self.settings)
        self._surroundings = _surroundings(self.settings)

    @classmethod
    def from_env(cls) -> Self:
        """A client on REDIS_URL, CELERY_BROKER_URL and the COMPACTOR_ settings. Raises ConfigurationError."""
        return cls()

    def session(self, name: str, config: ModelConfig) -> Session:
        """A session by its id `tenant/name`; no I/O. Raises ConfigurationError."""
        return Session(self, SessionFlows(self._surroundings, session_id(name), config))

    def drive(self, flow: Flow[T]) -> T:
        """Runs a flow to its answer; errors of an effect are raised inside the flow first."""
        try:
            effect = next(flow)
            while True:
                try:
                    answer = self._perform(effect)
                except Exception as error:  # noqa: BLE001 # why: the flow decides what an error means
                    effect = flow.throw(error)
                else:
                    effect = flow.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:  # a call that is cancelled or interrupted tells its flow at once
            flow.close()

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Run(command):
                return self._store.run(command)
            case Publish(session, owner):
                return self._dispatcher.publish(session, owner)
            case Pause(seconds):
                return time.sleep(seconds)
            case Compute(work, _):
                return work()

    def close(self) -> None:
        """Closes the connections; the client can be used again afterwards."""
        self._store.close()
        self._dispatcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncSession:
    """One session for asyncio; the same methods as `Session`, awaited."""

    def __init__(self, memory: AsyncCompactor, flows: SessionFlows) -> None:
        self._memory = memory
        self._flows = flows

    async def push(self, messages: Any, idempotency_key: str | None = None) -> Receipt:
        """As `Session.push`."""
        return await self._memory.drive(self._flows.push(messages, idempotency_key))

    async def estimate(
        self,
        tools: Any = None,
        system: str | None = None,
        response_format: Any = None,
        max_output_tokens: int | None = None,
    ) -> Verdict:
        """As `Session.estimate`."""
        return await self._memory.drive(
            self._flows.estimate(Request(tools, system, response_format, max_output_tokens))
        )

    async def prepare(
        self,
        *,
        tools: Any = None,
        system: str | None = None,
        response_format: Any = None,
        max_output_tokens: int | None = None,
        wait: float = 0.0,
        wait_for: WaitFor = "fit",
    ) -> Context:
        """As `Session.prepare`."""
        request = Request(tools, system, response_format, max_output_tokens)
        return await self._memory.drive(self._flows.prepare(request, wait=wait, wait_for=wait_for))

    async def compact(self, wait: float = 0.0) -> Outcome:
        """As `Session.compact`."""
        return await self._memory.drive(self._flows.compact(wait))

    async def recall(self, recall_id: str) -> Any:
        """As `Session.recall`."""
        return await self._memory.drive(self._flows.recall(recall_id))

    async def originals(self) -> list[Any]:
        """As `Session.originals`."""
        return await self._memory.drive(self._flows.originals())

    async def compactions(self) -> list[Outcome]:
        """As `Session.compactions`."""
        return await self._memory.drive(self._flows.compactions())

    async def status(self) -> Status:
        """As `Session.status`."""
        return await self._memory.drive(self._flows.status())

    async def clear(self) -> int:
        """As `Session.clear`."""
        return await self._memory.drive(self._flows.clear())


class AsyncCompactor:
    """The asyncio client; encodes texts above 16 KB and publishes in a thread."""

    def __init__(
        self, redis_url: str | None = None, broker_url: str | None = None, *, settings: Settings | None = None
    ) -> None:
        """As `Compactor`. Raises ConfigurationError."""
        self.settings = _settings(settings, redis_url, broker_url)
        self._store = AsyncStore(self.settings)
        self._dispatcher = Dispatcher(self.settings)
        self._surroundings = _surroundings(self.settings)

    @classmethod
    def from_env(cls) -> Self:
        """As `Compactor.from_env`."""
        return cls()

    def session(self, name: str, config: ModelConfig) -> AsyncSession:
        """A session by its id `tenant/name`; no I/O, not awaited. Raises ConfigurationError."""
        return AsyncSession(self, SessionFlows(self._surroundings, session_id(name), config))

    async def drive(self, flow: Flow[T]) -> T:
        """Runs a flow to its answer, awaiting its effects."""
        try:
            effect = next(flow)
            while True:
                try:
                    answer = await self._perform(effect)
                except Exception as error:  # noqa: BLE001 # why: the flow decides what an error means
                    effect = flow.throw(error)
                else:
                    effect = flow.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:  # a call that is cancelled or interrupted tells its flow at once
            flow.close()

    async def _perform(self, effect: Effect) -> Any:
        match effect:
            case Run(command):
                return await self._store.run(command)
            case Publish(session, owner):
                return await asyncio.to_thread(self._dispatcher.publish, session, owner)
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case Compute(work, heavy):
                return await asyncio.to_thread(work) if heavy else work()

    async def close(self) -> None:
        """Closes the connections."""
        await self._store.close()
        self._dispatcher.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
