"""redis-py's clients for a URL: of one server, of the primary behind Sentinels, of a node of a cluster."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import redis
import redis.asyncio
from redis.asyncio import sentinel as async_sentinel
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import ExponentialBackoff, NoBackoff
from redis.retry import Retry
from redis.sentinel import (
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    SentinelManagedSSLConnection,
)

from compactor.exceptions import ConfigurationError
from compactor.server_url import Address, Kind, ServerUrl
from compactor.settings import Settings

_CONNECTIONS: Final = 256  # to one server
# redis-py's own types leave these partially unknown.
_BLOCKING: Final[Any] = redis.Redis
_ASYNC: Final[Any] = redis.asyncio.Redis
_POOL: Final[Any] = redis.BlockingConnectionPool
_ASYNC_POOL: Final[Any] = redis.asyncio.BlockingConnectionPool
_SENTINELS: Final[Any] = Sentinel
_ASYNC_SENTINELS: Final[Any] = async_sentinel.Sentinel


class PrimaryPool(SentinelConnectionPool, redis.BlockingConnectionPool):
    """Connections to the primary that the Sentinels name; who finds all in use waits for one."""


class AsyncPrimaryPool(async_sentinel.SentinelConnectionPool, redis.asyncio.BlockingConnectionPool):
    """The same for asyncio."""


_PRIMARY: Final[Any] = PrimaryPool
_ASYNC_PRIMARY: Final[Any] = AsyncPrimaryPool


def blocking_client(url: ServerUrl, settings: Settings) -> Any:
    """The client of one server, or of the primary behind Sentinels. Raises ConfigurationError."""
    with _read():
        if url.kind is Kind.SENTINEL:
            return _checked(_BLOCKING.from_pool(_primary_pool(url, settings)))
        pool = _POOL.from_url(url.whole, retry=Retry(ExponentialBackoff(0.2, 0.02), 1), **_options(settings))
        return _checked(_BLOCKING.from_pool(pool))


def async_client(url: ServerUrl, settings: Settings) -> Any:
    """As `blocking_client`, for asyncio. Raises ConfigurationError."""
    with _read():
        if url.kind is Kind.SENTINEL:
            return _checked(_ASYNC.from_pool(_async_primary_pool(url, settings)))
        pool = _ASYNC_POOL.from_url(url.whole, retry=AsyncRetry(ExponentialBackoff(0.2, 0.02), 1), **_options(settings))
        return _checked(_ASYNC.from_pool(pool))


def blocking_node(url: ServerUrl, node: Address, settings: Settings) -> Any:
    """The client of a cluster's node; who knows the cluster repeats a failed attempt. Raises ConfigurationError."""
    with _read():
        pool = _POOL.from_url(url.of_node(node), retry=Retry(NoBackoff(), 0), **_options(settings))
        return _checked(_BLOCKING.from_pool(pool))


def async_node(url: ServerUrl, node: Address, settings: Settings) -> Any:
    """As `blocking_node`, for asyncio. Raises ConfigurationError."""
    with _read():
        pool = _ASYNC_POOL.from_url(url.of_node(node), retry=AsyncRetry(NoBackoff(), 0), **_options(settings))
        return _checked(_ASYNC.from_pool(pool))


def address(client: Any) -> str:
    """Where a client connects to, without user and password."""
    pool = client.connection_pool
    if (service := getattr(pool, "service_name", None)) is not None:
        return f"the primary that Sentinels call {service}"
    options = pool.connection_kwargs
    return str(options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}")


def close_client(client: Any) -> None:
    """Closes a client's connections, those to its Sentinels too."""
    client.close()
    if (manager := getattr(client.connection_pool, "sentinel_manager", None)) is not None:
        manager.close()


async def aclose_client(client: Any) -> None:
    """As `close_client`, for asyncio."""
    await client.aclose()
    if (manager := getattr(client.connection_pool, "sentinel_manager", None)) is not None:
        for sentinel in manager.sentinels:
            await sentinel.aclose()


def _options(settings: Settings) -> dict[str, Any]:
    return {
        **_times(settings),
        # Whoever finds all connections in use waits for one instead of failing at once.
        "max_connections": _CONNECTIONS,
        "timeout": settings.read_timeout,
        "decode_responses": False,
        "health_check_interval": 0,
        "client_name": "compactor",
    }


def _times(settings: Settings) -> dict[str, Any]:
    return {"socket_connect_timeout": settings.connect_timeout, "socket_timeout": settings.read_timeout}


def _primary_pool(url: ServerUrl, settings: Settings) -> Any:
    manager = _SENTINELS([])
    manager.sentinels = [
        _BLOCKING.from_url(url.of_sentinel(each), retry=Retry(NoBackoff(), 0), **_times(settings))
        for each in url.addresses
    ]
    return _PRIMARY.from_url(
        url.of_node(url.addresses[0]),  # the address is the Sentinels' to tell at each connect
        connection_class=SentinelManagedSSLConnection if url.is_encrypted else SentinelManagedConnection,
        service_name=url.service,
        sentinel_manager=manager,
        retry=Retry(ExponentialBackoff(0.2, 0.02), 1),
        **_options(settings),
    )


def _async_primary_pool(url: ServerUrl, settings: Settings) -> Any:
    manager = _ASYNC_SENTINELS([])
    manager.sentinels = [
        _ASYNC.from_url(url.of_sentinel(each), retry=AsyncRetry(NoBackoff(), 0), **_times(settings))
        for each in url.addresses
    ]
    pool = _ASYNC_PRIMARY.from_url(
        url.of_node(url.addresses[0]),
        service_name=url.service,
        sentinel_manager=manager,
        retry=AsyncRetry(ExponentialBackoff(0.2, 0.02), 1),
        **_options(settings),
    )
    encrypted, plain = async_sentinel.SentinelManagedSSLConnection, async_sentinel.SentinelManagedConnection
    pool.connection_class = encrypted if url.is_encrypted else plain  # rediss in the URL chose another one
    return pool


@contextmanager
def _read() -> Generator[None]:
    """Our error for what redis-py cannot read in a URL."""
    try:
        yield
    except ConfigurationError:
        raise
    except (ValueError, TypeError):
        raise _wrong_url() from None


def _checked(client: Any) -> Any:
    """Builds one connection object, which connects nowhere: an option redis-py does not know raises TypeError.

    Raises ConfigurationError.
    """
    pool = client.connection_pool
    pool.connection_class(**pool.connection_kwargs)
    authority = pool.connection_kwargs.get("ssl_ca_certs")
    if authority and not Path(authority).is_file():
        raise ConfigurationError("redis_url: ssl_ca_certs names a file that is not there.")
    return client


def _wrong_url() -> ConfigurationError:
    return ConfigurationError(
        "redis_url: expected redis://, rediss:// or unix:// with options redis-py knows, for example "
        "redis://127.0.0.1:6379/0; redis+sentinel:// and redis+cluster:// name several servers (docs/scaling.md)."
    )
