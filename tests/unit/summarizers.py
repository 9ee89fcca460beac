"""Stand-ins for the cheap model: they answer requests with whatever a test wants, in any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from compactor.drafts import unheard
from compactor.exceptions import SummarizerError
from compactor.prompts import Summary, SummaryRequest
from compactor.tokens import Encode

Answer = Summary | SummarizerError


@dataclass
class Scripted:
    """Gives the answer of each request by `answer`; reports them in the order of `order`, else as asked."""

    answer: Callable[[SummaryRequest], Answer]
    order: Callable[[int], Sequence[int]] = range
    requests: list[SummaryRequest] = field(default_factory=list[SummaryRequest])
    deadlines: list[float] = field(default_factory=list[float])

    def __call__(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,
        deadline: float,
        done: Callable[[int, Answer], None],
        arrived: Callable[[int, Answer], None] = unheard,
    ) -> list[Answer]:
        self.requests += requests
        self.deadlines.append(deadline)
        answers = [self.answer(request) for request in requests]
        for index in self.order(len(answers)):
            arrived(index, answers[index])
            done(index, answers[index])
        return answers


def saying(text: str) -> Scripted:
    return Scripted(lambda _request: Summary(text, "cheap", spent_in=10, spent_out=2))


def failing(error: SummarizerError) -> Scripted:
    return Scripted(lambda _request: error)
