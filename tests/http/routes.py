"""Every operation of the service, read from the app itself, so that a new one cannot be forgotten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from fastapi.routing import iter_route_contexts

from compactor.http.app import create_app
from compactor.http.gate import PUBLIC
from compactor.settings import read_settings
from tests.http.service import CONFIG

HELLO: Final[dict[str, Any]] = {"role": "user", "content": "hello"}
# A good body of each operation that takes one; a new operation without an entry fails the tests that need it.
BODIES: Final[dict[str, Any]] = {
    "POST /v1/sessions/{name}/messages": {"messages": HELLO, "config": CONFIG},
    "POST /v1/sessions/{name}/estimate": {"config": CONFIG},
    "POST /v1/sessions/{name}/prepare": {"config": CONFIG},
    "POST /v1/sessions/{name}/usage": {"sent": 1_000, "usage": {"prompt_tokens": 1_200}, "config": CONFIG},
    "POST /v1/sessions/{name}/overflow": {"sent": 1_000, "error": "prompt is too long", "config": CONFIG},
    "POST /v1/sessions/{name}/sync": {"messages": [HELLO], "config": CONFIG},
    "POST /v1/sessions/{name}/compact": {"config": CONFIG},
    "POST /v1/sessions/{name}/undo": {},
    "POST /v1/sessions/{name}/recall-tool": {"arguments": {"id": "m0"}},
    "POST /v1/sessions/{name}/pins": {"what": "m0"},
    "POST /v1/sessions/{name}/release": {"what": ["m0"]},
    "POST /v1/sessions/{name}/rewind": {"position": "m0"},
    "POST /v1/sessions/{name}/fork": {"new_name": "forked"},
    "POST /v1/sessions/{name}/close-open-calls": {},
    "POST /v1/sessions/{name}/clear": None,
    "PUT /v1/sessions/{name}/config": {"config_id": "cfg_0123456789abcdef0123456789abcdef"},
    "POST /v3/users/{user_id}/llm-model-configs": {
        "name": "n", "provider": "openai", "model": "gpt-4o", "context_limit": 128,
    },
    "PUT /v3/users/{user_id}/llm-model-configs/{config_id}": {
        "name": "n", "provider": "openai", "model": "gpt-4o", "context_limit": 128, "expected_version": 1,
    },
    "PATCH /v3/users/{user_id}/llm-model-configs/{config_id}": {"name": "n", "expected_version": 1},
    "DELETE /v3/users/{user_id}/llm-model-configs/{config_id}": {"expected_version": 1},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Operation:
    """A method on an address with places."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def takes_body(self) -> bool:
        return BODIES.get(str(self)) is not None

    @property
    def body(self) -> Any:
        """A good body; None for an operation without one."""
        if self.method in ("GET", "DELETE") and str(self) not in BODIES:
            return None
        return BODIES[str(self)]

    def at(self, **places: str) -> str:
        """The address with its places filled."""
        filled = {"name": "chat", "recall_id": "m0", "user_id": "user", "config_id": "cfg_" + "0" * 32} | places
        return self.path.format(**filled)


def operations() -> list[Operation]:
    """Every operation behind a key."""
    return sorted(_found(), key=str)


def _found() -> Iterator[Operation]:
    app = create_app(read_settings(redis_url="redis://127.0.0.1:1/0"))
    for context in iter_route_contexts(app.routes):
        path = str(context.path)
        if path not in PUBLIC:
            for method in context.methods or ():
                yield Operation(method, path)


ALL: Final = operations()
EACH: Final = [str(operation) for operation in ALL]
