"""Stored model configs: by tenant in one slot, so that each operation is one call; no time to live on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from compactor.commands.command import Argument, Command, text
from compactor.exceptions import (
    ConfigGoneError,
    ConfigNotFoundError,
    ConfigsFullError,
    ConfigVersionError,
)
from compactor.stored_config import StoredConfig, unreadable

MOST: Final = 100  # configs of one user
PAGE: Final = 100  # api_keys that a rotation reads at once
KEPT_MS: Final = 60_000  # how long a delete is known again when its answer was lost
_HEAD: Final = 6  # version, made, changed, operation, user, body

KeyChange = Literal["keep", "drop", "set"]


@dataclass(frozen=True, slots=True)
class ConfigKeys:
    """The keys of one user's configs.

    Records and sealed api_keys are the tenant's, under ids that nobody guesses, and defaults by user:
    so what a session is bound to can be read without knowing whose it is.
    """

    records: str
    user: str
    sealed: str
    defaults: str


@dataclass(frozen=True, slots=True)
class Place:
    """Where a config is, or is to be."""

    namespace: str
    tenant: str
    user: str
    id: str

    @property
    def keys(self) -> ConfigKeys:
        return config_keys(self.namespace, self.tenant, self.user)


@dataclass(frozen=True, slots=True)
class Written:
    """What a write stores: the body, whether it is the default, and what becomes of the api_key."""

    body: bytes
    is_default: bool
    key: KeyChange = "keep"
    sealed: bytes = b""


@dataclass(frozen=True, slots=True)
class SealedPage:
    """Some sealed api_keys by config id, and where to read on (0: that was all)."""

    cursor: int
    sealed: Mapping[str, bytes]


def config_keys(namespace: str, tenant: str, user: str) -> ConfigKeys:
    """The keys of a user's configs."""
    tag = f"{{{namespace}:configs:{tenant}}}"
    return ConfigKeys(f"{tag}:records", f"{tag}:user:{user}", f"{tag}:sealed", f"{tag}:defaults")


def write(place: Place, written: Written, *, operation: str, expected: int | None, most: int) -> Command[StoredConfig]:
    """Stores a config, a new one when no version is expected. A repeat of the same operation changes nothing.

    `most` is the number of configs that the tenant may have.

    Raises ConfigNotFoundError, ConfigVersionError, ConfigsFullError, ConfigDamagedError.
    """
    keys = place.keys
    args: tuple[Argument, ...] = (
        place.id, place.user, operation, "" if expected is None else expected, written.body,
        int(written.is_default), written.key, written.sealed, MOST, most,
    )  # fmt: skip

    def parse(replies: list[Any]) -> StoredConfig:
        status, *rest = replies[0]
        _refuse(text(status), place.id, rest)
        return _config(place.id, rest[0], is_default=bool(rest[1]), user=place.user)

    return Command(parse, "config_write", (keys.records, keys.user, keys.sealed, keys.defaults), args)


def delete(place: Place, *, operation: str, expected: int) -> Command[None]:
    """Deletes a config. Raises ConfigNotFoundError, ConfigVersionError."""
    keys = place.keys
    mark = f"{keys.records}:deleted:{operation}"

    def parse(replies: list[Any]) -> None:
        status, *rest = replies[0]
        _refuse(text(status), place.id, rest)

    args = (place.id, place.user, expected, KEPT_MS)
    return Command(parse, "config_delete", (keys.records, keys.user, keys.sealed, keys.defaults, mark), args)


def read(place: Place) -> Command[StoredConfig]:
    """One config. Raises ConfigNotFoundError, ConfigDamagedError."""
    keys = place.keys
    reads: tuple[tuple[Argument, ...], ...] = (("HGET", keys.records, place.id), ("HGET", keys.defaults, place.user))

    def parse(replies: list[Any]) -> StoredConfig:
        return _read(place, replies)

    return Command(parse, reads=reads)


def find(namespace: str, tenant: str, user: str | None, config_id: str) -> Command[StoredConfig]:
    """One config of a user, or of any in the tenant; not whether it is the default.

    Raises ConfigNotFoundError, ConfigDamagedError.
    """
    records = config_keys(namespace, tenant, "").records

    def parse(replies: list[Any]) -> StoredConfig:
        if replies[0] is None:
            raise missing()
        return _config(config_id, replies[0], user=user)

    return Command(parse, reads=(("HGET", records, config_id),))


def read_with_key(place: Place) -> Command[tuple[StoredConfig, bytes | None]]:
    """One config and its sealed api_key, if it has one. Raises ConfigNotFoundError, ConfigDamagedError."""
    plain = read(place)

    def parse(replies: list[Any]) -> tuple[StoredConfig, bytes | None]:
        return _read(place, replies), replies[2]

    return Command(parse, reads=(*plain.reads, ("HGET", place.keys.sealed, place.id)))


def read_all(namespace: str, tenant: str, user: str) -> Command[list[StoredConfig]]:
    """A user's configs, the oldest first. Raises ConfigDamagedError."""
    keys = config_keys(namespace, tenant, user)

    def parse(replies: list[Any]) -> list[StoredConfig]:
        default, *rest = replies[0]
        rows = zip(rest[::2], rest[1::2], strict=True)
        found = [_config(text(name), raw, is_default=name == default, user=user) for name, raw in rows]
        return sorted(found, key=lambda each: (each.created, each.id))

    return Command(parse, "config_list", (keys.records, keys.user, keys.defaults), (user,))


def read_default(namespace: str, tenant: str, user: str) -> Command[str | None]:
    """The id of a user's default config."""
    keys = config_keys(namespace, tenant, user)
    return Command(lambda replies: text(replies[0]) or None, reads=(("HGET", keys.defaults, user),))


def bind(
    namespace: str, tenant: str, session: str, user: str | None, config_id: str, *, life_ms: int
) -> Command[StoredConfig]:
    """Binds a session to a config. Raises ConfigNotFoundError, ConfigDamagedError."""

    def parse(replies: list[Any]) -> StoredConfig:
        status, *rest = replies[0]
        _refuse(text(status), config_id, rest)
        return _config(text(rest[0]), rest[1], is_default=bool(rest[2]))

    keys = config_keys(namespace, tenant, user or "")
    args = (config_id, user or "", life_ms)
    return Command(parse, "config_bind", (bound_key(namespace, tenant, session), keys.records, keys.defaults), args)


def bound(namespace: str, tenant: str, session: str, *, life_ms: int) -> Command[StoredConfig | None]:
    """The config that a session is bound to, as it is now; None without a binding.

    Raises ConfigGoneError when it was deleted, ConfigDamagedError.
    """

    def parse(replies: list[Any]) -> StoredConfig | None:
        status, *rest = replies[0]
        if text(status) == "unbound":
            return None
        if text(status) == "gone":
            raise ConfigGoneError(
                f"session: bound to config {text(rest[0])}, which was deleted. Bind it to another one, or unbind it."
            )
        return _config(text(rest[0]), rest[1], is_default=bool(rest[2]))

    keys = config_keys(namespace, tenant, "")
    names = (bound_key(namespace, tenant, session), keys.records, keys.defaults)
    return Command(parse, "config_bound", names, (life_ms,))


def unbind(namespace: str, tenant: str, session: str) -> Command[bool]:
    """Ends a binding; answers whether there was one."""
    return Command(lambda replies: bool(replies[0]), reads=(("DEL", bound_key(namespace, tenant, session)),))


def bound_key(namespace: str, tenant: str, session: str) -> str:
    """Where a session's binding is; `session` is its name without the tenant."""
    return f"{{{namespace}:configs:{tenant}}}:bound:{session}"


def read_tenants(namespace: str, cursor: int) -> Command[tuple[int, list[str]]]:
    """Tenants that have sealed api_keys, some at a time and possibly more than once; begins with cursor 0."""
    prefix, suffix = f"{{{namespace}:configs:", "}:sealed"

    def parse(replies: list[Any]) -> tuple[int, list[str]]:
        after, found = replies[0]
        return int(after), [text(key)[len(prefix) : -len(suffix)] for key in found]

    return Command(parse, reads=(("SCAN", cursor, "MATCH", f"{prefix}*{suffix}", "COUNT", 1_000),))


def read_sealed(namespace: str, tenant: str, cursor: int) -> Command[SealedPage]:
    """The next sealed api_keys of a tenant; begins with cursor 0."""
    sealed = config_keys(namespace, tenant, "").sealed

    def parse(replies: list[Any]) -> SealedPage:
        after, found = replies[0]
        return SealedPage(int(after), {text(name): value for name, value in found.items()})

    return Command(parse, reads=(("HSCAN", sealed, cursor, "COUNT", PAGE),))


def read_one_sealed(namespace: str, tenant: str, config_id: str) -> Command[bytes | None]:
    """The sealed api_key of a config; None when it has none (any more)."""
    sealed = config_keys(namespace, tenant, "").sealed
    return Command(lambda replies: replies[0], reads=(("HGET", sealed, config_id),))


def reseal(namespace: str, tenant: str, config_id: str, old: bytes, new: bytes) -> Command[bool]:
    """Replaces a sealed api_key that is still the old one; answers whether it was."""
    sealed = config_keys(namespace, tenant, "").sealed
    return Command(lambda replies: bool(replies[0]), "config_reseal", (sealed,), (config_id, old, new))


def _read(place: Place, replies: list[Any]) -> StoredConfig:
    raw, default = replies[:2]
    if raw is None:
        raise missing()
    return _config(place.id, raw, is_default=text(default) == place.id, user=place.user)


def _config(config_id: str, raw: bytes, *, is_default: bool = False, user: str | None = None) -> StoredConfig:
    """Raises ConfigDamagedError, and ConfigNotFoundError when it belongs to another user."""
    parts = raw.split(b" ", _HEAD - 1)
    if len(parts) != _HEAD or not all(part.isdigit() and len(part) <= 15 for part in parts[:3]):
        raise unreadable(config_id)
    version, created, updated = map(int, parts[:3])
    owner = text(parts[4])
    if user is not None and owner != user:
        raise missing()
    return StoredConfig.read(config_id, owner, version, (created, updated), parts[5], is_default=is_default)


def _refuse(status: str, config_id: str, rest: list[Any]) -> None:
    if status == "missing":
        raise missing()
    if status == "stale":
        raise stale(int(rest[0]))
    if status == "full":
        raise _full(text(rest[0]))
    if status == "damaged":
        raise unreadable(config_id)


def _full(whose: str) -> ConfigsFullError:
    if whose == "user":
        return ConfigsFullError(f"configs: this user has {MOST}, as many as one may have. Delete one first.")
    return ConfigsFullError(
        "configs: this tenant has as many as COMPACTOR_MAX_TENANT_CONFIGS allows. Delete some, or raise it."
    )


def stale(current: int) -> ConfigVersionError:
    """The error for an update of another version than the config has."""
    return ConfigVersionError(
        f"config: somebody changed it; it is at version {current}. Read it, and repeat your change on that version.",
        current,
    )


def missing() -> ConfigNotFoundError:
    """The error for an id that is nobody's, or somebody else's."""
    return ConfigNotFoundError("config: this user has none of this id.")
