"""A summarizer that asks once: what the model answered before a crash, a retry or a stale swap is used again.

The name of a request covers the tool, its arguments, the result, the size asked for, the versions of
prompt and redaction, and the model, not the user's goal: a message in between must not make every
repeat pay.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Final, Protocol, TypeVar

from compactor.commands import summaries
from compactor.commands.command import Command, SessionKeys
from compactor.drafts import Summarize, unheard
from compactor.exceptions import StoreUnavailableError, SummarizerError, SummarizerPermanent, SummarizerReplyRejected
from compactor.json_values import is_object
from compactor.prompts import PROMPT_VERSION, Summary, SummaryRequest
from compactor.redaction import REDACTION_VERSION
from compactor.tokens import Encode

T = TypeVar("T")
Answer = Summary | SummarizerError
Place = tuple[str, str]
_MOST: Final = 4_096


class Runner(Protocol):
    """Runs one command against the store."""

    def run(self, command: Command[T]) -> T:
        """The command's parsed answer. Raises StoreUnavailableError."""
        ...


@dataclass(frozen=True, slots=True)
class Held:
    """An answer as it is kept (empty: a failure that may pass), and what it cost."""

    answer: bytes
    spent: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Answers:
    """Answers that a process could not save yet: by session and name, and the calls that save them in order.

    `waits` is called when one could not be saved, so that somebody tries again soon: another worker
    that takes the session over meanwhile would ask for it anew.
    """

    held: MutableMapping[Place, Held] = field(default_factory=dict[Place, Held])
    unsaved: deque[tuple[Place, Command[bool]]] = field(
        default_factory=lambda: deque[tuple[Place, Command[bool]]](maxlen=_MOST)
    )
    waits: Callable[[], None] = lambda: None

    def save(self, runner: Runner) -> None:
        """Saves what waits, of any session. Raises StoreUnavailableError, with the rest still waiting."""
        while self.unsaved:
            try:
                place, command = self.unsaved.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                runner.run(command)
            except StoreUnavailableError:
                self.unsaved.appendleft((place, command))
                raise
            self.held.pop(place, None)


class ReusingSummarizer:
    """Asks `summarize` for what this session has no answer to yet, and keeps each answer as it comes.

    Raises StoreUnavailableError while nobody can tell what was answered: to wait costs less than to ask twice.
    """

    def __init__(
        self,
        summarize: Summarize,
        runner: Runner,
        keys: SessionKeys,
        *,
        conversation: bytes,
        model: str,
        answers: Answers,
    ) -> None:
        self._summarize, self._runner, self._keys = summarize, runner, keys
        self._conversation, self._model, self._answers = conversation, model, answers
        self._is_away = False

    def __call__(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,
        deadline: float,
        done: Callable[[int, Answer], None],
        arrived: Callable[[int, Answer], None] = unheard,
    ) -> list[Answer]:
        names = [request_name(request, self._model) for request in requests]
        answers: dict[int, Answer] = {}
        for index, kept in enumerate(self._kept(names)):
            if kept is not None:
                answers[index] = kept
                arrived(index, kept)
                done(index, kept)
        asked = [index for index in range(len(requests)) if index not in answers]

        def keep(order: int, answer: Answer) -> None:
            self._keep(names[asked[order]], answer)
            arrived(asked[order], answer)

        if asked:
            found = self._summarize(
                [requests[i] for i in asked],
                encode=encode,
                deadline=deadline,
                done=lambda order, answer: done(asked[order], answer),
                arrived=keep,
            )
            answers |= dict(zip(asked, found, strict=True))
            with suppress(StoreUnavailableError):  # what failed to be saved may be by now, for another worker
                self._answers.save(self._runner)
        return [answers[index] for index in range(len(requests))]

    def _kept(self, names: Sequence[str]) -> list[Answer | None]:
        # What is saved only now was not in the account that this run began with: its cost counts here.
        held = [self._answers.held.get((self._keys.summaries, name)) for name in names]
        self._answers.save(self._runner)
        stored = self._runner.run(summaries.read_summaries(self._keys, names))
        return [
            _read(theirs) if mine is None else _read(mine.answer, mine.spent)
            for mine, theirs in zip(held, stored, strict=True)
        ]

    def _keep(self, name: str, answer: Answer) -> None:
        spent, kept = (answer.spent_in, answer.spent_out), _written(answer)
        if kept or any(spent):
            place = self._keys.summaries, name
            self._answers.held[place] = Held(kept, spent)
            command = summaries.remember(self._keys, name, kept, conversation=self._conversation, spent=spent)
            self._answers.unsaved.append((place, command))
            if self._is_away:  # each attempt would hold up the answers behind it
                self._answers.waits()
                return
            try:
                self._answers.save(self._runner)
            except StoreUnavailableError:  # the answer is used all the same, and saved when the store is back
                self._is_away = True
                self._answers.waits()


def request_name(request: SummaryRequest, model: str) -> str:
    """32 hex digits that name what a summary depends on."""
    parts = (
        model,
        PROMPT_VERSION,
        REDACTION_VERSION,
        request.tool,
        request.arguments,
        request.text,
        request.body_tokens,
    )
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _written(answer: Answer) -> bytes:
    """An answer as it is kept: a summary, or why this text will never get one; nothing of what may pass."""
    if isinstance(answer, Summary):
        return json.dumps({"text": answer.text, "model": answer.model}).encode()
    if isinstance(answer, SummarizerPermanent):
        return json.dumps({"rejected": answer.detail or answer.code}).encode()
    return b""


def _read(kept: bytes | None, spent: tuple[int, int] = (0, 0)) -> Answer | None:
    """A kept answer, free unless its cost was not entered yet. What cannot be read is asked for again."""
    try:
        value: Any = json.loads(kept) if kept else None
    except ValueError:
        return None
    if not is_object(value):
        return None
    if isinstance(value.get("text"), str):
        return Summary(value["text"], str(value.get("model", "")), *spent)
    rejected = SummarizerReplyRejected(str(value.get("rejected", "")))
    rejected.spent_in, rejected.spent_out = spent
    return rejected
