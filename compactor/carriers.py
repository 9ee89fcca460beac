"""The sentences a view leaves where steps are missing, written so that they can be written again.

They depend on the steps and their positions alone, never on what a swap changes, so a list that
comes back with a view in it is recognised by writing its sentences anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from compactor.history import Step
from compactor.models import recall_id
from compactor.wording import Wording, tool_name

_SHOWN_IDS: Final = 12
_SHOWN_TOOLS: Final = 6


def carrier_of(gap: Sequence[Step]) -> Step | None:
    """The step of a gap that stays to hold the sentence: the first whose calls are all answered."""
    return next((step for step in gap if step.calls and not step.open), None)


def gap_sentence(gap: Sequence[Step], position: Callable[[int], int], wording: Wording) -> str:
    """How many messages and calls are missing, of which tools, and the recall ids of their results."""
    tools = Counter(tool_name(call.name) for step in gap for call in step.calls)
    ids = [recall_id(position(index)) for step in gap for index in step.answered]
    shown = ids if len(ids) <= _SHOWN_IDS else [*ids[: _SHOWN_IDS - 1], "…", ids[-1]]
    names = [f"{name} x{count}" if count > 1 else name for name, count in list(tools.items())[:_SHOWN_TOOLS]]
    return wording.gap.format(
        messages=sum(len(step.indexes) for step in gap),
        calls=tools.total(),
        tools=", ".join(names + (["…"] if len(tools) > _SHOWN_TOOLS else [])),
        ids=", ".join(shown),
    )
