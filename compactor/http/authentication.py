"""Who calls: the tenant, and perhaps the user, that an API key is bound to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import Security
from fastapi.security import HTTPBearer
from starlette.requests import Request

from compactor.http.problems import Problem

BEARER: Final = HTTPBearer(
    scheme_name="key",
    bearerFormat="cptr_<id>_<secret>",
    description="A key made by `compactor keys create TENANT`.",
    auto_error=False,
)


@dataclass(frozen=True, slots=True)
class Caller:
    """The owner of the key that came with a request; `user` None: the key is the whole tenant's."""

    tenant: str
    user: str | None
    key_id: str


def unauthenticated() -> Problem:
    """The one answer for a missing, malformed, unknown, wrong, expired or revoked key."""
    return Problem(
        401,
        "unauthenticated",
        "A valid key is required",
        "Send a valid key as 'Authorization: Bearer cptr_…'.",
        headers={"WWW-Authenticate": 'Bearer realm="compactor"'},
    )


async def caller(request: Request, _documented: Annotated[Any, Security(BEARER)] = None) -> Caller:
    """The dependency that gives a route its caller, whom the gate has let in. Raises Problem (401)."""
    found = getattr(request.state, "caller", None)
    if not isinstance(found, Caller):
        raise unauthenticated()
    return found
