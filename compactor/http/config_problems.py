"""How the errors of the config store are answered."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from compactor.exceptions import (
    ConfigDamagedError,
    ConfigGoneError,
    ConfigKeysMissingError,
    ConfigNotFoundError,
    ConfigsFullError,
    ConfigVersionError,
    InvalidConfigError,
    StoredConfigError,
)
from compactor.http.problems import Problem, not_found

_KINDS: Final[dict[type[StoredConfigError], tuple[int, str, str]]] = {
    ConfigGoneError: (409, "config_deleted", "The session's config was deleted"),
    ConfigsFullError: (409, "configs_full", "There is no room for another config"),
    ConfigDamagedError: (409, "config_damaged", "The config cannot be read"),
    ConfigKeysMissingError: (503, "config_keys_missing", "The service cannot encrypt"),
}


@contextmanager
def told(*, precondition: bool = False) -> Generator[None]:
    """Answers errors of the config store as problems; a stale version is 412 when it came as If-Match, else 409."""
    problem: Problem | None = None
    try:
        yield
    except (InvalidConfigError, StoredConfigError) as error:
        problem = problem_of_config(error, precondition=precondition)
    if problem is not None:  # raised out here: nothing behind it may hold a value
        raise problem


def problem_of_config(error: InvalidConfigError | StoredConfigError, *, precondition: bool = False) -> Problem:
    """The problem that tells of an error of the config store; never a value, never a key."""
    if isinstance(error, InvalidConfigError):
        wrong = [{"field": field or "body", "expected": text} for field, text in error.problems[:50]]
        return Problem(422, "invalid_config", "The config cannot be stored", _short(str(error)), errors=wrong)
    if isinstance(error, ConfigNotFoundError):
        return not_found()
    if isinstance(error, ConfigVersionError):
        status = 412 if precondition else 409
        title = "The config was changed meanwhile"
        return Problem(status, "config_changed", title, str(error), current_version=error.current)
    status, code, title = _KINDS.get(type(error), (409, "config_unusable", "The config cannot be used"))
    return Problem(status, code, title, str(error))


def version_required() -> Problem:
    """The answer for an update that does not say what it was made from."""
    return Problem(
        428,
        "version_required",
        "The expected version is missing",
        "Send the version that you read as 'If-Match: \"3\"', or as expected_version in the body.",
    )


def _short(detail: str) -> str:
    return detail if len(detail) <= 1_000 else f"{detail[:999]}…"
