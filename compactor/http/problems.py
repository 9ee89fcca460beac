"""Errors as problem details (RFC 9457) with a stable `code`; the table of codes is in docs/http.md.

A problem never holds content, keys, tracebacks or addresses of servers: fixed sentences, names of
fields, and the texts of our own errors, which hold ids and numbers only.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from compactor.exceptions import (
    CompactionNotFoundError,
    CompactorError,
    ConfigurationError,
    DispatchError,
    InvalidMessageError,
    MessageTooLargeError,
    RecallExpiredError,
    SchemaVersionError,
    SessionDamagedError,
    SessionEvictedError,
    SessionNotFoundError,
    StoreUnavailableError,
    TenantFullError,
    VocabularyError,
)

MEDIA_TYPE: Final = "application/problem+json"
SOON: Final = "1"  # seconds, for Retry-After
_LOG: Final = logging.getLogger("compactor.http")
_FIELD: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")


class Problem(HTTPException):
    """Ends a request with a problem; raise it anywhere below a route.

    `detail` says what was wrong, what was expected and how to fix it; `extra` are further members.
    """

    def __init__(
        self,
        status: int,
        code: str,
        title: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(status, detail, dict(headers or {}))
        self.code, self.title, self.extra = code, title, extra

    def response(self) -> Response:
        """The answer."""
        members = {
            "type": f"urn:compactor:problem:{self.code}",
            "title": self.title,
            "status": self.status_code,
            "detail": self.detail,
            "code": self.code,
            **self.extra,
        }
        return Response(orjson.dumps(members), self.status_code, dict(self.headers or {}), media_type=MEDIA_TYPE)


@dataclass(frozen=True, slots=True)
class _Kind:
    """How one class of our errors is answered; without `detail` its own text is shown."""

    status: int
    code: str
    title: str
    detail: str = ""
    retry: bool = False


KINDS: Final[Mapping[type[CompactorError], _Kind]] = {
    ConfigurationError: _Kind(422, "invalid_request", "The request cannot be understood"),
    VocabularyError: _Kind(
        500, "internal_error", "The service failed", "A token vocabulary of the service is missing or damaged."
    ),
    InvalidMessageError: _Kind(422, "invalid_message", "A message cannot be stored"),
    MessageTooLargeError: _Kind(413, "message_too_large", "A message or its session is too large"),
    TenantFullError: _Kind(413, "tenant_full", "The tenant's sessions are at their size limit"),
    SessionNotFoundError: _Kind(404, "session_not_found", "No such session", "No session of this name holds anything."),
    RecallExpiredError: _Kind(
        404, "message_not_found", "No such message", "The session holds no message under this recall id (any more)."
    ),
    CompactionNotFoundError: _Kind(
        404, "compaction_not_found", "No such compaction", "The session has no applied compaction of this id."
    ),
    StoreUnavailableError: _Kind(
        503, "store_unavailable", "The store does not answer", "Redis did not answer in time. Call again.", retry=True
    ),
    SessionDamagedError: _Kind(
        409,
        "session_damaged",
        "Part of the session is unreadable",
        "A stored part of the session cannot be read. Prepare with your own list, or clear the session to go on.",
    ),
    SessionEvictedError: _Kind(
        409,
        "session_evicted",
        "Part of the session is missing",
        "Part of the session was evicted or deleted from outside. Prepare with your own list, or clear the session "
        "to go on.",
    ),
    SchemaVersionError: _Kind(
        409,
        "session_newer",
        "A newer release wrote the session",
        "This service is older than what wrote the session; nothing was changed. Upgrade the service.",
    ),
    DispatchError: _Kind(
        503, "queue_unavailable", "The queue does not answer", "The task could not be queued. Call again.", retry=True
    ),
}


def problem_of(error: CompactorError) -> Problem:
    """The problem that tells of one of our errors."""
    found = next((KINDS[kind] for kind in type(error).__mro__ if kind in KINDS), None)
    if found is None:
        return internal_error()
    headers = {"Retry-After": SOON} if found.retry else {}
    return Problem(found.status, found.code, found.title, found.detail or str(error), headers=headers)


def not_found() -> Problem:
    """The answer for what does not exist, or belongs to somebody else: the same to the byte."""
    return Problem(404, "not_found", "Not found", "There is nothing here.")


def internal_error() -> Problem:
    """The answer for a fault of ours; what happened is in the log, by the class of the error alone."""
    return Problem(500, "internal_error", "The service failed", "The service failed; its log tells more.")


def invalid_body(errors: Sequence[Mapping[str, Any]]) -> Problem:
    """Names each wrong field and what was expected there; the value is never repeated."""
    fields = [{"field": _field(error), "expected": _expected(error)} for error in errors]
    told = "; ".join(f"{each['field']}: {each['expected']}" for each in fields[:3])
    return Problem(422, "invalid_request", "The request cannot be understood", f"{told}.", errors=fields[:50])


def _field(error: Mapping[str, Any]) -> str:
    """Where an error is; names of a caller's own are shown only when they look like a field's."""
    location: Sequence[Any] = error["loc"]
    parts = [
        str(part)
        if isinstance(part, int) or _FIELD.fullmatch(str(part)) or (place == 1 and location[0] == "header")
        else "?"
        for place, part in enumerate(location)
    ]
    return ".".join(parts[1:] if len(parts) > 1 else parts)


def _expected(error: Mapping[str, Any]) -> str:
    kind, text = str(error["type"]), str(error["msg"])
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return "is not a field of this request"
    return text.removeprefix("Value error, ").removesuffix(".")


PLAIN: Final = {
    400: ("bad_request", "The request cannot be read", "The request cannot be read."),
    405: ("method_not_allowed", "Method not allowed", "This address does not take the method; see Allow."),
}


def _of_framework(request: Request, error: Exception) -> Response:
    if isinstance(error, Problem):
        return error.response()
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return not_found().response()
    if error.status_code == 405:  # the framework names the methods of the first route that it met
        error.headers = {"Allow": ", ".join(methods_at(request.app, request.scope["path"]))}
    code, title, detail = PLAIN.get(error.status_code, ("http_error", "The request failed", "The request failed."))
    return Problem(error.status_code, code, title, detail, headers=error.headers).response()


def methods_at(app: FastAPI, path: str) -> list[str]:
    """Every method that an address takes."""
    found: set[str] = set()
    for context in iter_route_contexts(app.routes):
        if context.path is not None and compile_path(context.path)[0].match(path):
            found |= context.methods or set()
    return sorted(found)


def _of_ours(_request: Request, error: Exception) -> Response:
    assert isinstance(error, CompactorError)
    return problem_of(error).response()


def _of_body(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return invalid_body(error.errors()).response()


def add_handlers(app: FastAPI) -> None:
    """Every error of a route becomes a problem; what nobody expected is answered by the gate."""
    app.add_exception_handler(HTTPException, _of_framework)
    app.add_exception_handler(CompactorError, _of_ours)
    app.add_exception_handler(RequestValidationError, _of_body)
