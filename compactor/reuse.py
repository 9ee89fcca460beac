"""A summarizer that asks once: what the model answered before a crash, a retry or a stale swap is used again.

The name of a request covers the tool, its arguments, the result, the size asked for, the prompt's
version and the model, not the user's goal: a message in between must not make every repeat pay.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, Protocol, TypeVar

from compactor.commands import summaries
from compactor.commands.command import Command, SessionKeys
from compactor.drafting import Summarize
from compactor.exceptions import StoreUnavailableError, SummarizerError, SummarizerPermanent, SummarizerReplyRejected
from compactor.json_values import is_object
from compactor.prompts import PROMPT_VERSION, Summary, SummaryRequest
from compactor.tokens import Encode

T = TypeVar("T")
Answer = Summary | SummarizerError


class Runner(Protocol):
    """Runs one command against the store."""

    def run(self, command: Command[T]) -> T:
        """The command's parsed answer. Raises StoreUnavailableError."""
        ...


class ReusingSummarizer:
    """Asks `summarize` for what this session has no answer to yet, and keeps each answer as it comes."""

    def __init__(self, summarize: Summarize, runner: Runner, keys: SessionKeys, model: str) -> None:
        self._summarize, self._runner, self._keys, self._model = summarize, runner, keys, model

    def __call__(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,
        deadline: float,
        done: Callable[[int, Answer], None],
    ) -> list[Answer]:
        names = [request_name(request, self._model) for request in requests]
        answers: dict[int, Answer] = {}
        for index, kept in enumerate(self._kept(names)):
            if kept is not None:
                answers[index] = kept
                done(index, kept)
        asked = [index for index in range(len(requests)) if index not in answers]

        def came(order: int, answer: Answer) -> None:
            self._keep(names[asked[order]], answer)
            done(asked[order], answer)

        if asked:
            found = self._summarize([requests[i] for i in asked], encode=encode, deadline=deadline, done=came)
            answers |= dict(zip(asked, found, strict=True))
        return [answers[index] for index in range(len(requests))]

    def _kept(self, names: Sequence[str]) -> list[Answer | None]:
        if not names:
            return []
        try:
            return [_read(kept) for kept in self._runner.run(summaries.read_summaries(self._keys, names))]
        except StoreUnavailableError:
            return [None] * len(names)

    def _keep(self, name: str, answer: Answer) -> None:
        spent, kept = (answer.spent_in, answer.spent_out), _written(answer)
        if kept or any(spent):
            try:
                self._runner.run(summaries.remember(self._keys, name, kept, spent=spent))
            except StoreUnavailableError:  # the swap will tell; the answer is used all the same
                return


def request_name(request: SummaryRequest, model: str) -> str:
    """32 hex digits that name what a summary depends on."""
    parts = (model, PROMPT_VERSION, request.tool, request.arguments, request.text, request.body_tokens)
    return blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()


def _written(answer: Answer) -> bytes:
    """An answer as it is kept: a summary, or why this text will never get one; nothing of what may pass."""
    if isinstance(answer, Summary):
        return json.dumps({"text": answer.text, "model": answer.model}).encode()
    if isinstance(answer, SummarizerPermanent):
        return json.dumps({"rejected": answer.detail or answer.code}).encode()
    return b""


def _read(kept: bytes | None) -> Answer | None:
    """A kept answer; its cost was entered when it came. What cannot be read is asked for again."""
    try:
        value: Any = json.loads(kept) if kept else None
    except ValueError:
        return None
    if not is_object(value):
        return None
    if isinstance(value.get("text"), str):
        return Summary(value["text"], str(value.get("model", "")))
    return SummarizerReplyRejected(str(value.get("rejected", "")))
