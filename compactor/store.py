"""Store and AsyncStore: run one command against Redis or Valkey, and translate what goes wrong."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final, Self, TypeVar

from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    ClusterCrossSlotError,
    MovedError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
)

from compactor.cluster import AskSlots, Attempt, Cluster, NotACluster, Step, Way
from compactor.commands.command import Command
from compactor.connections import (
    aclose_client,
    address,
    async_client,
    async_node,
    blocking_client,
    blocking_node,
    close_client,
)
from compactor.effects import Pause
from compactor.exceptions import StoreUnavailableError
from compactor.server_url import Address, Kind, read_url
from compactor.settings import Settings

T = TypeVar("T")
SCRIPTS: Final = {
    path.name.removesuffix(".lua"): path.read_text(encoding="utf-8")
    for path in files("compactor.lua").iterdir()
    if path.name.endswith(".lua")
}
_SHA1: Final = {name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest() for name, text in SCRIPTS.items()}


def unavailable(error: Exception, where: str = "the server") -> StoreUnavailableError:
    """Our error for one of redis-py's; the text names the cause and the way out, never a URL or a value."""
    if isinstance(error, (AuthenticationError, AuthorizationError, NoPermissionError)):
        return StoreUnavailableError(
            "redis: the server refused the user or password. Set both in REDIS_URL (redis://user:password@host:port/0)."
        )
    if isinstance(error, (MovedError, ClusterCrossSlotError)):
        return StoreUnavailableError(
            f"redis: {where} is a node of a cluster. Write redis+cluster:// in place of redis:// in REDIS_URL."
        )
    if isinstance(error, NotACluster):
        return StoreUnavailableError(
            "redis: the server of REDIS_URL is no node of a cluster. Write redis:// in place of redis+cluster://."
        )
    if isinstance(error, ResponseError):
        return StoreUnavailableError(
            f"redis: the server refused ({_refusal(error)}); nothing was changed. `compactor doctor` tells more."
        )
    if "CERTIFICATE_VERIFY_FAILED" in str(error):
        return StoreUnavailableError(
            f"redis: the certificate of {where} could not be checked. Name the file of its authority in REDIS_URL: "
            "rediss://...?ssl_ca_certs=/path/to/ca.pem."
        )
    return StoreUnavailableError(
        f"redis: no answer from {where} ({type(error).__name__}). Check REDIS_URL and that this server runs "
        "(compactor up starts one); the call can be repeated safely."
    )


def _refusal(error: ResponseError) -> str:
    """The error's class, and the server's code for it where the class says less: MISCONF, NOREPLICAS, BUSY."""
    name, code = type(error).__name__, str(error).partition(" ")[0]
    return f"{code}, {name}" if re.fullmatch(r"[A-Z]{3,20}", code) and code.lower() not in name.lower() else name


def _evalsha(command: Command[Any]) -> tuple[Any, ...]:
    assert command.script is not None
    return ("EVALSHA", _SHA1[command.script], len(command.keys), *command.keys, *command.args)


def _sent(command: Command[Any]) -> list[tuple[Any, ...]]:
    sent: list[tuple[Any, ...]] = [_evalsha(command)] if command.script is not None else []
    if command.then is not None:
        script, args = command.then
        sent.append(("EVALSHA", _SHA1[script], len(command.keys), *command.keys, *args))
    return [*sent, *command.reads]


def _fill(pipeline: Any, command: Command[Any]) -> None:
    for words in _sent(command):
        pipeline.execute_command(*words)


def _scripts(command: Command[Any]) -> list[str]:
    named = (command.script, command.then[0] if command.then else None)
    return [script for script in named if script is not None]


def _is_single(command: Command[Any]) -> bool:
    return len(command.reads) + (command.script is not None) + (command.then is not None) == 1


def _single(command: Command[Any]) -> Sequence[Any]:
    return _evalsha(command) if command.script is not None else command.reads[0]


def _asking(command: Command[Any]) -> list[tuple[Any, ...]]:
    """What is sent to a node that is taking the slot over: it answers what follows ASKING."""
    sent = _sent(command)
    return [("ASKING",), *sent] if len(sent) == 1 else [("ASKING",), ("MULTI",), *sent, ("EXEC",)]


def _answered(command: Command[Any], replies: list[Any]) -> list[Any]:
    """The replies to `_asking`. Raises what stands for one of them: redis-py looks at no error inside an EXEC."""
    answers = replies[1:] if _is_single(command) else list(replies[-1])
    for answer in answers:
        if isinstance(answer, RedisError):
            raise answer
    return answers


class Store:
    """The blocking store; thread-safe, fork-safe, connects at first use."""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigurationError."""
        self._settings = settings
        self._url = read_url(settings.redis_url.get_secret_value())
        self._cluster = Cluster(self._url.addresses) if self._url.kind is Kind.CLUSTER else None
        self._nodes: dict[Address, Any] = {}
        self.client: Any = (  # of the one server; in a cluster, of the first node it is known by
            blocking_client(self._url, settings) if self._cluster is None else self._node(self._url.addresses[0])
        )

    def run(self, command: Command[T]) -> T:
        """One round trip. Raises StoreUnavailableError, and what the command's parser raises."""
        try:
            if self._cluster is None:
                replies = self._loaded(self.client, command)
            else:
                replies = self._follow(self._cluster.replies(command))
        except (RedisError, OSError) as error:
            raise unavailable(error, self._where) from None
        return command.parse(replies)

    def client_of(self, key: str) -> Any:
        """redis-py's client of the server that has a key. Raises StoreUnavailableError."""
        if self._cluster is None:
            return self.client
        try:
            return self._node(self._follow(self._cluster.primary_of(key)))
        except (RedisError, OSError) as error:
            raise unavailable(error, self._where) from None

    def primaries(self) -> list[Any]:
        """redis-py's client of each server that takes writes. Raises StoreUnavailableError."""
        if self._cluster is None:
            return [self.client]
        try:
            return [self._node(each) for each in self._follow(self._cluster.primaries())]
        except (RedisError, OSError) as error:
            raise unavailable(error, self._where) from None

    @property
    def _where(self) -> str:
        return "the cluster" if self._cluster is not None else address(self.client)

    def _node(self, node: Address) -> Any:
        client = self._nodes.get(node)
        return (
            client
            if client is not None
            else self._nodes.setdefault(node, blocking_node(self._url, node, self._settings))
        )

    def _follow(self, way: Way[T]) -> T:
        try:
            step = next(way)
            while True:
                try:
                    answer = self._take(step)
                except (RedisError, OSError) as error:
                    step = way.throw(error)
                else:
                    step = way.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    def _take(self, step: Step) -> Any:
        match step:
            case Pause(seconds):
                return time.sleep(seconds)
            case AskSlots(node):
                return self._node(node).execute_command("CLUSTER", "SLOTS")
            case Attempt(node, command, asking, whole):
                return self._loaded(self._node(node), command, asking=asking, whole=whole)

    def _loaded(self, client: Any, command: Command[Any], *, asking: bool = False, whole: bool = True) -> list[Any]:
        try:
            return self._attempt(client, command, asking=asking, whole=whole)
        except NoScriptError:
            for script in _scripts(command):
                client.script_load(SCRIPTS[script])
            return self._attempt(client, command, asking=asking, whole=whole)

    @staticmethod
    def _attempt(client: Any, command: Command[Any], *, asking: bool, whole: bool) -> list[Any]:
        if asking:
            with client.pipeline(transaction=False) as pipeline:
                for words in _asking(command):
                    pipeline.execute_command(*words)
                return _answered(command, pipeline.execute())
        if _is_single(command):
            return [client.execute_command(*_single(command))]
        with client.pipeline(transaction=whole) as pipeline:
            _fill(pipeline, command)
            return list(pipeline.execute())

    def close(self) -> None:
        for client in dict.fromkeys((self.client, *self._nodes.values())):
            close_client(client)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AsyncStore:
    """The same for asyncio; a new event loop gets new connections, since those of an ended one are dead."""

    def __init__(self, settings: Settings) -> None:
        """Raises ConfigurationError."""
        self._settings = settings
        self._url = read_url(settings.redis_url.get_secret_value())
        self._cluster = Cluster(self._url.addresses) if self._url.kind is Kind.CLUSTER else None
        self._nodes: dict[Address, Any] = {}
        self._client = self._connect()
        self._loop: asyncio.AbstractEventLoop | None = None

    def _connect(self) -> Any:
        if self._cluster is None:
            return async_client(self._url, self._settings)
        self._nodes = {}
        return self._node(self._url.addresses[0])

    @property
    def client(self) -> Any:
        """The one server's client for the running loop; in a cluster, of the first node it is known by."""
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
            if self._cluster is None:
                replies = await self._loaded(client, command)
            else:
                replies = await self._follow(self._cluster.replies(command))
        except (RedisError, OSError) as error:
            raise self._unavailable(error) from None
        return command.parse(replies)

    async def client_of(self, key: str) -> Any:
        """redis-py's client of the server that has a key. Raises StoreUnavailableError."""
        client = self.client
        if self._cluster is None:
            return client
        try:
            return self._node(await self._follow(self._cluster.primary_of(key)))
        except (RedisError, OSError) as error:
            raise self._unavailable(error) from None

    def _unavailable(self, error: Exception) -> StoreUnavailableError:
        return unavailable(error, "the cluster" if self._cluster is not None else address(self._client))

    def _node(self, node: Address) -> Any:
        client = self._nodes.get(node)
        if client is None:
            client = self._nodes[node] = async_node(self._url, node, self._settings)
        return client

    async def _follow(self, way: Way[T]) -> T:
        try:
            step = next(way)
            while True:
                try:
                    answer = await self._take(step)
                except (RedisError, OSError) as error:
                    step = way.throw(error)
                else:
                    step = way.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    async def _take(self, step: Step) -> Any:
        match step:
            case Pause(seconds):
                return await asyncio.sleep(seconds)
            case AskSlots(node):
                return await self._node(node).execute_command("CLUSTER", "SLOTS")
            case Attempt(node, command, asking, whole):
                return await self._loaded(self._node(node), command, asking=asking, whole=whole)

    async def _loaded(
        self, client: Any, command: Command[Any], *, asking: bool = False, whole: bool = True
    ) -> list[Any]:
        try:
            return await self._attempt(client, command, asking=asking, whole=whole)
        except NoScriptError:
            for script in _scripts(command):
                await client.script_load(SCRIPTS[script])
            return await self._attempt(client, command, asking=asking, whole=whole)

    @staticmethod
    async def _attempt(client: Any, command: Command[Any], *, asking: bool, whole: bool) -> list[Any]:
        if asking:
            async with client.pipeline(transaction=False) as pipeline:
                for words in _asking(command):
                    pipeline.execute_command(*words)
                return _answered(command, await pipeline.execute())
        if _is_single(command):
            return [await client.execute_command(*_single(command))]
        async with client.pipeline(transaction=whole) as pipeline:
            _fill(pipeline, command)
            return list(await pipeline.execute())

    async def close(self) -> None:
        """Closes the connections of the running loop."""
        client = self.client
        for each in dict.fromkeys((client, *self._nodes.values())):
            await aclose_client(each)
