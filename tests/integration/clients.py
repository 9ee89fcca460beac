"""Both clients and both stores behind one blocking face, so that each promise is checked through both."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from compactor import (
    AsyncCompactor,
    AsyncSession,
    Compactor,
    ModelConfig,
    Outcome,
    Pinned,
    Pins,
    Receipt,
    Status,
    Verdict,
)
from compactor.checkpoints import Checkpoint
from compactor.commands.command import Command
from compactor.models import Erased
from compactor.pushing import LimitResult
from compactor.recall_tool import NAME, RecallTool
from compactor.sending import WaitFor
from compactor.session_context import AsyncSessionContext, SessionContext, parts_of
from compactor.settings import Settings
from compactor.store import AsyncStore, Store

T = TypeVar("T")
KINDS = ("blocking", "asyncio")


class SessionClient(Protocol):
    """What a bot calls on a session."""

    def push(self, messages: Any, idempotency_key: str | None = None, limit_result: LimitResult = None) -> Receipt: ...
    def estimate(
        self,
        *,
        tools: Any = None,
        system: str | None = None,
        variables: Mapping[str, Any] | None = None,
        response_format: Any = None,
        max_output_tokens: int | None = None,
    ) -> Verdict: ...
    def prepare(
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
        repair: bool | None = None,
        tool_text: bool = False,
        keep_rows: bool = False,
    ) -> SessionContext: ...
    def sync(self, messages: Any) -> Receipt: ...
    def compact(self, wait: float = 0.0) -> Outcome: ...
    def recall(self, recall_id: str) -> Any: ...
    def recall_tool(self, name: str = NAME, max_tokens: int | None = None) -> RecallTool[Callable[[Any], str]]: ...
    def originals(self) -> list[Any]: ...
    def compactions(self) -> list[Outcome]: ...
    def checkpoint(self) -> Checkpoint | None: ...
    def undo(self, compaction_id: str | None = None) -> Outcome: ...
    def pin(self, what: int | str) -> Pinned: ...
    def pins(self) -> Pins: ...
    def release(self, what: int | str | Sequence[int | str]) -> int: ...
    def rewind(self, position: int | str) -> int: ...
    def fork(self, new_id: str, at: int | str | None = None) -> SessionClient: ...
    def close_open_calls(self) -> Receipt: ...
    def status(self) -> Status: ...
    def clear(self) -> int: ...
    def erase(self) -> Erased: ...


class Client(Protocol):
    """What a bot makes once."""

    def session(self, name: str, config: ModelConfig) -> SessionClient: ...
    def close(self) -> None: ...


class StoreClient(Protocol):
    """Runs commands."""

    def run(self, command: Command[T]) -> T: ...
    def close(self) -> None: ...


class AwaitedSession:
    """An AsyncSession whose calls are awaited on a loop of the test."""

    def __init__(self, session: AsyncSession, loop: asyncio.Runner) -> None:
        self._session = session
        self._loop = loop

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(call)

    def push(self, messages: Any, idempotency_key: str | None = None, limit_result: LimitResult = None) -> Receipt:
        return self._run(self._session.push(messages, idempotency_key, limit_result))

    def estimate(
        self,
        *,
        tools: Any = None,
        system: str | None = None,
        variables: Mapping[str, Any] | None = None,
        response_format: Any = None,
        max_output_tokens: int | None = None,
    ) -> Verdict:
        return self._run(
            self._session.estimate(
                tools=tools,
                system=system,
                variables=variables,
                response_format=response_format,
                max_output_tokens=max_output_tokens,
            )
        )

    def prepare(
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
        repair: bool | None = None,
        tool_text: bool = False,
        keep_rows: bool = False,
    ) -> SessionContext:
        context = self._run(
            self._session.prepare(
                messages,
                tools=tools,
                system=system,
                response_format=response_format,
                variables=variables,
                extra=extra,
                max_output_tokens=max_output_tokens,
                wait=wait,
                wait_for=wait_for,
                repair=repair,
                tool_text=tool_text,
                keep_rows=keep_rows,
            )
        )
        return self._reporting(context)

    def _reporting(self, context: AsyncSessionContext) -> SessionContext:
        return SessionContext(
            **parts_of(context),
            _usage=lambda usage: self._run(context.report_usage(usage)),
            _overflow=lambda error: self._reporting(self._run(context.report_overflow(error))),
        )

    def sync(self, messages: Any) -> Receipt:
        return self._run(self._session.sync(messages))

    def compact(self, wait: float = 0.0) -> Outcome:
        return self._run(self._session.compact(wait))

    def recall(self, recall_id: str) -> Any:
        return self._run(self._session.recall(recall_id))

    def recall_tool(self, name: str = NAME, max_tokens: int | None = None) -> RecallTool[Callable[[Any], str]]:
        tool = self._session.recall_tool(name, max_tokens)

        async def handled(arguments: Any) -> str:
            return await tool.handler(arguments)

        def handler(arguments: Any) -> str:
            return self._run(handled(arguments))

        return RecallTool(tool.schema, handler)

    def originals(self) -> list[Any]:
        return self._run(self._session.originals())

    def compactions(self) -> list[Outcome]:
        return self._run(self._session.compactions())

    def checkpoint(self) -> Checkpoint | None:
        return self._run(self._session.checkpoint())

    def undo(self, compaction_id: str | None = None) -> Outcome:
        return self._run(self._session.undo(compaction_id))

    def pin(self, what: int | str) -> Pinned:
        return self._run(self._session.pin(what))

    def pins(self) -> Pins:
        return self._run(self._session.pins())

    def release(self, what: int | str | Sequence[int | str]) -> int:
        return self._run(self._session.release(what))

    def rewind(self, position: int | str) -> int:
        return self._run(self._session.rewind(position))

    def fork(self, new_id: str, at: int | str | None = None) -> AwaitedSession:
        return AwaitedSession(self._run(self._session.fork(new_id, at)), self._loop)

    def close_open_calls(self) -> Receipt:
        return self._run(self._session.close_open_calls())

    def status(self) -> Status:
        return self._run(self._session.status())

    def clear(self) -> int:
        return self._run(self._session.clear())

    def erase(self) -> Erased:
        return self._run(self._session.erase())


class AwaitedClient:
    """An AsyncCompactor driven to each answer."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.Runner()
        self._memory = AsyncCompactor(settings=settings)

    def session(self, name: str, config: ModelConfig) -> AwaitedSession:
        return AwaitedSession(self._memory.session(name, config), self._loop)

    def close(self) -> None:
        self._loop.run(self._memory.close())
        self._loop.close()


class AwaitedStore:
    """An AsyncStore driven to each answer."""

    def __init__(self, settings: Settings) -> None:
        self._loop = asyncio.Runner()
        self._store = AsyncStore(settings)

    def run(self, command: Command[T]) -> T:
        return self._loop.run(self._store.run(command))

    def close(self) -> None:
        self._loop.run(self._store.close())
        self._loop.close()


def open_client(kind: str, settings: Settings) -> Client:
    """A client of one kind; to be closed."""
    return AwaitedClient(settings) if kind == "asyncio" else Compactor(settings=settings)


def open_store(kind: str, settings: Settings) -> StoreClient:
    """A store of one kind; to be closed."""
    return AwaitedStore(settings) if kind == "asyncio" else Store(settings)


Connect = Callable[[Settings], Client]
