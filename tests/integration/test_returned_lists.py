"""Lists that come back to us: revision and archive move with compactions alone, whatever a bot does with its list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest

from compactor import Fit
from compactor.embedded import EmbeddedServer
from compactor.formats.openai import leading_system
from compactor.settings import Settings
from compactor.validity import added_faults
from tests.conftest import recorded
from tests.integration.clients import Client, Connect, SessionClient, open_store
from tests.integration.conversations import (
    ROOMY,
    SMALL,
    SYSTEM,
    WIDE,
    assistant,
    conversation,
    result,
    rows,
    step,
    user,
)
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import bare, keys_of

CALLS = 30
Keep = Callable[[list[Any], list[Any]], list[Any]]  # what came back, the originals -> what the bot sends next


def growing(talk: Sequence[Any], calls: int = CALLS) -> list[int]:
    """Where a bot sends its list: before each of the first `calls` replies of a conversation."""
    lead = leading_system(talk)
    return [i for i, message in enumerate(talk) if message["role"] == "assistant" and i > lead][:calls]


def came_back(held: list[Any], _talk: list[Any]) -> list[Any]:
    return held


def originals(_held: list[Any], talk: list[Any]) -> list[Any]:
    return talk


def without_a_turn(held: list[Any], _talk: list[Any]) -> list[Any]:
    """The oldest turn goes with each call, as bots trim."""
    lead = leading_system(held)
    turns = [i for i in range(lead, len(held)) if held[i]["role"] == "user"]
    return [*held[:lead], *held[turns[1] :]] if len(turns) > 2 else held


def archived(raw: Any, settings: Settings, session: str) -> int:
    return sum(len(blob) for blob in raw.hvals(keys_of(settings, session).archive))


def talks() -> list[tuple[str, list[Any]]]:
    """Recorded conversations of at least CALLS replies: one task, many turns, loops; ids are used again."""
    found: list[tuple[str, list[Any]]] = []
    for name in ("miniswe_deepseek", "tau2_gpt41", "tau2_gptoss_loops"):
        longest = sorted((record["messages"] for record in recorded(name, most=40)), key=len, reverse=True)
        talk = longest.pop(0)
        while len(growing(talk)) < CALLS:
            following = longest.pop(0)
            talk = [*talk, *following[leading_system(following) :]]
        found.append((name, talk))
    return found


@pytest.mark.parametrize("keep", [came_back, originals, without_a_turn])
@pytest.mark.parametrize("processes", [1, 2])
def test_recorded_bots_move_revision_and_archive_with_compactions_alone(
    connect: Connect, settings: Settings, worker: InlineWorker, raw: Any, keep: Keep, processes: int
) -> None:
    for name, talk in talks():
        sessions = [connect(settings).session(f"returned/{name}", SMALL) for _ in range(processes)]
        compactions = 0
        held: list[Any] = []
        first: int | None = None
        end = 0
        for turn, until in enumerate(growing(talk)):
            given = [*keep(held, talk[:end]), *talk[end:until]] if held else talk[:until]
            context = sessions[turn % processes].prepare(given)
            assert not added_faults(given, context.messages)
            held, end = context.messages, until
            first = sessions[0].status().revision if first is None else first
            if context.verdict.compaction == "queued":
                compactions += worker.work(f"returned/{name}").outcome.items > 0
            status = sessions[0].status()
            assert status.revision == first + compactions
            assert status.archived == len({p for row in sessions[0].compactions() for p in row.positions})
        assert sessions[0].originals() == talk[leading_system(talk) : end]


@pytest.mark.parametrize("keep", [came_back, without_a_turn])
@pytest.mark.parametrize("processes", [1, 2])
def test_without_a_worker_views_come_back_and_nothing_moves(
    connect: Connect, settings: Settings, raw: Any, keep: Keep, processes: int
) -> None:
    for name, talk in talks():
        sessions = [connect(settings).session(f"views/{name}", SMALL) for _ in range(processes)]
        held: list[Any] = []
        end, shortened = 0, 0
        moved: set[int] = set()
        for turn, until in enumerate(growing(talk)):
            given = [*keep(held, talk[:end]), *talk[end:until]] if held else talk[:until]
            context = sessions[turn % processes].prepare(given)
            assert not added_faults(given, context.messages)
            assert context.verdict.sent <= context.verdict.ceiling or context.verdict.fit is Fit.IMPOSSIBLE
            shortened += context.verdict.fit is Fit.SHORTENED
            held, end = context.messages, until
            moved.add(sessions[0].status().revision)
        assert sessions[0].originals() == talk[leading_system(talk) : end]
        assert len(moved) == 1
        assert archived(raw, settings, f"views/{name}") == 0
        assert shortened > 3 or name == "tau2_gpt41" or keep is without_a_turn


@pytest.mark.parametrize("processes", [1, 2])
def test_a_last_question_with_new_surroundings_at_every_call_moves_nothing(
    connect: Connect, settings: Settings, worker: InlineWorker, raw: Any, processes: int
) -> None:
    sessions = [connect(settings).session("returned/reworded", SMALL) for _ in range(processes)]
    talk: list[Any] = []
    compactions = 0
    first: int | None = None
    for order in range(CALLS):
        if order % 5 == 0:
            talk += [user(f"Where is value {order} defined, in which file, and why there?")]
        given = [*talk]
        last = max(i for i, message in enumerate(talk) if message["role"] == "user")
        given[last] = user(f"Retrieved: {rows(order, 3)}\n\n{talk[last]['content']}")
        context = sessions[order % processes].prepare(given)
        first = sessions[0].status().revision if first is None else first
        if context.verdict.compaction == "queued":
            compactions += worker.work("returned/reworded").outcome.items > 0
        status = sessions[0].status()
        assert status.revision == first + compactions
        assert status.archived == len({p for row in sessions[0].compactions() for p in row.positions})
        assert [m["role"] for m in sessions[0].originals()] == [m["role"] for m in given]
        talk += step(order, 30) if order % 5 < 4 else [assistant(f"In file {order}.")]
    assert compactions >= 2


def test_the_short_form_of_a_bot_is_enough(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("returned/short", SMALL)
    messages: list[Any] = [SYSTEM, user("Find all of them.")]
    said: list[Any] = messages[1:]
    for order in range(CALLS):
        messages = session.prepare(messages).messages
        messages += step(order)
        said = [*said, *step(order)]
        if session.status().claim == "queued":
            worker.work("returned/short")
    session.prepare(messages)
    assert session.originals() == said
    assert [session.recall(f"m{position}") for position in range(len(said))] == said


def view_of(session: SessionClient, talk: list[Any]) -> list[Any]:
    context = session.prepare(talk)
    assert context.verdict.fit is Fit.SHORTENED
    return context.messages


def test_a_view_that_comes_back_to_another_process_stands_for_what_it_left_out(
    connect: Connect, settings: Settings
) -> None:
    talk = [*conversation(20)[1:], user("And?")]
    held = view_of(connect(settings).session("views/other", SMALL), talk)
    other = connect(settings).session("views/other", WIDE)
    revision = other.status().revision
    assert other.prepare([*held, assistant("Well.")]).messages == [*talk, assistant("Well.")]
    assert other.originals() == [*talk, assistant("Well.")]
    assert (other.status().revision, other.status().archived) == (revision, 0)


def test_a_view_stays_the_same_from_call_to_call(memory: Client) -> None:
    session = memory.session("views/stable", SMALL)
    talk = [*conversation(20)[1:], user("And?")]
    held = view_of(session, talk)
    for order in range(5):
        more = [assistant(f"Answer {order}."), user(f"And {order}?")]
        context = session.prepare([*held, *more])
        assert context.messages == [*held, *more], "the prefix that a provider cached is sent again"
        held = context.messages


def test_a_view_that_comes_back_after_the_swap_gets_the_summaries(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("views/swapped", SMALL)
    talk = [*conversation(20)[1:], user("And?")]
    held = view_of(session, talk)
    assert worker.work("views/swapped").outcome.items
    before = session.status()
    context = session.prepare([*held, assistant("Well."), user("So?")])
    assert context.replaced
    assert session.originals() == [*talk, assistant("Well."), user("So?")]
    assert (session.status().revision, session.status().archived) == (before.revision, before.archived)


def test_a_result_that_was_cut_for_one_send_is_still_whole(memory: Client) -> None:
    session = memory.session("views/cut", SMALL)
    talk = [user("Read it."), *step(1, 600)]
    held = view_of(session, talk)
    assert held[-1]["content"] != talk[-1]["content"]
    context = session.prepare([*held, assistant("Read."), user("And?")])
    assert session.originals() == [*talk, assistant("Read."), user("And?")]
    assert session.status().archived == 0
    assert context.verdict.sent <= context.verdict.ceiling


def test_a_cut_result_is_known_to_every_process_after_it_was_summarised(
    connect: Connect, settings: Settings, worker: InlineWorker
) -> None:
    one, other = (connect(settings).session("views/cut-elsewhere", SMALL) for _ in range(2))
    talk = [user("Read it."), *step(1, 600)]
    held = [*view_of(one, talk), assistant("Read."), user("And?")]
    one.sync([*talk, *held[-2:], *step(2), *step(3), *step(4)])
    one.compact()
    assert worker.work("views/cut-elsewhere").outcome.items > 0
    before = one.status()
    other.prepare([*held, *step(2), *step(3), *step(4), assistant("So.")])
    assert one.originals() == [*talk, *held[-2:], *step(2), *step(3), *step(4), assistant("So.")]
    assert (one.status().revision, one.status().archived) == (before.revision, before.archived)


def test_a_view_in_chinese_is_known_again(memory: Client) -> None:
    session = memory.session("views/chinese", SMALL)
    talk = [user("请找出所有数值的定义位置，并逐一说明。"), *conversation(20)[2:], user("然后呢？")]
    held = view_of(session, talk)
    session.prepare([*held, assistant("好的。")])
    assert session.originals() == [*talk, assistant("好的。")]
    assert session.status().archived == 0


def test_what_only_looks_like_a_view_is_a_message_of_its_own(memory: Client) -> None:
    session = memory.session("views/forged", SMALL)
    talk = [*conversation(20)[1:], user("And?")]
    held = view_of(session, talk)
    carrier = next(i for i, message in enumerate(held) if "left out here" in str(message.get("content")))
    forged = [*held]
    forged[carrier] = {**held[carrier], "content": str(held[carrier]["content"]).replace("messages are", "message is")}
    context = session.prepare([*forged, assistant("Well.")])
    assert not added_faults([*forged, assistant("Well.")], context.messages)
    assert forged[carrier] in session.originals()
    assert [session.recall(f"m{position}") for position in range(len(talk))] == talk


def test_a_tool_may_print_our_sentence(memory: Client) -> None:
    sentence = "[3 earlier messages are left out here (1 tool calls: grep); originals: m2]"
    talk = [user("Print it."), *step(1), step(2)[0], result(2, sentence), assistant("Printed.")]
    session = memory.session("views/printed", ROOMY)
    assert session.prepare(talk).messages == talk
    assert session.prepare([*talk, user("And?")]).messages == session.originals() == [*talk, user("And?")]


def test_a_list_with_summaries_costs_an_informed_process_one_round_trip(
    connect: Connect, settings: Settings, through_proxy: Settings, proxy: LossyProxy, worker: InlineWorker
) -> None:
    talk = conversation(9)[1:]
    session = connect(through_proxy).session("returned/trips", SMALL)
    session.prepare(talk)
    worker.work("returned/trips")
    held = session.prepare(talk).messages
    before = proxy.turns
    for order in range(5):
        held = session.prepare([*held, assistant(f"{order}"), user(f"{order}?")]).messages
    assert proxy.turns - before == 5


def test_a_process_that_knows_nothing_reads_before_it_stores_a_list_with_summaries(
    connect: Connect, kind: str, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    talk = conversation(9)[1:]
    session = connect(own_settings).session("returned/cold", SMALL)
    session.prepare(talk)
    with closing(open_store(kind, own_settings)) as store:
        InlineWorker(own_settings, store).work("returned/cold")
    held = session.prepare(talk).messages
    cold = connect(own_settings).session("returned/cold", SMALL)
    with bare(own_server) as client:
        client.config_resetstat()
        assert cold.prepare([*held, user("And?")]).messages == [*held, user("And?")]
        assert client.info("commandstats")["cmdstat_exec"]["calls"] == 2, "each transaction is one round trip"
    assert session.originals() == [*talk, user("And?")]
