"""What an estimate and a prepare do, effect by effect, without a server."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from compactor.exceptions import ConfigurationError, DispatchError, SessionDamagedError, StoreUnavailableError
from compactor.judging import Request
from compactor.models import Fit, Kind
from compactor.tokens import PER_REQUEST, count_message
from tests.unit.chat import Chat, assistant, by_length, result, steps, system, user
from tests.unit.flows import OVER, Bot, Script, load, prepared, record, state, stored


def test_an_estimate_reads_one_hash_and_queues_nothing() -> None:
    bot = Bot()
    script = bot.script(load=load(length=9, total=3_600, lead_tokens=100))
    seen = bot.run(lambda flows: flows.estimate(Request(system="s" * 400)), script)
    assert script.ran == ["load"]
    assert (seen.total, seen.fit, seen.compaction, seen.over_threshold) == (3_707, Fit.SHORTENED, "due", True)
    assert (seen.system, seen.history, seen.length) == (207, 3_500, 9)


def test_the_fixed_part_is_counted_once() -> None:
    bot = Bot()
    request = Request(tools=[{"type": "function"}], system="s")
    first, second = bot.script(load=load()), bot.script(load=load())
    bot.run(lambda flows: flows.estimate(request), first)
    bot.run(lambda flows: flows.estimate(request), second)
    assert first.heavy
    assert second.heavy == []


@pytest.mark.parametrize(("claim", "until_ms", "word"), [("queued", 10**10, "queued"), ("running", 5, "due")])
def test_an_estimate_knows_a_claim_whose_time_ran_out(claim: str, until_ms: int, word: str) -> None:
    bot = Bot()
    script = bot.script(load=load(total=3_200, claim=claim, until_ms=until_ms))
    assert bot.run(lambda flows: flows.estimate(Request()), script).compaction == word


# --- prepare


def prepare(bot: Bot, script: Script, request: Request | None = None, **given: Any) -> Any:
    return bot.run(lambda flows: flows.prepare(request or Request(), **given), script)


def test_a_history_below_the_threshold_is_sent_as_it_is_in_one_round_trip() -> None:
    bot = Bot()
    chat = [system("s"), user("a"), assistant("b"), user("c")]
    script = bot.script(prepare=prepared(chat, lead=1))
    context = prepare(bot, script)
    assert script.ran == ["prepare"]
    assert context.messages == chat
    assert (context.verdict.fit, context.verdict.compaction) == (Fit.FITS, "not_needed")
    assert context.verdict.total == context.verdict.sent == PER_REQUEST + sum(count_message(m, by_length) for m in chat)
    assert context.verdict.system == PER_REQUEST + count_message(chat[0], by_length)


def test_an_unknown_session_prepares_to_the_system_text_alone() -> None:
    bot = Bot()
    context = prepare(bot, bot.script(prepare=None), Request(system="Be kind."))
    assert context.messages == [system("Be kind.")]
    assert context.system == "Be kind."
    assert context.verdict.length == 0


def test_messages_of_a_context_cannot_be_changed() -> None:
    bot = Bot()
    context = prepare(bot, bot.script(prepare=prepared([user("a")])), Request(system="s"))
    for message in context.messages:
        with pytest.raises(TypeError):
            message["content"] = "other"
    context.messages.append(user("mine"))


def test_a_second_prepare_asks_only_for_what_is_new() -> None:
    bot = Bot()
    prepare(bot, bot.script(prepare=prepared([user("a")])))
    script = bot.script(prepare=replace(prepared([user("b")]), length=2))
    context = prepare(bot, script)
    assert context.messages == [user("a"), user("b")]
    assert script.commands[0].reads == ()
    assert (script.commands[0].args[4], script.commands[0].args[-1]) == (1, "tail")


def test_a_process_too_far_behind_reads_all_anew() -> None:
    bot = Bot()
    prepare(bot, bot.script(prepare=prepared([user("a")])))
    script = bot.script(prepare=[prepared([], whole=True), prepared([user("x"), user("y")], version=40)])
    assert prepare(bot, script).messages == [user("x"), user("y")]
    assert script.ran == ["prepare", "prepare"]
    assert script.commands[1].reads[0][2] == 0


def test_the_one_that_takes_the_claim_publishes_it_and_goes_on() -> None:
    bot = Bot()
    script = bot.script(prepare=prepared(OVER, claim="queued", claimed=True))
    context = prepare(bot, script)
    owner = script.commands[0].args[0]
    assert script.published == [owner]
    assert (context.verdict.compaction, context.verdict.fit) == ("queued", Fit.SHORTENED)
    assert context.verdict.sent <= 3_500 < context.verdict.total


def test_the_others_do_not_publish() -> None:
    bot = Bot()
    script = bot.script(prepare=prepared(OVER, claim="running"))
    assert prepare(bot, script).verdict.compaction == "running"
    assert script.published == []


def test_a_broker_that_is_down_gives_the_claim_back_and_the_context_all_the_same() -> None:
    bot = Bot()
    script = bot.script(prepare=prepared(OVER, claim="queued", claimed=True), publish=DispatchError("no"), unqueue=True)
    context = prepare(bot, script)
    assert script.ran == ["prepare", "turns", "publish", "unqueue", "turns"]
    assert context.verdict.compaction == "held(broker_down)"
    assert context.messages


def test_what_holds_a_compaction_back_is_said() -> None:
    bot = Bot()
    assert prepare(bot, bot.script(prepare=prepared(OVER, held="no_gain"))).verdict.compaction == "held(no_gain)"


def test_without_an_answer_the_newest_context_of_this_process_is_sent_degraded() -> None:
    bot = Bot()
    prepare(bot, bot.script(prepare=prepared([user("a")])))
    context = prepare(bot, bot.script(prepare=StoreUnavailableError("no answer")))
    assert context.messages == [user("a")]
    assert (context.verdict.fit, context.verdict.compaction) == (Fit.DEGRADED, "held(store_unavailable)")


def test_without_an_answer_and_without_a_context_it_raises() -> None:
    bot = Bot()
    with pytest.raises(StoreUnavailableError):
        prepare(bot, bot.script(prepare=StoreUnavailableError("no answer")))


def test_a_degraded_context_is_shortened_to_its_budget_too() -> None:
    bot = Bot()
    prepare(bot, bot.script(prepare=prepared(OVER)))
    context = prepare(bot, bot.script(prepare=SessionDamagedError("gone")))
    assert context.verdict.sent <= 3_500
    assert context.verdict.fit is Fit.DEGRADED


def test_a_session_that_is_no_more_is_forgotten() -> None:
    bot = Bot()
    prepare(bot, bot.script(prepare=prepared([user("a")])))
    assert prepare(bot, bot.script(prepare=None)).messages == []
    with pytest.raises(StoreUnavailableError):
        prepare(bot, bot.script(prepare=StoreUnavailableError("no answer")))


def test_a_claim_taken_by_a_prepare_whose_answer_was_lost_is_taken_up_by_the_next() -> None:
    """Else nobody publishes it, and the session waits for its time to run out."""
    bot = Bot()
    first = bot.script(prepare=StoreUnavailableError("no answer"))
    with pytest.raises(StoreUnavailableError):
        prepare(bot, first)
    lost = str(first.commands[0].args[0])
    second = bot.script(prepare=prepared(OVER, claim="queued", claimed=True, owner=lost))
    prepare(bot, second)
    assert lost in second.commands[0].args
    assert lost != second.commands[0].args[0]
    assert second.published == [lost]
    third = bot.script(prepare=prepared([], length=len(OVER), claim="queued"))
    prepare(bot, third)
    assert lost not in third.commands[0].args


def test_a_total_not_counted_in_this_encoding_is_counted_and_stored() -> None:
    bot = Bot()
    chat = [user("a" * 400)]
    script = bot.script(prepare=[prepared(chat, total=None), prepared([], length=1, total=104)], recount=True)
    context = prepare(bot, script)
    assert script.ran == ["prepare", "recount", "prepare"]
    assert context.verdict.recounted
    assert context.verdict.history == 104


def test_a_wait_ends_as_soon_as_the_swap_was_made() -> None:
    bot = Bot()
    chat = list(OVER)
    short = record(result("c0", "short"), kind=Kind.SUMMARY)
    script = bot.script(
        prepare=[
            prepared(chat, claim="queued", claimed=True),
            prepared([], version=2, length=len(chat), changed={2: short}),
        ],
        state=[state(claim="running"), state(claim="idle")],
    )
    context = prepare(bot, script, wait=5.0)
    assert script.ran == ["prepare", "turns", "publish", "state", "state", "prepare"]
    assert context.replaced == 1


def test_a_wait_ends_when_its_time_is_over() -> None:
    bot = Bot()
    script = bot.script(
        prepare=[prepared(OVER, claim="running"), prepared([], length=len(OVER), claim="running")],
        state=state(claim="running"),
    )
    prepare(bot, script, wait=1.0)
    assert 0.9 <= sum(script.pauses) <= 1.1


def test_a_send_that_fits_waits_only_when_asked_to() -> None:
    bot = Bot()
    chat = steps(3, tokens=1_200)
    answer = prepared(chat, claim="running")
    script = bot.script(prepare=answer)
    assert prepare(bot, script, wait=5.0).verdict.fit is Fit.FITS
    assert script.pauses == []
    patient = bot.script(prepare=prepared([], length=len(chat), claim="running"), state=state(claim="idle"))
    prepare(bot, patient, wait=5.0, wait_for="swap")
    assert patient.pauses


def test_a_worker_that_is_missing_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    bot = Bot()
    with caplog.at_level(logging.WARNING, "compactor"):
        prepare(bot, bot.script(prepare=prepared(OVER, claim="queued", queued_seconds=61.0)))
        prepare(bot, bot.script(prepare=prepared([], length=len(OVER), claim="queued", queued_seconds=90.0)))
    (entry,) = caplog.records
    assert "celery -A workers worker" in entry.getMessage()


def test_a_cut_is_remembered_between_sends() -> None:
    bot = Bot()
    first = prepare(bot, bot.script(prepare=prepared(OVER)))
    more: list[Chat] = [assistant("fine"), user("go on")]
    second = prepare(bot, bot.script(prepare=replace(prepared(more), length=len(OVER) + 2)))
    assert second.messages[: len(first.messages)] == first.messages


@pytest.mark.parametrize("wait_for", ["", "Fit", "ceiling", None])
def test_what_to_wait_for_is_one_of_two_words(wait_for: Any) -> None:
    bot = Bot()
    with pytest.raises(ConfigurationError, match="'fit' or 'swap'"):
        prepare(bot, bot.script(), wait=1.0, wait_for=wait_for)


def test_an_estimate_of_a_history_not_counted_counts_it_once() -> None:
    bot = Bot()
    script = bot.script(load=load(total=None, length=1), history=stored([user("a" * 400)]), recount=True)
    seen = bot.run(lambda flows: flows.estimate(Request()), script)
    assert script.ran == ["load", "history", "recount"]
    assert (seen.history, seen.recounted) == (104, True)
