"""Request bodies, read strictly: what orjson would quietly change is refused before anything is done.

orjson turns integers beyond 64 bits into floats and keeps the last of two equal keys. Both are seen
cheaply: what orjson writes again equals a compact body; else each kept key has one colon, and a large
integer became a float of at least 2^63. Only a body that looks wrong is read a second time, by the
standard module, which tells for certain.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator
from email.message import Message as Headers
from itertools import chain
from typing import Any, Final, NoReturn

import orjson
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

from compactor.http.problems import Problem
from compactor.http.rates import Take
from compactor.json_values import is_array, is_object
from compactor.records import MAX_DEPTH

MOST_BRACKETS: Final = 1_000_000  # those in texts too: each may become an object many times its size
MOST_VALUES: Final = 500_000
LARGE: Final = 1024**2  # bytes
LARGE_PARTS: Final = 2_000  # braces
_LEAST_FLOAT: Final = float(2**63)
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1
_DIGITS_ALIKE: Final = bytes.maketrans(b"123456789", b"0" * 9)


class StrictRequest(Request):
    """A request whose JSON body must be JSON that every reader reads alike."""

    async def json(self) -> Any:
        """The parsed body. Raises Problem (400)."""
        return await read_body(self)


class StrictRoute(APIRoute):
    """A route that takes JSON bodies only, read strictly; give it to a router as `route_class`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        takes_body = self.body_field is not None

        async def strictly(request: Request) -> Response:
            if takes_body:
                check_content_type(request)
            return await handle(StrictRequest(request.scope, request.receive))

        return strictly


async def read_body(request: Request) -> Any:
    """The parsed body; a large one waits for a place. Raises Problem (400)."""
    body = await request.body()
    if len(body) <= LARGE and body.count(b"{") <= LARGE_PARTS:
        return read(body)
    await large(request)
    # Others wait for orjson alone, not for the checks.
    return await asyncio.to_thread(read, body)


async def large(request: Request) -> None:
    """Waits for one of the tenant's few places for large calls; also a dependency of routes that are always large."""
    take: Take = request.state.large
    await take()


def check_content_type(request: Request) -> None:
    """Raises Problem (415) when the body is declared as something else than plain JSON in UTF-8."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise _not_json()
    declared = request.headers.get("content-type")
    if declared is None:
        if request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers:
            return  # no body: the route says whether it needs one
        raise _not_json()
    headers = Headers()
    headers["content-type"] = declared
    charset = headers.get_content_charset("utf-8")
    if headers.get_content_type() != "application/json" or charset not in ("utf-8", "us-ascii"):
        raise _not_json()


def _not_json() -> Problem:
    return Problem(
        415,
        "unsupported_media_type",
        "The body must be JSON",
        "Send the body as JSON in UTF-8, not compressed, with 'Content-Type: application/json'.",
    )


def read(body: bytes) -> Any:
    """The value of a JSON text. Raises Problem (400) for what is no JSON, or ambiguous JSON."""
    many = len(body) > MOST_VALUES
    if many and body.count(b"{") + body.count(b"[") > MOST_BRACKETS:
        raise _too_many()
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise malformed(f"the JSON ends or breaks at character {error.pos}") from None
    if many and body.count(b",") + body.count(b"[") + body.count(b"{") > MOST_VALUES and _has_too_many(value):
        raise _too_many()
    try:
        kept = orjson.dumps(value)
    except TypeError:
        raise malformed(f"it is nested deeper than {MAX_DEPTH} levels; send the inner part as JSON text") from None
    if kept != body and (kept.count(b":") != body.count(b":") or _has_large(body, value)):
        _read_exactly(body)
    return value


def malformed(what: str) -> Problem:
    """The problem of a body that cannot be read."""
    return Problem(400, "malformed_json", "The body is not clear JSON", f"The body cannot be read: {what}.")


def _too_many() -> Problem:
    return malformed(f"it holds more than {MOST_VALUES:,} objects, lists, texts and numbers; send less at once")


def _has_too_many(value: Any) -> bool:
    level, found = [value], 0
    while level and found <= MOST_VALUES:
        found += len(level)
        parts = [each for each in level if is_object(each) or is_array(each)]
        level = list(chain.from_iterable(each.values() if is_object(each) else each for each in parts))
    return found > MOST_VALUES


def _has_large(body: bytes, value: Any) -> bool:
    """Whether a float stands where an integer beyond 64 bits may have become one; most bodies have no such digits."""
    return b"0" * 19 in body.translate(_DIGITS_ALIKE) and any(_floats_of(value))


def _floats_of(value: Any) -> Iterator[bool]:
    waiting: list[Iterable[Any]] = [(value,)]
    while waiting:
        for found in waiting.pop():
            if is_object(found):
                waiting.append(found.values())
            elif is_array(found):
                waiting.append(found)
            elif isinstance(found, float):
                yield abs(found) >= _LEAST_FLOAT


def _read_exactly(body: bytes) -> None:
    """Raises Problem (400) when the body repeats a key or holds an integer beyond 64 bits."""
    try:
        json.loads(body, object_pairs_hook=_distinct, parse_int=_whole)
    except (ValueError, RecursionError):
        raise malformed("the standard reader refuses it") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise malformed("an object holds the same key twice")
    return found


def _whole(digits: str) -> int:
    if len(digits) > 20 or not _LEAST <= int(digits) <= _MOST:
        _refuse_large()
    return int(digits)


def _refuse_large() -> NoReturn:
    raise malformed("it holds an integer beyond 64 bits; send such a number as text")
