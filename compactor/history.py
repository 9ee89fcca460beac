"""Reading a history: steps, turns, pairing of calls and results, what is open and what is unread.

Pairing goes by position, since models reuse call ids: a tool message with an id answers, in the
latest assistant message that has an unanswered call of that id, the first such call; one without an
id the next unanswered call of the preceding assistant message; a legacy `function` message the
latest unanswered call of its name. Anything else is an orphan, attached to the assistant message
before it. Indexes count within the list that was read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compactor.formats.openai import RESULT_ROLES, Call, calls, leading_system


@dataclass(slots=True, eq=False)
class Step:
    """An assistant message with its tool results; `results[i]` answers `calls[i]`, or is None.

    `order_of` names the call that a result answers; no call before the order `waits` is open.
    """

    start: int
    calls: tuple[Call, ...]
    results: list[int | None]
    orphans: list[int] = field(default_factory=list[int])
    order_of: dict[int, int] = field(default_factory=dict[int, int])
    waits: int = 0

    @property
    def open(self) -> bool:
        """A call still waits for its result."""
        return len(self.order_of) < len(self.calls)

    @property
    def answered(self) -> list[int]:
        return sorted(self.order_of)

    @property
    def indexes(self) -> list[int]:
        """Every message of the step, orphans behind it included, in order."""
        return sorted([self.start, *self.order_of, *self.orphans])

    def first_open(self) -> int:
        """The order of the first call that waits. Raises IndexError when none does."""
        while self.results[self.waits] is not None:
            self.waits += 1
        return self.waits

    def answer(self, order: int, index: int) -> None:
        self.results[order] = index
        self.order_of[index] = order


@dataclass(frozen=True, slots=True)
class History:
    """The structure of one message list."""

    roles: tuple[str, ...]
    steps: tuple[Step, ...]
    step_of: Mapping[int, Step]
    leading: int
    last_assistant: int
    last_user: int

    def is_unread(self, index: int) -> bool:
        """A result the model has not seen yet: it stands after the last assistant message."""
        return index > self.last_assistant and self.roles[index] in RESULT_ROLES

    def is_orphan(self, index: int) -> bool:
        """A result that answers no call."""
        step = self.step_of.get(index)
        return self.roles[index] in RESULT_ROLES and (step is None or index not in step.order_of)

    def call_of(self, index: int) -> Call | None:
        """The call that the result at `index` answers."""
        step = self.step_of.get(index)
        order = None if step is None else step.order_of.get(index)
        return None if step is None or order is None else step.calls[order]


_Waiting = dict[object, list[tuple[Step, deque[int]]]]  # for each key the steps with calls of it, latest last


def read_history(messages: Sequence[Mapping[str, Any]]) -> History:
    """Reads the structure of a list; any list is read, faults included."""
    roles = tuple(str(message.get("role", "")) for message in messages)
    steps: list[Step] = []
    step_of: dict[int, Step] = {}
    waiting: _Waiting = {}
    for index, message in enumerate(messages):
        if roles[index] == "assistant":
            step = Step(index, found := calls(message), [None] * len(found))
            steps.append(step)
            step_of[index] = step
            orders: dict[object, deque[int]] = {}
            for order, call in enumerate(found):
                orders.setdefault(_key(call, message), deque()).append(order)
            for key, waits in orders.items():
                waiting.setdefault(key, []).append((step, waits))
        elif roles[index] in RESULT_ROLES:
            _answer(index, message, steps, step_of, waiting)
    return History(
        roles=roles,
        steps=tuple(steps),
        step_of=step_of,
        leading=leading_system(messages),
        last_assistant=steps[-1].start if steps else -1,
        last_user=max((i for i, role in enumerate(roles) if role == "user"), default=-1),
    )


def _key(call: Call, message: Mapping[str, Any]) -> object:
    if call.id is not None:
        return call.id
    return ("function", call.name) if message.get("function_call") is not None else None


def _answer(
    index: int,
    message: Mapping[str, Any],
    steps: list[Step],
    step_of: dict[int, Step],
    waiting: _Waiting,
) -> None:
    taken = _take_waiting(message, waiting)
    if taken is None and not message.get("tool_call_id") and steps and steps[-1].open:
        taken = steps[-1], steps[-1].first_open()
    if taken is not None:
        step, order = taken
        step.answer(order, index)
        step_of[index] = step
    elif steps:
        steps[-1].orphans.append(index)
        step_of[index] = steps[-1]


def _take_waiting(message: Mapping[str, Any], waiting: _Waiting) -> tuple[Step, int] | None:
    given = message.get("tool_call_id")
    key: object = None
    if isinstance(given, str) and given:
        key = given
    elif message.get("role") == "function":
        key = ("function", str(message.get("name") or ""))
    if key is None:
        return None
    entries = waiting.get(key, [])
    while entries:
        step, orders = entries[-1]
        while orders:
            order = orders.popleft()
            if step.results[order] is None:  # a result without an id may have answered it
                return step, order
        entries.pop()
    return None
