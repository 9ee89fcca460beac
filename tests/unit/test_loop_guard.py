"""LoopGuard: a loop ends at its limits, no sooner, and what it hands back leaves a valid history."""

from __future__ import annotations

import json
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage
from openai.types.completion_usage import CompletionUsage

from compactor.agent_loop import LoopGuard, Prices, Stop, StopReason
from compactor.exceptions import ConfigurationError, InvalidMessageError
from compactor.validity import faults
from tests.conftest import recorded

PRICES = Prices(sent=2.5, written=10.0, cached=1.25)


def asking(*queries: Any, name: str = "grep", content: str | None = None) -> dict[str, Any]:
    """A reply with one call for each query; ids are as reused as real models reuse them."""
    calls = [
        {"id": f"call_{order}", "type": "function", "function": {"name": name, "arguments": json.dumps({"q": query})}}
        for order, query in enumerate(queries)
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def raw(arguments: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "grep", "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def used(sent: int, written: int = 0, cached: int = 0) -> CompletionUsage:
    details = {"cached_tokens": cached}
    return CompletionUsage.model_validate(
        {
            "prompt_tokens": sent,
            "completion_tokens": written,
            "total_tokens": sent + written,
            "prompt_tokens_details": details,
        }
    )


def steps_until_stop(guard: LoopGuard, replies: list[dict[str, Any]], **each: Any) -> Stop | None:
    return next((stop for reply in replies if (stop := guard.step(reply, **each))), None)


# --- steps


def test_sixteen_steps_run_and_the_seventeenth_does_not() -> None:
    guard = LoopGuard()
    assert [guard.step(asking(n)) for n in range(16)] == [None] * 16
    stop = guard.step(asking(16))
    assert stop is not None
    assert (stop.reason, stop.steps) == (StopReason.ITERATIONS, 16)


def test_a_step_is_a_reply_with_calls_however_many() -> None:
    guard = LoopGuard(2)
    assert guard.step(asking(1, 2, 3)) is None
    assert guard.step({"role": "assistant", "content": "Let me think."}) is None
    assert guard.step(asking(4)) is None
    assert guard.steps == 2
    assert guard.step(asking(5)) is not None


def test_a_run_that_ends_by_itself_at_the_limit_is_not_stopped() -> None:
    guard = LoopGuard(1)
    assert guard.step(asking(1)) is None
    assert guard.step({"role": "assistant", "content": "Done."}) is None
    assert guard.reason is None


def test_a_guard_that_stopped_stops_every_further_step() -> None:
    guard = LoopGuard(1)
    guard.step(asking(1))
    first, second = guard.step(asking(2)), guard.step(asking(3, 4))
    assert first is not None
    assert second is not None
    assert (second.reason, second.steps, len(second.messages)) == (first.reason, 1, 3)


# --- the same call again and again


@pytest.mark.parametrize("times", [2, 5, 9])
def test_the_same_call_is_stopped_when_it_comes_that_often_in_a_row(times: int) -> None:
    guard = LoopGuard(None, max_repeats=times)
    assert [guard.step(asking(7)) for _ in range(times - 1)] == [None] * (times - 1)
    stop = guard.step(asking(7))
    assert stop is not None
    assert (stop.reason, stop.steps) == (StopReason.REPEATED_CALL, times - 1)
    assert f"{times} times in a row" in stop.notice


@pytest.mark.parametrize(
    "same",
    [
        ['{"a": 1, "b": [2]}', '{"b":[2],"a":1}'],
        ["", "{}", "  "],
        ['{"a": "\\u4e2d"}', '{"a": "中"}'],
        ["not json", "not json"],
    ],
)
def test_arguments_are_compared_as_values(same: list[str]) -> None:
    guard = LoopGuard(max_repeats=4)
    replies = [raw(same[n % len(same)]) for n in range(4)]
    assert steps_until_stop(guard, replies) is not None


@pytest.mark.parametrize(
    "different",
    [
        ['{"a": 1}', '{"a": 2}'],
        ['{"a": [1, 2]}', '{"a": [2, 1]}'],
        ['{"a": "1"}', '{"a": 1}'],
        ["{", "{{"],
        ["[" * 3_000, "[" * 3_001],
        ["9" * 5_000, "9" * 5_001],
    ],
)
def test_other_arguments_are_another_call(different: list[str]) -> None:
    guard = LoopGuard(max_repeats=3)
    assert steps_until_stop(guard, [raw(different[n % 2]) for n in range(10)]) is None


def test_two_calls_side_by_side_are_a_loop_in_any_order() -> None:
    guard = LoopGuard(max_repeats=4)
    stop = steps_until_stop(guard, [asking(1, 2), asking(2, 1), asking(1, 2), asking(2, 1)])
    assert stop is not None
    assert len(stop.messages) == 3


def test_the_same_call_many_times_in_one_reply_is_a_loop() -> None:
    stop = LoopGuard().step(asking(*[1] * 5))
    assert stop is not None
    assert (stop.reason, stop.steps, len(stop.messages)) == (StopReason.REPEATED_CALL, 0, 6)


def test_a_step_that_also_asks_for_something_new_is_progress() -> None:
    guard = LoopGuard(None, max_repeats=3)
    assert steps_until_stop(guard, [asking("status", n) for n in range(50)]) is None


def test_a_call_that_falls_out_of_a_repeated_pair_goes_on_counting() -> None:
    guard = LoopGuard(max_repeats=4)
    assert steps_until_stop(guard, [asking(1, 2), asking(1), asking(1), asking(1)]) is not None


def test_tools_that_poll_may_repeat() -> None:
    guard = LoopGuard(None, max_repeats=2, may_repeat=["poll"])
    assert steps_until_stop(guard, [asking(1, name="poll")] * 100) is None
    assert steps_until_stop(guard, [asking(1)] * 2) is not None


def test_repeats_can_be_allowed_altogether() -> None:
    assert steps_until_stop(LoopGuard(99, max_repeats=None), [asking(1)] * 99) is None


def test_calls_of_an_unknown_layout_are_told_apart() -> None:
    def odd(query: int) -> dict[str, Any]:
        return {"role": "assistant", "content": "", "tool_calls": [{"id": f"x{query}", "name": "grep", "args": query}]}

    assert steps_until_stop(LoopGuard(), [odd(n) for n in range(10)]) is None
    assert steps_until_stop(LoopGuard(), [odd(1)] * 5) is not None


def test_the_legacy_layout_is_watched_too() -> None:
    legacy = {"role": "assistant", "content": None, "function_call": {"name": "grep", "arguments": "{}"}}
    stop = steps_until_stop(LoopGuard(), [legacy] * 5)
    assert stop is not None
    assert stop.messages[0]["role"] == "function"
    assert stop.messages[0]["name"] == "grep"


def test_every_recorded_runaway_is_stopped_at_its_fifth_call_and_no_other_run_is() -> None:
    for name in ("tau2_gptoss_loops", "tau2_gpt5_parallel", "msagent_finance_zh", "sweagent_live_zh_issue"):
        for session in recorded(name):
            stopped, guard, sent = list[Stop](), LoopGuard(None), list[Any]()
            for message in session["messages"]:
                if message["role"] == "user":
                    guard = LoopGuard(None)
                sent.append(message)
                if message["role"] == "assistant" and (stop := guard.step(message)):
                    stopped.append(stop)
                    assert not set(faults([*sent, *stop.messages])) - set(faults(sent[:-1]))
                    break
            assert bool(stopped) == ("runaway_loop" in session["labels"]), session["id"]


# --- budgets


def test_the_step_whose_reply_reaches_the_token_budget_is_not_run() -> None:
    guard = LoopGuard(None, max_tokens=1_000)
    assert guard.step(asking(1), usage=used(400, 99)) is None
    stop = guard.step(asking(2), usage=used(400, 101))
    assert stop is not None
    assert (stop.reason, stop.steps, stop.tokens) == (StopReason.TOKENS, 1, 1_000)


def test_replies_without_calls_count_for_the_budgets() -> None:
    guard = LoopGuard(max_tokens=1_000, max_cost=5)
    assert guard.step({"role": "assistant", "content": "Hm."}, usage=used(2_000), cost=9) is None
    assert (guard.tokens, guard.cost) == (2_000, 9.0)
    assert guard.step(asking(1), usage=used(1), cost=0) is not None


def test_a_cost_budget_of_given_costs() -> None:
    guard = LoopGuard(None, max_cost=1.0)
    assert guard.step(asking(1), cost=0.25) is None
    assert guard.step(asking(2), cost=0) is None
    stop = guard.step(asking(3), cost=0.75)
    assert stop is not None
    assert (stop.reason, stop.cost) == (StopReason.COST, 1.0)


def test_a_cost_budget_of_prices() -> None:
    guard = LoopGuard(None, max_cost=0.01, prices=PRICES)
    assert guard.step(asking(1), usage=used(1_000, 100, cached=800)) is None
    assert guard.cost == pytest.approx((200 * 2.5 + 800 * 1.25 + 100 * 10) / 1_000_000)
    stop = guard.step(asking(2), usage=used(1_000, 750))
    assert stop is not None
    assert stop.reason is StopReason.COST


def test_a_cost_given_stands_before_the_prices() -> None:
    guard = LoopGuard(prices=PRICES)
    guard.step(asking(1), usage=used(10**6), cost=Decimal("0.5"))
    assert guard.cost == 0.5


@pytest.mark.parametrize(
    ("guard", "given", "says"),
    [
        (LoopGuard(max_cost=1), {}, "prices=Prices"),
        (LoopGuard(max_cost=1), {"usage": used(5)}, "prices=Prices"),
        (LoopGuard(max_cost=1, prices=PRICES), {}, "usage=reply.usage"),
        (LoopGuard(max_tokens=1), {}, "include_usage"),
        (LoopGuard(max_tokens=1), {"cost": 3}, "include_usage"),
        (LoopGuard(max_tokens=1), {"usage": {}}, "prompt_tokens"),
        (LoopGuard(max_tokens=1), {"usage": {"prompt_tokens": -4}}, "whole number"),
        (LoopGuard(max_tokens=1), {"usage": {"prompt_tokens": "4"}}, "whole number"),
        (LoopGuard(max_tokens=1), {"usage": {"prompt_tokens": 10**5_000}}, "whole number"),
        (LoopGuard(max_cost=1), {"cost": float("nan")}, "finite"),
        (LoopGuard(max_cost=1), {"cost": 10**5_000}, "finite"),
        (LoopGuard(max_cost=1), {"cost": Decimal("sNaN")}, "finite"),
        (LoopGuard(max_cost=1), {"cost": -1}, "at least 0"),
        (LoopGuard(max_cost=1), {"cost": True}, "amount of money"),
    ],
)
def test_a_budget_that_cannot_be_kept_is_told_and_never_ignored(guard: LoopGuard, given: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        guard.step(asking(1), **given)
    assert (guard.steps, guard.tokens, guard.cost) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        ({"input_tokens": 5, "output_tokens": 6}, 11),
        ({"total_tokens": 11}, 11),
        ({"prompt_tokens": 5, "total_tokens": 11}, 11),
        ({"input_tokens": 1, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 1, "output_tokens": 6}, 11),
        ({"prompt_tokens": 5, "cache_read_input_tokens": 3, "completion_tokens": 6}, 11),  # told twice
        ({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 3}, "output_tokens": 6}, 11),
        (SimpleNamespace(prompt_tokens=5, completion_tokens=6), 11),
        (used(5, 6), 11),
    ],
)
def test_usage_is_read_as_providers_write_it(usage: Any, total: int) -> None:
    guard = LoopGuard(max_tokens=100)
    guard.step(asking(1), usage=usage)
    assert guard.tokens == total


def test_what_anthropics_cache_read_costs_the_price_of_cached_tokens() -> None:
    guard = LoopGuard(prices=PRICES)
    usage = {"input_tokens": 100, "cache_read_input_tokens": 800, "cache_creation_input_tokens": 100}
    guard.step(asking(1), usage=usage)
    assert guard.tokens == 1_000
    assert guard.cost == pytest.approx((200 * 2.5 + 800 * 1.25) / 1_000_000)


# --- what it hands back


def test_every_open_call_gets_a_result_and_the_notice_ends_the_turn() -> None:
    guard = LoopGuard(1)
    guard.step(asking(1))
    reply = asking(2, 3)
    stop = guard.step(reply)
    assert stop is not None
    not_run = "[not run: the limit of 1 tool steps was reached]"
    assert list(stop.messages) == [
        {"role": "tool", "tool_call_id": "call_0", "content": not_run},
        {"role": "tool", "tool_call_id": "call_1", "content": not_run},
        {"role": "assistant", "content": "[stopped: the limit of 1 tool steps was reached]"},
    ]
    assert not faults([{"role": "user", "content": "go"}, reply, *stop.messages, {"role": "user", "content": "more"}])


def test_the_reply_is_what_the_model_said_last_or_the_notice() -> None:
    silent, talking = LoopGuard(1), LoopGuard(1)
    silent.step(asking(1))
    talking.step(asking(1, content="I look into the first file."))
    one, other = silent.step(asking(2)), talking.step(asking(2))
    assert one is not None
    assert other is not None
    assert one.reply == one.notice
    assert other.reply == "I look into the first file."


@pytest.mark.parametrize(
    ("guard", "reply"),
    [
        (LoopGuard(max_tokens=1, user_text="主机正常吗？"), asking("disk", content="I look.")),
        (LoopGuard(max_tokens=1), asking("disk", content="我来看一下日志。")),
        (LoopGuard(max_tokens=1), asking("查询上海今天的天气")),
    ],
)
def test_the_notices_are_in_the_language_of_the_conversation(guard: LoopGuard, reply: dict[str, Any]) -> None:
    stop = guard.step(reply, usage=used(5))
    assert stop is not None
    assert stop.notice == "[已停止：token 预算已用完]"
    assert stop.messages[0]["content"] == "[未执行：token 预算已用完]"


def test_objects_of_the_sdk_are_taken() -> None:
    message = ChatCompletionMessage.model_validate(asking(1))
    stop = steps_until_stop(LoopGuard(), [message] * 5)  # type: ignore[list-item] # why: the SDK's object stands for it
    assert stop is not None
    assert stop.messages[0]["tool_call_id"] == "call_0"


# --- refused


NO_REPLIES: list[Any] = [
    None,
    "text",
    {"role": "tool", "tool_call_id": "a", "content": "x"},
    {"role": "user", "content": "x"},
    {"content": "x"},
    {"choices": []},
    [asking(1)],
    {"role": "assistant", "content": None, "tool_calls": {"name": "grep"}},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "grep", "input": {}}]},
]


@pytest.mark.parametrize("bad", NO_REPLIES)
def test_what_is_no_reply_of_this_format_is_refused(bad: Any) -> None:
    guard = LoopGuard()
    with pytest.raises(InvalidMessageError):
        guard.step(bad)
    assert guard.steps == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_iterations": 0},
        {"max_iterations": -1},
        {"max_iterations": True},
        {"max_iterations": "16"},
        {"max_iterations": 1.5},
        {"max_repeats": 1},
        {"max_tokens": 0},
        {"max_cost": -1},
        {"max_cost": float("inf")},
        {"max_cost": "1"},
        {"prices": 2.5},
        {"may_repeat": "poll"},
        {"may_repeat": [1]},
        {"may_repeat": None},
        {"may_repeat": 5},
        {"user_text": None},
        {"max_iterations": None, "max_repeats": None},
    ],
)
def test_wrong_limits_are_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=r"expected|never stops"):
        LoopGuard(**wrong)


@pytest.mark.parametrize(
    "wrong", [{"sent": -1, "written": 1}, {"sent": 1, "written": None}, {"sent": "1", "written": 1}]
)
def test_wrong_prices_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="prices"):
        Prices(**wrong)
