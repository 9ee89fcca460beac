"""Folds: which whole steps of one turn may become one step.

The first assistant message of a fold stays as it is, with its calls; its results carry what is told of all steps,
the other messages are left out of a send. A fold is made from originals, and stays as it is until nothing
else is left: then those of a run, with the steps between them, become one, told from their texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from compactor.folded import folds_among
from compactor.formats.openai import text_of
from compactor.history import History, Step
from compactor.models import Kind, Message

MOST_TOLD: Final = 8_000  # tokens of originals in one fold
LEAST_SPARED: Final = 200  # tokens
FOLD_TOKENS: Final = 400  # what carries a fold, header included
NOTE_TOKENS: Final = 30  # a further result of the step that carries a fold
BODIES: Final = (340, 160, 60)  # tokens that the text of several folds in one may take: the longest that will do
_FOLDS: Final = (Kind.FOLD, Kind.FOLDED)
_TOLD: Final = re.compile(r"(\d{1,15}) tokens")  # in the header of a fold, in either language


@dataclass(frozen=True, slots=True)
class Fold:
    """Complete steps, oldest first, that become one; indexes count within the snapshot.

    `holder` is the result that will tell of them, `told` counts the tokens of their originals,
    `shown` what a send now pays for the messages that change. `merges`: folds may be among the steps, or steps too
    large for one; the text takes at most `most` tokens.
    """

    steps: tuple[Step, ...]
    holder: int
    told: int
    shown: int
    merges: bool = False
    most: int = BODIES[0]

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
        """What the text may cost without its header: 15 % of the originals, at least 60, at most `most`."""
        return min(self.most, max(BODIES[-1], self.told * 15 // 100))

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


def mergeable(
    messages: Sequence[Message], history: History, stays: frozenset[int], originals: Mapping[int, Message]
) -> Iterator[list[Fold]]:
    """Every run of steps up to its last fold that may become one fold, oldest first; of each, what frees ever more.

    First what stands behind the last fold of folds, so that these seldom change, then the whole run; of both, ever
    shorter texts. `originals` as in `foldable`; of what is part of a fold none is needed. A fold of which a
    message stays, stays.
    """
    reader = _Reader(messages, history, stays, originals, -1, merges=True)
    for run in reader.runs():
        wholes = [reader.merged(steps) for steps in (reader.newer(run), run) if steps]
        lengths = [replace(fold, most=most) for fold in wholes if fold.hidden for most in BODIES]
        worth = [fold for fold in lengths if fold.saving >= LEAST_SPARED]
        if worth:
            yield worth


@dataclass(frozen=True, slots=True)
class _Reader:
    messages: Sequence[Message]
    history: History
    stays: frozenset[int]
    originals: Mapping[int, Message] | None
    frontier: int
    merges: bool = False

    def runs(self) -> Iterator[list[Step]]:
        """Foldable steps with nothing in between, from one with calls to one that may end a fold."""
        run: list[Step] = []
        end = -1
        held = self._held() if self.merges else frozenset[int]()
        for step in self.history.steps:
            if run and step.start != end + 1:
                yield from self._closed(run)
                run = []
            if self._may_leave(step) and step.start not in held:
                if run or step.calls:
                    run.append(step)
            else:
                yield from self._closed(run)
                run = []
            end = max(step.indexes)
        yield from self._closed(run)

    def _held(self) -> frozenset[int]:
        """The steps of folds of which one may not leave: a fold changes whole or not at all."""
        steps = {index: step for step in self.history.steps for index in step.indexes}
        held: set[int] = set()
        for fold in folds_among([message.kind for message in self.messages]):
            members = [steps.get(index) for index in fold.indexes]
            if not all(step is not None and self._may_leave(step) for step in members):
                held |= {step.start for step in members if step is not None}
        return frozenset(held)

    def _closed(self, run: Sequence[Step]) -> Iterator[list[Step]]:
        """Without the text at its end: before a user's message, that is the answer to him."""
        last = max((order for order, step in enumerate(run) if self._ends(step)), default=-1)
        if last >= 0:
            yield list(run[: last + 1])

    def _ends(self, step: Step) -> bool:
        return any(self.messages[index].kind in _FOLDS for index in step.indexes) if self.merges else bool(step.calls)

    def _may_leave(self, step: Step) -> bool:
        indexes = step.indexes
        if step.open or step.orphans or not self.frontier < step.start < self.history.last_assistant:
            return False
        if indexes != list(range(step.start, step.start + len(indexes))) or not self.stays.isdisjoint(indexes):
            return False
        return all(self._is_free(index) for index in indexes) and (self.merges or self.told([step]) <= MOST_TOLD)

    def _is_free(self, index: int) -> bool:
        message = self.messages[index]
        if message.pinned or message.kept or (message.kind in _FOLDS and not self.merges):
            return False
        return (
            not message.replaced
            or message.kind in _FOLDS
            or (self.originals is not None and message.position in self.originals)
        )

    def told(self, steps: Sequence[Step]) -> int:
        """Tokens of the originals; a fold counts those of its first call too."""
        return sum(
            self._original(index)
            for step in steps
            for index in step.indexes
            if index != step.start or not any(self.messages[i].kind is Kind.FOLD for i in step.answered)
        )

    def _original(self, index: int) -> int:
        message = self.messages[index]
        if message.kind is Kind.FOLD:
            told = _TOLD.findall(text_of(message.value).partition("\n")[0])
            return int(told[-1]) if told else 0  # a note beside the fold counts none
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

    def merged(self, run: Sequence[Step]) -> Fold:
        """The whole run as one fold."""
        holder = max(run[0].answered, key=self._original)
        shown = sum(self.messages[index].tokens for step in run for index in step.indexes)
        return Fold(tuple(run), holder, self.told(run), shown - self.messages[run[0].start].tokens, merges=True)

    def newer(self, run: Sequence[Step]) -> Sequence[Step]:
        """The steps behind the last fold of folds; none without one."""
        merged = [order for order, step in enumerate(run) if self._is_merged(step)]
        behind = range(merged[-1] + 1, len(run)) if merged else range(0)
        first = next((i for i in behind if run[i].calls and not self.messages[run[i].start].folded), len(run))
        return run[first:]

    def _is_merged(self, step: Step) -> bool:
        return any(self.messages[index].kind is Kind.FOLD for index in step.answered) and self.told([step]) > MOST_TOLD
