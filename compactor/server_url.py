"""Where a Redis is, read from its URL: one server, the primary that Sentinels name, or a cluster.

`redis://` and `unix://` name one server; `redis+sentinel://HOST:PORT,HOST:PORT/SERVICE[/DB]` a primary
by its Sentinels; `redis+cluster://HOST:PORT,HOST:PORT` a cluster by some of its nodes. With `rediss` in
place of `redis` every connection is encrypted. Options stand behind a `?`, as redis-py knows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from compactor.exceptions import ConfigurationError

Address = tuple[str, int]
_SENTINEL_PORT: Final = 26379
_PORT: Final = 6379
_SENTINELS: Final = "sentinel_username", "sentinel_password"  # options of ours, which redis-py does not know


class Kind(StrEnum):
    """What stands behind a URL; the value is what the scheme ends with."""

    SERVER = ""
    SENTINEL = "+sentinel"
    CLUSTER = "+cluster"


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A URL taken apart. `whole` is the URL of a single server as it was given.

    `login` and `sentinel_login` end with an @, and `options` begin with a ?, where they are not empty.
    """

    kind: Kind
    whole: str = ""
    scheme: str = "redis"
    login: str = ""
    addresses: tuple[Address, ...] = ()
    service: str = ""
    database: str = "0"
    options: str = ""
    sentinel_login: str = ""

    @property
    def is_encrypted(self) -> bool:
        return self.scheme == "rediss"

    @property
    def encryption(self) -> dict[str, str]:
        """The options that say how connections are encrypted and checked."""
        return {name: value for name, value in parse_qsl(self.options[1:]) if name.startswith("ssl_")}

    @property
    def sentinel_user(self) -> dict[str, str]:
        """Who one is to the Sentinels, as arguments of a client."""
        user, _, password = self.sentinel_login.removesuffix("@").partition(":")
        told = {"username": unquote(user), "password": unquote(password)}
        return {name: value for name, value in told.items() if value}

    def of_node(self, address: Address) -> str:
        """The URL of one node of a cluster, or of the primary behind Sentinels, as redis-py takes it."""
        return f"{self.scheme}://{self.login}{_authority(address)}/{self.database}{self.options}"

    def of_sentinel(self, address: Address) -> str:
        """The URL of one Sentinel, as redis-py takes it."""
        return f"{self.scheme}://{self.sentinel_login}{_authority(address)}/0{self.options}"


def kind_of(url: str) -> Kind:
    """What a URL's scheme says."""
    scheme = url.partition("://")[0]
    return next((kind for kind in (Kind.SENTINEL, Kind.CLUSTER) if scheme in _schemes(kind)), Kind.SERVER)


def read_url(url: str) -> ServerUrl:
    """Takes a URL apart. Raises ConfigurationError, which never shows it."""
    kind = kind_of(url)
    if kind is Kind.SERVER:
        return ServerUrl(kind, whole=url)
    scheme, _, rest = url.partition("://")
    rest, _, query = rest.partition("?")
    authority, _, path = rest.partition("/")
    login, at, hosts = authority.rpartition("@")
    try:
        port = _SENTINEL_PORT if kind is Kind.SENTINEL else _PORT
        addresses = tuple(_address(host, port) for host in hosts.split(","))
        service, database = _places(kind, path)
    except ValueError:
        raise _wrong(kind) from None
    given = parse_qsl(query, keep_blank_values=True)
    options = [(name, value) for name, value in given if name not in _SENTINELS]
    if kind is Kind.CLUSTER and any(name in (*_SENTINELS, "db") for name, _ in given):
        raise _wrong(kind)
    return ServerUrl(
        kind,
        scheme=scheme.removesuffix(kind.value),
        login=login + at,
        addresses=addresses,
        service=service,
        database=database,
        options=f"?{urlencode(options, quote_via=quote)}" if options else "",
        sentinel_login=_login(dict(given)),
    )


def _schemes(kind: Kind) -> tuple[str, str]:
    return f"redis{kind}", f"rediss{kind}"


def _authority(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _address(text: str, default: int) -> Address:
    """HOST, HOST:PORT or [IPV6]:PORT. Raises ValueError."""
    if text.startswith("["):
        host, bracket, port = text[1:].partition("]")
        if not bracket or port[:1] not in ("", ":"):
            raise ValueError
        port = port[1:]
    else:
        host, _, port = text.partition(":")
    number = int(port) if port else default
    if not host or not 0 < number < 65_536:
        raise ValueError
    return host, number


def _places(kind: Kind, path: str) -> tuple[str, str]:
    """The service of Sentinels, and the number of the database. Raises ValueError."""
    service, _, database = path.partition("/") if kind is Kind.SENTINEL else ("", "", path)
    database = database.strip("/") or "0"
    if not database.isdecimal() or (kind is Kind.SENTINEL) != bool(service):
        raise ValueError
    if kind is Kind.CLUSTER and int(database):
        raise ValueError
    return unquote(service), database


def _login(options: dict[str, str]) -> str:
    user, password = (options.get(name, "") for name in _SENTINELS)
    return f"{quote(user, safe='')}:{quote(password, safe='')}@" if user or password else ""


def _wrong(kind: Kind) -> ConfigurationError:
    if kind is Kind.CLUSTER:
        return ConfigurationError(
            "redis_url: expected redis+cluster://user:password@host:port,host:port with some nodes of the cluster, "
            "no database but 0, and options that redis-py knows, for example redis+cluster://127.0.0.1:7000."
        )
    return ConfigurationError(
        "redis_url: expected redis+sentinel://user:password@host:port,host:port/service/0 with the Sentinels and the "
        "name they know the primary by, for example redis+sentinel://127.0.0.1:26379/mymaster."
    )
