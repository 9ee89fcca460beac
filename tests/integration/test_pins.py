"""Pins: messages that nothing replaces or leaves out, phrases that stand word for word in what replaces a result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compactor import (
    Code,
    CompactionNotFoundError,
    ConfigurationError,
    Fit,
    ModelConfig,
    Pinned,
    Pins,
    RecallExpiredError,
    SessionNotFoundError,
)
from compactor.pins import LONGEST_PHRASE, MOST_PHRASES
from compactor.settings import Settings
from compactor.wording import carries_header
from tests.integration.clients import Client, Connect, SessionClient
from tests.integration.conversations import (
    SMALL,
    WIDE,
    assistant,
    call,
    conversation,
    recount,
    result,
    rows,
    step,
    user,
)
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy

TALK = conversation(9)
MORE = [*(message for n in range(60, 69) for message in step(n)), assistant("So it is.")]
LINE = "The release train leaves at 17:40 from gate B, ask Mira for the badge."
PHRASE = "leaves at 17:40 from gate B"


def opened(memory: Client, name: str, messages: list[Any] | None = None, config: ModelConfig = SMALL) -> SessionClient:
    session = memory.session(name, config)
    session.push(TALK if messages is None else messages)
    return session


def compacted(session: SessionClient, worker: InlineWorker, name: str) -> set[int]:
    """The positions that one compaction replaced."""
    session.prepare()  # judged by its own window again, whatever looked at it
    session.compact()
    outcome = worker.work(name).outcome
    assert outcome.outcome is Code.APPLIED, outcome
    return set(outcome.positions)


def live(memory: Client, name: str) -> list[Any]:
    return memory.session(name, WIDE).prepare().messages


def with_phrase(*orders: int, steps: int = 9) -> list[dict[str, Any]]:
    """A conversation whose results of these orders hold the line in their middle."""
    talk = conversation(steps)
    for order in orders:
        lines = rows(order).splitlines()
        talk[3 + 2 * order] = result(order, "\n".join([*lines[:25], LINE, *lines[25:]]))
    return talk


def test_a_pinned_message_is_never_replaced(memory: Client, worker: InlineWorker) -> None:
    session = opened(memory, "pins/message")
    assert session.pin("m3") == Pinned("m3")
    assert session.pin(5) == Pinned("m5")
    assert session.pins() == Pins(("m3", "m5"))
    assert {3, 5}.isdisjoint(compacted(session, worker, "pins/message"))
    assert live(memory, "pins/message")[3] == TALK[3]
    assert session.release(["m3", 5, "m7"]) == 2
    assert session.pins() == Pins()


def test_a_view_never_leaves_a_pinned_message_out(memory: Client) -> None:
    talk = [user("the oldest turn"), assistant("noted"), *(m for n in range(12) for m in step(n)), assistant("In src.")]
    session = opened(memory, "pins/view", [*talk, user("And now?")])
    for position in (0, 1, 3):
        session.pin(position)
    context = memory.session("pins/view", ModelConfig("gpt-4o", 3)).prepare()
    assert context.verdict.fit is Fit.SHORTENED
    assert all(talk[position] in context.messages for position in (0, 1, 2, 3))
    assert context.left_out > 15


def test_a_pin_on_what_was_replaced_brings_the_original_back(memory: Client, worker: InlineWorker) -> None:
    session = opened(memory, "pins/replaced")
    positions = compacted(session, worker, "pins/replaced")
    first = min(positions)
    before = session.status()
    assert session.pin(first) == Pinned(f"m{first}", (f"m{first}",))
    assert live(memory, "pins/replaced")[first] == TALK[first]
    after = session.status()
    assert after.revision == before.revision + 1
    assert after.archived == before.archived - 1
    assert after.totals["o200k_base"] == recount(live(memory, "pins/replaced"))
    session.push(MORE)
    assert first not in compacted(session, worker, "pins/replaced")
    (row,) = [each for each in session.compactions() if each.outcome is Code.UNDONE]
    assert (row.reason, row.positions) == ("pin", (first,))


def test_a_pinned_phrase_stands_in_whatever_replaces_its_result(memory: Client, worker: InlineWorker) -> None:
    session = opened(memory, "pins/phrase", with_phrase(1, 2))
    assert session.pin(PHRASE) == Pinned(PHRASE)
    assert {5, 7} <= compacted(session, worker, "pins/phrase")
    messages = live(memory, "pins/phrase")
    for position in (5, 7):
        assert carries_header(messages[position]["content"])
        assert LINE in messages[position]["content"].splitlines()
    assert LINE not in messages[3]["content"]
    more = with_phrase(0)[3]["content"]
    session.push([call(70), result(70, more), *MORE])
    assert compacted(session, worker, "pins/phrase")
    later = next(m for m in live(memory, "pins/phrase") if m.get("tool_call_id") == "call_70")
    assert carries_header(later["content"])
    assert LINE in later["content"].splitlines()


def test_a_phrase_that_a_replacement_lost_comes_back_and_is_replaced_with_it(
    memory: Client, worker: InlineWorker
) -> None:
    session = opened(memory, "pins/late", with_phrase(0, 1))
    assert {3, 5} <= compacted(session, worker, "pins/late")
    lost = [p for p in (3, 5) if PHRASE not in live(memory, "pins/late")[p]["content"]]
    assert lost, "the line has nothing that an extract must show"
    pinned = session.pin(PHRASE)
    assert pinned.restored == tuple(f"m{position}" for position in lost)
    assert all(LINE in live(memory, "pins/late")[position]["content"] for position in (3, 5))
    assert session.pin(PHRASE).restored == ()
    session.push(MORE)
    assert set(lost) <= compacted(session, worker, "pins/late"), "though the frontier is behind them"
    for position in lost:
        shown = live(memory, "pins/late")[position]["content"]
        assert carries_header(shown)
        assert LINE in shown


@pytest.mark.parametrize("what", ["m5", PHRASE], ids=["message", "phrase"])
def test_a_pin_while_a_worker_writes_makes_its_work_stale(memory: Client, worker: InlineWorker, what: str) -> None:
    session = opened(memory, "pins/race", with_phrase(1))
    session.compact()
    ended = worker.work("pins/race", at="swapping", then=lambda: session.pin(what))
    assert ended.outcome.outcome is Code.STALE
    compacted(session, worker, "pins/race")
    assert LINE in live(memory, "pins/race")[5]["content"]
    assert (live(memory, "pins/race")[5] == with_phrase(1)[5]) is (what == "m5")


def test_a_view_shows_the_newest_message_that_holds_a_pinned_phrase(memory: Client) -> None:
    session = opened(memory, "pins/seen", with_phrase(0, 2, steps=12))
    session.pin(PHRASE)
    context = session.prepare()
    assert context.verdict.fit is Fit.SHORTENED
    assert context.verdict.sent <= context.verdict.ceiling
    assert sum(LINE in str(message["content"]) for message in context.messages) == 1


def test_pins_of_a_callers_own_list_outlive_its_return_its_edits_and_its_branches(
    memory: Client, worker: InlineWorker
) -> None:
    session = memory.session("pins/list", SMALL)
    talk = TALK[1:]
    session.prepare(talk)
    session.pin("m2")
    worker.work("pins/list")
    assert session.prepare(talk).messages[2] == talk[2]
    returned = [*session.prepare(talk).messages, user("And now?")]
    assert session.prepare(returned).messages[2] == talk[2]
    edited = [user("Where, please?"), *talk[1:], user("Thanks.")]
    session.prepare(edited)
    assert live(memory, "pins/list")[0] == edited[0]
    (name,) = session.pins().messages
    assert session.recall(name) == talk[2]
    session.prepare(talk)
    (name,) = session.pins().messages
    assert session.recall(name) == talk[2]
    session.compact()
    worker.work("pins/list")
    assert talk[2] in live(memory, "pins/list")


def test_a_reworded_question_stays_pinned(memory: Client) -> None:
    session = memory.session("pins/reworded", SMALL)
    session.prepare([user("Where is it? [retrieved: a]")])
    session.pin(0)
    session.prepare([user("Where is it? [retrieved: b]")])
    assert session.pins() == Pins(("m0",))
    assert live(memory, "pins/reworded") == [user("Where is it? [retrieved: b]")]


def test_pins_outlive_rewind_fork_and_undo_and_end_with_the_conversation(memory: Client, worker: InlineWorker) -> None:
    session = opened(memory, "pins/going", with_phrase(1))
    session.pin(3)
    session.pin(PHRASE)
    kept = Pins(("m3",), (PHRASE,))
    compacted(session, worker, "pins/going")
    session.undo()
    assert session.pins() == kept
    assert session.fork("pins/copy").pins() == kept
    session.release("m3")
    assert memory.session("pins/copy", SMALL).pins() == kept, "a copy is a session of its own"
    session.pin(3)
    session.rewind(8)
    assert session.pins() == kept
    session.rewind(2)
    assert session.pins() == Pins((), (PHRASE,))
    session.clear()
    session.push(user("hello"))
    assert session.pins() == Pins()


def test_an_erased_session_keeps_no_phrase(memory: Client, settings: Settings, raw: Any) -> None:
    session = opened(memory, "pins/erased", with_phrase(1))
    session.pin(PHRASE)
    session.erase()
    kept = [raw.dump(key) for key in raw.scan_iter(f"*{settings.namespace}*")]
    assert kept
    assert not [dump for dump in kept if b"17:40" in dump]


def test_another_process_knows_the_pins_at_its_next_send(connect: Connect, settings: Settings) -> None:
    here, there = connect(settings), connect(settings)
    session = opened(here, "pins/processes", with_phrase(0, steps=12))
    other = there.session("pins/processes", SMALL)
    assert LINE not in str(other.prepare().messages)
    session.pin(PHRASE)
    assert LINE in str(other.prepare().messages)
    session.release(PHRASE)
    assert LINE not in str(other.prepare().messages)


def test_a_pin_whose_answer_is_lost_is_repeated_without_harm(
    connect: Connect, settings: Settings, worker: InlineWorker, proxy: LossyProxy, through_proxy: Settings
) -> None:
    session = opened(connect(settings), "pins/lost", with_phrase(0))
    compacted(session, worker, "pins/lost")
    through = connect(through_proxy).session("pins/lost", SMALL)
    proxy.lose("restore")
    assert through.pin(3).restored == ("m3",)
    proxy.lose("restore")
    through.pin("gate B")
    proxy.lose("unkeep")
    assert through.release("gate B") == 1
    assert session.pins() == Pins(("m3",))


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("m99", RecallExpiredError), (99, RecallExpiredError), (-1, ConfigurationError), (True, ConfigurationError),
        (None, ConfigurationError), (1.5, ConfigurationError), ("", ConfigurationError), (" \n", ConfigurationError),
        ("x" * (LONGEST_PHRASE + 1), ConfigurationError), ("a\0b", ConfigurationError), ("\ud800", ConfigurationError),
        (b"m3", ConfigurationError), (["m3"], ConfigurationError), (10**30, RecallExpiredError),
    ],
)  # fmt: skip
def test_what_cannot_be_pinned_changes_nothing(memory: Client, what: Any, error: type[Exception]) -> None:
    session = opened(memory, "pins/wrong")
    before = session.status().revision
    with pytest.raises(error):
        session.pin(what)
    assert (session.status().revision, session.pins()) == (before, Pins())


def test_only_so_many_phrases_fit(memory: Client) -> None:
    session = opened(memory, "pins/many", [user("hi")])
    for number in range(MOST_PHRASES):
        session.pin(f"phrase {number}")
    with pytest.raises(ConfigurationError, match="at most 64 phrases"):
        session.pin("one more")
    assert session.release([f"phrase {number}" for number in range(40)]) == 40
    session.pin("one more")
    for number in range(40):
        if number < 14:
            session.pin(f"{number}" + "x" * 990)
        else:
            with pytest.raises(ConfigurationError, match="16,384 bytes"):
                session.pin(f"{number}" + "文" * 900)
            break


def test_pins_need_a_session_and_unpinning_a_known_name(memory: Client) -> None:
    nobody = memory.session("pins/nobody", SMALL)
    for attempt in (lambda: nobody.pin("m1"), lambda: nobody.pin("text"), nobody.pins, lambda: nobody.release("m1")):
        with pytest.raises(SessionNotFoundError):
            attempt()
    session = opened(memory, "pins/somebody")
    with pytest.raises(CompactionNotFoundError, match="no such pinned phrase"):
        session.release("never pinned")


def test_a_phrase_inside_json_is_found_as_it_reads(memory: Client, worker: InlineWorker) -> None:
    said = 'She said "gate\tB" — 在十七点四十分发车'
    inside = {"rows": rows(1).splitlines(), "note": said}
    talk = conversation(9)
    talk[5] = result(1, json.dumps(inside))
    session = opened(memory, "pins/json", talk)
    session.pin(said)
    assert 5 in compacted(session, worker, "pins/json")
    assert said in live(memory, "pins/json")[5]["content"]


def test_a_phrase_that_looks_like_a_secret_keeps_its_result(memory: Client, worker: InlineWorker) -> None:
    talk = conversation(9)
    talk[5] = result(1, f"password = hunter2-Zq9\n{rows(1)}")
    session = opened(memory, "pins/secret", talk)
    session.pin("password = hunter2-Zq9")
    assert 5 not in compacted(session, worker, "pins/secret")
    assert live(memory, "pins/secret")[5] == talk[5]
