"""Compactor: what a bot developer imports."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar

from compactor.checkpoints import Checkpoint
from compactor.dispatch import Dispatcher
from compactor.effects import Compute, Effect, Flow, Pause, Publish, Run
from compactor.judging import Request
from compactor.model_config import ModelConfig
from compactor.models import Erased, Outcome, Pinned, Pins, Receipt, Status, Verdict, session_id
from compactor.pushing import LimitResult
from compactor.recall_tool import NAME, RecallTool, check_tokens, schema
from compactor.send_log import log_send
from compactor.sending import WaitFor
from compactor.session import SessionFlows
from compactor.session_context import SessionContext, parts_of
from compactor.settings import Settings, choose_settings
from compactor.store import Store
from compactor.surroundings import surroundings

T = TypeVar("T")


class Session:
    """One session; made by `Compactor.session`, does no I/O until a method is called."""

    def __init__(self, memory: Compactor, flows: SessionFlows, config: ModelConfig) -> None:
        self._memory = memory
        self._flows = flows
        self._config = config

    def push(self, messages: Any, idempotency_key: str | None = None, limit_result: LimitResult = None) -> Receipt:
        """Stores one message (dict or SDK object) or a list of them, exactly once.

        With `limit_result` (characters, True for 8,000, or a LimitPolicy) a longer tool result is stored
        cut, with a notice that names its recall id, and the whole goes into the archive.
        A repeat with the same `idempotency_key` within 8 hours stores nothing and gets the first
        receipt. Raises InvalidMessageError, MessageTooLargeError, StoreUnavailableError; after the
        last one push the same messages again: within a minute this process takes them for the same
        attempt, and they are stored once.
        """
        return self._memory.drive(self._flows.push(messages, idempotency_key, limit_result))

    def estimate(
        self,
        tools: Any = None,
        system: str | None = None,
        variables: Mapping[str, Any] | None = None,
        response_format: Any = None,
        max_output_tokens: int | None = None,
    ) -> Verdict:
        """How full the context would be, in tokens; reads one hash and never queues."""
        request = Request(tools, system, response_format, max_output_tokens, variables=variables)
        return self._memory.drive(self._flows.estimate(request))

    def prepare(
        self,
        messages: Any = None,
        *,
        tools: Any = None,
        system: str | None = None,
        response_format: Any = None,
        variables: Mapping[str, Any] | None = None,
        extra: Any = None,
        max_output_tokens: int | None = None,
        wait: float = 0.0,
        wait_for: WaitFor = "fit",
        keep_rows: bool = False,
        repair: bool | None = None,
        tool_text: bool = False,
    ) -> SessionContext:
        """The messages for one model call, and the verdict on them.

        With `messages`, the caller's own list of the whole conversation: what is new in it is stored,
        and the answer is for exactly that list, compacted as far as the session is. System messages
        that open it are this send's system text. Lists that come back from here, lost their head, or
        are older than what is stored change nothing; one that went another way branches the session.

        `variables` fill the `{{name}}` places of `system`, once. `extra` messages follow the history
        in this one send, counted and never stored. `tool_text` shows calls and results as framed
        text, for a model that takes no tools.

        Over the threshold one caller queues the compaction and goes on at once. `wait` seconds let
        a send that would be shortened wait for the swap; `wait_for="swap"` waits at the threshold
        too. `repair` puts late answers behind their calls, closes calls that something else follows
        and leaves out results without a call; by default in sessions fed by push. `keep_rows` is for
        callers that know messages by their place: results are shortened where they stand, no message is
        left out of the send, and the compaction it queues folds nothing; a send with a list folds nothing
        either. Raises
        InvalidMessageError, and StoreUnavailableError only when Redis does not answer, no list is
        given, and this process holds no earlier context of the session.
        """
        request = Request(tools, system, response_format, max_output_tokens, variables=variables, keep_rows=keep_rows)

        def send() -> SessionContext:
            flow = self._flows.prepare(
                request,
                messages=messages,
                wait=wait,
                wait_for=wait_for,
                repair=repair,
                extra=extra,
                tool_text=tool_text,
            )
            context = self._memory.drive(flow)
            log_send(self._config, request, context)
            verdict = context.verdict

            def overflow(error: Any) -> SessionContext:
                self._memory.drive(self._flows.report_overflow(verdict.sent, error))
                return send()

            return SessionContext(
                **parts_of(context),
                _usage=lambda usage: self._memory.drive(self._flows.report_usage(verdict.sent, usage)),
                _overflow=overflow,
            )

        return send()

    def report_usage(self, sent: int, usage: Any) -> bool:
        """As `context.report_usage`, of a list that another process sent: `sent` is its verdict's."""
        return self._memory.drive(self._flows.report_usage(sent, usage))

    def report_overflow(self, sent: int, error: Any) -> bool:
        """As `context.report_overflow`, of a list that another process sent; the next prepare is tighter."""
        return self._memory.drive(self._flows.report_overflow(sent, error))

    def sync(self, messages: Any) -> Receipt:
        """Stores what is new in the caller's own list, without a send; its system messages are not stored.

        Raises InvalidMessageError, MessageTooLargeError, StoreUnavailableError.
        """
        return self._memory.drive(self._flows.sync(messages))

    def compact(self, wait: float = 0.0) -> Outcome:
        """Queues a compaction now; with `wait` seconds, waits for its outcome. Raises DispatchError."""
        return self._memory.drive(self._flows.compact(wait))

    def recall(self, recall_id: str) -> Any:
        """The original message behind a recall id such as `m12`; `m12.1` is the first call of that message.

        Raises SessionNotFoundError, RecallExpiredError.
        """
        return self._memory.drive(self._flows.recall(recall_id))

    def recall_tool(self, name: str = NAME, max_tokens: int | None = None) -> RecallTool[Callable[[Any], str]]:
        """A tool for the bot's own model: `.schema` for its `tools`, `.handler(arguments)` for its calls.

        The handler answers text for the tool message, at most `max_tokens` (by default 2,000, or a sixteenth of a
        smaller window), from this session alone. Raises ConfigurationError here; the handler never
        raises for what a model sends, nor when Redis is away.
        """
        most = check_tokens(max_tokens, self._config.limit)

        def handler(arguments: Any) -> str:
            return self._memory.drive(self._flows.recall_for_model(arguments, most))

        return RecallTool(schema(name), handler)

    def originals(self) -> list[Any]:
        """The live conversation exactly as it was pushed."""
        return self._memory.drive(self._flows.originals())

    def compactions(self) -> list[Outcome]:
        """Every run of a compaction that ended in more than "no need", oldest first; the newest 1,000."""
        return self._memory.drive(self._flows.compactions())

    def checkpoint(self) -> Checkpoint | None:
        """What compactions made of the conversation so far, as one portable record; None when nothing is replaced.

        Raises SessionNotFoundError.
        """
        return self._memory.drive(self._flows.checkpoint())

    def undo(self, compaction_id: str | None = None) -> Outcome:
        """Brings back what a compaction replaced; without an id, the last one that still stands.

        These messages are not replaced again until `release`. Raises SessionNotFoundError,
        CompactionNotFoundError.
        """
        return self._memory.drive(self._flows.undo(compaction_id))

    def pin(self, what: int | str) -> Pinned:
        """Pins a message, by its position or recall id, or a phrase.

        A pinned message is never replaced and never left out of a send; what replaced it gives way to the
        original. A pinned phrase stands word for word in whatever replaces a result that holds it, now
        (originals that lost it come back until the next compaction) and for messages to come. Raises
        ConfigurationError, SessionNotFoundError, RecallExpiredError.
        """
        return self._memory.drive(self._flows.pin(what))

    def pins(self) -> Pins:
        """The pinned messages and phrases. Raises SessionNotFoundError."""
        return self._memory.drive(self._flows.pins())

    def release(self, what: int | str | Sequence[int | str]) -> int:
        """Unpins messages and phrases, and lets undone messages be replaced again.

        Positions or recall ids, phrases, or the id of an undone compaction. Answers how many. Raises
        CompactionNotFoundError for a text that is none of them.
        """
        return self._memory.drive(self._flows.release(what))

    def rewind(self, position: int | str) -> int:
        """Ends the history behind the message at `position` (a recall id or its number).

        What followed leaves the history and stays recallable. Answers how many messages left. Raises
        SessionNotFoundError, RecallExpiredError.
        """
        return self._memory.drive(self._flows.rewind(position))

    def fork(self, new_id: str, at: int | str | None = None) -> Session:
        """A new session with a copy of this history, up to and with the message `at`; recall ids stay the same.

        Raises ConfigurationError when `new_id` exists, SessionNotFoundError, RecallExpiredError.
        """
        new = session_id(new_id)
        self._memory.drive(self._flows.fork(new, at))
        return self._memory.session(new, self._config)

    def close_open_calls(self) -> Receipt:
        """Stores a result that says "interrupted" for each call without one, as after a bot that died."""
        return self._memory.drive(self._flows.close_open_calls())

    def status(self) -> Status:
        """Where the session stands."""
        return self._memory.drive(self._flows.status())

    def clear(self) -> int:
        """Ends the conversation; it stays recallable until the next clear. Returns its number of messages."""
        return self._memory.drive(self._flows.clear())

    def erase(self) -> Erased:
        """Removes every message, original and draft for good; the audit keeps ids and numbers."""
        return self._memory.drive(self._flows.erase())


class Compactor:
    """The blocking client; thread-safe, cheap to make, one per process is enough."""

    def __init__(
        self, redis_url: str | None = None, broker_url: str | None = None, *, settings: Settings | None = None
    ) -> None:
        """Settings come from the environment, the arguments on top. Raises ConfigurationError."""
        self.settings = choose_settings(settings, redis_url, broker_url)
        self._store = Store(self.settings)
        self._dispatcher = Dispatcher(self.settings)
        self._surroundings = surroundings(self.settings)

    @classmethod
    def from_env(cls) -> Self:
        """A client on REDIS_URL, CELERY_BROKER_URL and the COMPACTOR_ settings. Raises ConfigurationError."""
        return cls()

    def session(self, name: str, config: ModelConfig) -> Session:
        """A session by its id `tenant/name`; no I/O. Raises ConfigurationError."""
        return Session(self, SessionFlows(self._surroundings, session_id(name), config), config)

    def drive(self, flow: Flow[T]) -> T:
        """Runs a flow to its answer; errors of an effect are raised inside the flow first."""
        try:
            effect = next(flow)
            while True:
                try:
                    answer = self._perform(effect)
                except Exception as error:  # noqa: BLE001 # why: the flow decides what an error means
                    effect = flow.throw(error)
                else:
                    effect = flow.send(answer)
        except StopIteration as stop:
            value: T = stop.value
            return value
        finally:  # a call that is cancelled or interrupted tells its flow at once
            flow.close()

    def _perform(self, effect: Effect) -> Any:
        match effect:
            case Run(command):
                return self._store.run(command)
            case Publish(session, owner):
                return self._dispatcher.publish(session, owner)
            case Pause(seconds):
                return time.sleep(seconds)
            case Compute(work, _):
                return work()

    def close(self) -> None:
        """Closes the connections; the client can be used again afterwards."""
        self._store.close()
        self._dispatcher.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
