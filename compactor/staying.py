"""What rules and pinned phrases keep from being replaced, whatever a plan needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from compactor.formats.openai import Call, text_of
from compactor.history import History
from compactor.models import Message
from compactor.pins import holds
from compactor.rules import How, Rules, Treatment


def treatments(rules: Rules, history: History, indexes: Iterable[int]) -> dict[int, Treatment]:
    """What the rules say about each result of a call."""
    called = ((index, history.call_of(index)) for index in indexes)
    return {index: rules.treatment(call.name, call.arguments) for index, call in called if call is not None}


def staying(treated: Mapping[int, Treatment], history: History) -> frozenset[int]:
    """Results that a rule keeps: never replaced, or among the newest of their tool."""
    found: set[int] = set()
    kept: Counter[tuple[int, str]] = Counter()
    for index in sorted(treated, reverse=True):
        treatment, call = treated[index], history.call_of(index)
        if treatment.how is How.NEVER:
            found.add(index)
        if treatment.keep_last and call is not None:
            kept[treatment.keeper, call.name] += 1
            if kept[treatment.keeper, call.name] <= treatment.keep_last:
                found.add(index)
    return frozenset(found)


def unfoldable(
    messages: Sequence[Message],
    history: History,
    treated: Mapping[int, Treatment],
    rules: Rules,
    phrases: Sequence[str],
) -> frozenset[int]:
    """Messages that keep their step out of a fold: what a rule keeps, and what holds a pinned phrase."""
    calls = {step.start for step in history.steps if step.calls and keep_arguments(step.calls, rules, phrases)}
    held = {i for i, m in enumerate(messages) if phrases and any(holds(text_of(m.value), each) for each in phrases)}
    return frozenset(calls | held) | staying(treated, history)


def keep_arguments(called: Sequence[Call], rules: Rules, phrases: Sequence[str]) -> bool:
    """Whether the arguments of these calls stay: a rule says `never`, or they hold a pinned phrase."""
    return any(
        rules.treatment(call.name, call.arguments).how is How.NEVER
        or any(holds(call.arguments, phrase) for phrase in phrases)
        for call in called
    )
