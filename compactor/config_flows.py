"""What is done with stored configs, as flows that both clients drive."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from typing import Any, Final

from pydantic import SecretStr

from compactor.commands import configs
from compactor.commands.configs import Place, Written
from compactor.effects import Flow, run
from compactor.exceptions import ApiKeyUnreadableError, ConfigNotFoundError, ConfigurationError
from compactor.model_config import ModelConfig
from compactor.secret_box import SecretBox
from compactor.settings import Settings
from compactor.stored_config import (
    ConfigFields,
    StoredConfig,
    body_of,
    check_fields,
    check_server,
    check_user,
    is_config_id,
    mask,
    merged,
)

_NAME: Final = re.compile(r"[A-Za-z0-9._:@-]{1,150}")
_TRIES: Final = 3  # for an api_key that users change while it is encrypted anew


@dataclass(slots=True)
class Rotation:
    """How many api_keys were encrypted anew, were already, and cannot be opened by any key of the ring.

    `unreadable` names them as (tenant, config id).
    """

    rotated: int = 0
    current: int = 0
    unreadable: tuple[tuple[str, str], ...] = ()


class ConfigFlows:
    """Stored configs of one namespace. Every flow raises StoreUnavailableError when Redis is away."""

    def __init__(self, settings: Settings, box: SecretBox) -> None:
        self._namespace = settings.namespace
        self._most = settings.max_tenant_configs
        self._box = box
        # Twice a session's life: one that is used with other configs meanwhile stays bound.
        self._life_ms = int(2000 * settings.session_ttl)

    def create(self, tenant: str, user: str, values: Any) -> Flow[StoredConfig]:
        """Stores a new config. Raises InvalidConfigError, ConfigsFullError, ConfigKeysMissingError."""
        place = self._place(tenant, user, f"cfg_{secrets.token_hex(16)}")
        fields = check_fields(values)
        written = self._written(place, fields, fields.api_key)
        return (yield from self._write(place, written, None))

    def get(self, tenant: str, user: str, config_id: str) -> Flow[StoredConfig]:
        """One config. Raises ConfigNotFoundError."""
        return (yield from run(configs.read(self._known(tenant, user, config_id))))

    def all(self, tenant: str, user: str) -> Flow[list[StoredConfig]]:
        """A user's configs, the oldest first."""
        _check_tenant(tenant)
        return (yield from run(configs.read_all(self._namespace, tenant, check_user(user))))

    def replace(self, tenant: str, user: str, config_id: str, values: Any, expected_version: int) -> Flow[StoredConfig]:
        """Sets every field; the api_key stays when `values` has none, and goes when it is null.

        Raises InvalidConfigError, ConfigNotFoundError, ConfigVersionError, ConfigKeysMissingError.
        """
        place = self._known(tenant, user, config_id)
        fields = check_fields(values)
        old = yield from self._expected(place, expected_version)
        return (yield from self._change(place, old, fields, sets_key="api_key" in values))

    def update(self, tenant: str, user: str, config_id: str, patch: Any, expected_version: int) -> Flow[StoredConfig]:
        """Sets the fields in `patch` (a merge patch, RFC 7396): null takes one back to its default.

        Raises InvalidConfigError, ConfigNotFoundError, ConfigVersionError, ConfigKeysMissingError.
        """
        place = self._known(tenant, user, config_id)
        old = yield from self._expected(place, expected_version)
        fields = check_fields(merged(old.fields, patch, is_default=old.is_default))
        return (yield from self._change(place, old, fields, sets_key="api_key" in patch))

    def delete(self, tenant: str, user: str, config_id: str, expected_version: int) -> Flow[None]:
        """Deletes a config with its api_key. Raises ConfigNotFoundError, ConfigVersionError."""
        place = self._known(tenant, user, config_id)
        yield from run(configs.delete(place, operation=secrets.token_hex(8), expected=_version(expected_version)))

    def default(self, tenant: str, user: str) -> Flow[StoredConfig]:
        """The user's default config. Raises ConfigNotFoundError."""
        _check_tenant(tenant)
        found = yield from run(configs.read_default(self._namespace, tenant, check_user(user)))
        if found is None:
            raise ConfigNotFoundError("config: this user has no default; store one with is_default=true.")
        return (yield from self.get(tenant, user, found))

    def api_key(self, tenant: str, user: str, config_id: str) -> Flow[SecretStr | None]:
        """The config's api_key; None when it has none.

        Raises ConfigNotFoundError, ApiKeyUnreadableError, ConfigKeysMissingError.
        """
        place = self._known(tenant, user, config_id)
        stored, sealed = yield from run(configs.read_with_key(place))
        if sealed is None:
            return None
        return self._box.open(sealed, _seal(place, stored.fields))

    def bind(self, tenant: str, session: str, user: str | None, config_id: str) -> Flow[StoredConfig]:
        """Binds the session `tenant/session` to a config, of this user or of any in the tenant.

        Raises ConfigNotFoundError.
        """
        _check_tenant(tenant)
        _check_session(session)
        user = None if user is None else check_user(user)
        _check_id(config_id)
        return (yield from run(configs.bind(self._namespace, tenant, session, user, config_id, life_ms=self._life_ms)))

    def bound(self, tenant: str, session: str) -> Flow[StoredConfig | None]:
        """The config that a session is bound to, as it is at this moment; None without one.

        Raises ConfigGoneError.
        """
        _check_tenant(tenant)
        _check_session(session)
        return (yield from run(configs.bound(self._namespace, tenant, session, life_ms=self._life_ms)))

    def unbind(self, tenant: str, session: str) -> Flow[bool]:
        """Ends a session's binding; answers whether there was one."""
        _check_tenant(tenant)
        _check_session(session)
        return (yield from run(configs.unbind(self._namespace, tenant, session)))

    def find(self, tenant: str, user: str | None, config_id: str) -> Flow[ModelConfig]:
        """The model config under an id, of this user or of any in the tenant. Raises ConfigNotFoundError."""
        _check_tenant(tenant)
        _check_id(config_id)
        stored = yield from run(configs.find(self._namespace, tenant, user, config_id))
        return stored.model_config

    def rotate(self) -> Flow[Rotation]:
        """Encrypts every api_key of the namespace with the first key of the ring; can be repeated at any time.

        Raises ConfigKeysMissingError.
        """
        self._box.check()
        done, seen, cursor = Rotation(), set[str](), -1
        while cursor:
            cursor, tenants = yield from run(configs.read_tenants(self._namespace, max(cursor, 0)))
            for tenant in tenants:
                if tenant not in seen:
                    seen.add(tenant)
                    yield from self._rotate(tenant, done)
        return done

    def _rotate(self, tenant: str, done: Rotation) -> Flow[None]:
        seen, cursor = set[str](), -1
        while cursor:
            page = yield from run(configs.read_sealed(self._namespace, tenant, max(cursor, 0)))
            cursor = page.cursor
            for config_id, sealed in page.sealed.items():
                if config_id not in seen:
                    seen.add(config_id)
                    yield from self._reseal(tenant, config_id, sealed, done)

    def _reseal(self, tenant: str, config_id: str, sealed: bytes | None, done: Rotation) -> Flow[None]:
        for _ in range(_TRIES):
            if sealed is None:  # deleted meanwhile
                return
            try:
                again = self._box.rotated(sealed)
            except ApiKeyUnreadableError:
                done.unreadable += ((tenant, config_id),)
                return
            if again is None:
                done.current += 1
                return
            if (yield from run(configs.reseal(self._namespace, tenant, config_id, sealed, again))):
                done.rotated += 1
                return
            sealed = yield from run(configs.read_one_sealed(self._namespace, tenant, config_id))

    def _expected(self, place: Place, version: int) -> Flow[StoredConfig]:
        """The config as it is, at the version expected; the write compares again."""
        version = _version(version)
        old = yield from run(configs.read(place))
        if old.version != version:
            raise configs.stale(old.version)
        return old

    def _change(self, place: Place, old: StoredConfig, fields: ConfigFields, *, sets_key: bool) -> Flow[StoredConfig]:
        if sets_key:
            written = self._written(place, fields, fields.api_key)
        else:
            if old.masked_key is not None:
                check_server(old.fields, fields)
            written = Written(body_of(fields, old.masked_key), fields.is_default)
        return (yield from self._write(place, written, old.version))

    def _write(self, place: Place, written: Written, expected: int | None) -> Flow[StoredConfig]:
        operation = secrets.token_hex(8)
        return (yield from run(configs.write(place, written, operation=operation, expected=expected, most=self._most)))

    def _written(self, place: Place, fields: ConfigFields, key: SecretStr | None) -> Written:
        if key is None:
            return Written(body_of(fields, None), fields.is_default, "drop")
        sealed = self._box.seal(key, _seal(place, fields))
        return Written(body_of(fields, mask(key)), fields.is_default, "set", sealed)

    def _place(self, tenant: str, user: str, config_id: str) -> Place:
        _check_tenant(tenant)
        return Place(self._namespace, tenant, check_user(user), config_id)

    def _known(self, tenant: str, user: str, config_id: str) -> Place:
        place = self._place(tenant, user, config_id)
        _check_id(config_id)
        return place


def _seal(place: Place, fields: ConfigFields) -> str:
    """What an api_key is sealed for: this config, and the server it is meant for."""
    return f"{place.tenant}\n{place.user}\n{place.id}\n{fields.server}"


def _version(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ConfigurationError("expected_version: expected the config's version as a whole number, for example 3.")
    return value


def _check_id(config_id: Any) -> None:
    """What has not the form of an id is not asked for."""
    if not is_config_id(config_id):
        raise configs.missing()


def _check_tenant(tenant: Any) -> None:
    if not isinstance(tenant, str) or not _NAME.fullmatch(tenant):
        raise ConfigurationError("tenant: expected 1-150 characters of A-Z a-z 0-9 . _ : @ -")


def _check_session(session: Any) -> None:
    if not isinstance(session, str) or not _NAME.fullmatch(session):
        raise ConfigurationError("session name: expected 1-150 characters of A-Z a-z 0-9 . _ : @ - without its tenant")
