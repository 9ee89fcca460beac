"""Plans that want everything there is, and lists to plan for."""

from __future__ import annotations

from typing import Any

from compactor.models import Message
from compactor.planning import Nothing, Plan, Snapshot, plan
from tests.unit.chat import Chat, assistant, call, calling, levels, result, total, user

LARGE = "x" * 4_000  # 1,000 tokens
MEDIUM = "y" * 1_200  # 300 tokens
SMALL = "z" * 600  # 150 tokens


def planned(messages: list[Message], **given: Any) -> Plan | Nothing:
    """A plan that wants everything there is but folds, unless told otherwise."""
    budget = given.pop("budget", levels(ceiling=10**6))
    wanted: dict[str, Any] = {"target_tokens": 1, "keep_results": 0, "keep_rows": True, **given}
    return plan(Snapshot(messages, total(messages)), budget, **wanted)


def chosen(messages: list[Message], **given: Any) -> list[int]:
    found = planned(messages, **given)
    return [] if isinstance(found, Nothing) else [item.index for item in found.items]


def rows(*sizes: str) -> list[Chat]:
    """A user message and one answered step for each result text, then an answer."""
    chat = [user("go")]
    for number, text in enumerate(sizes):
        chat += [calling(call(f"c{number}", arguments=f'{{"n":{number}}}')), result(f"c{number}", f"{number}{text}")]
    return [*chat, assistant("done")]
