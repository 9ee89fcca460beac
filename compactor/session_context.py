"""What a send gets back, able to tell its session what the provider made of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from typing import Any, Final

from compactor.models import Context

_PARTS: Final = tuple(each.name for each in fields(Context))


@dataclass(frozen=True, slots=True)
class SessionContext(Context):
    """A Context of the blocking client; pickled or copied it is a plain Context."""

    _usage: Callable[[Any], bool] = field(kw_only=True, repr=False, compare=False)
    _overflow: Callable[[BaseException | Any], SessionContext] = field(kw_only=True, repr=False, compare=False)

    def report_usage(self, usage: Any) -> bool:
        """Tells what the provider billed for this list, so that the next estimates count as it does.

        `usage` is the reply's own (an object or a mapping; None is nothing). False when it tells
        nothing that can be believed. Never raises because of Redis.
        """
        return self._usage(usage)

    def report_overflow(self, error: BaseException | Any) -> SessionContext:
        """After the provider refused this list as too long: learns its limit, queues, and answers with a tighter list.

        An error of another kind is raised again, so it may stand alone in an `except`.
        """
        return self._overflow(error)

    def __reduce__(self) -> tuple[Any, ...]:
        return Context, tuple(parts_of(self).values())


@dataclass(frozen=True, slots=True)
class AsyncSessionContext(Context):
    """A Context of the asyncio client; the same calls, awaited. Pickled or copied it is a plain Context."""

    _usage: Callable[[Any], Awaitable[bool]] = field(kw_only=True, repr=False, compare=False)
    _overflow: Callable[[BaseException | Any], Awaitable[AsyncSessionContext]] = field(
        kw_only=True, repr=False, compare=False
    )

    async def report_usage(self, usage: Any) -> bool:
        """As `SessionContext.report_usage`."""
        return await self._usage(usage)

    async def report_overflow(self, error: BaseException | Any) -> AsyncSessionContext:
        """As `SessionContext.report_overflow`."""
        return await self._overflow(error)

    def __reduce__(self) -> tuple[Any, ...]:
        return Context, tuple(parts_of(self).values())


def parts_of(context: Context) -> dict[str, Any]:
    """The fields of a context by name, for one that can do more."""
    return {name: getattr(context, name) for name in _PARTS}
