"""What the compactions of each tenant spend and save per day (UTC, by Redis's clock), in keys of their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, Final

from compactor.bills import Spending
from compactor.commands.command import Command, fields, number, text
from compactor.exceptions import SessionDamagedError
from compactor.pricing import micro_dollars
from compactor.settings import Settings

DAYS: Final = 90  # that are kept
_DAY: Final = 86_400
_LIFE_MS: Final = DAYS * _DAY * 1000
_MARK_MS: Final = 6 * 3_600_000  # far beyond any repeat of one call
_NAMES: Final = ("micro", "tokens", "unpriced", "compactions", "capped", "freed", "net")


@dataclass(frozen=True, slots=True)
class Caps:
    """What the model calls for one tenant may cost in a day: micro-dollars and tokens; None: no cap."""

    micro: int | None = None
    tokens: int | None = None


NO_CAPS: Final = Caps()


def caps_of(settings: Settings) -> Caps:
    """The caps that an operator has set."""
    dollars = settings.tenant_daily_dollars
    micro = None if dollars is None else max(1, micro_dollars("tenant_daily_dollars", dollars))
    return Caps(micro, settings.tenant_daily_tokens)


def spending_key(namespace: str, tenant: str) -> str:
    """Where a tenant's figures are."""
    return f"{{{namespace}:tenant:{tenant}}}:spending"


def reserve(namespace: str, tenant: str, name: str, *, micro: int, tokens: int, caps: Caps) -> Command[bool]:
    """Sets the most that calls may cost aside; False: the day would go over a cap. A repeat changes nothing."""
    args = (micro, tokens, _or_empty(caps.micro), _or_empty(caps.tokens), _MARK_MS, _LIFE_MS)
    return Command(lambda replies: text(replies[0]) == "kept", "reserve", _keys(namespace, tenant, name), args)


def enter(namespace: str, tenant: str, name: str, figures: Mapping[str, int]) -> Command[bool]:
    """Adds figures to the day, in place of what was set aside under this name; False for a repeat."""
    args: list[str | int] = [_MARK_MS, _LIFE_MS, DAYS]
    for figure, amount in figures.items():
        args += (figure, amount)
    return Command(lambda replies: text(replies[0]) == "entered", "spend", _keys(namespace, tenant, name), tuple(args))


def read_spending(namespace: str, tenant: str, caps: Caps) -> Command[list[Spending]]:
    """The days of a tenant, the newest first; today is always among them."""

    def parse(replies: list[Any]) -> list[Spending]:
        today = int(replies[1][0]) // _DAY
        days: dict[int, dict[str, int]] = {today: {}}
        for field, value in fields(replies[0]).items():
            day, _, name = field.partition(".")
            if day.isdecimal() and len(day) < 7 and name in _NAMES:
                days.setdefault(int(day), {})[name] = _count(value)
        return [_spending(tenant, day, days[day], caps) for day in sorted(days, reverse=True)]

    return Command(parse, reads=(("HGETALL", spending_key(namespace, tenant)), ("TIME",)))


def _spending(tenant: str, day: int, found: Mapping[str, int], caps: Caps) -> Spending:
    return Spending(tenant, _date(day).isoformat(), **found, cap_micro=caps.micro, cap_tokens=caps.tokens)


def _date(day: int) -> date:
    return datetime.fromtimestamp(day * _DAY, UTC).date()


def _keys(namespace: str, tenant: str, name: str) -> tuple[str, str]:
    key = spending_key(namespace, tenant)
    return key, f"{key}:{name}"


def _or_empty(value: int | None) -> str | int:
    return "" if value is None else value


def _count(value: Any) -> int:
    try:
        return number(value)
    except SessionDamagedError:  # garbled from outside
        return 0
