"""Model calls under a tenant's daily cap: the most they may cost is set aside first, what they cost is entered then.

All workers share the figures, so the cap holds across them. What may go over it is what calls cost beyond
the most that was expected of them: a model that thinks aloud, a server that counts otherwise.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import count
from typing import Final

from compactor.commands import spending
from compactor.commands.command import SessionKeys
from compactor.commands.spending import Caps
from compactor.commands.tenants import tenant_of
from compactor.drafts import Summarize, unheard
from compactor.exceptions import SpendCapReached, StoreUnavailableError, SummarizerError
from compactor.models import SPEND_CAP, CompactionId, Outcome
from compactor.pricing import Price, micro, rounded
from compactor.prompts import OUTPUT_ALLOWANCE, Summary, SummaryRequest
from compactor.reuse import Runner
from compactor.tokens import Encode

_BESIDE: Final = 350  # tokens of a prompt beside the result, its call and the goal
_CLIPPED: Final = 1_500  # characters of a call's arguments, and of a goal, that a prompt shows
_PIECE: Final = 8_000  # tokens; no smaller window makes more pieces of a result
_LEAST_OUTPUT: Final = 300  # tokens that any reply may have


@dataclass(frozen=True, slots=True)
class Purse:
    """Where the compactions of one session's tenant are entered; `name` is the compaction's and its run's."""

    runner: Runner
    keys: SessionKeys
    owner: CompactionId
    run: int
    caps: Caps
    price: Price | None

    def reserve(self, requests: Sequence[SummaryRequest]) -> bool:
        """Sets aside what these calls cost at most; False when that is over the cap."""
        if self.caps.micro is not None and self.price is None and self.caps.tokens is None:
            return False  # a cap that nobody can count holds by asking nobody
        sent, written = most_tokens(requests)
        amount = math.ceil(_cost(self.price, sent, written))
        command = spending.reserve(*self._place, self._name, micro=amount, tokens=sent + written, caps=self.caps)
        return self.runner.run(command)

    def spent(self, sent: int, written: int, *, late: int = 0) -> None:
        """Enters what calls cost; `late` numbers those that came after the first account."""
        tokens = sent + written
        figures = {"micro": rounded(_cost(self.price, sent, written)), "tokens": tokens}
        if self.price is None:
            figures["unpriced"] = tokens
        name = f"{self._name}:{late}" if late else self._name
        self._enter(name, figures)

    def ended(self, outcome: Outcome) -> None:
        """Enters a compaction that was swapped in."""
        self._enter(f"{self.owner}:ended", figures_of(outcome))

    @property
    def _place(self) -> tuple[str, str]:
        return self.keys.namespace, tenant_of(self.keys.session)

    @property
    def _name(self) -> str:
        return f"{self.owner}:{self.run}"

    def _enter(self, name: str, figures: dict[str, int]) -> None:
        try:
            self.runner.run(spending.enter(*self._place, name, figures))
        except StoreUnavailableError:  # what was set aside stays entered: rather too much than too little
            return


class MeteredSummarizer:
    """Asks `summarize` when the tenant's cap allows it. Raises SpendCapReached, StoreUnavailableError."""

    def __init__(self, summarize: Summarize, purse: Purse) -> None:
        self._summarize, self._purse = summarize, purse

    def __call__(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,
        deadline: float,
        done: Callable[[int, Summary | SummarizerError], None],
        arrived: Callable[[int, Summary | SummarizerError], None] = unheard,
    ) -> list[Summary | SummarizerError]:
        if not self._purse.reserve(requests):
            raise SpendCapReached
        told = _Told()

        def hear(index: int, answer: Summary | SummarizerError) -> None:
            arrived(index, answer)
            told.costs.append(_spent_on(requests[index], answer))
            if told.closed:  # after the deadline
                self._enter(told)

        try:
            return self._summarize(requests, encode=encode, deadline=deadline, done=done, arrived=hear)
        finally:
            told.closed = True
            self._enter(told, always=True)

    def _enter(self, told: _Told, *, always: bool = False) -> None:
        sent, written = told.drain()
        if always:
            self._purse.spent(sent, written)
        elif sent or written:
            self._purse.spent(sent, written, late=next(told.late))


@dataclass(slots=True)
class _Told:
    """What answers cost that nobody has entered yet; whoever takes one out enters it, in whatever thread."""

    costs: deque[tuple[int, int]] = field(default_factory=deque[tuple[int, int]])
    closed: bool = False
    late: Iterator[int] = field(default_factory=lambda: count(1))

    def drain(self) -> tuple[int, int]:
        sent = written = 0
        while True:
            try:
                one, other = self.costs.popleft()
            except IndexError:
                return sent, written
            sent, written = sent + one, written + other


def _spent_on(request: SummaryRequest, answer: Summary | SummarizerError) -> tuple[int, int]:
    """Tokens an answer cost; of a server that reports none, what the call must have cost."""
    if isinstance(answer, Summary) and not answer.spent_in and not answer.spent_out:
        return request.tokens + _beside(request), request.body_tokens
    return answer.spent_in, answer.spent_out


def figures_of(outcome: Outcome) -> dict[str, int]:
    """What a compaction that was swapped in adds to its tenant's day, beside what it spent."""
    figures = {"compactions": 1, "freed": outcome.saved}
    if outcome.reason == SPEND_CAP:
        figures["capped"] = 1
    if outcome.bill is not None and outcome.bill.net is not None:
        figures["net"] = outcome.bill.net
    return figures


def most_tokens(requests: Sequence[SummaryRequest]) -> tuple[int, int]:
    """The most tokens that calls are expected to read and to write."""
    sent = sum(request.tokens + _beside(request) * (1 + request.tokens // _PIECE) for request in requests)
    written = sum(max(_LEAST_OUTPUT, OUTPUT_ALLOWANCE * request.body_tokens) for request in requests)
    return sent, written


def _beside(request: SummaryRequest) -> int:
    return _BESIDE + (min(_CLIPPED, len(request.goal)) + min(_CLIPPED, len(request.arguments))) // 2


def _cost(price: Price | None, sent: int, written: int) -> Decimal:
    """Micro-dollars; 0 without a price, where tokens are counted in their place."""
    return Decimal(0) if price is None else micro(sent, price.input) + micro(written, price.output)
