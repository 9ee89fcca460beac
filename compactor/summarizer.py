"""Summaries by any OpenAI-compatible server: parallel calls under one deadline.

One sync client per process, no retries of its own (the task retries). Optional parameters that a
server rejects are learnt once per server and left out from then on.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from compactor.exceptions import (
    ConfigurationError,
    SummarizerError,
    SummarizerNotFound,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerReplyRejected,
    SummarizerRequestRejected,
    SummarizerServerError,
    SummarizerTimeout,
    SummarizerUnauthorized,
    SummarizerUnreachable,
)
from compactor.prompts import OUTPUT_ALLOWANCE, Reply, Summary, SummaryRequest, pieces, prompt, read_reply
from compactor.settings import Settings
from compactor.tokens import Encode

if TYPE_CHECKING:
    import openai

MAX_PARALLEL: Final = 32
_SMALLEST_OUTPUT: Final = 300  # tokens of room for a reply
_TOO_LONG: Final = re.compile(r"(?i)context.length|too (?:large|long)|reduce the length|maximum context")
_SHORTEST_CALL: Final = 0.5  # seconds; with less left no call is started


class ModelSummarizer:
    """Calls the cheap model for each request of a session, all in parallel.

    Thread-safe; the client is made at first use, after a fork.
    """

    def __init__(self, settings: Settings) -> None:
        if settings.summarizer_model is None:
            raise ConfigurationError("summarizer_model: set COMPACTOR_SUMMARIZER_MODEL to the cheap model's name.")
        if find_spec("openai") is None:
            raise ConfigurationError(
                "summarizer_model: is set, but the openai package is not installed. pip install 'compactor[worker]', "
                "or unset COMPACTOR_SUMMARIZER_MODEL to work with extracts."
            )
        self._settings = settings
        self._model = settings.summarizer_model
        self._client: openai.OpenAI | None = None
        self._lock = threading.Lock()
        self._options: dict[str, Any] = {"limit": "max_completion_tokens", "temperature": 0, "json": True}

    def __call__(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,
        deadline: float,
        done: Callable[[int, Summary | SummarizerError], None],
    ) -> list[Summary | SummarizerError]:
        queue: deque[int] = deque(range(len(requests)))
        ended: SimpleQueue[tuple[int, Summary | SummarizerError]] = SimpleQueue()

        def work() -> None:
            while True:
                try:
                    index = queue.popleft()
                except IndexError:
                    return
                ended.put((index, self._answer(requests[index], encode, deadline)))

        # Daemon threads: a server that drips bytes outlives every socket timeout, and must not keep a stop waiting.
        for _ in range(min(MAX_PARALLEL, len(requests))):
            threading.Thread(target=work, daemon=True, name="summarize").start()
        return self._collect(requests, ended, deadline, done)

    @staticmethod
    def _collect(
        requests: Sequence[SummaryRequest],
        ended: SimpleQueue[tuple[int, Summary | SummarizerError]],
        deadline: float,
        done: Callable[[int, Summary | SummarizerError], None],
    ) -> list[Summary | SummarizerError]:
        answers: dict[int, Summary | SummarizerError] = {}
        while len(answers) < len(requests):
            try:
                index, answer = ended.get(timeout=max(0.001, deadline - time.monotonic()))
            except Empty:
                break
            answers[index] = answer
            done(index, answer)
        for index in range(len(requests)):
            if index not in answers:
                answers[index] = SummarizerTimeout("deadline")
                done(index, answers[index])
        return [answers[index] for index in range(len(requests))]

    def _answer(self, request: SummaryRequest, encode: Encode, deadline: float) -> Summary | SummarizerError:
        try:
            parts = pieces(request, window=self._settings.summarizer_context_limit * 1000, encode=encode)
            found = [self._summary(part, encode, deadline) for part in parts]
        except SummarizerError as error:
            return error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 # why: an odd reply must end as an answer, and quote nothing
            return SummarizerServerError(type(error).__name__)
        return Summary(
            "\n".join(part.text for part in found),
            self._model,
            sum(part.spent_in for part in found),
            sum(part.spent_out for part in found),
        )

    def _summary(self, request: SummaryRequest, encode: Encode, deadline: float) -> Summary:
        completion = self._complete(request, deadline)
        if isinstance(completion, str):  # the SDK hands out a body that is not JSON as text
            raise SummarizerServerError("not_json")
        choices = getattr(completion, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise SummarizerReplyRejected("no_choices")
        message = choices[0].message
        reply = Reply(
            content=message.content if isinstance(message.content, str) else None,
            finish_reason=choices[0].finish_reason,
            refusal=getattr(message, "refusal", None),
            has_tool_calls=bool(getattr(message, "tool_calls", None) or getattr(message, "function_call", None)),
        )
        usage = getattr(completion, "usage", None)
        return Summary(
            read_reply(reply, request, encode),
            self._model,
            _whole(getattr(usage, "prompt_tokens", 0)),
            _whole(getattr(usage, "completion_tokens", 0)),
        )

    def _complete(self, request: SummaryRequest, deadline: float) -> Any:
        """One completion; a rejected optional parameter is dropped, once each."""
        import openai

        messages: Any = prompt(request)
        client: Any = self._connected()
        while True:
            left = deadline - time.monotonic()
            if left < _SHORTEST_CALL:
                raise SummarizerTimeout("deadline")
            options = dict(self._options)
            try:
                return client.chat.completions.create(
                    model=self._model,
                    messages=messages,
                    timeout=min(self._settings.call_timeout, left),
                    **_parameters(options, request),
                )
            except openai.BadRequestError as error:
                if not self._learn(options, str(error)):
                    raise _bad_request(error) from None
            except openai.APIError as error:
                raise reason(error) from None
            except (ValueError, TypeError):  # a 200 that is not the API's JSON
                raise SummarizerServerError("not_json") from None

    def _connected(self) -> openai.OpenAI:
        import openai

        with self._lock:
            if self._client is None:
                key = self._settings.openai_api_key
                self._client = openai.OpenAI(
                    api_key=key.get_secret_value() if key else "none",
                    base_url=self._settings.openai_base_url,
                    max_retries=0,
                    timeout=openai.Timeout(self._settings.call_timeout, connect=self._settings.call_connect_timeout),
                )
            return self._client

    def _learn(self, used: dict[str, Any], text: str) -> bool:
        """Drops the parameter that a 400 names; False when it names none of ours."""
        if _TOO_LONG.search(text):  # names the same parameters, but no other spelling helps
            return False
        if "max_completion_tokens" in text and used["limit"] == "max_completion_tokens":
            self._options["limit"] = "max_tokens"
        elif "max_tokens" in text and used["limit"] == "max_tokens":
            self._options["limit"] = None
        elif "response_format" in text and used["json"]:
            self._options["json"] = False
        elif "temperature" in text and used["temperature"] is not None:
            self._options["temperature"] = None
        else:
            return False
        return True


def _whole(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _parameters(options: dict[str, Any], request: SummaryRequest) -> dict[str, Any]:
    parameters: dict[str, Any] = {}
    if options["limit"]:
        parameters[options["limit"]] = max(_SMALLEST_OUTPUT, OUTPUT_ALLOWANCE * request.body_tokens)
    if options["temperature"] is not None:
        parameters["temperature"] = options["temperature"]
    if options["json"]:
        parameters["response_format"] = {"type": "json_object"}
    return parameters


def _bad_request(error: openai.BadRequestError) -> SummarizerError:
    code = str(getattr(error, "code", "") or "")
    return SummarizerRefused("content_filter") if "content_filter" in code else SummarizerRequestRejected("400")


def reason(error: openai.APIError) -> SummarizerError:
    """Our own error for one of the SDK's: a class per reason, a code for text."""
    import openai

    if isinstance(error, openai.APITimeoutError):
        return SummarizerTimeout()
    if isinstance(error, openai.APIStatusError):
        return _status_reason(error)
    if isinstance(error, openai.APIConnectionError):
        return SummarizerUnreachable()
    return SummarizerServerError("not_json")


def _status_reason(error: openai.APIStatusError) -> SummarizerError:
    status = error.status_code
    if status >= 500:
        return SummarizerServerError(str(status), retry_after=_retry_after(error))
    if status == 429:
        return SummarizerRateLimited(retry_after=_retry_after(error))
    kinds: dict[int, type[SummarizerError]] = {
        401: SummarizerUnauthorized,
        403: SummarizerUnauthorized,
        404: SummarizerNotFound,
        408: SummarizerTimeout,
    }
    return kinds.get(status, SummarizerRequestRejected)(str(status))


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Seconds that the server asked to wait, at most 10 minutes."""
    try:
        seconds = float(error.response.headers.get("retry-after", ""))
    except ValueError:
        return None
    return min(seconds, 600.0) if seconds > 0 else None
