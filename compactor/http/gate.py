"""What every request passes: who calls, how often, how much, how long; and what every answer carries.

It stands before the routes, so a new one is guarded without a word of its own, and a body is read
only after its caller is known.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from compactor.exceptions import CompactorError, StoreUnavailableError
from compactor.http.authentication import Caller, unauthenticated
from compactor.http.credentials import KeyRing
from compactor.http.problems import SOON, Problem, internal_error, not_found, problem_of
from compactor.http.rates import Concurrency, LargeCalls, RateLimits
from compactor.http.sessions import PAGES as LOOKED_AT
from compactor.http.state import State

PUBLIC: Final = frozenset({"/healthz", "/readyz", "/openapi.json"})
BODIES: Final = 2  # of the largest size, of one tenant at once
LARGE: Final = 2  # large calls of one tenant at once
PIECE: Final = 128 * 1024  # bytes of an answer that are handed over at once
COSTS: Final = {"/v1/sessions": LOOKED_AT}  # in calls, of what costs Redis more than one; a listing looks at many keys
_ONCE: Final = (b"content-type", b"idempotency-key")
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}
_LOG: Final = logging.getLogger("compactor.http")
_ACCESS: Final = logging.getLogger("compactor.http.access")


@dataclass(slots=True)
class Exchange:
    """One request under way: what came in, what went out. `caller` None: not known (yet)."""

    scope: Scope
    receive: Receive
    send: Send
    most: int
    hold: Callable[[int], None] | None = None
    started: float = field(default_factory=time.perf_counter)
    caller: Caller | None = None
    came: int = 0
    whole: bool = True
    status: int = 0
    went: int = 0

    def __post_init__(self) -> None:
        headers = Headers(scope=self.scope)
        self.whole = "transfer-encoding" not in headers and headers.get("content-length", "0") == "0"

    def check_length(self) -> None:
        """Raises Problem (413) when the declared length is over the limit."""
        declared = Headers(scope=self.scope).get("content-length", "0")
        if declared.isascii() and declared.isdigit() and (len(declared) > 15 or int(declared) > self.most):
            raise self._too_large()

    async def limited_receive(self) -> Message:
        """The next part of the body. Raises Problem (413) when it is over the limit, whatever was declared."""
        message = await self.receive()
        if message["type"] == "http.request":
            size = len(message.get("body", b""))
            self.came += size
            self.whole = not message.get("more_body", False)
            if self.came > self.most:
                raise self._too_large()
            if self.hold is not None:
                self.hold(size)
        return message

    def _too_large(self) -> Problem:
        return Problem(
            413,
            "body_too_large",
            "The body is too large",
            f"A body may have {self.most} bytes. Send less at once.",
            headers={"Connection": "close"},
        )

    async def guarded_send(self, message: Message) -> None:
        """Sends a part of the answer, with the headers that every answer carries."""
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
            await self.send(message)
        elif message["type"] == "http.response.body":
            await self._send_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            await self.send(message)

    async def _send_body(self, body: bytes, *, more: bool) -> None:
        """Hands a long answer over piece by piece, and ends when it has gone out.

        So what a caller does not read stays within its tenant's places, and within the time of the request.
        """
        self.went += len(body)
        if len(body) > PIECE:
            for start in range(0, len(body), PIECE):
                await self.send({"type": "http.response.body", "body": body[start : start + PIECE], "more_body": True})
            body = b""
        await self.send({"type": "http.response.body", "body": body, "more_body": more})

    async def refuse(self, problem: Problem) -> None:
        """Answers with a problem, unless an answer has begun."""
        if not self.status:
            await problem.response()(self.scope, self.receive, self.guarded_send)

    def log(self) -> None:
        """One line per request: the route's pattern, never the address, so no name of a session and no query."""
        route = getattr(self.scope.get("route"), "path", "-")
        took = (time.perf_counter() - self.started) * 1000
        method = self.scope["method"] if self.scope["method"].isalpha() else "?"
        tenant, key_id = (self.caller.tenant, self.caller.key_id) if self.caller else ("-", "-")
        _ACCESS.info(
            "%s %s %d %.1f ms, %d bytes in, %d out, tenant %s, key %s",
            method[:20], route, self.status, took, self.came, self.went, tenant, key_id,
        )  # fmt: skip


class Gate:
    """The outermost layer of the service."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # there is none, whoever asks
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guards = cast("Guards", scope["app"].state.guards)
        exchange = Exchange(scope, receive, send, guards.most_bytes)
        try:
            async with asyncio.timeout(guards.seconds):
                await self._answered(exchange, guards)
        except TimeoutError:
            await exchange.refuse(_out_of_time(exchange))
        except Problem as problem:
            await exchange.refuse(problem)
        except CompactorError as error:
            await exchange.refuse(problem_of(error))
        except asyncio.CancelledError:  # a stop that waited long enough; a server would log it with its traceback
            await exchange.refuse(_stopping())
        except ClientDisconnect:  # nobody is there to be answered
            await exchange.refuse(_gone())
        except Exception as error:  # noqa: BLE001 # why: whatever went wrong, the caller gets a problem and no traceback
            _LOG.error("a request failed: %s", _place(error))  # why: a traceback may quote content
            await exchange.refuse(internal_error())
        finally:
            exchange.log()

    async def _answered(self, exchange: Exchange, guards: Guards) -> None:
        if exchange.scope["path"] in PUBLIC:
            await self._app(exchange.scope, exchange.limited_receive, exchange.guarded_send)
            return
        exchange.caller = caller = await guards.caller(exchange.scope)
        check_head(exchange.scope)
        state = exchange.scope.setdefault("state", {})
        state["caller"] = caller
        with guards.concurrency.place(caller.tenant) as exchange.hold:
            await guards.rates.admit(caller, COSTS.get(exchange.scope["path"], 1))
            exchange.check_length()
            async with guards.large.place(caller.tenant) as state["large"]:
                await self._app(exchange.scope, exchange.limited_receive, exchange.guarded_send)


class Guards:
    """The checks of one app: keys, rates, places, sizes and times."""

    def __init__(self, state: State) -> None:
        settings = state.settings
        self.keys = KeyRing(state.store, settings.namespace)
        self.rates = RateLimits(state.store, settings)
        self.concurrency = Concurrency(settings.http_tenant_concurrency, BODIES * settings.http_max_body_bytes)
        self.large = LargeCalls(LARGE)
        self.most_bytes, self.seconds = settings.http_max_body_bytes, settings.http_request_timeout

    async def caller(self, scope: Mapping[str, Any]) -> Caller:
        """Who sent a request. Raises Problem (401, or 503 when Redis is away and the key is not remembered)."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            raise unauthenticated()
        kind, _, key = given[0].decode("latin-1").partition(" ")
        if kind.lower() != "bearer":
            raise unauthenticated()
        try:
            found = await self.keys.caller(key.strip())
        except StoreUnavailableError as error:
            raise problem_of(error) from None
        if found is None:
            raise unauthenticated()
        return found


def check_head(scope: Mapping[str, Any]) -> None:
    """Raises Problem for a head that two readers may read differently."""
    names = [name for name, _ in scope["headers"]]
    if b"content-length" in names and b"transfer-encoding" in names:
        raise Problem(
            400,
            "bad_request",
            "The request cannot be read",
            "Send Content-Length or Transfer-Encoding, not both.",
            headers={"Connection": "close"},
        )
    if any(names.count(name) > 1 for name in _ONCE):
        raise Problem(
            400, "bad_request", "The request cannot be read", "Send Content-Type and Idempotency-Key once each."
        )
    if b"%2f" in scope.get("raw_path", b"").lower():  # it would be read as the end of a name
        raise not_found()


def _stopping() -> Problem:
    return Problem(
        503,
        "stopping",
        "The service stops",
        "The call may have been carried out. Repeat it, a push with the same Idempotency-Key.",
        headers={"Retry-After": SOON, "Connection": "close"},
    )


def _gone() -> Problem:
    return Problem(400, "bad_request", "The request cannot be read", "The body did not come whole.")


def _out_of_time(exchange: Exchange) -> Problem:
    if not exchange.whole:
        return Problem(408, "body_timeout", "The body came too slowly", "Send the whole body at once, then call again.")
    return Problem(
        504,
        "timed_out",
        "The service took too long",
        "The call may have been carried out. Repeat it, a push with the same Idempotency-Key.",
    )


def _place(error: BaseException) -> str:
    """The class of an error and where it was raised: no text of it, which may quote content."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    code = trace.tb_frame.f_code
    return f"{type(error).__name__} at {code.co_filename.rpartition('/')[2]}:{trace.tb_lineno}"
