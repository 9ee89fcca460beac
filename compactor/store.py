"""Store and AsyncStore: run one command against Redis or Valkey, and translate what goes wrong."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final, Self, TypeVar

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialBackoff
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)
from redis.retry import Retry

from compactor.commands.command import Command
from compactor.exceptions import ConfigurationError, StoreUnavailableError
from compactor.settings import Settings

T = TypeVar("T")
_CONNECTIONS: Final = 256
SCRIPTS: Final = {
    path.name.removesuffix(".lua"): path.read_text(encoding="utf-8")
    for path in files("compactor.lua").iterdir()
    if path.name.endswith(".lua")
}
# redis-py's own types leave these two partially unknown.
_BLOCKING: Final[Any] = redis.Redis
_ASYNC: Final[Any] = redis.asyncio.Redis
_POOL: Final[Any] = redis.BlockingConnectionPool
_ASYNC_POOL: Final[Any] = redis.asyncio.BlockingConnectionPool
_SHA1: Final = {name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for name, text in SCRIPTS.items()}


def address(client: Any) -> str:
    """Where a client connects to, without user and password."""
    options = client.connection_pool.connection_kwargs
    return str(options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}")


def unavailable(error: Exception, where: str = "the server") -> StoreUnavailableError:
    """Our error for one of redis-py's; the text names the cause and the way out, never a URL or a value."""
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return StoreUnavailableError(
            "redis: the server refused the user or password. Set both in REDIS_URL (redis://user:password@host:port/0)."
        )
    if isinstance(error, ResponseError):
        return StoreUnavailableError(
            f"redis: the server refused ({_refusal(error)}); nothing was changed. `compactor doctor` tells more."
        )
    return StoreUnavailableError(
        f"redis: no answer from {where} ({type(error).__name__}). Check REDIS_URL and that this server runs "
        "(compactor up starts one); the call can be repeated safely."
    )


def _refusal(error: ResponseError) -> str:
    """The error's class, and the server's code for it where the class says less: MISCONF, NOREPLICAS, BUSY."""
    name, code = type(error).__name__, str(error).partition(" ")[0]
    return f"{code}, {name}" if re.fullmatch(r"[A-Z]{3,20}", code) and code.lower() not in name.lower() else name


def _options(settings: Settings) -> dict[str, Any]:
    return {
        "socket_connect_timeout": settings.connect_timeout,
        "socket_timeout": settings.read_timeout,
        # Whoever finds all connections in use waits for one instead of failing at once.
        "max_connections": _CONNECTIONS,
        "timeout": settings.read_timeout,
        "decode_responses": False,
        "health_check_interval": 0,
        "client_name": "compactor",
    }


def _wrong_url() -> ConfigurationError:
    return ConfigurationError(
        "redis_url: expected redis://, rediss:// or unix:// with options redis-py knows, for example redis://127.0.0.1:6379/0."
    )


def _evalsha(command: Command[Any]) -> tuple[Any, ...]:
    assert command.script is not None
    return ("EVALSHA", _SHA1[command.script], len(command.keys), *command.keys, *command.args)


def _fill(pipeline: Any, command: Command[Any]) -> None:
    if command.script is not None:
        pipeline.execute_command(*_evalsha(command))
    if command.then is not None:
        script, args = command.then
        pipeline.execute_command("EVALSHA", _SHA1[script], len(command.keys), *command.keys, *args)
    for read in command.reads:
        pipeline.execute_command(*read)


def _scripts(command: Command[Any]) -> list[str]:
    named = (command.script, command.then[0] if command.then else None)
    return [script for script in named if script is not None]


def _is_single(command: Command[Any]) -> bool:
    return len(command.reads) + (command.script is not None) + (command.then is not None) == 1


def _single(command: Command[Any]) -> Sequence[Any]:
    return _evalsha(command) if command.script is not None else command.reads[0]


def check_url(client: Any) -> None:
    """Builds one connection object, which connects nowhere: an option redis-py does not know raises TypeError."""
    pool = client.connection_pool
    pool.connection_class(**pool.connection_kwargs)


class Store:
    """The blocking store; thread-safe, fork-safe, connects at first use."""

    def __init__(self, settings: Settings) -> None:
        try:
            pool = _POOL.from_url(
                settings.redis_url.get_secret_value(),
                retry=Retry(ExponentialBackoff(0.2, 0.02), 1),
                **_options(settings),
            )
            self.client: Any = _BLOCKING.from_pool(pool)
            check_url(self.client)
        except (ValueError, TypeError):
            raise _wrong_url() from None

    def run(self, command: Command[T]) -> T:
        """One round trip. Raises StoreUnavailableError, and what the command's parser raises."""
        try:
            try:
                replies = self._attempt(command)
            except NoScriptError:
                self._load(command)
                replies = self._attempt(command)
        except (RedisError, OSError) as error:
            raise unavailable(error, address(self.client)) from None
        return command.parse(replies)

    def _load(self, command: Command[Any]) -> None:
        for script in _scripts(command):
            self.client.script_load(SCRIPTS[script])

    def _attempt(self, command: Command[Any]) -> list[Any]:
        if _is_single(command):
            return [self.client.execute_command(*_single(command))]
        with self.client.pipeline(transaction=True) as pipeline:
            _fill(pipeline, command)
            return list(pipeline.execute())

    def close(self) -> None:
        self.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStore:
    """The same for asyncio; a new event loop gets new connections, since those of an ended one are dead."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = self._connect()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _connect(self) -> Any:
        try:
            pool = _ASYNC_POOL.from_url(
                self._settings.redis_url.get_secret_value(),
                retry=AsyncRetry(ExponentialBackoff(0.2, 0.02), 1),
                **_options(self._settings),
            )
            client = _ASYNC.from_pool(pool)
            check_url(client)
        except (ValueError, TypeError):
            raise _wrong_url() from None
        return client

    @property
    def client(self) -> Any:
        """The client of the running loop."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None:
                self._client = self._connect()
            self._loop = loop
        return self._client

    async def run(self, command: Command[T]) -> T:
        """One round trip. Raises StoreUnavailableError, and what the command's parser raises."""
        client = self.client
        try:
            try:
                replies = await self._attempt(client, command)
            except NoScriptError:
                for script in _scripts(command):
                    await client.script_load(SCRIPTS[script])
                replies = await self._attempt(client, command)
        except (RedisError, OSError) as error:
            raise unavailable(error, address(client)) from None
        return command.parse(replies)

    @staticmethod
    async def _attempt(client: Any, command: Command[Any]) -> list[Any]:
        if _is_single(command):
            return [await client.execute_command(*_single(command))]
        async with client.pipeline(transaction=True) as pipeline:
            _fill(pipeline, command)
            return list(await pipeline.execute())

    async def close(self) -> None:
        """Closes the connections of the running loop."""
        await self.client.aclose()
