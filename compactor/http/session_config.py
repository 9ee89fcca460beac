"""Which model config a call on a session is judged by."""

from __future__ import annotations

from typing import Final

from compactor.async_client import AsyncSession
from compactor.exceptions import StoreUnavailableError
from compactor.http.authentication import Caller
from compactor.http.configs import bound_model_config, load_config
from compactor.http.problems import Problem
from compactor.http.session_bodies import Configured
from compactor.http.state import State
from compactor.model_config import ModelConfig

# Reading and going back judge nothing, so the window named here never matters.
NEUTRAL: Final = ModelConfig("gpt-4o", 128)


def opened_to_read(state: State, caller: Caller, name: str) -> AsyncSession:
    """A session of the caller's tenant, for calls that judge nothing."""
    return state.memory.session(f"{caller.tenant}/{name}", NEUTRAL)


async def opened(state: State, caller: Caller, name: str, body: Configured, *, needed: bool = True) -> AsyncSession:
    """A session of the caller's tenant with its config.

    Raises ConfigurationError for a wrong config, Problem for none where one is `needed`.
    """
    try:
        config = await _chosen(state, caller, name, body)
    except Problem:
        if needed or body.config_id is not None:
            raise
        config = None  # what it is bound to cannot be used, and is not needed
    if config is None:
        if needed:
            raise _no_config()
        config = NEUTRAL
    return state.memory.session(f"{caller.tenant}/{name}", config)


async def _chosen(state: State, caller: Caller, name: str, body: Configured) -> ModelConfig | None:
    if body.config is not None and body.config_id is not None:
        raise Problem(422, "invalid_request", "The request cannot be understood", "Give config or config_id, not both.")
    if body.config is not None:
        return body.config.read()
    place = (caller.tenant, caller.user or "", name if body.config_id is None else "", body.config_id or "")
    found: ModelConfig | None
    try:
        if body.config_id is not None:
            found = await load_config(state, caller, body.config_id)
        else:
            found = await bound_model_config(state, caller, name)
    except Problem:  # it cannot be used any more
        state.last_configs.pop(place, None)
        raise
    except StoreUnavailableError:  # a list is answered without Redis too, by what was known last
        remembered = state.last_configs.get(place)
        if remembered is None:
            raise
        return remembered
    if found is None:
        state.last_configs.pop(place, None)
    else:
        state.last_configs[place] = found
    return found


def _no_config() -> Problem:
    return Problem(
        422,
        "config_missing",
        "No model config",
        "config: is required: the model and its context_limit in K tokens, for example "
        '{"model": "gpt-4o", "context_limit": 128}; or name a stored one by config_id, or bind the session to one.',
    )
