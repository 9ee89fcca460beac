"""What the commands that only read a session share."""

from __future__ import annotations

from typing import Annotated, Any, Final

import typer

from compactor.client import Compactor
from compactor.commands.command import session_keys
from compactor.commands.read import Stored, read_history
from compactor.effects import run
from compactor.exceptions import SessionNotFoundError
from compactor.model_config import ModelConfig
from compactor.models import Outcome, session_id
from compactor.outcomes import to_json

# Reading judges nothing, so the window named here never matters.
NEUTRAL: Final = ModelConfig("gpt-4o", 128)

SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="The session's id, for example tenant/chat-42.")]


def stored_session(memory: Compactor, name: str) -> Stored:
    """State and live messages of a session. Raises SessionNotFoundError."""
    stored = memory.drive(run(read_history(session_keys(memory.settings.namespace, session_id(name)))))
    if not stored.state.exists:
        raise not_found()
    return stored


def not_found() -> SessionNotFoundError:
    """The error for a session that Redis does not hold."""
    return SessionNotFoundError(
        "session: not found. It was never pushed to, or it expired; check the id, REDIS_URL and COMPACTOR_NAMESPACE."
    )


def outcome_row(outcome: Outcome) -> dict[str, Any]:
    """An outcome as JSON, with what it saved."""
    return to_json(outcome)
