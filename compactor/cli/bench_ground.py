"""Where a benchmark runs: sessions of its own on a server, removed when it ends."""

from __future__ import annotations

import secrets
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from compactor.cli.backend import server_only
from compactor.cli.load.conversations import source
from compactor.client import Compactor, Session
from compactor.commands.command import SessionKeys, session_keys
from compactor.encodings import encoder
from compactor.model_config import ModelConfig
from compactor.models import SessionId
from compactor.settings import Settings
from compactor.store import Store
from compactor.tokens import Encode

CONFIG: Final = ModelConfig("gpt-4o", 200)
ENCODING: Final = "o200k_base"
_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Ground:
    """A client and a store on the same server, and how many rounds each pair is measured."""

    memory: Compactor
    store: Store
    rounds: int

    @property
    def settings(self) -> Settings:
        return self.memory.settings

    @property
    def client(self) -> Any:
        """A bare connection, as redis-py gives it."""
        return self.store.client_of(self.key("bare"))

    @property
    def encode(self) -> Encode:
        return encoder(ENCODING)

    def key(self, name: str) -> str:
        """A key of the run's own, in its namespace."""
        return f"{{{self.settings.namespace}:{name}}}"

    def session(self, messages: Sequence[dict[str, Any]], *, name: str = "", config: ModelConfig = CONFIG) -> Session:
        """A new session that holds these messages."""
        session = self.memory.session(name or new_name(), config)
        for start in range(0, len(messages), _BATCH):
            session.push(list(messages[start : start + _BATCH]))
        return session

    def keys(self, name: str) -> SessionKeys:
        return session_keys(self.settings.namespace, SessionId(name))


def new_name() -> str:
    """The name of a session that nobody has."""
    return f"bench/{secrets.token_hex(6)}"


@contextmanager
def ground(rounds: int) -> Generator[Ground]:
    """A ground on REDIS_URL, else on an embedded server; what it stored goes when it ends."""
    with server_only() as settings:
        own = settings.model_copy(update={"namespace": f"bench-{secrets.token_hex(6)}"})
        with Compactor(settings=own) as memory, Store(own) as store:
            try:
                yield Ground(memory, store, rounds)
            finally:
                for primary in store.primaries():
                    for key in primary.scan_iter(f"*{own.namespace}*", count=1_000):
                        primary.unlink(key)


def texts(count: int, *, tokens: int = 20) -> list[dict[str, Any]]:
    """Messages of about `tokens` tokens out of the standard library's source, as an agent would read it."""
    size = tokens * 4  # characters of source to a token, nearly
    text = source(count * size)
    return [
        {"role": "user" if number % 2 else "assistant", "content": text[number * size : (number + 1) * size] or "-"}
        for number in range(count)
    ]
