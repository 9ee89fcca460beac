"""What the provider made of a list, told by bots in any language."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import Field, WithJsonSchema
from starlette.responses import Response

from compactor.exceptions import ConfigurationError
from compactor.http.answers import answer
from compactor.http.authentication import Caller, caller
from compactor.http.bodies import StrictRoute
from compactor.http.openapi import answered
from compactor.http.session_bodies import Configured, Name
from compactor.http.session_config import opened
from compactor.http.state import State, state
from compactor.json_values import is_object

Working = Annotated[State, Depends(state)]
By = Annotated[Caller, Depends(caller)]
Sent = Annotated[int, Field(ge=1, le=2**40, description="The `sent` of the verdict that came with the list.")]
Error = Annotated[
    Any,
    WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "string"}], "description": "The provider's, as it came."}),
]

router = APIRouter(prefix="/v1/sessions", tags=["sessions"], route_class=StrictRoute)


class UsageBody(Configured):
    """The usage of the reply to a prepared list."""

    sent: Sent
    usage: dict[str, Any]


class OverflowBody(Configured):
    """The error with which the provider refused a prepared list as too long."""

    sent: Sent
    error: Error


@router.post("/{name}/usage", responses=answered("Learned"))
async def report_usage(name: Name, body: UsageBody, using: Working, by: By) -> Response:
    """Learns what the provider billed for a list, so that the next estimates count as it does.

    `learned` is false when the usage tells nothing that can be believed.
    """
    session = await opened(using, by, name, body)
    return answer({"learned": await session.report_usage(body.sent, body.usage)})


@router.post("/{name}/overflow", responses=answered("Learned"))
async def report_overflow(name: Name, body: OverflowBody, using: Working, by: By) -> Response:
    """Learns from a refusal; prepare again for a tighter list. An error of another kind is a 422."""
    if not (isinstance(body.error, str) or is_object(body.error)):
        raise ConfigurationError("error: expected the provider's error as it came, an object or its text.")
    session = await opened(using, by, name, body)
    return answer({"learned": await session.report_overflow(body.sent, body.error)})
