"""compose(messages, budget): the list that one send gets when the history does not fit the ceiling.

A view is never stored. It leaves out whole old steps; in every gap the first dropped step stays as
carrier, its results holding a fixed sentence of ours; then it shortens the largest unread result,
then leaves out whole oldest turns, last the carriers. System messages, pins, the latest user
message, and what the model has not read stay; so does what rules and pinned phrases protect, as long
as the rest can be made to fit. Every shortened message is counted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from compactor.budget import Budget
from compactor.carriers import carrier_of, gap_sentence
from compactor.extract import head_and_tail
from compactor.folded import folds_among
from compactor.formats.openai import (
    RESULT_ROLES,
    SYSTEM_ROLES,
    holds_results,
    leading_system,
    media_of,
    text_of,
    with_text,
)
from compactor.history import History, Step, read_history
from compactor.models import Fit, Message, recall_id
from compactor.protection import UNPROTECTED, Protection
from compactor.tally import NOTHING, Tally
from compactor.tokens import Encode, count_message
from compactor.wording import wording_beside, wording_for

_SMALLEST_RESULT: Final = 200  # characters that a shortened unread result keeps at least


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a view cuts, by position: steps before `steps`, whole turns before `turns` are left out.

    `spared` names the steps before the cut that could not leave when it was made (unread, open):
    they stay for as long as the cut does, so that the prefix does.
    """

    steps: int = 0
    turns: int = 0
    carriers: bool = True
    spared: frozenset[int] = frozenset()


NO_CUT: Final = Cut()


@dataclass(frozen=True, slots=True)
class View:
    """What one send gets. `tokens` counts the messages (not the fixed part); `cut` is to be remembered.

    `shortened` are the results among the messages that were cut to head and tail.
    """

    messages: tuple[Mapping[str, Any], ...]
    tokens: int
    fit: Fit
    cut: Cut
    left_out: int = 0
    stable_until: int = 0
    shortened: tuple[Mapping[str, Any], ...] = ()


Row = tuple[int, Mapping[str, Any], int]  # index in the history, message, tokens
Shown = Mapping[int, tuple[Mapping[str, Any], int]]


class _Composer:
    """One history, read once; `render` gives its view under a cut."""

    def __init__(self, messages: Sequence[Message], encode: Encode, *, keep_rows: bool = False) -> None:
        self.messages = messages
        self.keep_rows = keep_rows
        self.encode = encode
        self.history: History = read_history([message.value for message in messages])
        self.wording = wording_for(next((text_of(m.value) for m in messages if m.role == "user"), ""))
        self.told_by = self._fold_members()
        self.droppable = self._droppable()
        self._leaving = {step.start for step in self.droppable}
        self._indexes = [step.indexes for step in self.droppable]
        self._leaves_with_turn = self._turn_leavers()
        self._sentences: dict[tuple[int, int], dict[int, tuple[Mapping[str, Any], int]]] = {}

    def position(self, index: int) -> int:
        return self.messages[index].position

    def render(self, cut: Cut, shortened: Shown) -> list[Row]:
        """The kept messages under a cut."""
        dropped = self._dropped(cut)
        carried = self._carriers(cut, dropped) if cut.carriers else {}
        return [
            (index, *(carried.get(index) or shortened.get(index) or (message.value, message.tokens)))
            for index, message in enumerate(self.messages)
            if not message.folded and (not dropped[index] or index in carried)
        ]

    def _fold_members(self) -> dict[int, int]:
        """For each step that a fold tells of: the step that carries the fold, both by their first message."""
        step_of = self.history.step_of
        return {
            step_of[index].start: step_of[fold.carriers[0]].start
            for fold in folds_among([message.kind for message in self.messages])
            for index in fold.hidden
            if index in step_of and fold.carriers[0] in step_of
        }

    def _droppable(self) -> list[Step]:
        """The steps that may leave; those of one fold leave together or stay."""
        found = [step for step in self.history.steps if self._is_droppable(step)]
        if not self.told_by:
            return found
        starts = {step.start for step in found}
        bound = {carrier for start, carrier in self.told_by.items() if start not in starts}
        bound |= {carrier for carrier in self.told_by.values() if carrier not in starts}
        return [step for step in found if self.told_by.get(step.start, step.start) not in bound]

    def _is_droppable(self, step: Step) -> bool:
        """Not the newest step, nothing unread, nothing pinned, no call that may still be answered."""
        history = self.history
        newest = step.start == history.last_assistant
        if newest and (history.last_user < step.start or step.open or step.answered):
            return False
        if step.open and (self.keep_rows or step.start > history.last_user):
            return False
        if step.orphans and self.keep_rows:
            return False
        if any(history.roles[index] not in RESULT_ROLES for index in range(step.start + 1, max(step.indexes))):
            return False  # a late answer: its place could hold no sentence that is known again behind its call
        after = step.start + 1
        if after < len(self.messages) and after not in history.step_of and holds_results(self.messages[after].value):
            return False  # what the call's answer stands in, the user's message, stays too
        return not any(history.is_unread(index) or self.messages[index].pinned for index in step.indexes)

    def _turn_leavers(self) -> bytearray:
        """Marks the messages outside of steps that may leave with their turn: user messages but the latest."""
        history = self.history
        leaves = bytearray(len(self.messages))
        for index, role in enumerate(history.roles):
            if index not in history.step_of and role not in SYSTEM_ROLES:
                message = self.messages[index]
                stays = index == history.last_user or message.pinned or history.is_unread(index)
                stays = stays or holds_results(message.value)
                leaves[index] = not stays
        return leaves

    def sparing(self, cut: Cut) -> Cut:
        """The cut with the steps before it that cannot leave now."""
        end = max(cut.steps, cut.turns)
        starts = [step.start for step in self.history.steps if step.start not in self._leaving]
        return replace(cut, spared=frozenset(p for start in starts if (p := self.position(start)) < end))

    def shortenable(self, index: int) -> bool:
        """A result that stays whatever the cut: unread, or of a step that cannot leave."""
        step = self.history.step_of.get(index)
        if self.history.roles[index] not in RESULT_ROLES or self.messages[index].pinned:
            return False
        return step is None or step.start not in self._leaving

    def _dropped(self, cut: Cut) -> bytearray:
        dropped = bytearray(len(self.messages))
        for step, indexes in zip(self.droppable, self._indexes, strict=True):
            position = self.position(step.start)
            if position >= max(cut.steps, cut.turns):
                break
            if position not in cut.spared:
                for index in indexes:
                    dropped[index] = 1
        for start, carrier in self.told_by.items():
            for index in self.history.step_of[start].indexes:
                dropped[index] = dropped[carrier]
        for index in range(len(self.messages)):  # a late answer stands behind its call, out of the order of positions
            if self._leaves_with_turn[index] and self.position(index) < cut.turns:
                dropped[index] = 1
        return dropped

    def _carriers(self, cut: Cut, dropped: bytearray) -> dict[int, tuple[Mapping[str, Any], int]]:
        """For each gap (a run of dropped steps with nothing kept between) what carries it."""
        carried: dict[int, tuple[Mapping[str, Any], int]] = {}
        first: int | None = None
        for order, step in enumerate(self.droppable):
            position = self.position(self.told_by.get(step.start, step.start))
            if position >= cut.steps:
                break
            if position < cut.turns or not dropped[step.start]:
                continue
            if first is None:
                first = order
            following = self.droppable[order + 1].start if order + 1 < len(self.droppable) else len(self.messages)
            ends = following == len(self.messages) or not dropped[following]
            ends = ends or (self.keep_rows and following not in self.told_by)  # what a fold tells of has no row to keep
            if ends or not all(dropped[step.start : following]):
                carried.update(self._carry(first, order))
                first = None
        return carried

    def _carry(self, first: int, last: int) -> dict[int, tuple[Mapping[str, Any], int]]:
        """The gap from one droppable step to another: its first step with calls, holding a sentence of ours."""
        known = self._sentences.get((first, last))
        if known is None:
            known = self._sentences[first, last] = self._written(self.droppable[first : last + 1])
        return known

    def _written(self, gap: Sequence[Step]) -> dict[int, tuple[Mapping[str, Any], int]]:
        carrier = carrier_of(gap)
        if carrier is None:
            text = next((step for step in reversed(gap) if not step.calls), None)
            return {} if text is None else {text.start: self._as_is(text.start)}
        carried = {carrier.start: self._as_is(carrier.start)}
        for index in carrier.answered:
            carried[index] = self._with_text(index, self.wording.left_out.format(id=recall_id(self.position(index))))
        holder = max(carrier.answered, key=lambda index: self.messages[index].tokens)
        # Where messages are missing it is said, even where that costs more than the small result it replaces.
        carried[holder] = self._with_text(holder, gap_sentence(gap, self.position, self.wording), always=len(gap) > 1)
        return carried

    def _as_is(self, index: int) -> tuple[Mapping[str, Any], int]:
        return self.messages[index].value, self.messages[index].tokens

    def _with_text(self, index: int, text: str, *, always: bool = False) -> tuple[Mapping[str, Any], int]:
        """A result holding other text, unless the original is no larger; counted anew."""
        value = with_text(self.messages[index].value, text)
        tokens = count_message(value, self.encode)
        return (value, tokens) if always or tokens < self.messages[index].tokens else self._as_is(index)


def compose(
    messages: Sequence[Message],
    budget: Budget,
    encode: Encode,
    *,
    beside: int,
    cut: Cut | None = None,
    protection: Protection = UNPROTECTED,
    keep_rows: bool = False,
    tally: Tally | None = None,
) -> View:
    """The list for one send: the history itself when it fits, else a view that fits the ceiling.

    `beside` counts the tokens sent beside these messages. A remembered `cut` is
    used as long as its view still fits, so that the sent prefix stays the same. The fit is
    `impossible` when even the smallest valid list exceeds the ceiling; that list is returned. With
    `keep_rows` old results leave and no message does. `tally` is that of the messages, where it is known.
    """
    whole = NOTHING.after(messages) if tally is None else tally
    if beside + whole.tokens <= budget.ceiling:
        return View(whole.shown, whole.tokens, Fit.FITS, NO_CUT, stable_until=whole.settled)
    room, target = budget.ceiling - beside, budget.target - beside
    composer = _Composer(messages, encode, keep_rows=keep_rows)
    for protected in protection.indexes(messages, composer.history):
        staying = [replace(m, pinned=True) if i in protected else m for i, m in enumerate(messages)]
        view = _search(_Composer(staying, encode, keep_rows=keep_rows), room, target, cut)
        if view.fit is not Fit.IMPOSSIBLE:
            return view
    return _search(composer, room, target, cut)


def settled(messages: Sequence[Message]) -> int:
    """How many messages from the first on no later compaction will change: up to the frontier."""
    frontier = max((index for index, message in enumerate(messages) if message.replaced), default=-1)
    return max(frontier + 1, leading_system(message.value for message in messages))


def _search(composer: _Composer, room: int, target: int, remembered: Cut | None) -> View:
    if remembered is not None and remembered != NO_CUT:
        kept = composer.render(remembered, {})
        if _tokens(kept) <= room:
            return _view(composer, kept, Fit.SHORTENED, remembered)
    ends = [composer.position(step.start) + 1 for step in composer.droppable if step.start not in composer.told_by]
    steps = _lowest(composer, [Cut(steps=end) for end in ends], min(room, target), {})
    kept = composer.render(steps, {})
    if _tokens(kept) <= room:
        return _view(composer, kept, Fit.SHORTENED, composer.sparing(steps))
    shortened = _shorten_results(composer, kept, room)
    cut = _lowest(composer, [steps, *_turn_cuts(composer, steps)], room, shortened)
    kept = composer.render(cut, shortened)
    fit = Fit.SHORTENED if _tokens(kept) <= room else Fit.IMPOSSIBLE
    view = _view(composer, kept, fit, composer.sparing(cut))
    return replace(view, shortened=tuple(value for value, _ in shortened.values()))


def _turn_cuts(composer: _Composer, steps: Cut) -> list[Cut]:
    """Ever more whole turns left out, at last the carriers of the turn that stays."""
    if composer.keep_rows:
        return []
    users = [index for index, role in enumerate(composer.history.roles) if role == "user" and index > 0]
    starts = [composer.position(index) for index in users]
    return [
        *(Cut(steps.steps, start) for start in starts),
        Cut(steps.steps, starts[-1] if starts else 0, carriers=False),
    ]


def _lowest(composer: _Composer, cuts: Sequence[Cut], room: int, shortened: Shown) -> Cut:
    """The first cut whose view fits, found by bisection; else the last one."""
    if not cuts:
        return NO_CUT
    low, high = 0, len(cuts) - 1
    while low < high:
        middle = (low + high) // 2
        if _tokens(composer.render(cuts[middle], shortened)) <= room:
            high = middle
        else:
            low = middle + 1
    return cuts[low]


def _shorten_results(composer: _Composer, kept: Sequence[Row], room: int) -> dict[int, tuple[Mapping[str, Any], int]]:
    """Results that cannot leave as head and tail, the largest first, each only as far as needed."""
    excess = _tokens(kept) - room
    staying = [index for index, _, _ in kept if composer.shortenable(index)]
    shortened: dict[int, tuple[Mapping[str, Any], int]] = {}
    for index in sorted(staying, key=lambda i: -composer.messages[i].tokens):
        if excess <= 0:
            break
        value, tokens = _shorten(composer, index, composer.messages[index].tokens - excess)
        if tokens < composer.messages[index].tokens:
            shortened[index] = value, tokens
            excess -= composer.messages[index].tokens - tokens
    return shortened


def _shorten(composer: _Composer, index: int, wanted: int) -> tuple[Mapping[str, Any], int]:
    """The result at `index` cut to about `wanted` tokens, never below _SMALLEST_RESULT characters."""
    message = composer.messages[index]
    text = text_of(message.value)
    words = wording_beside(text, composer.wording)
    media = media_of(message.value)
    note = words.media.format(count=media) + "\n" if media else ""
    if len(text) <= _SMALLEST_RESULT and not media:
        return message.value, message.tokens
    best: tuple[Mapping[str, Any], int] = message.value, message.tokens
    chars = int(len(text) * max(0.0, wanted / max(1, message.tokens)))
    while True:
        chars = min(len(text), max(_SMALLEST_RESULT, chars))
        mark = words.cut.format(cut=len(text) - chars, id=recall_id(message.position))
        short = text if chars >= len(text) else head_and_tail(text, chars=chars, mark=mark)
        value = with_text(message.value, (note + short).rstrip("\n"))
        tokens = count_message(value, composer.encode)
        if tokens < best[1]:
            best = value, tokens
        if tokens <= wanted or chars <= _SMALLEST_RESULT:
            return best
        chars = min(chars - 1, int(chars * 0.8))


def _view(composer: _Composer, kept: Sequence[Row], fit: Fit, cut: Cut) -> View:
    shown = [index for index, message in enumerate(composer.messages) if not message.folded]
    same = next(
        (
            order
            for order, (index, value, _) in enumerate(kept)
            if index != shown[order] or value is not composer.messages[index].value
        ),
        len(kept),
    )
    return View(
        messages=tuple(value for _, value, _ in kept),
        tokens=_tokens(kept),
        fit=fit,
        cut=cut,
        left_out=len(shown) - len(kept),
        stable_until=min(same, settled([composer.messages[index] for index in shown])),
    )


def _tokens(kept: Sequence[Row]) -> int:
    return sum(tokens for _, _, tokens in kept)
