"""Chat completions of one model on any OpenAI-compatible server, read under a deadline.

No retries: the task retries. Optional parameters that the server rejects are learnt once and left
out from then on.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from compactor.exceptions import (
    OUT_OF_TIME,
    SummarizerError,
    SummarizerServerError,
    SummarizerTimeout,
    SummarizerUnreachable,
)
from compactor.json_values import is_object
from compactor.provider_errors import is_about_output, is_too_long, provider_error, retry_after
from compactor.settings import Settings

if TYPE_CHECKING:
    import openai

_SHORTEST_CALL: Final = 0.5  # seconds; with less left no call is started
_MOST_BYTES: Final = 4 * 1024**2  # of an answer; a summary has a few thousand
_BAD_GATEWAY: Final = 502
_CONNECTIONS: Final = 1_024  # of a process to its model server


class Completions:
    """Thread-safe; the client is made at first use, after a fork."""

    def __init__(self, settings: Settings, model: str) -> None:
        self._settings = settings
        self._model = model
        self._client: openai.OpenAI | None = None
        self._lock = threading.Lock()
        self._options: dict[str, Any] = {
            "limit": "max_completion_tokens",
            "temperature": 0,
            "json": True,
            "effort": "low",
        }

    def create(self, messages: Any, *, tokens: int, thinking: bool, until: float) -> Mapping[str, Any]:
        """The JSON object of one completion of at most `tokens`, answered before `until` (monotonic seconds).

        `thinking` asks models that think aloud to do so briefly. Raises SummarizerError.
        """
        while True:
            options = dict(self._options)
            try:
                return self._attempt(messages, _parameters(options, tokens, thinking=thinking), until)
            except _Rejected as error:
                if not self._learn(options, error.text, thinking=thinking):
                    raise provider_error(error.status, error.text) from None

    def _attempt(self, messages: Any, parameters: dict[str, Any], until: float) -> Mapping[str, Any]:
        """One request. Raises SummarizerError, and _Rejected for what another spelling may mend."""
        import openai

        left = until - time.monotonic()
        if left < _SHORTEST_CALL:
            raise SummarizerTimeout(OUT_OF_TIME)
        allowed = min(self._settings.call_timeout, left)
        late = OUT_OF_TIME if allowed < self._settings.call_timeout / 2 else ""
        client: Any = self._connected()
        try:
            with client.chat.completions.with_streaming_response.create(
                model=self._model,
                messages=messages,
                timeout=openai.Timeout(allowed, connect=min(self._settings.call_connect_timeout, allowed)),
                **parameters,
            ) as response:
                return _completion(_body(response, time.monotonic() + allowed, late))
        except SummarizerError:
            raise
        except openai.APIStatusError as error:
            text = _words(error.response.text)
            if error.status_code in (400, 422):
                raise _Rejected(error.status_code, text) from None
            wait = retry_after(error.response.headers, now=time.time())
            raise provider_error(error.status_code, text, retry_after=wait) from None
        except Exception as error:  # noqa: BLE001 # why: whatever the SDK's HTTP library raises while a body comes in
            raise _broken(error, late) from None

    def _connected(self) -> openai.OpenAI:
        import openai

        with self._lock:
            if self._client is None:
                key = self._settings.openai_api_key
                limits: Any = type(openai.DEFAULT_CONNECTION_LIMITS)
                self._client = openai.OpenAI(
                    api_key=key.get_secret_value() if key else "none",
                    base_url=self._settings.openai_base_url,
                    max_retries=0,
                    # The SDK keeps 100 connections; of more calls in flight each would greet the server anew.
                    http_client=openai.DefaultHttpxClient(
                        limits=limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS)
                    ),
                )
            return self._client

    def close(self) -> None:
        """Closes the connections; a later call opens new ones."""
        with self._lock:
            if self._client is not None:
                self._client.close()
                self._client = None

    def _learn(self, used: dict[str, Any], text: str, *, thinking: bool) -> bool:
        """Drops the parameter that a rejection names; False when it names none of ours."""
        if is_too_long(text):  # names the same parameters, but no other spelling helps
            return False
        if used["limit"] and is_about_output(text):
            self._options["limit"] = None
        elif "max_completion_tokens" in text and used["limit"] == "max_completion_tokens":
            self._options["limit"] = "max_tokens"
        elif "max_tokens" in text and used["limit"] == "max_tokens":
            self._options["limit"] = None
        elif "response_format" in text and used["json"]:
            self._options["json"] = False
        elif "temperature" in text and used["temperature"] is not None:
            self._options["temperature"] = None
        elif "reasoning_effort" in text and thinking and used["effort"]:
            self._options["effort"] = None
        else:
            return False
        return True


class _Rejected(Exception):
    """A 400 or 422: perhaps a parameter that this server does not know."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(status)
        self.status = status
        self.text = text


def _parameters(options: dict[str, Any], tokens: int, *, thinking: bool) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    if options["limit"]:
        parameters[options["limit"]] = tokens
    if options["temperature"] is not None:
        parameters["temperature"] = options["temperature"]
    if options["json"]:
        parameters["response_format"] = {"type": "json_object"}
    if thinking and options["effort"]:
        parameters["reasoning_effort"] = options["effort"]
    return parameters


def _body(response: Any, until: float, late: str) -> bytes:
    """The whole body. A server that drips bytes outlives every socket timeout, so each piece looks at the clock.

    One that is late and the last is taken: it is paid for, and a process that was frozen finds it waiting.
    """
    body, overdue = bytearray(), False
    for chunk in response.iter_bytes():
        if overdue:
            raise SummarizerTimeout(late)
        body += chunk
        if len(body) > _MOST_BYTES:
            raise SummarizerServerError("too_large")
        overdue = time.monotonic() > until
    return bytes(body)


def _words(body: str) -> str:
    """An error's body to be searched: JSON without escapes, which would hide words in other scripts."""
    try:
        return json.dumps(json.loads(body), ensure_ascii=False)
    except (ValueError, RecursionError):
        return body


def _completion(body: bytes) -> Mapping[str, Any]:
    """The JSON object of a body that came with 200; some servers send their errors that way."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise SummarizerServerError("not_json") from None
    if not is_object(value):
        raise SummarizerServerError("not_json")
    error = value if value.get("object") == "error" else value.get("error")
    if error and not value.get("choices"):
        code = error.get("code") if is_object(error) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else _BAD_GATEWAY
        raise provider_error(status, json.dumps(error, ensure_ascii=False))
    return value


def _broken(error: Exception, late: str) -> SummarizerError:
    """Our error for a connection that broke; the SDK's HTTP library differs by its version, its names do not."""
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"APITimeoutError", "TimeoutException"}:
        return SummarizerTimeout(late)
    if names & {"APIConnectionError", "TransportError"}:
        return SummarizerUnreachable()
    return SummarizerServerError("not_json")
