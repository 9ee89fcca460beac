"""push(limit_result=...): a long tool result is stored cut, its whole archived in the same call; nothing is lost."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from compactor import Code, ConfigurationError, InvalidMessageError, MessageTooLargeError, TenantFullError
from compactor.agent_loop import LimitPolicy
from compactor.settings import Settings, read_settings
from compactor.testing import LossyProxy
from tests.integration.clients import Client, Connect, SessionClient
from tests.integration.conversations import ROOMY, SMALL, SYSTEM, assistant, call, recount, result, rows, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import expiries, keys_of, records

LONG = rows(1, 400)  # about 18,000 characters
QUESTION = [SYSTEM, user("Where are the values defined?")]


def turn(steps: int, lines: int = 400) -> list[dict[str, Any]]:
    """One question and that many steps with long results."""
    return [
        *QUESTION,
        *(message for order in range(steps) for message in (call(order), result(order, rows(order, lines)))),
    ]


def held(raw: Any, settings: Settings, session: str) -> int:
    """Bytes that a session really holds."""
    archive = raw.hgetall(keys_of(settings, session).archive)
    return sum(len(row) - 51 for row in records(raw, settings, session)) + sum(map(len, archive.values()))


def total(session: SessionClient) -> int:
    """The running total of the whole history."""
    return session.status().totals["o200k_base"]


def small_turn(session: SessionClient, steps: int = 8) -> list[dict[str, Any]]:
    """A turn over the threshold of SMALL, its results limited to 3,000 characters."""
    pushed = [*turn(steps, 150), assistant("In src.")]
    session.push(pushed, limit_result=3_000)
    return pushed


def test_a_long_result_is_stored_cut_and_recalled_whole(memory: Client) -> None:
    session = memory.session("limited/one", ROOMY)
    receipt = session.push([*QUESTION, call(1), result(1, LONG)], limit_result=True)
    live = session.prepare().messages
    cut = live[3]["content"]
    assert cut.startswith(LONG[:8_000])
    assert cut[8_000:] == f"\n[… {len(LONG) - 8_000} of {len(LONG)} characters left out; whole output: m3 …]"
    assert session.recall("m3") == result(1, LONG)
    assert session.originals() == [*QUESTION, call(1), result(1, LONG)]
    assert receipt.total == recount(live) == total(session)
    assert receipt.positions == (0, 1, 2, 3)
    assert session.status().archived == 1


@pytest.mark.parametrize("limit", [None, False, 20_000, LimitPolicy(20_000)])
def test_what_is_short_enough_is_stored_as_it_is(memory: Client, limit: Any) -> None:
    session = memory.session("limited/short", ROOMY)
    session.push([*QUESTION, call(1), result(1, LONG)], limit_result=limit)
    assert session.prepare().messages[3] == result(1, LONG)
    assert session.status().archived == 0


def test_only_tool_results_are_cut(memory: Client) -> None:
    session = memory.session("limited/roles", ROOMY)
    words = [user(LONG), assistant(LONG), {"role": "system", "content": LONG}]
    session.push(words, limit_result=100)
    assert session.prepare().messages == words


def test_head_tail_and_notice_are_the_callers(memory: Client) -> None:
    session = memory.session("limited/policy", ROOMY)
    session.push(
        [call(1), result(1, LONG)], limit_result=LimitPolicy(1_000, tail=300, notice="<{cut} of {whole}: {id}>")
    )
    assert (
        session.prepare().messages[1]["content"] == f"{LONG[:700]}<{len(LONG) - 1_000} of {len(LONG)}: m1>{LONG[-300:]}"
    )


def test_parallel_results_with_parts_each_name_their_own_place(memory: Client) -> None:
    session = memory.session("limited/parts", ROOMY)
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 9_000}}
    both = {**call(1), "tool_calls": [*call(1)["tool_calls"], *call(2)["tool_calls"]]}
    parts = [{"type": "text", "text": LONG}, image, {"type": "text", "text": "the end"}]
    pushed = [user("look"), both, result(1, LONG), {"role": "tool", "tool_call_id": "call_2", "content": parts}]
    session.push(pushed, limit_result=LimitPolicy(500, tail=20))
    first, second = session.prepare().messages[2:]
    assert "whole output: m2 …]" in first["content"]
    assert "whole output: m3 …]" in second["content"][0]["text"]
    assert second["content"][1:] == [image, {"type": "text", "text": "the end"}]
    assert session.originals() == pushed
    assert session.recall("m3") == pushed[3]


def test_one_round_trip_when_nobody_else_pushes(connect: Connect, through_proxy: Settings, proxy: LossyProxy) -> None:
    session = connect(through_proxy).session("limited/trips", ROOMY)
    session.push(QUESTION)
    before = proxy.turns
    session.push([call(1), result(1, LONG)], limit_result=True)
    session.push([call(2), result(2, LONG)], limit_result=True)
    assert proxy.turns - before == 2


def test_of_bots_that_push_at_once_every_notice_names_its_own_message(connect: Connect, settings: Settings) -> None:
    def bot(number: int) -> None:
        session = connect(settings).session("limited/race", ROOMY)
        for order in range(20):
            name = 100 * number + order
            session.push([call(name), result(name, f"{name} " * 1_000)], limit_result=600)

    bots = [threading.Thread(target=bot, args=(number,)) for number in range(3)]
    for each in bots:
        each.start()
    for each in bots:
        each.join()
    session = connect(settings).session("limited/race", ROOMY)
    live = session.prepare(repair=False).messages
    assert len(live) == 120
    assert total(session) == recount(live)
    for position, message in enumerate(live):
        if message["role"] == "tool":
            name = int(message["tool_call_id"].removeprefix("call_"))
            assert f"whole output: m{position} …]" in message["content"]
            assert session.recall(f"m{position}") == result(name, f"{name} " * 1_000)


def test_a_key_that_comes_twice_stores_once_whatever_its_place_was(connect: Connect, settings: Settings) -> None:
    one, other = (connect(settings).session("limited/key", ROOMY) for _ in range(2))
    step = [call(1), result(1, LONG)]
    first = one.push(step, "event-1", limit_result=True)
    one.push(user("and then?"))
    assert other.push(step, "event-1", limit_result=True) == first
    assert one.push(step, "event-1", limit_result=5_000) == first
    assert len(one.originals()) == 3
    assert one.status().archived == 1


def test_a_push_whose_reply_is_lost_is_stored_once(
    connect: Connect, through_proxy: Settings, proxy: LossyProxy
) -> None:
    session = connect(through_proxy).session("limited/lost", ROOMY)
    session.push(QUESTION)
    proxy.lose("push")
    session.push([call(1), result(1, LONG)], limit_result=True)
    assert proxy.lost == 1
    assert session.originals() == [*QUESTION, call(1), result(1, LONG)]


def test_bytes_and_totals_are_what_is_stored(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("limited/bytes", SMALL)
    small_turn(session)
    assert session.status().stored_bytes == held(raw, settings, "limited/bytes")
    session.prepare()
    assert worker.work("limited/bytes").outcome.outcome is Code.APPLIED
    assert session.status().stored_bytes == held(raw, settings, "limited/bytes")
    session.undo()
    assert session.status().stored_bytes == held(raw, settings, "limited/bytes")
    session.rewind("m7")
    assert session.status().stored_bytes == held(raw, settings, "limited/bytes")
    assert total(session) == recount(session.prepare(repair=False).messages)


def test_a_limited_result_is_summarised_like_any_other_and_undo_brings_the_cut_one_back(
    memory: Client, worker: InlineWorker
) -> None:
    session = memory.session("limited/undo", SMALL)
    pushed = small_turn(session)
    before = memory.session("limited/undo", ROOMY).prepare().messages
    session.prepare()
    limited = [position for position, message in enumerate(before) if "whole output:" in str(message["content"])]
    assert len(limited) >= 5
    outcome = worker.work("limited/undo").outcome
    assert (outcome.outcome, outcome.reached) == (Code.APPLIED, True)
    assert set(outcome.positions) <= set(limited), "what a push cut puts no older result out of reach"
    assert session.originals() == pushed
    assert [session.recall(f"m{position}") for position in limited] == [pushed[position] for position in limited]
    session.undo()
    stands = memory.session("limited/undo", ROOMY).prepare().messages
    assert stands == before
    assert total(session) == recount(stands)
    assert session.originals() == pushed
    assert [session.recall(f"m{position}") for position in limited] == [pushed[position] for position in limited]


def test_what_was_undone_is_replaced_again_once_it_is_released(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("limited/again", SMALL)
    pushed = small_turn(session)
    session.prepare()
    first = worker.work("limited/again").outcome
    session.undo()
    session.release(first.id)
    session.prepare()
    assert worker.work("limited/again").outcome.positions == first.positions
    assert session.originals() == pushed


@pytest.mark.parametrize("stage", ["limited", "compacted", "undone"])
def test_a_list_with_whole_or_cut_results_is_the_history(memory: Client, worker: InlineWorker, stage: str) -> None:
    session = memory.session(f"limited/list-{stage}", SMALL)
    pushed = small_turn(session)
    wide = memory.session(f"limited/list-{stage}", ROOMY)
    lists = [pushed, wide.prepare().messages]
    if stage != "limited":
        session.prepare()
        assert worker.work(f"limited/list-{stage}").outcome.items >= 2
        lists.append(wide.prepare().messages)
    if stage == "undone":
        session.undo()
    stands = wide.prepare().messages
    for number in range(len(lists)):
        given = lists[number]
        assert wide.prepare(given).messages == stands
        more = user(f"and number {len(stands)}?")
        assert wide.prepare([*given, more]).messages == [*stands, more]
        stands = [*stands, more]
        lists = [[*each, more] for each in lists]
    assert wide.originals() == [*pushed, *stands[len(pushed) :]]
    assert wide.status().length == len(stands), "no list went another way"


def test_a_process_that_knows_nothing_takes_either_list_for_the_history(connect: Connect, settings: Settings) -> None:
    session = connect(settings).session("limited/cold", ROOMY)
    pushed = turn(3)
    session.push(pushed, limit_result=True)
    stands = session.prepare().messages
    for given in (pushed, stands):
        assert connect(settings).session("limited/cold", ROOMY).prepare(given).messages == stands
    assert session.status().length == len(pushed)


def test_a_branch_away_and_back_finds_the_cut_result_again(memory: Client) -> None:
    session = memory.session("limited/branch", ROOMY)
    pushed = turn(3)
    session.push(pushed, limit_result=True)
    stands = session.prepare().messages
    session.prepare([*pushed[:4], user("something else")])
    again = session.prepare(pushed).messages
    assert [message["content"] for message in again] == [message["content"] for message in stands]
    assert session.originals() == pushed
    assert [session.recall(f"m{position}") for position in range(8)] == pushed


def test_rewind_keeps_the_whole_recallable(memory: Client) -> None:
    session = memory.session("limited/rewind", ROOMY)
    pushed = turn(3)
    session.push(pushed, limit_result=True)
    assert session.rewind("m3") == 4
    assert session.originals() == pushed[:4]
    assert [session.recall(f"m{position}") for position in range(8)] == pushed


def test_a_fork_has_its_own_wholes(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("limited/fork", ROOMY)
    pushed = turn(3)
    session.push(pushed, limit_result=True)
    copy = session.fork("limited/copy", at="m5")
    assert copy.status().stored_bytes == held(raw, settings, "limited/copy")
    session.erase()
    assert copy.originals() == pushed[:6]
    assert copy.recall("m3") == pushed[3]


def test_clear_keeps_the_whole_for_now_and_erase_leaves_nothing(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("limited/clear", ROOMY)
    session.push(turn(1), limit_result=True)
    session.clear()
    assert session.recall("m3")["content"] == rows(0, 400)
    session.push(turn(1), limit_result=True)
    assert "whole output: m7 …]" in session.prepare().messages[3]["content"], "positions never repeat"
    session.erase()
    kept = [raw.dump(key) or b"" for key in keys_of(settings, "limited/clear").all]
    assert not any(b"src/file0" in value for value in kept)
    assert not raw.exists(keys_of(settings, "limited/clear").archive)


def test_the_archive_lives_as_long_as_the_session(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("limited/life", ROOMY)
    session.push(QUESTION)
    session.push([call(1), result(1, LONG)], limit_result=True)
    lives = expiries(raw, settings, "limited/life")
    assert keys_of(settings, "limited/life").archive in lives
    assert len(set(lives.values())) == 1
    assert -1 not in lives.values()


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "8000", [], LimitPolicy])
def test_a_wrong_limit_is_refused_and_nothing_is_stored(memory: Client, wrong: Any) -> None:
    session = memory.session("limited/wrong", ROOMY)
    with pytest.raises(ConfigurationError, match="characters"):
        session.push([call(1), result(1, LONG)], limit_result=wrong)
    assert not session.status().exists


def test_one_bad_message_stores_nothing_of_a_limited_batch(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("limited/bad", ROOMY)
    with pytest.raises(InvalidMessageError):
        session.push([call(1), result(1, LONG), {"role": "model"}], limit_result=True)
    assert not any(raw.exists(key) for key in keys_of(settings, "limited/bad").all)


def test_a_full_session_takes_neither_the_cut_result_nor_its_whole(
    connect: Connect, settings: Settings, raw: Any
) -> None:
    url = settings.redis_url.get_secret_value()
    tight = read_settings(redis_url=url, namespace=settings.namespace, max_session_bytes=5_000)
    session = connect(tight).session("limited/full", ROOMY)
    session.push(QUESTION)
    with pytest.raises(MessageTooLargeError, match="nothing was stored"):
        session.push([call(1), result(1, LONG)], limit_result=4_500)
    assert len(session.originals()) == 2
    assert not raw.exists(keys_of(tight, "limited/full").archive)


def test_a_tenant_pays_for_the_whole_too(connect: Connect, settings: Settings) -> None:
    url = settings.redis_url.get_secret_value()
    tight = read_settings(redis_url=url, namespace=settings.namespace, max_tenant_bytes=30_000)
    session = connect(tight).session("payer/one", ROOMY)
    noise = random.Random(1)  # what no compression makes small
    for order in range(2):
        session.push([call(order), result(order, noise.randbytes(8_000).hex())], limit_result=1_000)
    with pytest.raises(TenantFullError):
        session.push([call(2), result(2, noise.randbytes(8_000).hex())], limit_result=1_000)
    assert 2 * 8_000 < session.status().stored_bytes <= 30_000


def test_text_that_only_the_standard_writer_takes_is_cut_and_recalled(memory: Client) -> None:
    session = memory.session("limited/odd", ROOMY)
    odd = "\ud83d" + "\U0001f469\u200d\U0001f467" * 2_000
    session.push([call(1), result(1, odd)], limit_result=100)
    cut = session.prepare().messages[1]["content"]
    assert cut.split("\n")[0] in odd
    assert not cut.split("\n")[0].endswith("\u200d")
    assert session.recall("m1") == result(1, odd)
