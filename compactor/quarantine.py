"""What a send and a plan may use of a history: no tombstones, and no step that lost a part.

A record that cannot be read stays stored and is named; the step it belonged to leaves the list,
since a call without its result, or a result without its call, is refused by every provider.
"""

from __future__ import annotations

from collections.abc import Sequence

from compactor.formats.openai import RESULT_ROLES
from compactor.history import History, read_history
from compactor.models import Kind, Message, recall_id


def readable(messages: Sequence[Message]) -> tuple[list[Message], tuple[str, ...]]:
    """The usable messages in order, and `corrupt_record@m5` for each that cannot be read."""
    kept = [message for message in messages if message.live]
    if len(kept) == len(messages):
        return kept, ()
    corrupt = [message.position for message in messages if message.kind is Kind.CORRUPT]
    if not corrupt:
        return kept, ()
    history = read_history([message.value for message in kept])
    broken: set[int] = set()
    for position in corrupt:
        broken |= _broken_by(position, kept, history)
    sound = [message for index, message in enumerate(kept) if index not in broken]
    return sound, tuple(f"corrupt_record@{recall_id(position)}" for position in corrupt)


def _broken_by(position: int, kept: Sequence[Message], history: History) -> set[int]:
    """Indexes that are of no use without the record at `position`: its open step, its orphaned results."""
    place = next((index for index, message in enumerate(kept) if message.position > position), len(kept))
    broken: set[int] = set()
    before = place - 1
    while before >= 0 and history.roles[before] in RESULT_ROLES:
        before -= 1
    step = history.step_of.get(before)
    if step is not None and step.open:
        broken.update(step.indexes)
    after = place
    while after < len(kept) and history.roles[after] in RESULT_ROLES:
        if history.is_orphan(after):
            broken.add(after)
        after += 1
    return broken
