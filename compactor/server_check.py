"""Whether a Redis or Valkey server keeps what it is given: eviction and persistence.

`judge_configuration` is pure; `check_server` reads the values and `refuse_unsafe` is for starts.
All our keys carry a time to live, so `volatile-*` policies evict them as `allkeys-*` do: part of a
session goes, without an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from redis.exceptions import RedisError, ResponseError

from compactor.commands.command import text
from compactor.connections import address
from compactor.exceptions import ConfigurationError
from compactor.json_values import is_object
from compactor.settings import Settings
from compactor.store import Store, unavailable

PARAMETERS: Final = ("maxmemory-policy", "appendonly", "save")
_KEEPS: Final = "noeviction"
_OLDEST_FIRST: Final = "volatile-ttl"


class Level(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was seen, and what to do about it when it is not ok."""

    check: str
    level: Level
    text: str
    advice: str = ""


def judge_configuration(values: Mapping[str, str], *, allowed: str | None = None) -> list[Finding]:
    """Judges the values of PARAMETERS; a missing one is unknown, which is a warning.

    `allowed` names an eviction policy that the operator accepts.
    """
    return [_eviction(values.get("maxmemory-policy"), allowed), _persistence(values)]


def _eviction(policy: str | None, allowed: str | None) -> Finding:
    if not policy:
        return Finding(
            "eviction",
            Level.WARNING,
            "maxmemory-policy is unknown: the server does not tell it",
            "Make sure with its operator that it is noeviction; any other policy may delete parts of sessions.",
        )
    if policy == _KEEPS:
        return Finding("eviction", Level.OK, "maxmemory-policy is noeviction: nothing is deleted for memory")
    seen = f"maxmemory-policy is {policy}: a full server deletes parts of sessions, without an error"
    if policy == allowed:
        return Finding(
            "eviction", Level.WARNING, f"{seen}; allowed by COMPACTOR_ALLOW_EVICTION_POLICY", "Watch used_memory."
        )
    if policy == _OLDEST_FIRST:
        return Finding("eviction", Level.WARNING, f"{seen}, those nearest to their end first", _own_instance(policy))
    return Finding("eviction", Level.FAILED, seen, _own_instance(policy))


def _own_instance(policy: str) -> str:
    return (
        "Give Compactor an instance of its own with maxmemory-policy noeviction (on a shared server leave the "
        f"policy alone, other programs rely on it), or accept it with COMPACTOR_ALLOW_EVICTION_POLICY={policy}."
    )


def _persistence(values: Mapping[str, str]) -> Finding:
    appendonly, save = values.get("appendonly"), values.get("save")
    if appendonly == "yes":
        return Finding("persistence", Level.OK, "append-only file: sessions survive a restart of the server")
    advice = "Set appendonly yes on the server (CONFIG SET appendonly yes, and in its configuration file)."
    if appendonly is None:
        return Finding(
            "persistence",
            Level.WARNING,
            "persistence is unknown: the server does not tell it",
            "Make sure with its operator that data survives a restart.",
        )
    if save:
        return Finding(
            "persistence", Level.WARNING, "snapshots only: a crash loses what came after the last one", advice
        )
    if save is None:
        return Finding(
            "persistence", Level.WARNING, "no append-only file; whether it saves snapshots is unknown", advice
        )
    return Finding("persistence", Level.WARNING, "memory only: a restart of the server loses every session", advice)


def check_server(store: Store, settings: Settings) -> list[Finding]:
    """Reads the server's configuration and judges it, of a cluster each primary's. Raises StoreUnavailableError.

    Where CONFIG is forbidden, INFO stands in as far as it goes, and a warning says so.
    """
    findings = (finding for client in store.primaries() for finding in _check(client, settings))
    return list(dict.fromkeys(findings))  # what is said of all is said once


def _check(client: Any, settings: Settings) -> list[Finding]:
    try:
        values, told = _read(client)
    except (RedisError, OSError) as error:
        raise unavailable(error, address(client)) from None
    findings = judge_configuration(values, allowed=settings.allow_eviction_policy)
    if not told:
        findings.insert(
            0,
            Finding(
                "configuration",
                Level.WARNING,
                "unknown: CONFIG is not allowed here" + (", INFO stands in for it" if values else ""),
                "Allow this user CONFIG GET (ACL SETUSER ... +config|get) to be certain.",
            ),
        )
    return findings


def refuse_unsafe(findings: Sequence[Finding]) -> None:
    """Raises ConfigurationError for the first failed finding."""
    for finding in findings:
        if finding.level is Level.FAILED:
            raise ConfigurationError(f"redis: {finding.text}. {finding.advice}")


def _read(client: Any) -> tuple[dict[str, str], bool]:
    """The values known, and whether CONFIG told them."""
    values: dict[str, str] = {}
    try:
        for name in PARAMETERS:
            answer = client.config_get(name)
            if is_object(answer):
                values |= {text(key): text(value) for key, value in answer.items()}
    except ResponseError:
        return _from_info(client), False
    return (values, True) if values else (_from_info(client), False)


def _from_info(client: Any) -> dict[str, str]:
    try:
        told: Mapping[str, Any] = {**client.info("memory"), **client.info("persistence")}
    except ResponseError:
        return {}
    values: dict[str, str] = {}
    if "maxmemory_policy" in told:
        values["maxmemory-policy"] = text(told["maxmemory_policy"])
    if "aof_enabled" in told:
        values["appendonly"] = "yes" if text(told["aof_enabled"]) == "1" else "no"
    return values
