"""plan(snapshot, budget): which messages to replace, by the cheapest rungs that reach the target.

Exact repeats become pointers, above the ceiling also results that the same call gave anew; then results lose
their form and no information; then large ones become summaries or extracts; then long arguments of old
calls are elided; then whole steps become folds. Candidates are taken from the oldest on and
nothing before the frontier (the end of the last replacement) is touched, so one crossing pays for many
turns and prompt caches stay warm. A message is replaced once: what was condensed stays condensed, until
a fold, made from originals, is all that is left. Pins and rules say what stays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from compactor.arguments import left_out
from compactor.budget import Budget
from compactor.condense import condense
from compactor.folds import Fold, foldable, mergeable
from compactor.formats.openai import Call, media_of, raw_arguments, text_of
from compactor.history import History, read_history
from compactor.models import Code, Kind, Message
from compactor.plans import Item, Nothing, Plan, Snapshot
from compactor.recall_tool import recalled_from
from compactor.repeats import repeats, superseded
from compactor.rules import FREE, How, joined
from compactor.staying import keep_arguments, staying, treatments, unfoldable

__all__ = ["Item", "Nothing", "Plan", "Snapshot", "plan"]

LARGE: Final = 400  # tokens; 6-27 % of results hold 24-76 % of tool tokens above it
MEDIUM: Final = 200  # tokens; smaller results are never summarised
KEEP_RESULTS: Final = 3
KEEP_STEPS: Final = 2
LARGEST_CONDENSED: Final = 0.75  # of its source: what frees less stays for a summary
NEARLY: Final = 0.9  # of what may be freed
SLACK: Final = 50  # part of the need that is planned beyond it: written texts free up to 2 % less than planned
SMALL_CONDENSED: Final = 400  # tokens: no larger than a summary may be
MARK_TOKENS: Final = 40  # allowance for the mark in an elided string


def plan(
    snapshot: Snapshot,
    budget: Budget,
    *,
    keep_results: int = KEEP_RESULTS,
    target_tokens: int | None = None,
    keep_rows: bool = False,
) -> Plan | Nothing:
    """Chooses replacements for a snapshot.

    Below the threshold there is nothing to do, unless `target_tokens` (tokens of the whole send)
    asks for a compaction whatever the threshold says. With `keep_rows` nothing is folded; without the
    snapshot's originals nothing that was replaced before is.
    """
    forced = target_tokens is not None
    if snapshot.total < budget.threshold and not forced:
        return Nothing(Code.BELOW_THRESHOLD)
    need = snapshot.total - (budget.target if target_tokens is None else target_tokens)
    if need <= 0:
        reached = Nothing(Code.NOTHING_TO_DO, "the target is already reached")
        return reached if forced else Nothing(Code.EXHAUSTED, "system_and_tools")
    history = read_history([message.value for message in snapshot.messages])
    over = snapshot.total > budget.ceiling
    chosen = _choose(snapshot, history, need, keep_results, budget, keep_rows=keep_rows)
    if not chosen:
        if snapshot.total < budget.threshold:
            return Nothing(Code.NOTHING_TO_DO, "no tool result that may be shortened")
        return Nothing(Code.EXHAUSTED, what_fills(snapshot, budget, history))
    gain = _freed(chosen)
    if not forced and gain < budget.min_reclaim and not over:
        return Nothing(Code.NO_GAIN, f"would free about {gain} tokens, less than {budget.min_reclaim}")
    last = max(index for item in chosen for index in item.indexes)
    return Plan(tuple(chosen), need, history, snapshot.messages[last].position)


def what_fills(snapshot: Snapshot, budget: Budget, history: History) -> str:
    """Names the largest part of a context that nothing can shrink: a fixed word, safe to show."""
    parts = {
        "system_and_tools": budget.fixed,
        "user_and_assistant_text": 0,
        "replacements": 0,
        "recent_or_small_results": 0,
        "pins_and_rules": 0,
    }
    treated = treatments(snapshot.rules, history, range(len(snapshot.messages)))
    for index, message in enumerate(snapshot.messages):
        if index < history.leading:
            continue
        if message.pinned or treated.get(index, FREE).how is How.NEVER:
            parts["pins_and_rules"] += message.tokens
        elif message.replaced:
            parts["replacements"] += message.tokens
        elif history.roles[index] in ("tool", "function"):
            parts["recent_or_small_results"] += message.tokens
        else:
            parts["user_and_assistant_text"] += message.tokens
    return max(parts, key=lambda name: parts[name])


def unread_tokens(snapshot: Snapshot) -> int:
    """Tokens of large results that wait to be read, and of their calls: the next reply makes them candidates."""
    history = read_history([message.value for message in snapshot.messages])
    unread = {index for index in range(len(snapshot.messages)) if history.is_unread(index)}
    called = {history.step_of[index].start for index in unread if index in history.step_of}
    waiting = [snapshot.messages[index].tokens for index in unread | called]
    return sum(tokens for tokens in waiting if tokens > LARGE)


def _choose(
    snapshot: Snapshot, history: History, need: int, keep_results: int, budget: Budget, *, keep_rows: bool
) -> list[Item]:
    """The first set of candidates, cheapest rungs first, that reaches the need; else all there are.

    Where folds are needed, the newest results stay whole as long as folds of older steps suffice, and older folds stay
    as they are as long as anything else does. Where nothing reaches the need, what keeps everything is taken if it
    frees nearly as much.
    """
    candidates = list(_candidates(snapshot, history, over=snapshot.total > budget.ceiling))
    aim = need + need // SLACK
    newest = _newest(history, keep_results)
    gentler, last = _rungs(newest)
    chosen: list[Item] = []
    for rung in [*gentler, *last]:
        chosen = _take(candidates, rung, aim)
        if _freed(chosen) >= need:
            return chosen
    if not keep_rows:

        def beside(old: Sequence[Item]) -> list[Item]:
            taken = {index for item in old for index in item.indexes}
            left = [one for one in candidates if one.index in newest and one.index not in taken]
            found = list(old)
            for rung in [_nothing, *last, _whatever]:
                if rung is _whatever and snapshot.total - _freed(found) < budget.threshold:
                    break
                found = sorted([*old, *_take(left, rung, aim - _freed(old))], key=lambda item: item.index)
                if _freed(found) >= need:
                    break
            return found

        folding = _Folding(snapshot, history, newest)
        old = folding.added(folding.folds(), _take(candidates, gentler[-1], aim), aim)
        chosen = beside(old)
        if _freed(chosen) < need:
            merged = beside(folding.added(folding.merges(), old, aim))
            chosen = merged if _is_worth_it(snapshot.total, chosen, merged, budget) else chosen
        if _freed(chosen) >= need:
            return chosen
    gentle = _take(candidates, lambda one: one.pointer or one.small(), need)
    return gentle if _freed(gentle) >= NEARLY * _freed(chosen) else chosen


def _is_worth_it(total: int, without: Sequence[Item], merged: Sequence[Item], budget: Budget) -> bool:
    """Whether merged folds free as much more as pays for the prompt cache they cost, or spare a send the view."""
    before, after = total - _freed(without), total - _freed(merged)
    return before - after >= budget.min_reclaim or after <= budget.ceiling < before


class _Folding:
    """The folds that a snapshot allows."""

    def __init__(self, snapshot: Snapshot, history: History, newest: frozenset[int]) -> None:
        self._snapshot, self._history, self._newest = snapshot, history, newest
        messages = snapshot.messages
        self._treated = treatments(snapshot.rules, history, range(len(messages)))
        self._kept = unfoldable(messages, history, self._treated, snapshot.rules, snapshot.phrases)

    def folds(self) -> Iterator[list[Fold]]:
        """Folds of steps that are in none."""
        snapshot = self._snapshot
        return foldable(snapshot.messages, self._history, self._newest | self._kept, snapshot.originals)

    def merges(self) -> Iterator[list[Fold]]:
        """Folds of folds; none without originals, or where a rule keeps lines: skeletons do not say of which calls."""
        messages, originals = self._snapshot.messages, self._snapshot.originals
        if originals is None or self._snapshot.rules.any_keep_errors:
            return iter(())
        newest = {index for index in self._newest if messages[index].kind not in (Kind.FOLD, Kind.FOLDED)}
        return mergeable(messages, self._history, self._kept | newest, originals)

    def added(self, folds: Iterable[Sequence[Fold]], items: Sequence[Item], need: int) -> list[Item]:
        """The items, with as many and as long folds in the place of some as the need takes, the oldest first."""
        chosen, freed = {item.index: item for item in items}, _freed(items)
        for lengths in folds:
            if freed >= need:
                break
            saved = {index: item.saving for index, item in chosen.items()}
            gains = [fold.saving - sum(saved.get(index, 0) for index in fold.indexes) for fold in lengths]
            order = next((order for order, gain in enumerate(gains) if freed + gain >= need), len(gains) - 1)
            if gains[order] > 0:
                fold = lengths[order]
                replaced = fold.indexes  # a fold among the items is in none of these, or all of it
                chosen = {index: item for index, item in chosen.items() if index not in replaced}
                chosen[fold.holder] = self._item(fold)
                freed += gains[order]
        return [chosen[index] for index in sorted(chosen)]

    def _item(self, fold: Fold) -> Item:
        call = self._history.call_of(fold.holder)
        assert call is not None, "the holder answers a call"
        strictest = joined([self._treated[index] for index in fold.indexes if index in self._treated])
        if fold.merges:  # chosen lines of what was told before: a summary of summaries loses half with each round
            strictest = replace(strictest, how=How.EXTRACT)
        return Item(fold.holder, self._snapshot.messages[fold.holder], call, treatment=strictest, fold=fold)


def _freed(items: Sequence[Item]) -> int:
    return sum(item.saving for item in items)


@dataclass(slots=True)
class _Candidate:
    """A result that may be replaced, in the forms that it can take, or a message whose arguments may be elided."""

    item: Item
    pointer: Item | None = None
    _condensed: list[Item | None] = field(default_factory=list[Item | None])

    @property
    def index(self) -> int:
        return self.item.index

    @property
    def tokens(self) -> int:
        return self.item.message.tokens

    def condensed(self) -> Item | None:
        """The result in its condensed form, made when first asked for; None where it gains too little."""
        if not self._condensed:
            self._condensed.append(self._condense())
        return self._condensed[0]

    def _condense(self) -> Item | None:
        value = self.item.message.value
        text = (
            text_of(value)
            if self.summary() and not media_of(value) and self.item.treatment.how is not How.SUMMARIZE
            else ""
        )
        shorter = condense(text) if text else None
        item = None if shorter is None else replace(self.item, condensed=shorter)
        return item if item is not None and item.cost <= LARGEST_CONDENSED * self.tokens else None

    def elided(self) -> Item | None:
        """The message with its long arguments elided."""
        return self.item if self.item.elided else None

    def summary(self) -> Item | None:
        return self.item if self.tokens > MEDIUM and not self.item.elided else None

    def small(self) -> Item | None:
        """What keeps most in the size of a summary."""
        condensed = self.condensed()
        return condensed if condensed is not None and condensed.cost <= SMALL_CONDENSED else self.summary()

    def smallest(self) -> Item | None:
        """What frees most; the condensed form where it frees as much as a summary."""
        condensed = self.condensed()
        return condensed if condensed is not None and condensed.cost <= self.item.cost else self.summary()


_Rung = Callable[[_Candidate], Item | None]


def _rungs(newest: frozenset[int]) -> tuple[list[_Rung], list[_Rung]]:
    """The rungs before folds, and those beside them; `newest` are messages that stay, results only while older
    ones can be had.
    """

    def old(candidate: _Candidate) -> bool:
        return candidate.index not in newest

    def large(candidate: _Candidate) -> bool:
        return candidate.tokens > LARGE

    def elided(candidate: _Candidate) -> Item | None:
        return candidate.elided() if old(candidate) else None

    gentler: list[_Rung] = [
        lambda one: one.pointer,
        lambda one: one.pointer or (one.condensed() if old(one) else None),
        lambda one: one.pointer or (one.small() if old(one) and large(one) else None),
        lambda one: one.pointer or (one.small() if old(one) else None),
        lambda one: one.pointer or (one.smallest() if old(one) else None),
        lambda one: one.pointer or (one.smallest() if old(one) else None) or elided(one),
    ]
    last: list[_Rung] = [
        lambda one: one.pointer or (one.smallest() if old(one) or large(one) else None) or elided(one),
        lambda one: one.pointer or one.smallest() or elided(one),
    ]
    return gentler, last


def _nothing(_candidate: _Candidate) -> Item | None:
    return None


def _whatever(candidate: _Candidate) -> Item | None:
    """Also the arguments of the newest calls: where all else leaves a history over its threshold, a view comes next."""
    return candidate.pointer or candidate.smallest() or candidate.elided()


def _take(candidates: Sequence[_Candidate], rung: _Rung, need: int) -> list[Item]:
    taken: list[Item] = []
    freed = 0
    for candidate in candidates:
        if freed >= need:
            break
        item = rung(candidate)
        if item is not None and item.saving > 0:
            taken.append(item)
            freed += item.saving
    return taken


def _candidates(snapshot: Snapshot, history: History, *, over: bool) -> Iterator[_Candidate]:
    """What may be replaced, from the oldest on: behind the frontier, read, answered, neither pinned nor kept.

    Results, and the messages of calls with long arguments.
    """
    messages, rules = snapshot.messages, snapshot.rules
    frontier = max((i for i, m in enumerate(messages) if m.replaced), default=-1)
    behind = [i for i, message in enumerate(messages) if i > frontier or message.reopened]
    treated = treatments(rules, history, behind)
    kept = staying(treated, history)
    repeated = repeats(messages, history, behind)
    outdated = superseded(messages, history, behind) if over or rules.any_repeatable else {}
    for index in behind:
        message, call = messages[index], history.call_of(index)
        step = history.step_of.get(index)
        if step is None or step.open or message.pinned or message.kept:
            continue
        if index == step.start and not any(map(history.is_unread, step.answered)):
            freed = _elidable(message, step.calls)
            if freed > 0 and not keep_arguments(step.calls, rules, snapshot.phrases):
                yield _Candidate(Item(index, message, step.calls[0], elided=freed))
            continue
        if call is None or history.is_unread(index) or index in kept:
            continue
        item = Item(index, message, call, treatment=treated[index])
        recall_of = recalled_from(call.arguments, text_of(message.value))
        if recall_of is not None and recall_of < message.position:
            # No pointer like a repeat's: while it is among the newest, the model still needs what it asked for.
            yield _Candidate(item, _condensed=[replace(item, recall_of=recall_of)])
            continue
        repeat_of = repeated.get(index)
        newer = outdated.get(index) if repeat_of is None and (over or item.treatment.repeatable) else None
        pointer = replace(item, repeat_of=repeat_of, superseded_by=newer)
        yield _Candidate(item, pointer if pointer.is_pointer and pointer.saving > 0 else None)


def _elidable(message: Message, called: Sequence[Call]) -> int:
    """Tokens that eliding the large arguments of a message is expected to free, guessed from its characters."""
    if message.tokens <= LARGE or not called:
        return 0
    chars = len(text_of(message.value)) + sum(len(call.arguments) for call in called)
    share = message.tokens / max(1, chars)
    lost = [
        left_out(arguments) * share - MARK_TOKENS
        for order, arguments in raw_arguments(message.value).items()
        if len(called[order].arguments) * share > LARGE
    ]
    return int(sum(freed for freed in lost if freed > 0))


def _newest(history: History, keep_results: int) -> frozenset[int]:
    """The newest results, or those of the newest two steps, whichever is more, and the messages of their calls."""
    if keep_results <= 0:
        return frozenset()
    answered = [index for step in history.steps for index in step.answered]
    by_count = sorted(answered)[-keep_results:]
    with_results = [step for step in history.steps if step.answered]
    by_step = [index for step in with_results[-KEEP_STEPS:] for index in step.answered]
    results = by_count if len(by_count) >= len(by_step) else by_step
    return frozenset([*results, *(history.step_of[index].start for index in results)])
