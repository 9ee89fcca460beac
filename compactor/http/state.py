"""What the service's routers work with: one client, one store and the settings of the process."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import cast

from cachetools import LRUCache
from starlette.requests import Request

from compactor.async_client import AsyncCompactor
from compactor.config_flows import ConfigFlows
from compactor.model_config import ModelConfig
from compactor.secret_box import SecretBox
from compactor.settings import Settings
from compactor.store import AsyncStore


def _remembered() -> LRUCache[tuple[str, ...], ModelConfig]:
    return LRUCache(10_000)


@dataclass(slots=True)
class State:
    """Made once per app, closed with it; `store` runs commands that belong to no session.

    `last_configs` are the stored configs as they were last read, for when Redis is away; `pinged` is
    the last question whether it is.
    """

    settings: Settings
    memory: AsyncCompactor
    store: AsyncStore
    configs: ConfigFlows
    last_configs: LRUCache[tuple[str, ...], ModelConfig] = field(default_factory=_remembered)
    pinged: asyncio.Task[bool] | None = None

    @classmethod
    def opened(cls, settings: Settings) -> State:
        """Connects at first use. Raises ConfigurationError for a wrong URL or keyring."""
        flows = ConfigFlows(settings, SecretBox(settings.config_keys))
        return cls(settings, AsyncCompactor(settings=settings), AsyncStore(settings), flows)

    async def close(self) -> None:
        """Closes the connections."""
        await self.memory.close()
        await self.store.close()


async def state(request: Request) -> State:
    """The dependency that gives a route the state of its app."""
    return cast("State", request.app.state.compactor)
