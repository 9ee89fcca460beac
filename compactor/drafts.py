"""What a draft is: verified replacements and what they took; and what writing one needs from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from compactor.exceptions import SummarizerError, SummarizerThrottled
from compactor.models import Code, Kind, Outcome, Replacement
from compactor.plans import Plan, Snapshot
from compactor.prompts import Summary, SummaryRequest
from compactor.tokens import Encode


def unheard(index: int, answer: Summary | SummarizerError) -> None:
    """For callers that need not hear of answers at once."""


class Summarize(Protocol):
    """Summarises requests in parallel; each answer is a checked summary or the reason there is none."""

    def __call__(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,
        deadline: float,
        done: Callable[[int, Summary | SummarizerError], None],
        arrived: Callable[[int, Summary | SummarizerError], None] = unheard,
    ) -> list[Summary | SummarizerError]:
        """`deadline` is monotonic seconds. `done(index, answer)` is called in the caller's thread as each one ends.

        `arrived(index, answer)` is called at once in the thread that it came in, after the deadline too: what is
        paid for must not wait for what is done with the answers before it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """`deadline`: monotonic seconds until which a model may work; `over`: the ceiling is exceeded."""

    deadline: float
    over: bool


@dataclass(frozen=True, slots=True)
class Failure:
    """Why the model gave nothing for a result that stays: a code, and whether trying later may help."""

    code: str
    may_pass: bool
    retry_after: float | None = None


@dataclass(slots=True)
class Draft:
    """Verified replacements, and what they took."""

    replacements: list[Replacement] = field(default_factory=list[Replacement])
    left: int = 0
    failure: Failure | None = None
    model: str = ""
    prompt_version: int = 0
    spent_in: int = 0
    spent_out: int = 0

    @property
    def saved(self) -> int:
        """Tokens freed in all."""
        return sum(item.saved for item in self.replacements)

    @property
    def is_throttled(self) -> bool:
        """Whether the model was not asked for all: a later run asks for the rest, what came is kept until then."""
        return self.failure is not None and self.failure.code == SummarizerThrottled.code

    @property
    def by_pointer(self) -> int:
        return self._count(Kind.POINTER)

    @property
    def by_condensed(self) -> int:
        return self._count(Kind.CONDENSED)

    @property
    def by_arguments(self) -> int:
        return self._count(Kind.ELIDED)

    @property
    def by_model(self) -> int:
        return self._count(Kind.SUMMARY)

    @property
    def by_extract(self) -> int:
        return self._count(Kind.EXTRACT)

    @property
    def by_fold(self) -> int:
        return self._count(Kind.FOLD, Kind.FOLDED)

    def _count(self, *kinds: Kind) -> int:
        return sum(1 for item in self.replacements if item.kind in kinds)


def describe(drafted: Draft, snapshot: Snapshot, planned: Plan) -> Outcome:
    """The outcome of a draft that is about to be applied."""
    first = min((item.position for item in drafted.replacements), default=0)
    return Outcome(
        Code.APPLIED,
        before=snapshot.total,
        after=snapshot.total - drafted.saved,
        items=len(drafted.replacements),
        by_pointer=drafted.by_pointer,
        by_condensed=drafted.by_condensed,
        by_model=drafted.by_model,
        by_extract=drafted.by_extract,
        by_arguments=drafted.by_arguments,
        by_fold=drafted.by_fold,
        reason=drafted.failure.code if drafted.failure is not None else "",
        left=drafted.left,
        reached=drafted.saved >= planned.need,
        model=drafted.model,
        prompt_version=drafted.prompt_version,
        spent_in=drafted.spent_in,
        spent_out=drafted.spent_out,
        rewrite=sum(m.tokens for m in snapshot.messages if m.position >= first) - drafted.saved,
        positions=tuple(item.position for item in drafted.replacements),
    )
