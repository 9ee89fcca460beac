"""Which stored config a session is bound to: what calls that name no config are judged by."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from compactor.http.answers import answer
from compactor.http.authentication import Caller, caller
from compactor.http.bodies import StrictRoute
from compactor.http.configs import bind_session, bound_config, unbind_session
from compactor.http.openapi import answered
from compactor.http.problems import not_found
from compactor.http.session_bodies import ConfigId, Name
from compactor.http.state import State, state

Working = Annotated[State, Depends(state)]
By = Annotated[Caller, Depends(caller)]

router = APIRouter(prefix="/v1/sessions/{name}/config", tags=["sessions"], route_class=StrictRoute)


class BindBody(BaseModel):
    """The stored config, and its user where the key is the whole tenant's."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    config_id: ConfigId
    user_id: Annotated[str, Field(pattern="^[A-Za-z0-9._:@-]{1,100}$")] | None = None


@router.put("", responses=answered("Config"))
async def bind(name: Name, body: BindBody, using: Working, by: By) -> Response:
    """Binds the session, which need not exist yet; a change of the config takes effect on the next call."""
    return answer((await bind_session(using, by, name, body.config_id, body.user_id)).as_json())


@router.get("", responses=answered("Config"))
async def bound(name: Name, using: Working, by: By) -> Response:
    """The config that the session is bound to, as it is now."""
    found = await bound_config(using, by, name)
    if found is None:
        raise not_found()
    return answer(found.as_json())


@router.delete("", status_code=204, response_class=Response)
async def unbind(name: Name, using: Working, by: By) -> Response:
    """Ends the binding."""
    if not await unbind_session(using, by, name):
        raise not_found()
    return Response(status_code=204)
