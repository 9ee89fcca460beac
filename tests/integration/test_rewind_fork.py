"""rewind ends a history earlier, fork copies one: nothing is lost, recall ids stay what they are."""

from __future__ import annotations

import pytest

from compactor import Code, ConfigurationError, RecallExpiredError, SessionNotFoundError
from compactor.settings import Settings
from tests.integration.clients import Client, Connect
from tests.integration.conversations import ROOMY, SMALL, SYSTEM, WIDE, assistant, call, conversation, recount, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy

TALK = [user("one"), assistant("1"), user("two"), assistant("2"), user("three")]


def test_a_rewind_ends_the_history_behind_its_message_and_says_how_many_left(memory: Client) -> None:
    session = memory.session("rewind/end", ROOMY)
    session.push(TALK)
    assert session.rewind("m1") == 3
    assert session.originals() == session.prepare().messages == TALK[:2]
    assert session.status().length == 2
    assert session.estimate().history == recount(TALK[:2])


def test_what_a_rewind_took_away_stays_recallable_and_its_positions_never_come_again(memory: Client) -> None:
    session = memory.session("rewind/recall", ROOMY)
    session.push(TALK)
    session.rewind(1)
    assert session.push(user("another two")).positions == (5,)
    assert [session.recall(f"m{position}") for position in range(6)] == [*TALK, user("another two")]


def test_a_rewind_to_the_last_message_changes_nothing(memory: Client) -> None:
    session = memory.session("rewind/last", ROOMY)
    session.push(TALK)
    before = session.status()
    assert session.rewind("m4") == 0
    assert (session.status().revision, session.status().archived) == (before.revision, 0)


def test_other_processes_see_a_rewind_at_their_next_send(connect: Connect, settings: Settings) -> None:
    one, other = (connect(settings).session("rewind/seen", ROOMY) for _ in range(2))
    one.push(TALK)
    assert other.prepare().messages == TALK
    one.rewind("m2")
    assert other.prepare().messages == TALK[:3]
    other.push(assistant("two, again"))
    assert one.prepare().messages == [*TALK[:3], assistant("two, again")]


def test_a_rewind_into_a_step_leaves_a_call_that_the_returned_list_closes_once_something_follows(
    memory: Client,
) -> None:
    session = memory.session("rewind/step", ROOMY)
    session.push(conversation(1))
    session.rewind("m2")
    session.push(user("Never mind."))
    context = session.prepare()
    assert [message["role"] for message in context.messages] == ["system", "user", "assistant", "tool", "user"]
    assert context.verdict.problems == ("open_call@m2",)


def test_a_rewind_past_replacements_keeps_those_before_it(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("rewind/replaced", SMALL)
    session.push(conversation(9))
    session.prepare()
    replaced = worker.work("rewind/replaced").outcome.positions
    session.rewind(f"m{replaced[1]}")
    assert session.prepare().replaced == 2
    assert session.originals() == conversation(9)[: replaced[1] + 1]
    assert session.recall(f"m{replaced[-1]}") == conversation(9)[replaced[-1]]


def test_a_rewind_during_a_compaction_makes_its_plan_stale(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("rewind/race", SMALL)
    session.push(conversation(9))
    session.prepare()
    ended = worker.work("rewind/race", at="swapping", then=lambda: session.rewind("m4"))
    assert ended.outcome.outcome is Code.STALE
    assert session.originals() == conversation(9)[:5]
    assert session.prepare().replaced == 0


@pytest.mark.parametrize("wrong", ["m5", "m99", 5, -1, "m3"])
def test_a_position_that_is_no_live_message_is_refused(memory: Client, wrong: str | int) -> None:
    session = memory.session("rewind/wrong", ROOMY)
    session.push(TALK)
    session.rewind("m2")
    with pytest.raises(RecallExpiredError):
        session.rewind(wrong)
    assert session.originals() == TALK[:3]


@pytest.mark.parametrize("pushed_since", [[], [user("new")]])
def test_a_message_of_the_cleared_conversation_is_no_end_of_this_one(
    memory: Client, pushed_since: list[dict[str, object]]
) -> None:
    session = memory.session("rewind/cleared", ROOMY)
    session.push(user("old"))
    session.clear()
    session.push(pushed_since)
    with pytest.raises(RecallExpiredError):
        session.rewind("m0")
    assert session.originals() == pushed_since


def test_the_leading_system_text_stays(memory: Client) -> None:
    session = memory.session("rewind/lead", ROOMY)
    session.push([SYSTEM, SYSTEM, user("hello")])
    with pytest.raises(RecallExpiredError):
        session.rewind("m0")
    assert session.rewind("m1") == 1
    assert session.originals() == [SYSTEM, SYSTEM]
    assert session.prepare([SYSTEM, user("again")]).messages == [SYSTEM, user("again")]
    assert session.originals() == [SYSTEM, SYSTEM, user("again")]


@pytest.mark.parametrize("wrong", [True, 1.5, None, "one"])
def test_what_names_no_position_is_refused(memory: Client, wrong: object) -> None:
    session = memory.session("rewind/type", ROOMY)
    session.push(TALK)
    with pytest.raises(ConfigurationError):
        session.rewind(wrong)  # type: ignore[arg-type] # why: the wrong type is the point


def test_an_unknown_session_cannot_be_rewound_or_forked(memory: Client) -> None:
    session = memory.session("rewind/unknown", ROOMY)
    with pytest.raises(SessionNotFoundError):
        session.rewind("m0")
    with pytest.raises(SessionNotFoundError):
        session.fork("rewind/unknown-copy")


def test_a_rewind_whose_reply_was_lost_is_done_once_and_says_how_many_left(
    connect: Connect, through_proxy: Settings, proxy: LossyProxy
) -> None:
    session = connect(through_proxy).session("rewind/lost", ROOMY)
    session.push(TALK)
    proxy.lose("sync")
    assert session.rewind("m1") == 3
    assert proxy.lost == 1
    assert session.originals() == TALK[:2]


def test_a_fork_is_the_same_conversation_in_a_session_of_its_own(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("fork/from", SMALL)
    session.push(conversation(9))
    session.prepare()
    replaced = worker.work("fork/from").outcome.positions
    copy = session.fork("fork/to")
    assert copy.prepare().messages == session.prepare().messages
    assert copy.originals() == session.originals() == conversation(9)
    assert all(copy.recall(f"m{position}") == conversation(9)[position] for position in replaced)
    assert copy.compactions() == session.compactions()
    assert copy.status().totals == session.status().totals


def test_neither_of_a_fork_changes_the_other(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("fork/apart", SMALL)
    session.push(conversation(9))
    session.prepare()
    worker.work("fork/apart")
    copy = session.fork("fork/apart-copy")
    shown = copy.prepare().messages
    session.undo()
    session.erase()
    assert copy.prepare().messages == shown
    copy.undo()
    assert copy.originals() == memory.session("fork/apart-copy", WIDE).prepare().messages == conversation(9)
    assert session.originals() == []


def test_a_fork_may_end_earlier(memory: Client) -> None:
    session = memory.session("fork/at", ROOMY)
    session.push([SYSTEM, *TALK])
    copy = session.fork("fork/at-copy", at="m3")
    assert copy.originals() == [SYSTEM, *TALK[:3]]
    assert copy.estimate().total == recount([SYSTEM, *TALK[:3]]) + 3
    assert copy.push(user("else")).positions == (4,)
    with pytest.raises(RecallExpiredError):
        copy.recall("m5")


def test_a_fork_holds_what_had_left_the_history_before_its_end(memory: Client) -> None:
    session = memory.session("fork/left", ROOMY)
    session.push(TALK)
    session.rewind("m1")
    session.push(user("another two"))
    copy = session.fork("fork/left-copy")
    assert copy.originals() == [*TALK[:2], user("another two")]
    assert copy.recall("m3") == TALK[3]
    assert copy.push(assistant("2")).positions == (6,)


@pytest.mark.parametrize("wrong", ["m2", "m9", -1, 3])
def test_a_fork_ends_with_a_live_message_or_is_not_made(memory: Client, wrong: str | int) -> None:
    session = memory.session("fork/wrong", ROOMY)
    session.push(TALK)
    session.rewind("m1")
    with pytest.raises(RecallExpiredError):
        session.fork("fork/wrong-copy", at=wrong)
    assert not memory.session("fork/wrong-copy", ROOMY).status().exists


def test_a_fork_never_writes_over_a_session(memory: Client) -> None:
    memory.session("fork/taken", ROOMY).push(user("mine"))
    session = memory.session("fork/mover", ROOMY)
    session.push(TALK)
    with pytest.raises(ConfigurationError, match="exists"):
        session.fork("fork/taken")
    assert memory.session("fork/taken", ROOMY).originals() == [user("mine")]


def test_a_fork_whose_reply_was_lost_is_made_once(connect: Connect, through_proxy: Settings, proxy: LossyProxy) -> None:
    session = connect(through_proxy).session("fork/lost", ROOMY)
    session.push([*TALK, call(1)])
    proxy.lose("fork")
    assert session.fork("fork/lost-copy").originals() == [*TALK, call(1)]
    assert proxy.lost == 1


def test_a_list_goes_on_in_a_fork_as_in_the_session_it_came_from(memory: Client, worker: InlineWorker) -> None:
    talk = conversation(9)[1:]
    session = memory.session("fork/list", SMALL)
    session.prepare(talk)
    worker.work("fork/list")
    held = session.prepare(talk).messages
    copy = session.fork("fork/list-copy")
    before = copy.status()
    context = copy.prepare([*held, user("and?")])
    assert context.messages == [*held, user("and?")]
    assert copy.originals() == [*talk, user("and?")]
    assert (copy.status().revision, copy.status().archived) == (before.revision, before.archived)
