"""Folds: which whole steps of one turn may become one step.

The first assistant message of a fold stays as it is, with its calls; its results carry what is told of all steps,
the other messages are left out of a send. A fold is made from originals alone and is final: it is
never part of another one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from compactor.history import History, Step
from compactor.models import Kind, Message

MOST_TOLD: Final = 8_000  # tokens of originals in one fold
LEAST_SPARED: Final = 200  # tokens
FOLD_TOKENS: Final = 400  # what carries a fold, header included
NOTE_TOKENS: Final = 30  # a further result of the step that carries a fold


@dataclass(frozen=True, slots=True)
class Fold:
    """Complete steps, oldest first, that become one; indexes count within the snapshot.

    `holder` is the result that will tell of them, `told` counts the tokens of their originals,
    `shown` what a send now pays for the messages that change.
    """

    steps: tuple[Step, ...]
    holder: int
    told: int
    shown: int

    @property
    def notes(self) -> tuple[int, ...]:
        """The other results of the first step: each gets a sentence that points to the holder."""
        return tuple(index for index in self.steps[0].answered if index != self.holder)

    @property
    def hidden(self) -> tuple[int, ...]:
        """The messages that a send will leave out."""
        return tuple(index for step in self.steps[1:] for index in step.indexes)

    @property
    def indexes(self) -> frozenset[int]:
        """Every message that changes."""
        return frozenset([self.holder, *self.notes, *self.hidden])

    @property
    def body_tokens(self) -> int:
        """What the text may cost without its header: 15 % of the originals, at least 60, at most 340."""
        return min(340, max(60, self.told * 15 // 100))

    @property
    def saving(self) -> int:
        """Tokens it is expected to free."""
        return self.shown - min(FOLD_TOKENS, self.body_tokens + 70) - NOTE_TOKENS * len(self.notes)


def foldable(
    messages: Sequence[Message],
    history: History,
    stays: frozenset[int],
    originals: Mapping[int, Message] | None = None,
) -> Iterator[list[Fold]]:
    """Every fold that may be made, oldest first, none overlapping; of each, the beginnings that would do.

    Steps with a message among `stays`, and the last step, stay. Without `originals` (by position) so does all before
    the frontier; with them, steps of which an original is missing.
    """
    frontier = max((i for i, message in enumerate(messages) if message.replaced), default=-1)
    reader = _Reader(messages, history, stays, originals, frontier if originals is None else -1)
    for run in reader.runs():
        for group in reader.groups(run):
            lengths = reader.beginnings(group)
            worth = [fold for fold in lengths if fold.saving >= LEAST_SPARED and len(fold.indexes) > 1]
            if worth:
                yield worth


@dataclass(frozen=True, slots=True)
class _Reader:
    messages: Sequence[Message]
    history: History
    stays: frozenset[int]
    originals: Mapping[int, Message] | None
    frontier: int

    def runs(self) -> Iterator[list[Step]]:
        """Foldable steps with nothing in between, from one with calls to one with calls."""
        run: list[Step] = []
        end = -1
        for step in self.history.steps:
            if run and step.start != end + 1:
                yield from self._closed(run)
                run = []
            if self._may_leave(step):
                if run or step.calls:
                    run.append(step)
            else:
                yield from self._closed(run)
                run = []
            end = max(step.indexes)
        yield from self._closed(run)

    @staticmethod
    def _closed(run: Sequence[Step]) -> Iterator[list[Step]]:
        """Without the text at its end: before a user's message, that is the answer to him."""
        last = max((order for order, step in enumerate(run) if step.calls), default=-1)
        if last >= 0:
            yield list(run[: last + 1])

    def _may_leave(self, step: Step) -> bool:
        indexes = step.indexes
        if step.open or step.orphans or not self.frontier < step.start < self.history.last_assistant:
            return False
        if indexes != list(range(step.start, step.start + len(indexes))) or not self.stays.isdisjoint(indexes):
            return False
        return all(self._is_free(index) for index in indexes) and self.told([step]) <= MOST_TOLD

    def _is_free(self, index: int) -> bool:
        message = self.messages[index]
        if message.pinned or message.kept or message.kind in (Kind.FOLD, Kind.FOLDED):
            return False
        return not message.replaced or (self.originals is not None and message.position in self.originals)

    def told(self, steps: Sequence[Step]) -> int:
        """Tokens of the originals."""
        return sum(self._original(index) for step in steps for index in step.indexes)

    def _original(self, index: int) -> int:
        message = self.messages[index]
        if not message.replaced or self.originals is None or message.position not in self.originals:
            return message.tokens
        return self.originals[message.position].tokens

    def groups(self, run: Sequence[Step]) -> Iterator[list[Sequence[Step]]]:
        """The run in groups of at most MOST_TOLD tokens, each of a step with calls and the text behind it, or more."""
        starts = [order for order, step in enumerate(run) if step.calls]
        group: list[Sequence[Step]] = []
        tokens = 0
        for one, other in pairwise([*starts, len(run)]):
            piece = run[one:other]
            more = self.told(piece)
            if group and tokens + more > MOST_TOLD:
                yield group
                group, tokens = [], 0
            group.append(piece)
            tokens += more
        if group and tokens <= MOST_TOLD:
            yield group

    def beginnings(self, group: Sequence[Sequence[Step]]) -> Iterator[Fold]:
        """The folds of ever more of a group."""
        steps: tuple[Step, ...] = ()
        carriers = group[0][0].answered
        holder = max(carriers, key=self._original)
        told, shown = 0, -self.messages[group[0][0].start].tokens
        for piece in group:
            steps = (*steps, *piece)
            told += self.told(piece)
            shown += sum(self.messages[index].tokens for step in piece for index in step.indexes)
            yield Fold(steps, holder, told, shown)
