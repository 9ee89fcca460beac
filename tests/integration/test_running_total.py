"""The running total always equals a recount, in both encodings, whatever was pushed, swapped or cleared."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import Code
from compactor.settings import Settings
from tests.conftest import recorded
from tests.integration.clients import Client, Connect, SessionClient
from tests.integration.conversations import OTHER_ENCODING, ROOMY, SMALL, WIDE, conversation, recount, user
from tests.integration.inline_worker import InlineWorker

FILES = (
    "taubench_airline_gpt4o",
    "tau2_sft_openai_format",
    "tau2_gptoss_loops",
    "toolbench_legacy",
    "uitars",
    "livemcp_claude4",
    "glaive_zh_synthetic",
    "openhands_claude35_swe",
)


def assert_total_is_a_recount(session: SessionClient, encoding: str = "o200k_base") -> int:
    messages = session.prepare().messages
    total = session.status().totals[encoding]
    assert total == recount(messages, encoding)
    return total


@pytest.mark.parametrize("name", FILES)
def test_after_each_push_of_a_recorded_session(memory: Client, name: str) -> None:
    for order, record in enumerate(recorded(name, most=2)):
        session = memory.session(f"total/{name}.{order}", ROOMY)
        pushed: list[dict[str, Any]] = []
        for message in record["messages"]:
            pushed.append(message)
            receipt = session.push(message)
            assert receipt.total == session.status().totals["o200k_base"]
            if len(pushed) % 10 == 0 or len(pushed) == len(record["messages"]):
                assert receipt.total == recount(pushed)
        assert session.originals() == record["messages"]


@pytest.mark.parametrize("name", ["miniswe_deepseek", "deerflow_threads", "claudecode_cua"])
def test_after_swaps_pushes_and_clear_of_a_recorded_session(
    connect: Connect, settings: Settings, worker: InlineWorker, name: str
) -> None:
    record = recorded(name, most=3)[-1]["messages"]
    session = connect(settings).session(f"total/{name}", SMALL)
    whole = connect(settings).session(f"total/{name}", WIDE)
    applied = 0
    for message in record:
        session.push(message)
        if message["role"] == "assistant" and session.prepare().verdict.compaction == "queued":
            applied += worker.work(f"total/{name}").outcome.outcome is Code.APPLIED
            assert session.estimate().total - 3 == recount(whole.prepare().messages)
    assert applied
    assert session.originals() == record
    session.clear()
    assert set(session.status().totals.values()) == {0}
    assert session.push(user("new")).total == recount([user("new")])


def test_both_encodings_follow_a_swap(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("total/both", SMALL)
    other = memory.session("total/both", OTHER_ENCODING)
    session.push(conversation(8))
    other.prepare()
    session.prepare()
    assert worker.work("total/both").outcome.outcome is Code.APPLIED
    assert assert_total_is_a_recount(session) == assert_total_is_a_recount(session)
    assert_total_is_a_recount(other, "cl100k_base")
    assert session.prepare().verdict.recounted is False
    assert other.prepare().verdict.recounted is False


def test_a_second_encoding_recounts_once(memory: Client) -> None:
    session = memory.session("total/second", ROOMY)
    session.push(conversation(3))
    other = memory.session("total/second", OTHER_ENCODING)
    first = other.prepare().verdict
    assert first.recounted
    assert first.total == recount(conversation(3), "cl100k_base") + 3
    assert not other.prepare().verdict.recounted
    assert not other.estimate().recounted
    assert not session.prepare().verdict.recounted


def test_estimate_alone_recounts_a_second_encoding_once(memory: Client) -> None:
    memory.session("total/second-estimate", ROOMY).push(conversation(3))
    other = memory.session("total/second-estimate", OTHER_ENCODING)
    assert other.estimate().recounted
    again = other.estimate()
    assert (again.recounted, again.total) == (False, recount(conversation(3), "cl100k_base") + 3)


def test_a_push_in_a_second_encoding_says_the_whole_total(memory: Client) -> None:
    memory.session("total/second-push", ROOMY).push(conversation(3))
    other = memory.session("total/second-push", OTHER_ENCODING)
    receipt = other.push(user("more"))
    assert receipt.total == recount([*conversation(3), user("more")], "cl100k_base")


def test_a_router_that_alternates_models_does_not_recount_at_every_call(memory: Client) -> None:
    session = memory.session("total/router", ROOMY)
    other = memory.session("total/router", OTHER_ENCODING)
    session.push(conversation(2))
    other.prepare()
    recounts = 0
    for order in range(4):
        session.push(user(f"turn {order}"))
        recounts += session.prepare().verdict.recounted
        recounts += other.estimate().recounted
    assert recounts == 0


def test_two_processes_in_two_encodings_agree_with_a_recount(connect: Connect, settings: Settings) -> None:
    here = connect(settings).session("total/processes", SMALL)
    there = connect(settings).session("total/processes", OTHER_ENCODING)
    pushed: list[dict[str, Any]] = []
    for order in range(6):
        message = user(f"turn {order} 你好世界")
        pushed.append(message)
        (here if order % 2 else there).push(message)
        assert here.estimate().total == recount(pushed) + 3
        assert there.estimate().total == recount(pushed, "cl100k_base") + 3
