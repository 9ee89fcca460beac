"""Whether the process is up, and whether it can work; no key needed, nothing else told."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from compactor.commands.command import Command
from compactor.exceptions import StoreUnavailableError
from compactor.http.answers import answer
from compactor.http.openapi import answered
from compactor.http.state import State, state

_PING: Command[Any] = Command(lambda replies: replies[0], reads=(("PING",),))

router = APIRouter(tags=["health"])


@router.get("/healthz", responses=answered("Health"))
async def healthz() -> Response:
    """The process answers."""
    return answer({"status": "ok"})


@router.get(
    "/readyz", responses={**answered("Health"), **answered("Health", status=503, description="Redis does not answer.")}
)
async def readyz(using: Annotated[State, Depends(state)]) -> Response:
    """Redis answers within its timeout. The broker is not asked: without it a prepare answers all the same."""
    asked = using.pinged
    if asked is None or asked.done() or asked.get_loop() is not asyncio.get_running_loop():
        asked = using.pinged = asyncio.create_task(_answers(using))
    # However many ask, Redis is asked once at a time.
    if not await asyncio.shield(asked):
        return answer({"status": "unavailable"}, 503)
    return answer({"status": "ok"})


async def _answers(using: State) -> bool:
    try:
        await using.store.run(_PING)
    except StoreUnavailableError:
        return False
    return True
