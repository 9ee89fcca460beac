"""compose(messages, budget): the list that one send gets when the history does not fit the ceiling.

A view is never stored. It leaves out whole old steps; in every gap the first dropped step stays as
carrier, its results holding a fixed sentence of ours; then it shortens the largest unread result,
then leaves out whole oldest turns, last the carriers. System messages, pins, the latest user
message, and what the model has not read stay. Every shortened message is counted again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from compactor.budget import Budget
from compactor.extract import head_and_tail
from compactor.formats.openai import SYSTEM_ROLES, text_of, with_text
from compactor.history import History, Step, read_history
from compactor.models import Fit, Message, recall_id
from compactor.tokens import Encode, count_message
from compactor.wording import Wording, tool_name, wording_for

_SMALLEST_RESULT: Final = 200  # characters that a shortened unread result keeps at least
_SHOWN_IDS: Final = 12
_SHOWN_TOOLS: Final = 6


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a view cuts, by position: steps before `steps`, whole turns before `turns` are left out."""

    steps: int = 0
    turns: int = 0
    carriers: bool = True


NO_CUT: Final = Cut()


@dataclass(frozen=True, slots=True)
class View:
    """What one send gets. `tokens` counts the messages (not the fixed part); `cut` is to be remembered."""

    messages: tuple[Mapping[str, Any], ...]
    tokens: int
    fit: Fit
    cut: Cut
    left_out: int = 0
    stable_until: int = 0


@dataclass(slots=True)
class _Composer:
    """One history, read once; `render` gives its view under a cut."""

    messages: Sequence[Message]
    encode: Encode
    history: History
    wording: Wording
    droppable: list[Step] = field(default_factory=list[Step])
    turn_ends: list[int] = field(default_factory=list[int])
    rendered: dict[tuple[int, str], tuple[Mapping[str, Any], int]] = field(
        default_factory=dict[tuple[int, str], tuple[Mapping[str, Any], int]]
    )

    def render(
        self, cut: Cut, shortened: Mapping[int, tuple[Mapping[str, Any], int]]
    ) -> tuple[list[tuple[int, Mapping[str, Any], int]], int]:
        """The kept messages as (index, message, tokens), and how many were left out."""
        dropped = self._dropped(cut)
        carried = self._carriers(dropped) if cut.carriers else {}
        kept: list[tuple[int, Mapping[str, Any], int]] = []
        for index, message in enumerate(self.messages):
            if index in carried:
                kept.append((index, *carried[index]))
            elif index in dropped:
                continue
            elif index in shortened:
                kept.append((index, *shortened[index]))
            else:
                kept.append((index, message.value, message.tokens))
        return kept, len(dropped)

    def _dropped(self, cut: Cut) -> set[int]:
        steps = {i for step in self.droppable if self._position(step.start) < cut.steps for i in step.indexes}
        turns = {
            index
            for index in range(len(self.messages))
            if self._position(index) < cut.turns and self._may_leave_with_turn(index)
        }
        return steps | turns

    def _may_leave_with_turn(self, index: int) -> bool:
        step = self.history.step_of.get(index)
        if step is not None and step not in self.droppable:
            return False
        return (
            self.history.roles[index] not in SYSTEM_ROLES
            and index != self.history.last_user
            and not self.messages[index].pinned
        )

    def _carriers(self, dropped: set[int]) -> dict[int, tuple[Mapping[str, Any], int]]:
        """For each gap (a run of dropped steps with nothing kept between) the first step with a call."""
        carried: dict[int, tuple[Mapping[str, Any], int]] = {}
        gap: list[Step] = []
        for step in [*self.droppable, None]:
            if step is not None and not set(step.indexes) <= dropped:
                continue
            if step is None or (gap and self._is_interrupted(gap[-1].start, step.start, dropped)):
                carried.update(self._carry(gap))
                gap = []
            if step is not None:
                gap.append(step)
        return carried

    def _is_interrupted(self, start: int, end: int, dropped: set[int]) -> bool:
        return any(index not in dropped for index in range(start, end))

    def _carry(self, gap: list[Step]) -> dict[int, tuple[Mapping[str, Any], int]]:
        if not gap:
            return {}
        carrier = next((step for step in gap if step.calls and not step.open), None)
        if carrier is None:
            last = gap[-1].start
            return {last: (self.messages[last].value, self.messages[last].tokens)}
        sentence = self._sentence(gap)
        carried = {carrier.start: (self.messages[carrier.start].value, self.messages[carrier.start].tokens)}
        for order, index in enumerate(carrier.answered):
            mark = sentence if order == 0 else self.wording.left_out.format(id=recall_id(self._position(index)))
            carried[index] = self._with_text(index, mark)
        return carried

    def _sentence(self, gap: list[Step]) -> str:
        tools: dict[str, int] = {}
        for step in gap:
            for call in step.calls:
                name = tool_name(call.name)
                tools[name] = tools.get(name, 0) + 1
        results = [index for step in gap for index in step.answered]
        ids = [recall_id(self._position(index)) for index in results]
        shown = ids if len(ids) <= _SHOWN_IDS else [*ids[: _SHOWN_IDS - 1], "…", ids[-1]]
        names = [f"{name} x{count}" if count > 1 else name for name, count in list(tools.items())[:_SHOWN_TOOLS]]
        return self.wording.gap.format(
            messages=sum(len(step.indexes) for step in gap),
            calls=sum(tools.values()),
            tools=", ".join(names + (["…"] if len(tools) > _SHOWN_TOOLS else [])),
            ids=", ".join(shown),
        )

    def _with_text(self, index: int, text: str) -> tuple[Mapping[str, Any], int]:
        """A result holding other text, unless the original is no larger; counted anew."""
        if (index, text) not in self.rendered:
            value = with_text(self.messages[index].value, text)
            tokens = count_message(value, self.encode)
            original = self.messages[index]
            smaller = tokens < original.tokens
            self.rendered[index, text] = (value, tokens) if smaller else (original.value, original.tokens)
        return self.rendered[index, text]

    def _position(self, index: int) -> int:
        return self.messages[index].position


def compose(
    messages: Sequence[Message], budget: Budget, encode: Encode, *, beside: int, cut: Cut | None = None
) -> View:
    """The list for one send: the history itself when it fits, else a view that fits the ceiling.

    `beside` counts the tokens sent beside these messages. A remembered `cut` is
    used as long as its view still fits, so that the sent prefix stays the same. The fit is
    `impossible` when even the smallest valid list exceeds the ceiling; that list is returned.
    """
    total = sum(message.tokens for message in messages)
    if beside + total <= budget.ceiling:
        return View(tuple(m.value for m in messages), total, Fit.FITS, NO_CUT, stable_until=settled(messages))
    composer = _read(messages, encode)
    return _search(composer, budget.ceiling - beside, budget.target - beside, cut)


def settled(messages: Sequence[Message]) -> int:
    """How many messages from the first on no later compaction will change: up to the frontier."""
    frontier = max((index for index, message in enumerate(messages) if message.replaced), default=-1)
    leading = next((i for i, message in enumerate(messages) if message.role not in SYSTEM_ROLES), len(messages))
    return max(frontier + 1, leading)


def _read(messages: Sequence[Message], encode: Encode) -> _Composer:
    history = read_history([message.value for message in messages])
    sample = next((text_of(m.value) for m in messages if m.role == "user"), "")
    composer = _Composer(messages, encode, history, wording_for(sample))
    composer.droppable = [step for step in history.steps if _is_droppable(step, history, messages)]
    composer.turn_ends = [i for i, role in enumerate(history.roles) if role == "user" and i > 0]
    return composer


def _is_droppable(step: Step, history: History, messages: Sequence[Message]) -> bool:
    """Not the newest step, nothing unread, nothing pinned, no call that may still be answered."""
    if step.start == history.last_assistant and (history.last_user < step.start or step.open or step.answered):
        return False
    if step.open and step.start > history.last_user:
        return False
    return not any(history.is_unread(index) or messages[index].pinned for index in step.indexes)


def _search(composer: _Composer, room: int, target: int, remembered: Cut | None) -> View:
    if remembered is not None and remembered != NO_CUT:
        kept, left_out = composer.render(remembered, {})
        if _tokens(kept) <= room:
            return _view(composer, kept, Fit.SHORTENED, remembered, left_out)
    steps = _lowest(
        composer,
        [Cut(steps=composer.messages[step.start].position + 1) for step in composer.droppable],
        min(room, target),
    )
    kept, left_out = composer.render(steps, {})
    if _tokens(kept) <= room:
        return _view(composer, kept, Fit.SHORTENED, steps, left_out)
    shortened = _shorten_unread(composer, kept, room)
    kept, left_out = composer.render(steps, shortened)
    if _tokens(kept) <= room:
        return _view(composer, kept, Fit.SHORTENED, steps, left_out)
    return _drop_turns(composer, steps, shortened, room)


def _drop_turns(
    composer: _Composer, steps: Cut, shortened: Mapping[int, tuple[Mapping[str, Any], int]], room: int
) -> View:
    ends = [composer.messages[index].position for index in composer.turn_ends if index <= composer.history.last_user]
    last = ends[-1] if ends else 0
    cuts = [Cut(steps.steps, end) for end in ends] + [Cut(steps.steps, last, carriers=False)]
    for candidate in cuts:
        kept, left_out = composer.render(candidate, shortened)
        if _tokens(kept) <= room:
            return _view(composer, kept, Fit.SHORTENED, candidate, left_out)
    kept, left_out = composer.render(cuts[-1], shortened)
    return _view(composer, kept, Fit.IMPOSSIBLE, cuts[-1], left_out)


def _lowest(composer: _Composer, cuts: Sequence[Cut], room: int) -> Cut:
    """The first cut whose view fits, found by bisection; else the last one."""
    if not cuts:
        return NO_CUT
    low, high = 0, len(cuts) - 1
    while low < high:
        middle = (low + high) // 2
        if _tokens(composer.render(cuts[middle], {})[0]) <= room:
            high = middle
        else:
            low = middle + 1
    return cuts[low]


def _shorten_unread(
    composer: _Composer, kept: Sequence[tuple[int, Mapping[str, Any], int]], room: int
) -> dict[int, tuple[Mapping[str, Any], int]]:
    """Unread results as head and tail, the largest first, each only as far as needed."""
    excess = _tokens(kept) - room
    unread = [index for index, _, _ in kept if composer.history.is_unread(index)]
    shortened: dict[int, tuple[Mapping[str, Any], int]] = {}
    for index in sorted(unread, key=lambda i: -composer.messages[i].tokens):
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
    best: tuple[Mapping[str, Any], int] = message.value, message.tokens
    chars = int(len(text) * max(0.0, wanted / max(1, message.tokens)))
    while True:
        chars = max(_SMALLEST_RESULT, min(chars, len(text)))
        mark = wording_for(text).cut.format(cut=len(text) - chars, id=recall_id(message.position))
        value = with_text(message.value, head_and_tail(text, chars=chars, mark=mark))
        tokens = count_message(value, composer.encode)
        if tokens < best[1]:
            best = value, tokens
        if tokens <= wanted or chars == _SMALLEST_RESULT:
            return best
        chars = min(chars - 1, int(chars * 0.8))


def _view(
    composer: _Composer, kept: Sequence[tuple[int, Mapping[str, Any], int]], fit: Fit, cut: Cut, left_out: int
) -> View:
    same = next(
        (
            order
            for order, (index, value, _) in enumerate(kept)
            if index != order or value is not composer.messages[order].value
        ),
        len(kept),
    )
    stable = min(same, settled(composer.messages))
    return View(tuple(value for _, value, _ in kept), _tokens(kept), fit, cut, left_out, stable)


def _tokens(kept: Sequence[tuple[int, Mapping[str, Any], int]]) -> int:
    return sum(tokens for _, _, tokens in kept)
