"""A bot among many that push to one session: it can be traced in what is stored."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from compactor import Compactor, ModelConfig, Session
from compactor.settings import Settings
from tests.acceptance.scripted_model import manners
from tests.integration.conversations import rows

CONFIG = ModelConfig("gpt-4o", 16)


def parts(name: str, steps: int) -> list[list[dict[str, Any]]]:
    """What a bot pushes, call by call: whole steps, and now and then a user's words."""
    pushed: list[list[dict[str, Any]]] = []
    for order in range(steps):
        id_ = f"{name}.{order}"
        function = {"name": "grep", "arguments": json.dumps({"query": id_})}
        asked = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": id_, "type": "function", "function": function}],
        }
        answered = {"role": "tool", "tool_call_id": id_, "content": f"{manners('unhurried')} {id_}\n{rows(order, 25)}"}
        pushed.append([asked, answered])
        if order % 5 == 4:
            pushed.append([{"role": "user", "content": f"{name}.{order} and then?"}])
    return pushed


def push_all(session: Session, name: str, steps: int) -> None:
    """Pushes everything of one bot, and prepares sends as a bot does that waits a little for a swap."""
    for order, messages in enumerate(parts(name, steps)):
        session.push(messages)
        if order % 6 == 5:
            context = session.prepare(wait=2.0)
            assert context.verdict.sent <= context.verdict.ceiling


def pushing_process(settings: Settings, session: str, name: str, steps: int, gate: Any) -> None:
    """The same in a process of its own; starts when all stand at the gate."""
    with Compactor(settings=settings) as memory:
        mine = memory.session(session, CONFIG)
        mine.estimate()
        gate.wait(30)
        push_all(mine, name, steps)


def of_pusher(messages: Sequence[Any], name: str) -> list[Any]:
    """The messages of one bot, in the order in which they are stored."""

    def belongs(message: Any) -> bool:
        calls: Any = message.get("tool_calls") or [{}]
        traces = (message.get("tool_call_id"), calls[0].get("id"), message.get("content"))
        return any(isinstance(trace, str) and trace.startswith(f"{name}.") for trace in traces)

    return [message for message in messages if belongs(message)]
