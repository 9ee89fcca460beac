"""The source document on agent loops, row by row: B1-B6 with its own figures."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from compactor import Compactor, ModelConfig, SessionNotFoundError
from compactor.agent_loop import LoopGuard, Prices, StopReason, limit_tool_result
from compactor.langbot import from_langbot
from compactor.settings import Settings
from compactor.store import Store
from compactor.validity import faults
from tests.integration.conversations import SMALL, call, result, rows, user
from tests.integration.inline_worker import InlineWorker


@pytest.fixture
def memory(settings: Settings) -> Iterator[Compactor]:
    with Compactor(settings=settings) as opened:
        yield opened


@pytest.fixture
def worker(settings: Settings) -> Iterator[InlineWorker]:
    store = Store(settings)
    yield InlineWorker(settings, store)
    store.close()


def test_b1_a_model_that_always_calls_runs_16_rounds_and_the_loop_ends_with_a_reply_or_a_notice() -> None:
    history: list[Any] = [user("查一下")]
    guard = LoopGuard(user_text="查一下")
    ran = 0
    stop = None
    while stop is None:  # while pending_tool_calls:
        history.append(call(ran))
        stop = guard.step(history[-1])
        if stop is None:
            history.append(result(ran, "ok"))
            ran += 1
    history += stop.messages
    assert ran == 16
    assert stop.reply == "[已停止：已达到 16 步工具调用的上限]"
    assert not faults([*history, user("继续")])


def test_b2_a_result_over_8000_characters_is_the_documents_to_the_letter() -> None:
    func_ret = {"网页": "内容" * 5_000, "链接": ["https://example.com"] * 3}
    result_str = json.dumps(func_ret, ensure_ascii=False)
    assert limit_tool_result(func_ret, notice="\n...[结果已截断]") == result_str[:8000] + "\n...[结果已截断]"
    short = {"城市": "上海", "温度": 21.5}
    assert limit_tool_result(short) == json.dumps(short, ensure_ascii=False)


def test_b2_pushed_with_the_same_limit_the_whole_can_be_recalled(memory: Compactor) -> None:
    session = memory.session("parity/b2", ModelConfig("gpt-4o", 128))
    whole = result(1, json.dumps({"网页": "内容" * 5_000}, ensure_ascii=False))
    session.push([user("查"), call(1), whole], limit_result=True)
    sent = session.prepare().messages[2]["content"]
    assert sent == whole["content"][:8000] + "\n[……共 10010 个字符，省略了 2010 个；全文：m2……]"
    assert session.recall("m2") == whole


def test_b3_b4_one_turn_of_200_tool_steps_stays_inside_the_window(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("parity/b4", SMALL)
    question = user("主机都正常吗？ Check every host, please.")
    session.push(question)
    compacted = 0
    for number in range(200):
        context = session.prepare()  # before every model call
        assert context.verdict.sent <= context.verdict.ceiling
        assert context.messages[0] == question
        assert json.dumps(context.messages[0]) == json.dumps(question)
        if context.verdict.compaction == "queued":
            compacted += bool(worker.work("parity/b4").outcome.items)
        session.push([call(number), result(number, rows(number, 30))], limit_result=True)
    assert compacted >= 5
    assert session.originals()[0] == question
    assert len(session.originals()) == 401


def test_b5_the_frameworks_limits_are_taken() -> None:
    usage = {"prompt_tokens": 4_000, "completion_tokens": 1_000}
    limits: dict[StopReason, dict[str, Any]] = {
        StopReason.ITERATIONS: {"max_iterations": 15},  # LangChain's AgentExecutor
        StopReason.TOKENS: {"max_iterations": 99, "max_tokens": 50_000},  # max_prompt_tokens of OpenAI Assistants
        StopReason.COST: {"max_iterations": 99, "max_cost": 0.10, "prices": Prices(sent=1.0, written=4.0)},
    }
    ran: dict[StopReason, int] = {}
    for limit in limits.values():
        guard = LoopGuard(**limit)
        stop = next(stop for n in itertools.count() if (stop := guard.step(call(n), usage=usage)))
        ran[stop.reason] = stop.steps
    assert ran == {StopReason.ITERATIONS: 15, StopReason.TOKENS: 9, StopReason.COST: 12}


def test_b6_langbots_names_are_read() -> None:
    read = from_langbot(
        {
            "max-tool-iterations": "16",
            "max-tool-result-chars": 8_000,
            "context-window-tokens": 128_000,
            "context-reserve-tokens": 16_384,
            "context-keep-recent-tokens": 20_000,
            "context-summary-tokens": 8_000,
        },
        "gpt-4o",
    )
    assert (read.max_iterations, read.limit_result.max_chars) == (16, 8_000)
    assert (read.config.limit, read.config.max_output_tokens) == (128_000, 16_384)
    assert set(read.notes) == {"context-keep-recent-tokens", "context-summary-tokens"}


def test_b6_a_session_exports_a_checkpoint(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("parity/b6", SMALL)
    with pytest.raises(SessionNotFoundError):
        session.checkpoint()
    pushed = [user("Look."), *(m for n in range(8) for m in (call(n), result(n, rows(n, 60))))]
    session.push(pushed)
    assert session.checkpoint() is None
    before = session.prepare().verdict.total
    outcome = worker.work("parity/b6").outcome
    checkpoint = session.checkpoint()
    assert checkpoint is not None
    assert list(checkpoint) == [
        "schema_version", "summary", "covers_until", "tokens_before", "created_at", "conversation_id",
    ]  # fmt: skip
    assert json.loads(json.dumps(checkpoint)) == checkpoint
    live = session.prepare().messages
    assert checkpoint["summary"] == "\n\n".join(live[position]["content"] for position in outcome.positions)
    assert checkpoint["covers_until"] == f"m{outcome.positions[-1]}"
    assert session.recall(checkpoint["covers_until"]) == pushed[outcome.positions[-1]]
    assert checkpoint["tokens_before"] == before == outcome.before
    assert datetime.fromisoformat(checkpoint["created_at"]) == datetime.fromtimestamp(int(outcome.at), UTC)
    assert (checkpoint["schema_version"], checkpoint["conversation_id"]) == (1, "parity/b6")
    session.undo()
    assert session.checkpoint() is None
