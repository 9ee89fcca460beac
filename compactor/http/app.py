"""The service as an ASGI app: `uvicorn --factory compactor.http.app:create_app`, or any other ASGI server."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import compactor
from compactor.http import bindings, configs, health, reports, sessions
from compactor.http.gate import Gate, Guards
from compactor.http.openapi import describe
from compactor.http.problems import add_handlers
from compactor.http.state import State
from compactor.settings import Settings, read_settings


def create_app(settings: Settings | None = None) -> FastAPI:
    """The service with settings of the environment, unless given. Raises ConfigurationError."""
    state = State.opened(settings or read_settings())

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None, None]:
        yield
        await state.close()

    app = FastAPI(
        title="Compactor",
        version=compactor.__version__,
        description="Keeps the memory of chat bots inside their model's context window.",
        docs_url=None,  # its page would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
        lifespan=lifespan,
    )
    app.state.compactor = state
    app.state.guards = Guards(state)
    for part in (health, sessions, reports, bindings, configs):
        app.include_router(part.router)
    add_handlers(app)
    app.add_middleware(Gate)
    app.openapi = describe(app)  # type: ignore[method-assign] # why: FastAPI's own way to change the document
    return app
