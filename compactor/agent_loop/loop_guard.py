"""LoopGuard: when an agent's loop has to end, why, and the messages that leave its history valid."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from compactor.agent_loop.spending import Prices, Usage, money, read_usage
from compactor.exceptions import ConfigurationError, InvalidMessageError
from compactor.formats.openai import Call, calls, text_of
from compactor.json_values import is_array, is_object
from compactor.records import encode_message
from compactor.repair import closing_result
from compactor.wording import wording_for

MAX_ITERATIONS: Final = 16
MAX_REPEATS: Final = 5


class StopReason(StrEnum):
    """Why a loop has to end."""

    ITERATIONS = "iterations"
    REPEATED_CALL = "repeated_call"
    TOKENS = "tokens"
    COST = "cost"


@dataclass(frozen=True, slots=True)
class Stop:
    """The end of a loop: do not run the calls of the last message; push `messages`, and answer with `reply`.

    `messages` go behind the assistant message that was not carried out: a "not run" result for each of
    its calls, and an assistant message with the `notice`. `reply` is the latest text of the model, or
    the notice when it wrote none. `steps` counts the steps that were carried out.
    """

    reason: StopReason
    steps: int
    tokens: int
    cost: float
    notice: str
    reply: str
    messages: tuple[dict[str, Any], ...]


class LoopGuard:
    """Watches one run of an agent, from the user's message to the answer; one guard a run, used by one thread.

    Hand every reply of the model to `step` before its calls are run. A step is a reply with calls,
    however many. The loop ends when a step would be one more than `max_iterations`; when the same call
    with the same arguments comes for the `max_repeats`-th time in a row, but for the tools named in
    `may_repeat`; when the tokens or the cost of the run have reached their budget. None switches one
    off. `user_text` tells the language of the notices; without it they follow the model's text.

    Raises ConfigurationError.
    """

    def __init__(
        self,
        max_iterations: int | None = MAX_ITERATIONS,
        *,
        max_repeats: int | None = MAX_REPEATS,
        max_tokens: int | None = None,
        max_cost: float | Decimal | None = None,
        prices: Prices | None = None,
        may_repeat: Collection[str] = (),
        user_text: str = "",
    ) -> None:
        _check("max_iterations", max_iterations, least=1)
        _check("max_repeats", max_repeats, least=2)
        _check("max_tokens", max_tokens, least=1)
        if max_iterations is max_repeats is max_tokens is max_cost is None:
            raise ConfigurationError(
                "LoopGuard: without any limit it never stops. Leave max_iterations at 16, for one."
            )
        listed = isinstance(may_repeat, Collection) and not isinstance(may_repeat, str)
        if not listed or not all(isinstance(name, str) for name in may_repeat):
            raise ConfigurationError("may_repeat: expected a list of tool names, for example ['poll'].")
        if prices is not None and not isinstance(prices, Prices):
            raise ConfigurationError("prices: expected Prices(sent=..., written=...), money per million tokens.")
        if not isinstance(user_text, str):
            raise ConfigurationError("user_text: expected the user's words as text.")
        self._max_iterations, self._max_repeats, self._max_tokens = max_iterations, max_repeats, max_tokens
        self._max_cost = None if max_cost is None else money("max_cost", max_cost)
        self._prices, self._may_repeat, self._user_text = prices, frozenset(may_repeat), user_text
        self._streaks: Counter[str] = Counter()
        self._repeats = 0
        self._said = ""
        self.steps = 0
        self.tokens = 0
        self.cost = 0.0
        self.reason: StopReason | None = None

    def step(self, message: Any, usage: Any = None, cost: float | Decimal | None = None) -> Stop | None:
        """Takes one reply of the model; a Stop when its calls must not be run, else None.

        `usage` is what the provider reports for the reply, `cost` what it cost, if you know better
        than the guard's prices. Once it has stopped, a guard stops every further step. Raises
        InvalidMessageError, and ConfigurationError when a budget is set and nothing tells what the
        reply cost: a budget that cannot be kept is no budget.
        """
        value = _reply(message)
        self._spend(usage, cost)
        self._said = text_of(value).strip() or self._said
        wanted = calls(value)
        if not wanted:
            return None
        self._count(_keys(value, wanted, self._may_repeat))
        if self.reason is None:
            self._repeats = max(self._streaks.values(), default=0)
            self.reason = self._found()
        if self.reason is not None:
            return self._stop(self.reason, wanted)
        self.steps += 1
        return None

    def _spend(self, usage: Any, cost: float | Decimal | None) -> None:
        used = None if usage is None else read_usage(usage)
        paid = None if cost is None else money("cost", cost)
        if self._max_tokens is not None and used is None:
            raise ConfigurationError(
                "usage: the token budget cannot be kept without it. Pass usage=reply.usage (of a streamed reply, ask "
                "for it with stream_options={'include_usage': True}), or set max_tokens=None."
            )
        if paid is None and used is not None and self._prices is not None:
            paid = self._prices.cost(used)
        if self._max_cost is not None and paid is None:
            raise ConfigurationError(
                "cost: the cost budget cannot be kept without it. Pass cost=..., or give LoopGuard prices=Prices("
                "sent=..., written=...) and pass usage=reply.usage, or set max_cost=None."
            )
        self.tokens += (used or Usage(0, 0)).total
        self.cost += paid or 0.0

    def _count(self, keys: Sequence[str]) -> None:
        """Counts each call in a row; a step that asks for something new is progress, and counts from one again."""
        known = all(key in self._streaks for key in keys)
        self._streaks = Counter({key: n + self._streaks[key] * known for key, n in Counter(keys).items()})

    def _found(self) -> StopReason | None:
        """The first reason that the step just counted must not be carried out."""
        if self._max_iterations is not None and self.steps >= self._max_iterations:
            return StopReason.ITERATIONS
        if self._max_repeats is not None and self._repeats >= self._max_repeats:
            return StopReason.REPEATED_CALL
        if self._max_tokens is not None and self.tokens >= self._max_tokens:
            return StopReason.TOKENS
        if self._max_cost is not None and self.cost >= self._max_cost:
            return StopReason.COST
        return None

    def _stop(self, reason: StopReason, wanted: Sequence[Call]) -> Stop:
        words = wording_for(self._user_text or self._said or " ".join(_readable(call.arguments) for call in wanted))
        why = {
            StopReason.ITERATIONS: words.too_many_steps.format(limit=self._max_iterations),
            StopReason.REPEATED_CALL: words.repeated_call.format(count=self._repeats),
            StopReason.TOKENS: words.tokens_spent,
            StopReason.COST: words.money_spent,
        }[reason]
        notice = words.stopped.format(why=why)
        results = [closing_result(call, words.not_run.format(why=why)) for call in wanted]
        messages = (*results, {"role": "assistant", "content": notice})
        return Stop(reason, self.steps, self.tokens, self.cost, notice, self._said or notice, messages)


def _reply(message: Any) -> Mapping[str, Any]:
    """A reply as plain data. Raises InvalidMessageError for what holds calls that would not be seen."""
    value = encode_message(message).value
    if value["role"] != "assistant":
        raise InvalidMessageError("message: expected the model's reply, of role assistant; results are not counted.")
    content = value.get("content")
    if is_array(content) and any(is_object(part) and part.get("type") == "tool_use" for part in content):
        raise InvalidMessageError(
            "message: holds tool_use blocks of another format. Pass it as a Chat Completions message, with tool_calls."
        )
    if value.get("tool_calls") and not is_array(value["tool_calls"]):
        raise InvalidMessageError("message: expected tool_calls as a list; calls that are not seen cannot be stopped.")
    return value


def _keys(value: Mapping[str, Any], wanted: Sequence[Call], may_repeat: Collection[str]) -> list[str]:
    """What each call asks for, whatever its id and the order of its arguments."""
    listed = value.get("tool_calls")
    raw: list[Any] = [*listed] if is_array(listed) else []
    keys: list[str] = []
    for order, call in enumerate(wanted):
        if call.name in may_repeat:
            continue
        if call.name or order >= len(raw):
            keys.append(json.dumps([call.name, _canonical(call.arguments)]))
        else:  # of no layout that we know: all of it but the id
            item = {k: v for k, v in raw[order].items() if k != "id"} if is_object(raw[order]) else raw[order]
            keys.append(json.dumps(item, sort_keys=True))
    return keys


def _canonical(arguments: str) -> str:
    """The same text for the same arguments; what is no JSON stands for itself."""
    try:
        return json.dumps(json.loads(arguments.strip() or "{}"), sort_keys=True, separators=(",", ":"))
    except (ValueError, RecursionError):
        return arguments


def _readable(arguments: str) -> str:
    """The values of arguments, without what JSON puts around them, to tell their language."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return " ".join(map(str, value.values())) if is_object(value) else str(value)


def _check(name: str, value: Any, *, least: int) -> None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < least):
        raise ConfigurationError(f"{name}: expected a whole number of at least {least}, or None for no limit.")
