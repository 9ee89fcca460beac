"""What the bots of a chaos run talk about: agent conversations in which every message is unique."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

Message = dict[str, Any]
SMALLEST: Final = 200  # tokens of a tool result
LARGEST: Final = 6_000
_TOKENS_PER_ROW: Final = 36
_TOOLS: Final = ("read_log", "search_orders", "list_jobs", "query")


@dataclass(frozen=True, slots=True)
class Push:
    """Messages to store in one call; `open` says whether calls still wait for results after it."""

    messages: list[Message]
    open: bool = False


@dataclass(frozen=True, slots=True)
class Send:
    """A model call: the bot asks for its context."""


@dataclass(frozen=True, slots=True)
class Manner:
    """How one bot talks.

    `reuses_ids`: its model numbers tool calls anew in each step, as real ones do. `typical` is the
    usual size of a tool result in tokens; few reach LARGEST.
    """

    name: str
    chinese: bool = False
    reuses_ids: bool = False
    typical: int = 600


class Talk:
    """The endless conversation of one bot: pushes and sends in the order a real one makes them."""

    def __init__(self, manner: Manner, random: Random, *, start: int = 0) -> None:
        self._manner, self._random = manner, random
        self._made = start

    def opening(self) -> Message:
        """The system message of a session."""
        return {"role": "system", "content": self._mark("You are a careful operator. Answer from the tools.")}

    def turns(self) -> Iterator[Push | Send]:
        """User messages, each followed by steps and an answer."""
        while True:
            yield Push([{"role": "user", "content": self._mark(self._question())}])
            for _ in range(self._random.randint(2, 6)):
                yield Send()
                yield from self._step()
            yield Send()
            yield Push([{"role": "assistant", "content": self._mark("Done, see above.")}])

    def _step(self) -> Iterator[Push]:
        calls = [self._call(order) for order in range(self._random.choice((1, 1, 1, 2, 3)))]
        said = self._mark("Looking.") if self._random.random() < 0.3 else None
        asking = {"role": "assistant", "content": said, "tool_calls": calls}
        results = [self._result(call["id"], call["function"]["name"]) for call in calls]
        if self._random.random() < 0.3:  # parallel tools end in any order
            self._random.shuffle(results)
        way = self._random.random()
        if way < 0.1:
            yield Push([asking, *results])
            return
        yield Push([asking], open=True)
        if way < 0.35:
            yield Push(results)
            return
        for result in results:
            yield Push([result], open=result is not results[-1])

    def _call(self, order: int) -> Message:
        number = self._number()
        name = self._random.choice(_TOOLS)
        call_id = f"call_{order}" if self._manner.reuses_ids else f"call_{self._manner.name}_{number}"
        arguments = json.dumps({"query": f"{self._manner.name}-{number}", "limit": self._random.randint(1, 90)})
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    def _result(self, call_id: str, tool: str) -> Message:
        mark = f"{self._manner.name}-{self._number()}"
        drawn = int(self._random.lognormvariate(0, 0.8) * self._manner.typical)
        rows = max(SMALLEST, min(LARGEST, drawn)) // _TOKENS_PER_ROW
        row = self._chinese_row if self._manner.chinese else self._row
        content = "\n".join([f"{tool} {mark}", *(row(order) for order in range(rows))])
        return {"role": "tool", "tool_call_id": call_id, "content": content}

    def _row(self, order: int) -> str:
        value = self._random.getrandbits(48)
        return f"2031-04-{value % 28 + 1:02d} job-{order} host{value % 97} took {value % 9_973} ms id={value:012x}"

    def _chinese_row(self, order: int) -> str:
        value = self._random.getrandbits(40)
        return f"2031-04-{value % 28 + 1:02d} 第{order}笔订单 编号{value:010x} 金额¥{value % 99_991} 状态已发货"

    def _question(self) -> str:
        return "请查一下这些订单的状态。" if self._manner.chinese else "What happened to these jobs?"

    def _mark(self, text: str) -> str:
        return f"[{self._manner.name} {self._number()}] {text}"

    def _number(self) -> int:
        self._made += 1
        return self._made
