"""Summaries by a cheap model: the results of a session in parallel, under one deadline."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from queue import Empty, SimpleQueue
from typing import Any, Final

from compactor.breaker import Breaker
from compactor.completions import Completions
from compactor.drafts import unheard
from compactor.exceptions import (
    OUT_OF_TIME,
    ConfigurationError,
    SummarizerError,
    SummarizerReplyRejected,
    SummarizerServerError,
    SummarizerTimeout,
    SummarizerTooLong,
)
from compactor.json_values import is_array, is_object
from compactor.personal_data import PersonalData
from compactor.prompts import OUTPUT_ALLOWANCE, Summary, SummaryRequest, pieces, prompt
from compactor.quota import Quota
from compactor.replies import Reply, read_reply
from compactor.settings import Settings
from compactor.tokens import Encode, count_messages

MAX_PARALLEL: Final = 32
SMALLEST_WINDOW: Final = 1_024  # tokens; a server's complaints are believed down to it
_SMALLEST_OUTPUT: Final = 300  # tokens of room for a reply
_MORE_ROOM: Final = 4  # times the room, for a model whose thoughts took it up
_OUT_OF_ROOM: Final = frozenset({"cut_off", "reasoning_only", "empty"})
_LEAST_CUT: Final = 512  # tokens; servers that do not count what they had cached report less than any window holds


class ModelSummarizer:
    """Calls the cheap model for each request of a session, all in parallel.

    Thread-safe; connects at first use, after a fork. With a breaker, a server that keeps failing is
    left alone for a while; with a quota, no more is asked of it than that. Raises ConfigurationError without a
    model or its SDK.
    """

    def __init__(self, settings: Settings, breaker: Breaker | None = None, quota: Quota | None = None) -> None:
        if settings.summarizer_model is None:
            raise ConfigurationError("summarizer_model: set COMPACTOR_SUMMARIZER_MODEL to the cheap model's name.")
        if find_spec("openai") is None:
            raise ConfigurationError(
                "summarizer_model: is set, but the openai package is not installed. pip install 'compactor[worker]', "
                "or unset COMPACTOR_SUMMARIZER_MODEL to work with extracts."
            )
        self._model = settings.summarizer_model
        self._completions = Completions(settings, self._model)
        self._breaker, self._quota = breaker, quota
        self._longest_call = settings.call_timeout
        self._window = settings.summarizer_context_limit * 1000
        self._thinks = False
        self._personal = PersonalData(settings.personal_patterns) if settings.personal_placeholders else None

    def __call__(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,
        deadline: float,
        done: Callable[[int, Summary | SummarizerError], None],
        arrived: Callable[[int, Summary | SummarizerError], None] = unheard,
    ) -> list[Summary | SummarizerError]:
        """The answers in order."""
        queue: deque[int] = deque(range(len(requests)))
        ended: SimpleQueue[tuple[int, Summary | SummarizerError]] = SimpleQueue()

        def work() -> None:
            while True:
                try:
                    index = queue.popleft()
                except IndexError:
                    return
                answer = self._answer(requests[index], encode, deadline)
                try:
                    arrived(index, answer)
                finally:
                    ended.put((index, answer))

        # Daemon threads: a call that hangs must not keep a stop waiting.
        for _ in range(min(MAX_PARALLEL, len(requests))):
            threading.Thread(target=work, daemon=True, name="summarize").start()
        return self._collect(requests, ended, deadline, done)

    def close(self) -> None:
        """Closes the connections to the model server."""
        self._completions.close()

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
                answers[index] = SummarizerTimeout(OUT_OF_TIME)
                done(index, answers[index])
        return [answers[index] for index in range(len(requests))]

    def _answer(self, request: SummaryRequest, encode: Encode, deadline: float) -> Summary | SummarizerError:
        call = _Call(encode, deadline)
        try:
            texts = self._texts(request.without(self._personal) if self._personal else request, call)
        except SummarizerError as error:
            error.spent_in, error.spent_out = call.spent_in, call.spent_out
            return error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 # why: an odd reply must end as an answer, and quote nothing
            return SummarizerServerError(type(error).__name__)
        return Summary("\n".join(texts), self._model, call.spent_in, call.spent_out)

    def _texts(self, request: SummaryRequest, call: _Call) -> list[str]:
        """The summaries of a result's pieces; when the server finds them too long, once more in smaller ones."""
        window = self._window
        parts = _worth_sending(request, window, call.encode)
        try:
            return [self._summary(part, call) for part in parts]
        except SummarizerTooLong:
            sent = max(count_messages(prompt(part), call.encode) for part in parts)
            self._window = min(self._window, max(SMALLEST_WINDOW, min(window, sent) // 2))
            smaller = _worth_sending(request, self._window, call.encode)
            if smaller == parts:
                raise
        return [self._summary(part, call) for part in smaller]

    def _summary(self, part: SummaryRequest, call: _Call) -> str:
        """One piece's summary; a model that thought instead of answering is asked once more, with more room."""
        thinks = self._thinks
        try:
            return self._ask(part, call, thinking=thinks)
        except SummarizerReplyRejected as error:
            if thinks or error.reason not in _OUT_OF_ROOM:
                raise
        self._thinks = True
        return self._ask(part, call, thinking=True)

    def _ask(self, part: SummaryRequest, call: _Call, *, thinking: bool) -> str:
        messages = prompt(part)
        room = max(_SMALLEST_OUTPUT, OUTPUT_ALLOWANCE * part.body_tokens)
        if thinking:
            room = max(room, min(_MORE_ROOM * room, self._window // 8))

        asked = count_messages(messages, call.encode)
        if self._quota is not None:
            # Whoever waits longer has no time left for the call: late is not the same as not asked.
            self._quota.take(asked + room, until=call.deadline - self._longest_call)

        def create() -> Mapping[str, Any]:
            return self._completions.create(messages, tokens=room, thinking=thinking, until=call.deadline)

        body = self._breaker.call(create, until=call.deadline) if self._breaker else create()
        read = call.spend(body.get("usage"))
        if _LEAST_CUT <= read < asked / 2:
            raise SummarizerReplyRejected("input_cut")
        return read_reply(_reply(body), part, call.encode)


@dataclass(slots=True)
class _Call:
    """What the calls for one result share: how to count, until when (monotonic seconds), tokens spent so far."""

    encode: Encode
    deadline: float
    spent_in: int = 0
    spent_out: int = 0

    def spend(self, usage: Any) -> int:
        """Adds what a server reports; returns the prompt's tokens, 0 when it reports none."""
        if not is_object(usage):
            return 0
        read = _whole(usage.get("prompt_tokens"))
        self.spent_in += read
        self.spent_out += _whole(usage.get("completion_tokens"))
        return read


def _worth_sending(request: SummaryRequest, window: int, encode: Encode) -> list[SummaryRequest]:
    """The pieces that hold anything: a model without a text asks for one, or makes one up."""
    parts = [part for part in pieces(request, window=window, encode=encode) if part.text.strip()]
    if not parts:
        raise SummarizerReplyRejected("empty")
    return parts


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _reply(body: Mapping[str, Any]) -> Reply:
    """The first choice of a completion. Raises SummarizerReplyRejected("no_choices")."""
    choices = body.get("choices")
    choice = choices[0] if is_array(choices) and choices else None
    message = choice.get("message") if is_object(choice) else None
    if not is_object(choice) or not is_object(message):
        raise SummarizerReplyRejected("no_choices")
    finish, refusal = choice.get("finish_reason"), message.get("refusal")
    return Reply(
        content=_content(message.get("content")),
        finish_reason=finish if isinstance(finish, str) else None,
        refusal=refusal if isinstance(refusal, str) else None,
        has_tool_calls=bool(message.get("tool_calls") or message.get("function_call")),
    )


def _content(content: Any) -> str | None:
    """The text of a message, also of one in parts."""
    if is_array(content):
        return "".join(str(part.get("text") or "") for part in content if is_object(part))
    return content if isinstance(content, str) else None
