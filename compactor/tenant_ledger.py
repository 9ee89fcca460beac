"""What a tenant's sessions hold together, kept below its ceiling; nothing of it runs without one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from compactor.commands import tenants
from compactor.commands.tenants import Correction, tenant_of
from compactor.effects import Flow, run
from compactor.exceptions import StoreUnavailableError, TenantFullError
from compactor.models import SessionId
from compactor.settings import Settings

FRESH: Final = 1.0  # seconds that a process trusts a total it read
SWEEP_EVERY: Final = 60.0  # seconds between two sweeps of a tenant by one process
SWEEP_TIME: Final = 1.0  # seconds that a sweep may hold up a push; the next one goes on where it stopped
STEP: Final = 64 * 1024  # bytes
REPORT_AGAIN: Final = 600.0  # seconds; the size may have been dropped since


@dataclass(frozen=True, slots=True)
class Total:
    """A tenant's total as this process read it, and what it let in since; times are monotonic seconds."""

    read: int
    at: float
    added: int = 0
    swept: float = float("-inf")
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class TenantBook:
    """What the sessions of one client remember together; `reported` holds step and time of each session's report."""

    totals: MutableMapping[str, Total] = field(default_factory=dict[str, Total])
    reported: MutableMapping[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])


class TenantLedger:
    """One session's part in its tenant's total; each method yields effects."""

    def __init__(self, settings: Settings, session: SessionId, book: TenantBook, clock: Callable[[], float]) -> None:
        self._limit = settings.max_tenant_bytes
        self._namespace = settings.namespace
        # Twice a session's life: a tenant whose sessions only read reports nothing for as long as one.
        self._life_ms = int(2000 * settings.session_ttl)
        self._session, self._tenant = session, tenant_of(session)
        self._book, self._clock = book, clock

    def admit(self, size: int) -> Flow[None]:
        """Lets `size` more bytes in. Raises TenantFullError, StoreUnavailableError."""
        if self._limit is None:
            return
        seen = self._book.totals.get(self._tenant)
        if seen is None or self._clock() - seen.at >= FRESH or seen.read + seen.added + size > self._limit:
            seen = yield from self._read(seen)
        if seen.read + size > self._limit and self._clock() - seen.swept >= SWEEP_EVERY:
            seen = yield from self._swept(seen, size)
        if seen.read + size > self._limit:
            raise _full(seen.read + size, self._limit)
        self._keep(Total(seen.read, seen.at, seen.added + size, seen.swept, seen.cursor))

    def report(self, stored_bytes: int) -> Flow[None]:
        """Enters what the session holds now, when that crossed a step since this process told it last."""
        if self._limit is None:
            return
        step, now = step_of(stored_bytes), self._clock()
        known, at = self._book.reported.get(self._session, (-1, now))
        if known == step and now - at < REPORT_AGAIN:
            return
        try:
            yield from run(tenants.report(self._namespace, self._session, stored_bytes, life_ms=self._life_ms))
        except StoreUnavailableError:  # the messages are stored; the next push reports
            return
        self._book.reported[self._session] = step, now

    def report_ended(self) -> Flow[None]:
        """Enters what is left of the session when its conversation ended."""
        if self._limit is None:
            return
        try:
            sizes = yield from run(tenants.read_true_sizes(self._namespace, [self._session]))
        except StoreUnavailableError:  # it ended; a sweep sets the size right
            return
        yield from self.report(sizes.get(self._session, 0))

    def _read(self, seen: Total | None) -> Flow[Total]:
        total = yield from run(tenants.read_total(self._namespace, self._tenant))
        if total is None:
            total = yield from self._added_up()
        swept, cursor = (seen.swept, seen.cursor) if seen is not None else (float("-inf"), 0)
        return self._keep(Total(total, self._clock(), 0, swept, cursor))

    def _swept(self, seen: Total, size: int) -> Flow[Total]:
        """Sets the sizes right that have changed or are gone, until there is room."""
        assert self._limit is not None
        began, total, cursor = self._clock(), seen.read, seen.cursor
        whole = not cursor
        while True:
            page = yield from run(tenants.read_sizes(self._namespace, self._tenant, cursor))
            if page.sizes:
                total = yield from self._corrected(page.sizes)
            cursor = page.cursor
            if whole and not cursor and total + size > self._limit:
                total = yield from self._added_up()
            if not cursor or total + size <= self._limit or self._clock() - began >= SWEEP_TIME:
                return self._keep(Total(total, self._clock(), 0, began, cursor))

    def _added_up(self) -> Flow[int]:
        """The total, set right: it may have been changed from outside."""
        return (yield from run(tenants.correct(self._namespace, self._tenant, (), life_ms=self._life_ms, anew=True)))

    def _corrected(self, sizes: Mapping[SessionId, int]) -> Flow[int]:
        true = yield from run(tenants.read_true_sizes(self._namespace, list(sizes)))
        wrong = [Correction(each, old, true[each]) for each, old in sizes.items() if true.get(each, old) != old]
        return (yield from run(tenants.correct(self._namespace, self._tenant, wrong, life_ms=self._life_ms)))

    def _keep(self, total: Total) -> Total:
        self._book.totals[self._tenant] = total
        return total


def step_of(stored_bytes: int) -> int:
    """The step a size stands on: each 64 KiB is one; below, each doubling from 1 KiB: many small sessions count too."""
    if stored_bytes >= STEP:
        return 16 + stored_bytes // STEP
    return max(stored_bytes, 1023).bit_length() if stored_bytes > 0 else 0


def _full(held: int, limit: int) -> TenantFullError:
    return TenantFullError(
        f"tenant: its sessions would hold {held} bytes, over the limit of {limit}; nothing was stored. "
        "Erase sessions of this tenant that are over, or raise COMPACTOR_MAX_TENANT_BYTES."
    )
