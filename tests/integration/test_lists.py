"""prepare(messages=...) and sync: a caller's own list is matched, what is new stored, the answer is for that list."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from compactor import Compactor, Fit, InvalidMessageError, MessageTooLargeError
from compactor.settings import Settings
from tests.integration.clients import Client, Connect
from tests.integration.conversations import (
    OTHER_ENCODING,
    ROOMY,
    SMALL,
    SYSTEM,
    WIDE,
    assistant,
    call,
    conversation,
    recount,
    result,
    step,
    user,
)
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import keys_of

TALK = [user("one"), assistant("1"), *step(1, 5), assistant("here"), user("two"), assistant("2")]


def archive_bytes(raw: Any, settings: Settings, session: str) -> int:
    return sum(len(blob) for blob in raw.hvals(keys_of(settings, session).archive))


def test_a_list_is_stored_and_comes_back_as_it_is(memory: Client) -> None:
    session = memory.session("lists/first", ROOMY)
    context = session.prepare(TALK)
    assert context.messages == session.originals() == TALK
    assert context.verdict.total == recount(TALK) + 3
    assert context.verdict.fit is Fit.FITS
    assert session.estimate().total == context.verdict.total


def test_only_what_is_new_is_stored(memory: Client) -> None:
    session = memory.session("lists/new", ROOMY)
    for end in range(1, len(TALK) + 1):
        assert session.prepare(TALK[:end]).messages == TALK[:end]
        assert session.status().length == end
    assert session.originals() == TALK
    assert [session.recall(f"m{position}") for position in range(len(TALK))] == TALK


def test_the_steady_state_is_one_round_trip(connect: Connect, through_proxy: Settings, proxy: LossyProxy) -> None:
    memory = connect(through_proxy)
    memory.session("lists/warm", ROOMY).prepare([user("the scripts are loaded")])
    session = memory.session("lists/trips", ROOMY)
    for end in range(1, len(TALK) + 1):
        before = proxy.turns
        session.prepare(TALK[:end])
        assert proxy.turns - before == 1, "also for the first list of a new session"
    before = proxy.turns
    session.prepare([*TALK[:-1], assistant("another way")])
    session.prepare(TALK[3:])
    assert proxy.turns - before == 2, "a branch, and a list that lost its head"


def test_after_a_compaction_it_is_one_round_trip_also_where_messages_had_left(
    connect: Connect, through_proxy: Settings, proxy: LossyProxy, worker: InlineWorker
) -> None:
    talk = conversation(9)[1:]
    session = connect(through_proxy).session("lists/left", SMALL)
    session.prepare([*talk, assistant("This way."), user("Go on.")])
    other = [*talk, assistant("No, there."), user("Then do.")]
    session.prepare(other)
    worker.work("lists/left")
    before = proxy.turns
    assert session.prepare([*other, assistant("Done."), user("Thanks.")]).replaced
    assert proxy.turns - before == 1


@pytest.mark.parametrize("more", [[], [user("And?")], step(9, 5)])
def test_a_process_that_knows_nothing_needs_one_round_trip_for_a_list_of_originals(
    connect: Connect, settings: Settings, through_proxy: Settings, proxy: LossyProxy, more: list[dict[str, Any]]
) -> None:
    name = f"lists/cold-{len(more)}"
    connect(settings).session(name, ROOMY).prepare(TALK)
    memory = connect(through_proxy)
    memory.session("lists/warm", ROOMY).prepare([user("connected")])
    before = proxy.turns
    assert memory.session(name, ROOMY).prepare([*TALK, *more]).messages == [*TALK, *more]
    assert proxy.turns - before == 1
    assert memory.session(name, ROOMY).originals() == [*TALK, *more]


@pytest.mark.parametrize("end", range(len(TALK)))
def test_a_stale_list_gets_its_own_shorter_answer_and_changes_nothing(memory: Client, end: int) -> None:
    session = memory.session(f"lists/stale-{end}", ROOMY)
    session.prepare(TALK)
    before = session.status()
    assert session.prepare(TALK[:end]).messages == TALK[:end]
    assert session.originals() == TALK
    assert (session.status().revision, session.status().stored_bytes) == (before.revision, before.stored_bytes)


def test_a_stale_list_never_undoes_a_compaction(memory: Client, worker: InlineWorker) -> None:
    talk = conversation(9)[1:]
    session = memory.session("lists/stale-swap", SMALL)
    session.prepare(talk)
    outcome = worker.work("lists/stale-swap").outcome
    revision = session.status().revision
    for end in (5, len(talk) - 4, len(talk)):
        context = session.prepare(talk[:end])
        assert context.replaced == sum(1 for position in outcome.positions if position < end)
        assert len(context.messages) == end
    assert session.status().revision == revision
    assert session.prepare(talk).replaced == outcome.items


@pytest.mark.parametrize("start", [1, 2, 4, 5, 6])
def test_a_list_that_lost_its_head_is_answered_as_it_is_and_nothing_is_archived(memory: Client, start: int) -> None:
    session = memory.session(f"lists/head-{start}", ROOMY)
    session.prepare(TALK)
    before = session.status()
    assert session.prepare([*TALK[start:], user("three")]).messages == [*TALK[start:], user("three")]
    assert session.originals() == [*TALK, user("three")]
    assert (session.status().revision, session.status().archived) == (before.revision, 0)


def test_a_list_may_keep_its_first_message_and_lose_the_next_ones(memory: Client) -> None:
    session = memory.session("lists/middle", ROOMY)
    session.prepare(TALK)
    shorter = [TALK[0], *TALK[5:], user("three")]
    assert session.prepare(shorter).messages == shorter
    assert session.originals() == [*TALK, user("three")]
    assert session.status().archived == 0


@pytest.mark.parametrize("fork", range(len(TALK)))
def test_a_list_that_goes_another_way_leaves_the_rest_recallable(memory: Client, fork: int) -> None:
    session = memory.session(f"lists/branch-{fork}", ROOMY)
    session.prepare(TALK)
    other = [*TALK[:fork], assistant("elsewhere") if fork % 2 else user("something else"), assistant("yes")]
    assert session.prepare(other).messages == session.originals() == other
    assert session.status().totals["o200k_base"] == recount(other)
    assert session.status().length == len(other)
    assert [session.recall(f"m{position}") for position in range(len(TALK))] == TALK


def test_an_edit_in_the_middle_keeps_what_follows(memory: Client) -> None:
    session = memory.session("lists/edit", ROOMY)
    session.prepare(TALK)
    edited = [*TALK[:1], assistant("something else"), *TALK[2:]]
    assert session.prepare(edited).messages == session.originals() == edited
    assert session.recall("m1") == TALK[1]


def test_a_branch_takes_its_replacements_along_and_so_does_coming_back(memory: Client, worker: InlineWorker) -> None:
    talk = conversation(9)[1:]
    session = memory.session("lists/carry", SMALL)
    session.prepare(talk)
    outcome = worker.work("lists/carry").outcome
    shown = session.prepare(talk).messages
    edited = [user("Another question."), *talk[1:]]
    assert session.prepare(edited).messages == [user("Another question."), *shown[1:]]
    assert session.originals() == edited
    assert session.prepare(talk).messages == shown
    assert session.prepare(talk).replaced == outcome.items
    assert session.originals() == talk
    assert session.status().totals["o200k_base"] == recount(shown)


def test_a_process_that_knows_nothing_brings_replacements_back_too(
    connect: Connect, settings: Settings, worker: InlineWorker
) -> None:
    talk = conversation(9)[1:]
    session, other = (connect(settings).session("lists/unknown", SMALL) for _ in range(2))
    session.prepare(talk)
    worker.work("lists/unknown")
    replaced = session.prepare(talk)
    assert replaced.replaced > 1
    session.rewind("m4")
    back = other.prepare(talk)
    assert back.replaced == replaced.replaced
    assert back.messages == replaced.messages


def test_both_encodings_stay_a_recount_through_branches(memory: Client) -> None:
    one, other = (memory.session("lists/encodings", config) for config in (ROOMY, OTHER_ENCODING))
    one.prepare(TALK)
    other.prepare([*TALK[:3], user("else")])
    one.prepare([*TALK[:2], user("once more")])
    other.prepare()
    live = [*TALK[:2], user("once more")]
    assert one.status().totals == {name: recount(live, name) for name in ("o200k_base", "cl100k_base")}


def test_the_latest_user_message_may_be_reworded_at_every_call(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("lists/reword", ROOMY)
    session.prepare([*TALK, user("Found: nothing yet.\n\nWhere is it?")])
    before = session.status()
    for order in range(20):
        question = user(f"Found: page {order}\nand page {order * 7}.\n\nWhere is it?")
        assert session.prepare([*TALK, question]).messages == [*TALK, question]
        assert session.originals() == [*TALK, question]
        assert session.status().totals["o200k_base"] == recount([*TALK, question])
    assert (session.status().revision, session.status().length) == (before.revision, before.length)
    assert archive_bytes(raw, settings, "lists/reword") == 0


def test_words_that_were_pushed_are_never_reworded(memory: Client) -> None:
    session = memory.session("lists/pushed", ROOMY)
    session.push(user("Found: a.\n\nWhere is it?"))
    session.prepare([user("Found: b.\n\nWhere is it?")])
    assert session.recall("m0") == user("Found: a.\n\nWhere is it?")
    assert session.originals() == [user("Found: b.\n\nWhere is it?")]


def test_a_rewording_during_a_compaction_does_not_make_it_fail(memory: Client, worker: InlineWorker) -> None:
    talk = [*conversation(9)[1:], user("Found: a.\n\nWhere is it?")]
    session = memory.session("lists/reword-race", SMALL)
    session.prepare(talk)
    reworded = [*talk[:-1], user("Found: b.\n\nWhere is it?")]
    ended = worker.work("lists/reword-race", at="swapping", then=lambda: session.prepare(reworded))
    assert ended.outcome.items
    assert session.originals() == reworded


def test_system_text_in_front_may_change_at_every_call_and_is_never_stored(memory: Client) -> None:
    session = memory.session("lists/system", ROOMY)
    session.prepare([SYSTEM, *TALK])
    before = session.status()
    for order in range(10):
        given = [{"role": "system", "content": f"It is {order} o'clock."}, {"role": "developer", "content": "Hurry."}]
        context = session.prepare([*given, *TALK])
        assert context.messages == [*given, *TALK]
        assert context.verdict.total == recount([*given, *TALK]) + 3
    assert session.originals() == TALK
    after = session.status()
    assert (after.revision, after.stored_bytes, after.length) == (before.revision, before.stored_bytes, before.length)


def test_a_given_system_text_stands_in_front_and_is_not_doubled(memory: Client) -> None:
    session = memory.session("lists/given", ROOMY)
    text = str(SYSTEM["content"])
    first = session.prepare(TALK, system=text)
    assert first.messages == [SYSTEM, *TALK]
    again = session.prepare([*first.messages, user("three")], system=text)
    assert again.messages == [SYSTEM, *TALK, user("three")]
    assert again.verdict.total == recount(again.messages) + 3
    assert session.originals() == [*TALK, user("three")]


def test_a_session_fed_by_push_goes_on_with_lists(memory: Client) -> None:
    session = memory.session("lists/both", ROOMY)
    session.push([SYSTEM, *TALK])
    revision = session.status().revision
    assert session.prepare([SYSTEM, *TALK, user("three")]).messages == [SYSTEM, *TALK, user("three")]
    session.push(assistant("3"))
    assert session.prepare().messages == [SYSTEM, *TALK, user("three"), assistant("3")]
    assert session.status().revision == revision


def test_sync_stores_without_a_send(memory: Client) -> None:
    session = memory.session("lists/sync", ROOMY)
    receipt = session.sync([SYSTEM, *TALK])
    assert (receipt.length, receipt.positions) == (len(TALK), tuple(range(len(TALK))))
    assert receipt.total == recount(TALK)
    assert session.sync(TALK[2:]).positions == tuple(range(2, len(TALK)))
    assert session.originals() == TALK
    assert session.status().claim == "idle"


def test_a_sync_over_the_threshold_says_so_and_queues_nothing(memory: Client) -> None:
    session = memory.session("lists/sync-over", SMALL)
    assert session.sync(conversation(9)).over_threshold
    assert not session.sync(conversation(2)).over_threshold
    assert session.status().claim == "idle"


@pytest.mark.parametrize("wrong", [{"role": "user", "content": "alone"}, "text", 7])
def test_what_is_no_list_is_refused_and_nothing_is_stored(memory: Client, wrong: Any) -> None:
    session = memory.session("lists/wrong", ROOMY)
    with pytest.raises(InvalidMessageError):
        session.sync(wrong)
    assert not session.status().exists


def test_one_message_that_cannot_be_stored_refuses_the_whole_list(memory: Client) -> None:
    session = memory.session("lists/refused", ROOMY)
    with pytest.raises(InvalidMessageError):
        session.prepare([*TALK, {"role": "ai", "content": "x"}])
    assert not session.status().exists


@pytest.mark.parametrize("messages", [[], [SYSTEM]])
def test_an_empty_list_changes_nothing(memory: Client, messages: list[dict[str, Any]]) -> None:
    session = memory.session("lists/empty", ROOMY)
    assert session.prepare(messages).messages == messages
    assert not session.status().exists
    session.prepare(TALK)
    assert session.prepare(messages).messages == messages
    assert session.originals() == TALK


def test_a_full_session_answers_and_says_that_it_could_not_store(connect: Connect, settings: Settings) -> None:
    tight = connect(settings.model_copy(update={"max_session_bytes": 2_500}))
    session = tight.session("lists/full", ROOMY)
    session.prepare(TALK[:2])
    more = [*TALK[:2], user("x" * 3_000)]
    context = session.prepare(more)
    assert context.messages == more
    assert context.verdict.compaction == "held(session_full)"
    assert context.verdict.fit is Fit.FITS
    assert session.originals() == TALK[:2]
    with pytest.raises(MessageTooLargeError, match="COMPACTOR_MAX_SESSION_BYTES"):
        session.sync(more)
    roomy = connect(settings).session("lists/full", ROOMY)
    assert roomy.prepare([*more, assistant("done")]).messages == [*more, assistant("done")]
    assert roomy.originals() == [*more, assistant("done")]


def test_a_lost_reply_stores_every_message_once(connect: Connect, through_proxy: Settings, proxy: LossyProxy) -> None:
    session = connect(through_proxy).session("lists/lost", ROOMY)
    for end in range(1, len(TALK) + 1):
        proxy.lose("sync")
        assert session.prepare(TALK[:end]).messages == TALK[:end]
    proxy.lose("sync")
    assert session.prepare([*TALK[:2], user("else")]).messages == [*TALK[:2], user("else")]
    assert proxy.lost == len(TALK) + 1
    assert session.originals() == [*TALK[:2], user("else")]
    assert session.status().archived == len(TALK) - 2


def test_processes_that_bring_the_same_list_at_once_store_every_row_once(settings: Settings) -> None:
    clients = [Compactor(settings=settings) for _ in range(8)]
    talk = [message for order in range(10) for message in (*step(order, 3), assistant(f"{order}"), user(f"{order}?"))]

    def growing(client: Compactor) -> list[Any]:
        session = client.session("lists/crowd", ROOMY)
        return [session.prepare(talk[:end]).messages == talk[:end] for end in range(4, len(talk) + 1, 4)]

    with ThreadPoolExecutor(8) as pool:
        assert all(all(answers) for answers in pool.map(growing, clients))
    session = clients[0].session("lists/crowd", WIDE)
    assert session.originals() == session.prepare().messages == talk
    assert session.status().archived == 0
    assert session.status().totals["o200k_base"] == recount(talk)
    for client in clients:
        client.close()


def test_processes_on_ways_of_their_own_each_get_their_own_answer(connect: Connect, settings: Settings) -> None:
    ways = [connect(settings).session("lists/ways", ROOMY) for _ in range(3)]
    lists = [[*TALK, user(f"way {order}")] for order in range(3)]
    for turn in range(3):
        for order, session in enumerate(ways):
            assert session.prepare(lists[order]).messages == lists[order]
            lists[order] = [*lists[order], assistant(f"{order}.{turn}"), user(f"{order}.{turn}?")]
    left = {str(ways[0].recall(f"m{p}")) for p in range(ways[0].sync(lists[0]).positions[-1] + 1)}
    assert {str(message) for way in lists for message in way[:-2]} <= left, "no way is lost"


def test_call_ids_that_are_used_again_are_told_apart_by_place(memory: Client, worker: InlineWorker) -> None:
    talk = [user("Go.")]
    for order in range(9):
        talk += [call(0), result(0, step(order)[1]["content"]), assistant(f"{order} seen")]
    session = memory.session("lists/ids", SMALL)
    session.prepare(talk)
    outcome = worker.work("lists/ids").outcome
    assert outcome.items
    shown = session.prepare(talk).messages
    assert session.prepare([*shown, user("And?")]).messages == [*shown, user("And?")]
    assert session.originals() == [*talk, user("And?")]


@pytest.mark.parametrize("between", ["nothing", "an older list", "a shorter head"])
def test_after_a_list_without_its_head_the_whole_one_is_stored_once_and_in_order(memory: Client, between: str) -> None:
    session = memory.session("lists/head", ROOMY)
    said = [part for turn in range(4) for part in (user(f"[{turn}] What happened to these jobs?"), *step(turn))]
    second, third = (at for at, message in enumerate(said[:-4]) if message["role"] == "user" and at)
    session.prepare(said[:2])
    session.prepare(said[second : third + 1])  # ends with a question that is much like the first
    if between == "an older list":
        session.prepare(said[: second + 1])
    elif between == "a shorter head":
        session.prepare(said[third : third + 2])
    session.prepare(said)
    assert session.originals() == said
    assert session.prepare(said).messages == said
