"""ConfigStore: stored model configs for bots in Python; AsyncConfigStore is the same for asyncio."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import SecretStr

from compactor.async_client import AsyncCompactor
from compactor.client import Compactor
from compactor.config_flows import ConfigFlows, Rotation
from compactor.model_config import ModelConfig
from compactor.secret_box import SecretBox
from compactor.settings import Settings, choose_settings
from compactor.stored_config import StoredConfig


class ConfigStore:
    """Model configs by tenant and user, with encrypted api_keys; thread-safe, connects at first use.

    Every method raises StoreUnavailableError when Redis is away, and ConfigurationError for a tenant,
    user or session name that cannot be one.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        """Settings come from the environment by default. Raises ConfigurationError."""
        self.settings = choose_settings(settings, None, None)
        self._flows = ConfigFlows(self.settings, SecretBox(self.settings.config_keys))
        self._memory = Compactor(settings=self.settings)

    def create(self, tenant: str, user: str, values: Mapping[str, Any]) -> StoredConfig:
        """Stores a new config: `name`, `provider`, `model`, `context_limit` (K tokens) and what else is set.

        Raises InvalidConfigError, ConfigsFullError, ConfigKeysMissingError.
        """
        return self._memory.drive(self._flows.create(tenant, user, values))

    def get(self, tenant: str, user: str, config_id: str) -> StoredConfig:
        """One config, its api_key masked. Raises ConfigNotFoundError."""
        return self._memory.drive(self._flows.get(tenant, user, config_id))

    def all(self, tenant: str, user: str) -> list[StoredConfig]:
        """A user's configs, the oldest first."""
        return self._memory.drive(self._flows.all(tenant, user))

    def default(self, tenant: str, user: str) -> StoredConfig:
        """The user's default config. Raises ConfigNotFoundError."""
        return self._memory.drive(self._flows.default(tenant, user))

    def replace(
        self, tenant: str, user: str, config_id: str, values: Mapping[str, Any], *, expected_version: int
    ) -> StoredConfig:
        """Sets every field; the api_key stays when `values` has none, and goes when it is None.

        Raises InvalidConfigError, ConfigNotFoundError, ConfigVersionError, ConfigKeysMissingError.
        """
        return self._memory.drive(self._flows.replace(tenant, user, config_id, values, expected_version))

    def update(
        self, tenant: str, user: str, config_id: str, patch: Mapping[str, Any], *, expected_version: int
    ) -> StoredConfig:
        """Sets the fields in `patch`; None takes one back to its default. Raises as `replace`."""
        return self._memory.drive(self._flows.update(tenant, user, config_id, patch, expected_version))

    def delete(self, tenant: str, user: str, config_id: str, *, expected_version: int) -> None:
        """Deletes a config with its api_key. Raises ConfigNotFoundError, ConfigVersionError."""
        self._memory.drive(self._flows.delete(tenant, user, config_id, expected_version))

    def model_config(self, tenant: str, user: str, config_id: str) -> ModelConfig:
        """What `memory.session(name, config)` takes, as it is stored now. Raises ConfigNotFoundError."""
        return self.get(tenant, user, config_id).model_config

    def api_key(self, tenant: str, user: str, config_id: str) -> SecretStr | None:
        """The api_key to call the model with; None when the config has none.

        Raises ConfigNotFoundError, ApiKeyUnreadableError, ConfigKeysMissingError.
        """
        return self._memory.drive(self._flows.api_key(tenant, user, config_id))

    def bind(self, tenant: str, session: str, user: str | None, config_id: str) -> StoredConfig:
        """Binds the session `tenant/session` to a config of this user, or of any when None.

        Raises ConfigNotFoundError.
        """
        return self._memory.drive(self._flows.bind(tenant, session, user, config_id))

    def bound(self, tenant: str, session: str) -> StoredConfig | None:
        """The config that a session is bound to, read at this moment; None without one. Raises ConfigGoneError."""
        return self._memory.drive(self._flows.bound(tenant, session))

    def unbind(self, tenant: str, session: str) -> bool:
        """Ends a session's binding; answers whether there was one."""
        return self._memory.drive(self._flows.unbind(tenant, session))

    def rotate(self) -> Rotation:
        """Encrypts every api_key of the namespace with the first key of COMPACTOR_CONFIG_KEYS.

        Can run while the service does, be interrupted and repeated. Raises ConfigKeysMissingError.
        """
        return self._memory.drive(self._flows.rotate())

    def close(self) -> None:
        """Closes the connections; the store can be used again afterwards."""
        self._memory.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncConfigStore:
    """The same for asyncio."""

    def __init__(self, settings: Settings | None = None) -> None:
        """As `ConfigStore`. Raises ConfigurationError."""
        self.settings = choose_settings(settings, None, None)
        self._flows = ConfigFlows(self.settings, SecretBox(self.settings.config_keys))
        self._memory = AsyncCompactor(settings=self.settings)

    async def create(self, tenant: str, user: str, values: Mapping[str, Any]) -> StoredConfig:
        """As `ConfigStore.create`."""
        return await self._memory.drive(self._flows.create(tenant, user, values))

    async def get(self, tenant: str, user: str, config_id: str) -> StoredConfig:
        """As `ConfigStore.get`."""
        return await self._memory.drive(self._flows.get(tenant, user, config_id))

    async def all(self, tenant: str, user: str) -> list[StoredConfig]:
        """As `ConfigStore.all`."""
        return await self._memory.drive(self._flows.all(tenant, user))

    async def default(self, tenant: str, user: str) -> StoredConfig:
        """As `ConfigStore.default`."""
        return await self._memory.drive(self._flows.default(tenant, user))

    async def replace(
        self, tenant: str, user: str, config_id: str, values: Mapping[str, Any], *, expected_version: int
    ) -> StoredConfig:
        """As `ConfigStore.replace`."""
        return await self._memory.drive(self._flows.replace(tenant, user, config_id, values, expected_version))

    async def update(
        self, tenant: str, user: str, config_id: str, patch: Mapping[str, Any], *, expected_version: int
    ) -> StoredConfig:
        """As `ConfigStore.update`."""
        return await self._memory.drive(self._flows.update(tenant, user, config_id, patch, expected_version))

    async def delete(self, tenant: str, user: str, config_id: str, *, expected_version: int) -> None:
        """As `ConfigStore.delete`."""
        await self._memory.drive(self._flows.delete(tenant, user, config_id, expected_version))

    async def model_config(self, tenant: str, user: str, config_id: str) -> ModelConfig:
        """As `ConfigStore.model_config`."""
        return (await self.get(tenant, user, config_id)).model_config

    async def api_key(self, tenant: str, user: str, config_id: str) -> SecretStr | None:
        """As `ConfigStore.api_key`."""
        return await self._memory.drive(self._flows.api_key(tenant, user, config_id))

    async def bind(self, tenant: str, session: str, user: str | None, config_id: str) -> StoredConfig:
        """As `ConfigStore.bind`."""
        return await self._memory.drive(self._flows.bind(tenant, session, user, config_id))

    async def bound(self, tenant: str, session: str) -> StoredConfig | None:
        """As `ConfigStore.bound`."""
        return await self._memory.drive(self._flows.bound(tenant, session))

    async def unbind(self, tenant: str, session: str) -> bool:
        """As `ConfigStore.unbind`."""
        return await self._memory.drive(self._flows.unbind(tenant, session))

    async def rotate(self) -> Rotation:
        """As `ConfigStore.rotate`."""
        return await self._memory.drive(self._flows.rotate())

    async def close(self) -> None:
        """Closes the connections."""
        await self._memory.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
