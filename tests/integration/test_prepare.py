"""prepare: one round trip; below the threshold the history byte for byte; above it one claim and a list that fits."""

from __future__ import annotations

import copy
import json
from typing import Any

import orjson
import pytest

from compactor import Code
from compactor.settings import Settings
from compactor.validity import added_faults
from tests.conftest import recorded
from tests.integration.clients import Client, Connect
from tests.integration.conversations import ROOMY, SMALL, SYSTEM, conversation, recount, result, rows, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import published, records, texts

TOOLS = [{"type": "function", "function": {"name": "grep", "parameters": {"type": "object"}}}]


def test_a_send_that_is_judged_as_the_last_one_writes_nothing(connect: Connect, settings: Settings, raw: Any) -> None:
    session = connect(settings).session("prepare/again", SMALL)
    session.push(conversation(3))

    def changes(**given: Any) -> int:
        before = raw.info("persistence")["rdb_changes_since_last_save"]
        session.prepare(**given)
        return int(raw.info("persistence")["rdb_changes_since_last_save"] - before)

    assert [changes() > 0, changes(), changes()] == [True, 0, 0]
    assert [changes(tools=TOOLS) > 0, changes(tools=TOOLS), changes() > 0] == [True, 0, True]


def test_it_is_one_round_trip(connect: Connect, through_proxy: Settings, proxy: LossyProxy) -> None:
    session = connect(through_proxy).session("prepare/trip", SMALL)
    session.push(conversation(3))
    for expected in ("first read", "nothing new", "new tail"):
        if expected == "new tail":
            session.push(user("more"))
        before = proxy.turns
        session.prepare(tools=TOOLS)
        assert proxy.turns - before == 1, expected


def test_a_crossing_is_one_round_trip_and_one_to_the_places_of_its_tenant(
    connect: Connect, through_proxy: Settings, proxy: LossyProxy
) -> None:
    memory = connect(through_proxy)
    first, session = memory.session("prepare/first", SMALL), memory.session("prepare/crossing", SMALL)
    for each in (first, session):
        each.push(conversation(9))
    first.prepare()  # brings the scripts
    before = proxy.turns
    assert session.prepare().verdict.compaction == "queued"
    assert proxy.turns - before == 2
    assert session.prepare().verdict.compaction == "queued"
    assert proxy.turns - before == 3


@pytest.mark.parametrize(
    "name", ["tau2_gpt5_parallel", "toolbench_legacy", "uitars", "glaive_zh_synthetic", "tau2_gptoss_loops"]
)
def test_below_the_threshold_a_recorded_session_comes_back_byte_for_byte(
    memory: Client, settings: Settings, raw: Any, name: str
) -> None:
    record = recorded(name, most=1)[0]["messages"]
    session = memory.session(f"prepare/{name}", ROOMY)
    session.push(record)
    stored = records(raw, settings, f"prepare/{name}")
    context = session.prepare()
    assert context.messages == record
    assert [json.dumps(message) for message in context.messages] == [json.dumps(message) for message in record]
    assert [orjson.dumps(message) for message in context.messages] == texts(raw, settings, f"prepare/{name}")
    assert context.verdict.fit == "fits"
    assert context.replaced == 0
    session.prepare()
    assert records(raw, settings, f"prepare/{name}") == stored


def test_the_system_text_of_the_call_comes_first_and_is_not_stored(memory: Client) -> None:
    session = memory.session("prepare/system", ROOMY)
    session.push(user("hello"))
    context = session.prepare(system="You are kind.")
    assert context.messages == [{"role": "system", "content": "You are kind."}, user("hello")]
    assert session.originals() == [user("hello")]


def test_the_messages_are_read_only_and_their_list_is_the_callers(memory: Client) -> None:
    session = memory.session("prepare/frozen", ROOMY)
    session.push(conversation(1))
    context = session.prepare()
    with pytest.raises(TypeError, match="read-only"):
        context.messages[0]["content"] = "changed"
    with pytest.raises(TypeError, match="read-only"):
        context.messages[2]["tool_calls"].append({})
    changed = copy.deepcopy(context.messages[2])
    changed["tool_calls"].append({})
    context.messages.append(user("mine"))
    assert session.prepare().messages == conversation(1)


def test_over_the_threshold_it_goes_on_at_once_with_a_list_that_fits(
    memory: Client, settings: Settings, raw: Any
) -> None:
    session = memory.session("prepare/over", SMALL)
    session.push([*conversation(12), user("And now?")])
    context = session.prepare(tools=TOOLS)
    assert context.verdict.compaction == "queued"
    assert context.verdict.fit == "shortened"
    assert context.verdict.sent == recount(context.messages) + context.verdict.tools + 3 <= context.verdict.ceiling
    assert not added_faults([*conversation(12), user("And now?")], context.messages)
    assert context.messages[0] == SYSTEM
    assert context.messages[-1] == user("And now?")
    assert published(raw, settings) == 1
    assert session.originals() == [*conversation(12), user("And now?")]


def test_while_a_compaction_is_queued_no_send_queues_another(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("prepare/queued", SMALL)
    session.push(conversation(9))
    words = [session.prepare().verdict.compaction for _ in range(5)]
    assert words == ["queued"] * 5
    assert published(raw, settings) == 1


def test_a_system_text_that_alone_exceeds_the_ceiling_is_impossible_but_answered(memory: Client) -> None:
    session = memory.session("prepare/impossible", SMALL)
    session.push(user("hello"))
    context = session.prepare(system="rule after rule " * 4_000)
    assert context.verdict.fit == "impossible"
    assert context.messages[-1] == user("hello")


def test_output_reserved_by_the_caller_lowers_the_ceiling(memory: Client) -> None:
    session = memory.session("prepare/output", SMALL)
    session.push(conversation(6, lines=45))
    assert session.prepare().verdict.fit == "fits"
    context = session.prepare(max_output_tokens=4_000)
    assert context.verdict.ceiling == 4_000
    assert context.verdict.sent <= 4_000
    assert context.verdict.fit == "shortened"


def test_a_wait_that_no_worker_ends_returns_what_fits(memory: Client) -> None:
    session = memory.session("prepare/wait", SMALL)
    session.push([*conversation(12), user("And now?")])
    context = session.prepare(wait=0.3)
    assert (context.verdict.fit, context.verdict.compaction) == ("shortened", "queued")


def test_a_second_compaction_right_after_the_first_changes_nothing(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("prepare/second", SMALL)
    session.push(conversation(8))
    session.prepare()
    assert worker.work("prepare/second").outcome.outcome is Code.APPLIED
    stored = records(raw, settings, "prepare/second")
    assert session.compact().outcome is Code.BELOW_THRESHOLD
    assert session.prepare().verdict.compaction == "not_needed"
    assert records(raw, settings, "prepare/second") == stored


def test_what_was_not_replaced_stays_byte_for_byte(
    memory: Client, settings: Settings, worker: InlineWorker, raw: Any
) -> None:
    session = memory.session("prepare/kept", SMALL)
    pushed = [*conversation(8), *step(9, 5), user("last  question\r\n")]
    session.push(pushed)
    before = texts(raw, settings, "prepare/kept")
    session.prepare()
    outcome = worker.work("prepare/kept").outcome
    after = texts(raw, settings, "prepare/kept")
    changed = tuple(i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new)
    assert changed == outcome.positions
    assert {pushed[position]["role"] for position in changed} == {"tool"}
    assert session.prepare().replaced == len(changed)


def test_a_replaced_result_keeps_role_call_id_and_names_its_original(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("prepare/replaced", SMALL)
    session.push(conversation(8))
    session.prepare()
    outcome = worker.work("prepare/replaced").outcome
    messages = session.prepare().messages
    for position in outcome.positions:
        shown = messages[position]
        assert shown.keys() == {"role", "tool_call_id", "content"}
        assert shown["tool_call_id"] == result((position - 3) // 2, "")["tool_call_id"]
        assert f"m{position}]" in shown["content"].splitlines()[0]
        assert session.recall(f"m{position}")["content"] == rows((position - 3) // 2)


def test_an_unread_result_is_never_replaced(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("prepare/unread", SMALL)
    pushed = [*conversation(8)[:-1], *step(9)]
    session.push(pushed)
    session.prepare()
    worker.work("prepare/unread")
    assert session.prepare().messages[-1] == pushed[-1]
    assert len(pushed) - 1 not in {position for outcome in session.compactions() for position in outcome.positions}
