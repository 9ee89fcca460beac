"""plan(snapshot, budget): which messages to replace, by the cheapest rungs that reach the target.

Rungs of this module: exact repeats become pointers; large tool results become summaries or extracts.
Candidates are taken from the oldest on and nothing before the frontier (the end of the last
replacement) is touched, so one crossing pays for many turns and prompt caches stay warm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from compactor.budget import Budget
from compactor.formats.openai import Call, media_of, text_of
from compactor.history import History, read_history
from compactor.models import Code, Message

LARGE: Final = 400  # tokens; 6-27 % of results hold 24-76 % of tool tokens above it
MEDIUM: Final = 200  # tokens; smaller results are never summarised
KEEP_RESULTS: Final = 3
KEEP_STEPS: Final = 2
HEADER_TOKENS: Final = 50  # allowance for the header of a replacement
POINTER_TOKENS: Final = 60


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A history as one plan sees it; `total` is what a send counts now, fixed part included."""

    messages: Sequence[Message]
    total: int


@dataclass(frozen=True, slots=True)
class Item:
    """One planned replacement: a pointer to the newer repeat, or a summary (`repeat_of` is None)."""

    index: int
    message: Message
    call: Call
    repeat_of: int | None = None

    @property
    def body_tokens(self) -> int:
        """What the body of a summary may cost: 15 % of the source, at least 60, at most 340."""
        return min(340, max(60, self.message.tokens * 15 // 100))

    @property
    def saving(self) -> int:
        """Tokens this item is expected to free."""
        cost = POINTER_TOKENS if self.repeat_of is not None else self.body_tokens + HEADER_TOKENS
        return self.message.tokens - cost


@dataclass(frozen=True, slots=True)
class Plan:
    """What to replace, oldest first; `need` is what must be freed to reach the target."""

    items: tuple[Item, ...]
    need: int
    history: History

    @property
    def last_position(self) -> int:
        return max(item.message.position for item in self.items)


@dataclass(frozen=True, slots=True)
class Nothing:
    """Why there is no plan."""

    code: Code
    reason: str = ""


def plan(
    snapshot: Snapshot,
    budget: Budget,
    *,
    keep_results: int = KEEP_RESULTS,
    target_tokens: int | None = None,
) -> Plan | Nothing:
    """Chooses replacements for a snapshot.

    Below the threshold there is nothing to do, unless `target_tokens` (tokens of the whole send)
    asks for a compaction whatever the threshold says.
    """
    forced = target_tokens is not None
    if snapshot.total < budget.threshold and not forced:
        return Nothing(Code.BELOW_THRESHOLD)
    need = snapshot.total - (budget.target if target_tokens is None else target_tokens)
    if need <= 0:
        reached = Nothing(Code.NOTHING_TO_DO, "the target is already reached")
        return reached if forced else Nothing(Code.EXHAUSTED, "system_and_tools")
    history = read_history([message.value for message in snapshot.messages])
    chosen = _choose(snapshot.messages, history, need, keep_results)
    if not chosen:
        if snapshot.total < budget.threshold:
            return Nothing(Code.NOTHING_TO_DO, "no tool result that may be shortened")
        return Nothing(Code.EXHAUSTED, what_fills(snapshot, budget, history))
    gain = sum(item.saving for item in chosen)
    if not forced and gain < budget.min_reclaim and snapshot.total <= budget.ceiling:
        return Nothing(Code.NO_GAIN, f"would free about {gain} tokens, less than {budget.min_reclaim}")
    return Plan(tuple(chosen), need, history)


def what_fills(snapshot: Snapshot, budget: Budget, history: History) -> str:
    """Names the largest part of a context that nothing can shrink: a fixed word, safe to show."""
    parts = {
        "system_and_tools": budget.fixed,
        "user_and_assistant_text": 0,
        "replacements": 0,
        "recent_or_small_results": 0,
    }
    for index, message in enumerate(snapshot.messages):
        if index < history.leading:
            continue
        if message.replaced:
            parts["replacements"] += message.tokens
        elif history.roles[index] in ("tool", "function"):
            parts["recent_or_small_results"] += message.tokens
        else:
            parts["user_and_assistant_text"] += message.tokens
    return max(parts, key=lambda name: parts[name])


def _choose(messages: Sequence[Message], history: History, need: int, keep_results: int) -> list[Item]:
    """The first set of candidates, cheapest rungs first, that reaches the need; else all there are."""
    candidates = _candidates(messages, history)
    newest = _newest(history, keep_results)
    chosen: list[Item] = []
    for allowed in _rungs(newest):
        chosen = _take(candidates, allowed, need)
        if sum(item.saving for item in chosen) >= need:
            break
    return chosen


def _rungs(newest: frozenset[int]) -> list[Callable[[Item], bool]]:
    return [
        lambda item: item.repeat_of is not None,
        lambda item: item.index not in newest and (item.repeat_of is not None or item.message.tokens > LARGE),
        lambda item: item.index not in newest,
        lambda item: item.index not in newest or item.message.tokens > LARGE,
        lambda _item: True,
    ]


def _take(candidates: Sequence[Item], allowed: Callable[[Item], bool], need: int) -> list[Item]:
    taken: list[Item] = []
    freed = 0
    for item in candidates:
        if freed >= need:
            break
        if allowed(item):
            taken.append(item)
            freed += item.saving
    return taken


def _candidates(messages: Sequence[Message], history: History) -> list[Item]:
    frontier = max((i for i, m in enumerate(messages) if m.replaced), default=-1)
    found: list[Item] = []
    newer: dict[tuple[str, str, str], int] = {}
    for index in range(len(messages) - 1, frontier, -1):
        message = messages[index]
        call = history.call_of(index)
        if call is None:
            continue
        text = text_of(message.value)
        repeat_of = None
        if text and not media_of(message.value):
            repeat_of = newer.setdefault((call.name, call.arguments, text), message.position)
        if history.step_of[index].open or history.is_unread(index) or message.pinned or message.kept:
            continue
        if repeat_of == message.position:
            repeat_of = None
        item = Item(index, message, call, repeat_of)
        if item.saving > 0 and (repeat_of is not None or message.tokens > MEDIUM):
            found.append(item)
    return found[::-1]


def _newest(history: History, keep_results: int) -> frozenset[int]:
    """The newest results, or those of the newest two steps, whichever is more."""
    if keep_results <= 0:
        return frozenset()
    answered = [index for step in history.steps for index in step.answered]
    by_count = sorted(answered)[-keep_results:]
    with_results = [step for step in history.steps if step.answered]
    by_step = [index for step in with_results[-KEEP_STEPS:] for index in step.answered]
    return frozenset(by_count if len(by_count) >= len(by_step) else by_step)
