"""AsyncCompactor: the same for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from compactor.checkpoints import Checkpoint
from compactor.dispatch import Dispatcher
from compactor.effects import Compute, Effect, Flow, Pause, Publish, Run
from compactor.judging import Request
from compactor.model_config import ModelConfig
from compactor.models import Erased, Outcome, Pinned, Pins, Receipt, Status, Verdict, session_id
from compactor.pushing import LimitResult
from compactor.recall_tool import NAME, RecallTool, check_tokens, schema
from compactor.send_log import log_send
from compactor.sending import WaitFor
from compactor.session import SessionFlows
from compactor.session_context import AsyncSessionContext, parts_of
from compactor.settings import Settings, choose_settings
from compactor.store import AsyncStore
from compactor.surroundings import surroundings

T = TypeVar("T")


class AsyncSession:
    """One session for asyncio; the same methods as `Session`, awaited."""

    def __init__(self, memory: AsyncCompactor, flows: SessionFlows, config: ModelConfig) -> None:
        self._memory = memory
        self._flows = flows
        self._config = config

    async def push(
        self, messages: Any, idempotency_key: str | None = None, limit_result: LimitResult = None
    ) -> Receipt:
        """As `Session.push`."""
        return await self._memory.drive(self._flows.push(messages, idempotency_key, limit_result))

    async def estimate(
        self,
        tools: Any = None,
        system: str | None = None,
        variables: Mapping[str, Any] | None = None,
        response_format: Any = None,
        max_output_tokens: int | None = None,
    ) -> Verdict:
        """As `Session.estimate`."""
        request = Request(tools, system, response_format, max_output_tokens, variables=variables)
        return await self._memory.drive(self._flows.estimate(request))

    async def prepare(
        self,
        messages: Any = None,
        *,
        tools: Any = None,
        system: str | None = None,
        response_format: Any = None,
        variables: Mapping[str, Any] | None = None,
        extra: Any = None,
        max_output_tokens: int | None = None,
        wait: float = 0.0,
        wait_for: WaitFor = "fit",
        keep_rows: bool = False,
        repair: bool | None = None,
        tool_text: bool = False,
    ) -> AsyncSessionContext:
        """As `Session.prepare`."""
        request = Request(tools, system, response_format, max_output_tokens, variables=variables, keep_rows=keep_rows)

        async def send() -> AsyncSessionContext:
            flow = self._flows.prepare(
                request,
                messages=messages,
                wait=wait,
                wait_for=wait_for,
                repair=repair,
                extra=extra,
                tool_text=tool_text,
            )
            context = await self._memory.drive(flow)
            log_send(self._config, request, context)
            verdict = context.verdict

            async def usage(reported: Any) -> bool:
                return await self._memory.drive(self._flows.report_usage(verdict.sent, reported))

            async def overflow(error: Any) -> AsyncSessionContext:
                await self._memory.drive(self._flows.report_overflow(verdict.sent, error))
                return await send()

            return AsyncSessionContext(**parts_of(context), _usage=usage, _overflow=overflow)

        return await send()

    async def report_usage(self, sent: int, usage: Any) -> bool:
        """As `Session.report_usage`."""
        return await self._memory.drive(self._flows.report_usage(sent, usage))

    async def report_overflow(self, sent: int, error: Any) -> bool:
        """As `Session.report_overflow`."""
        return await self._memory.drive(self._flows.report_overflow(sent, error))

    async def sync(self, messages: Any) -> Receipt:
        """As `Session.sync`."""
        return await self._memory.drive(self._flows.sync(messages))

    async def compact(self, wait: float = 0.0) -> Outcome:
        """As `Session.compact`."""
        return await self._memory.drive(self._flows.compact(wait))

    async def recall(self, recall_id: str) -> Any:
        """As `Session.recall`."""
        return await self._memory.drive(self._flows.recall(recall_id))

    def recall_tool(
        self, name: str = NAME, max_tokens: int | None = None
    ) -> RecallTool[Callable[[Any], Awaitable[str]]]:
        """As `Session.recall_tool`, not awaited; its handler is."""
        most = check_tokens(max_tokens, self._config.limit)

        async def handler(arguments: Any) -> str:
            return await self._memory.drive(self._flows.recall_for_model(arguments, most))

        return RecallTool(schema(name), handler)

    async def originals(self) -> list[Any]:
        """As `Session.originals`."""
        return await self._memory.drive(self._flows.originals())

    async def compactions(self) -> list[Outcome]:
        """As `Session.compactions`."""
        return await self._memory.drive(self._flows.compactions())

    async def checkpoint(self) -> Checkpoint | None:
        """As `Session.checkpoint`."""
        return await self._memory.drive(self._flows.checkpoint())

    async def undo(self, compaction_id: str | None = None) -> Outcome:
        """As `Session.undo`."""
        return await self._memory.drive(self._flows.undo(compaction_id))

    async def pin(self, what: int | str) -> Pinned:
        """As `Session.pin`."""
        return await self._memory.drive(self._flows.pin(what))

    async def pins(self) -> Pins:
        """As `Session.pins`."""
        return await self._memory.drive(self._flows.pins())

    async def release(self, what: int | str | Sequence[int | str]) -> int:
        """As `Session.release`."""
        return await self._memory.drive(self._flows.release(what))

    async def rewind(self, position: int | str) -> int:
        """As `Session.rewind`."""
        return await self._memory.drive(self._flows.rewind(position))

    async def fork(self, new_id: str, at: int | str | None = None) -> AsyncSession:
        """As `Session.fork`."""
        new = session_id(new_id)
        await self._memory.drive(self._flows.fork(new, at))
        return self._memory.session(new, self._config)

    async def close_open_calls(self) -> Receipt:
        """As `Session.close_open_calls`."""
        return await self._memory.drive(self._flows.close_open_calls())

    async def status(self) -> Status:
        """As `Session.status`."""
        return await self._memory.drive(self._flows.status())

    async def clear(self) -> int:
        """As `Session.clear`."""
        return await self._memory.drive(self._flows.clear())

    async def erase(self) -> Erased:
        """As `Session.erase`."""
        return await self._memory.drive(self._flows.erase())


class AsyncCompactor:
    """The asyncio client; encodes texts above 16 KB and publishes in a thread."""

    def __init__(
        self, redis_url: str | None = None, broker_url: str | None = None, *, settings: Settings | None = None
    ) -> None:
        """As `Compactor`. Raises ConfigurationError."""
        self.settings = choose_settings(settings, redis_url, broker_url)
        self._store = AsyncStore(self.settings)
        self._dispatcher = Dispatcher(self.settings)
        self._surroundings = surroundings(self.settings)

    @classmethod
    def from_env(cls) -> Self:
        """As `Compactor.from_env`."""
        return cls()

    def session(self, name: str, config: ModelConfig) -> AsyncSession:
        """A session by its id `tenant/name`; no I/O, not awaited. Raises ConfigurationError."""
        return AsyncSession(self, SessionFlows(self._surroundings, session_id(name), config), config)

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
