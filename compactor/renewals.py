"""Provisional extracts: what stood in for a model that failed is told anew from the original, once.

They go along with a compaction that takes place anyway: alone they would free nothing, and cost the
provider's prompt cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from compactor.models import Message
from compactor.plans import Item, Plan, Snapshot
from compactor.rules import How


def provisional(snapshot: Snapshot, plan: Plan) -> list[int]:
    """Positions of the provisional extracts that a plan leaves as they are."""
    leaving = {index for item in plan.items for index in item.indexes}
    return [
        message.position
        for index, message in enumerate(snapshot.messages)
        if message.provisional and index not in leaving and not (message.pinned or message.kept)
    ]


def renewing(plan: Plan, snapshot: Snapshot, originals: Mapping[int, Message]) -> Plan:
    """The plan with a summary of each of these originals, by position, unless a rule keeps it from the model."""
    renewed: list[Item] = []
    for index, message in enumerate(snapshot.messages):
        call = plan.history.call_of(index)
        if message.position not in originals or call is None:
            continue
        treatment = snapshot.rules.treatment(call.name, call.arguments)
        if treatment.how not in (How.NEVER, How.EXTRACT):
            original = originals[message.position]
            renewed.append(Item(index, original, call, treatment=treatment, renews=message.tokens))
    last = max((plan.last_position, *(item.message.position for item in renewed)))
    return replace(plan, renewed=tuple(renewed), last_position=last)
