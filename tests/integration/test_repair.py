"""Sessions that would brick: bots that die in a call, answers late, twice or never, pushes that cross."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from compactor import ConfigurationError
from compactor.settings import Settings
from compactor.validity import faults
from tests.integration.clients import Client, Connect
from tests.integration.conversations import ROOMY, SMALL, assistant, call, conversation, recount, result, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy

INTERRUPTED = "[interrupted, no output]"
KILLED = [user("Find it."), call(1)]
WENT_ON = [*KILLED, user("Are you there?")]


def closed(order: int) -> dict[str, Any]:
    return result(order, INTERRUPTED)


def test_a_bot_that_was_killed_in_a_call_can_go_on(memory: Client) -> None:
    session = memory.session("repair/killed", ROOMY)
    session.push(WENT_ON)
    context = session.prepare()
    assert context.messages == [*KILLED, closed(1), user("Are you there?")]
    assert context.verdict.problems == ("open_call@m1",)
    assert not faults(context.messages)


def test_the_stored_history_and_its_total_stay_what_was_pushed(memory: Client) -> None:
    session = memory.session("repair/stored", ROOMY)
    session.push(WENT_ON)
    before = session.status()
    verdict = session.prepare().verdict
    assert session.originals() == WENT_ON
    assert session.status().totals == before.totals
    assert session.status().revision == before.revision
    assert verdict.total == recount([*WENT_ON, closed(1)]) + 3


def test_a_call_that_nothing_follows_yet_is_left_open(memory: Client) -> None:
    session = memory.session("repair/waiting", ROOMY)
    session.push(KILLED)
    context = session.prepare()
    assert context.messages == KILLED
    assert context.verdict.problems == ("open_call@m1",)


def test_an_answer_that_comes_late_goes_behind_its_call(memory: Client) -> None:
    session = memory.session("repair/late", ROOMY)
    session.push(WENT_ON)
    assert session.prepare().messages[2] == closed(1)
    session.push([result(1, "found"), user("And?")])
    context = session.prepare()
    assert context.messages == [*KILLED, result(1, "found"), user("Are you there?"), user("And?")]
    assert context.verdict.problems == ("late_answer@m3",)
    assert session.originals() == [*WENT_ON, result(1, "found"), user("And?")]


def test_an_answer_that_comes_twice_is_sent_once(memory: Client) -> None:
    session = memory.session("repair/twice", ROOMY)
    session.push([*KILLED, result(1, "found"), result(1, "found"), user("And?")])
    context = session.prepare()
    assert context.messages == [*KILLED, result(1, "found"), user("And?")]
    assert context.verdict.problems == ("orphan_result@m3",)
    assert len(session.originals()) == 5


def test_two_bots_whose_pushes_cross_leave_a_list_that_providers_take(memory: Client) -> None:
    session = memory.session("repair/cross", ROOMY)
    session.push([user("Both!"), call(1), call(2), result(2, "two"), result(1, "one"), user("Well?")])
    context = session.prepare()
    assert context.messages == [user("Both!"), call(1), result(1, "one"), call(2), result(2, "two"), user("Well?")]
    assert not faults(context.messages)


def test_of_several_calls_those_without_an_answer_are_closed(memory: Client) -> None:
    both = {**call(1), "tool_calls": [*call(1)["tool_calls"], *call(2)["tool_calls"]]}
    session = memory.session("repair/some", ROOMY)
    session.push([user("Both!"), both, result(2, "two"), user("Well?")])
    assert session.prepare().messages == [user("Both!"), both, result(2, "two"), closed(1), user("Well?")]


def test_a_redelivery_after_hours_is_no_second_answer(connect: Connect, settings: Settings) -> None:
    first, later = (connect(settings).session("repair/redelivered", ROOMY) for _ in range(2))
    first.push(KILLED)
    receipt = first.push(result(1, "found"), "delivery-7")
    first.push([assistant("Here."), user("Thanks.")])
    assert later.push(result(1, "found"), "delivery-7") == receipt
    assert later.prepare().verdict.problems == ()


def test_repair_off_gives_the_list_as_it_is_and_says_what_is_wrong(memory: Client) -> None:
    session = memory.session("repair/off", ROOMY)
    session.push(WENT_ON)
    context = session.prepare(repair=False)
    assert context.messages == WENT_ON
    assert context.verdict.problems == ("open_call@m1",)


def test_a_callers_own_list_is_not_repaired_unless_asked(memory: Client) -> None:
    session = memory.session("repair/list", ROOMY)
    assert session.prepare(WENT_ON).messages == WENT_ON
    assert session.prepare(WENT_ON).verdict.problems == ("open_call@m1",)
    assert session.prepare(WENT_ON, repair=True).messages == [*KILLED, closed(1), user("Are you there?")]
    assert session.originals() == WENT_ON


def test_a_repaired_list_that_comes_back_changes_nothing(memory: Client) -> None:
    session = memory.session("repair/back", ROOMY)
    held = session.prepare(WENT_ON, repair=True).messages
    before = session.status()
    assert session.prepare([*held, assistant("Yes.")], repair=True).messages == [*held, assistant("Yes.")]
    assert (session.status().revision, session.status().archived) == (before.revision, before.archived)


@pytest.mark.parametrize("wrong", ["yes", 2, []])
def test_another_word_than_true_false_or_none_is_refused(memory: Client, wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        memory.session("repair/wrong", ROOMY).prepare(repair=wrong)


def test_a_shortened_list_is_in_order_too(memory: Client) -> None:
    session = memory.session("repair/short", SMALL)
    session.push([*conversation(9), call(50), user("Go on."), *step(51), user("Well?"), result(50, "late")])
    context = session.prepare()
    assert context.left_out
    assert not faults(context.messages)


def test_a_compaction_of_a_session_with_faults_keeps_the_list_in_order(memory: Client, worker: InlineWorker) -> None:
    pushed = [user("Go."), call(90), *conversation(8)[2:], result(90, "late"), call(91), user("Well?")]
    session = memory.session("repair/compacted", SMALL)
    session.push(pushed)
    session.prepare()
    assert worker.work("repair/compacted").outcome.items
    context = session.prepare()
    assert context.replaced
    assert not faults(context.messages)
    assert session.originals() == pushed


def test_close_open_calls_stores_a_result_for_each_call_that_waits(memory: Client) -> None:
    session = memory.session("close/stores", ROOMY)
    session.push([*WENT_ON, call(2)])
    receipt = session.close_open_calls()
    assert receipt.positions == (4, 5)
    assert session.originals() == [*WENT_ON, call(2), closed(1), closed(2)]
    assert not faults(session.prepare().messages)
    session.push(user("Go on."))
    assert session.prepare().verdict.problems == ("late_answer@m4",)


@pytest.mark.parametrize("messages", [[], [user("hello")], conversation(2)])
def test_with_nothing_open_nothing_is_stored(memory: Client, messages: Sequence[dict[str, Any]]) -> None:
    session = memory.session(f"close/nothing-{len(messages)}", ROOMY)
    session.push(messages)
    receipt = session.close_open_calls()
    assert (receipt.length, receipt.positions) == (len(messages), ())
    assert session.originals() == messages


def test_closing_twice_and_from_two_processes_closes_once(connect: Connect, settings: Settings) -> None:
    one, other = (connect(settings).session("close/twice", ROOMY) for _ in range(2))
    one.push(WENT_ON)
    assert other.prepare().verdict.problems
    for session in (one, other, one):
        session.close_open_calls()
    assert one.originals() == [*WENT_ON, closed(1)]


def test_a_closing_whose_reply_was_lost_closes_once(
    connect: Connect, through_proxy: Settings, proxy: LossyProxy
) -> None:
    session = connect(through_proxy).session("close/lost", ROOMY)
    session.push(WENT_ON)
    proxy.lose("push")
    assert session.close_open_calls().positions == (3,)
    assert proxy.lost == 1
    assert session.originals() == [*WENT_ON, closed(1)]


def test_a_call_that_is_open_again_after_a_rewind_is_closed_again(memory: Client) -> None:
    session = memory.session("close/rewound", ROOMY)
    session.push(KILLED)
    session.close_open_calls()
    session.rewind("m1")
    assert session.close_open_calls().positions == (3,)
    assert session.originals() == [*KILLED, closed(1)]


def test_a_real_answer_behind_a_closing_is_left_out_and_kept(memory: Client) -> None:
    session = memory.session("close/real", ROOMY)
    session.push(WENT_ON)
    session.close_open_calls()
    session.push([result(1, "found after all"), user("Well?")])
    context = session.prepare()
    assert context.messages == [*KILLED, closed(1), user("Are you there?"), user("Well?")]
    assert session.recall("m4") == result(1, "found after all")


def test_a_chinese_session_is_closed_in_its_language(memory: Client) -> None:
    session = memory.session("close/chinese", ROOMY)
    session.push([user("请帮我查找这些数值在哪里定义的。"), call(1), user("还在吗？")])
    assert session.prepare().messages[2] == result(1, "[已中断，没有输出]")
    session.close_open_calls()
    assert session.originals()[3] == result(1, "[已中断，没有输出]")
