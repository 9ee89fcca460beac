"""Section C: when a compaction starts, when it does not, and that it comes to an end."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from compactor import Code, Compactor, MessageTooLargeError, ModelConfig, Session
from compactor.encodings import encoder
from compactor.models import Fit
from compactor.prompts import SummaryRequest, pieces
from compactor.settings import Settings
from compactor.testing import ModelServer
from compactor.tokens import count_text
from tests.acceptance.conftest import Service
from tests.acceptance.scripted_model import requests_with
from tests.faults.windows import assert_sound, compacted, every_window, read, views
from tests.integration.conversations import SMALL, conversation, recount, step
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import published
from tests.unit.chat import Chat, assistant, call, calling, long_text, result, steps, system, user
from tests.unit.summarizers import saying

X: Final = "x" * 9_000
FIXED: Final[dict[str, tuple[list[Chat], str]]] = {
    "system text": ([system(long_text(16_000)), user("hi")], "system_and_tools"),
    "words of users": ([system("s"), *(user(long_text(2_000)) for _ in range(8))], "user_and_assistant_text"),
    "small results": (
        [
            # A turn each: steps of one turn could be folded.
            *(m for n in range(80) for m in (user("go"), calling(f"c{n}"), result(f"c{n}", f"{n} {long_text(130)}"))),
            assistant("ok"),
        ],
        "recent_or_small_results",
    ),
}


@pytest.mark.parametrize(("chat", "reason"), FIXED.values(), ids=FIXED.keys())
def test_c01_what_nothing_can_shrink_is_named_once_and_costs_no_model_call(
    chat: list[Chat], reason: str, modelled: Service, model: ModelServer
) -> None:
    session = modelled.session("c01", ModelConfig("gpt-4o", 16, "conservative"))
    asked = len(model.requests)
    session.push(chat)
    outcome = session.compact(wait=20)
    assert (outcome.outcome, outcome.reason) == (Code.EXHAUSTED, reason)
    assert [session.prepare().verdict.compaction for _ in range(20)] == ["held(exhausted)"] * 20
    assert len(model.requests) == asked
    assert [each.outcome for each in session.compactions()] == [Code.EXHAUSTED]


def test_c01_new_content_arms_it_again(memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any) -> None:
    session = memory.session("c01", SMALL)
    session.push([user(long_text(6_200)), calling("a"), result("a", long_text(600))])
    session.prepare()
    assert worker.work("c01").outcome.outcome is Code.EXHAUSTED, "its only result is not read yet"
    waiting = published(raw, settings)
    session.push(assistant("Read."))
    assert session.prepare().verdict.compaction == "held(exhausted)"
    session.push([message for order in range(4) for message in step(order)])
    assert session.prepare().verdict.compaction == "queued"
    assert published(raw, settings) == waiting + 1
    assert worker.work("c01").outcome.outcome is Code.APPLIED


def grow(session: Session, worker: InlineWorker, name: str, turns: int) -> list[int]:
    """An agent that works on and on; the steps at which a compaction was queued."""
    crossings: list[int] = []
    session.push([system("s"), user("go")])
    for order in range(turns):
        session.push(step(order))
        verdict = session.prepare().verdict
        assert verdict.sent <= verdict.ceiling
        if verdict.compaction == "queued":
            crossings.append(order)
            worker.work(name)
    return crossings


def test_c02_compactions_go_on_as_long_as_they_help(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("c02", SMALL)
    crossings = grow(session, worker, "c02", 60)
    outcomes = session.compactions()
    applied = [outcome for outcome in outcomes if outcome.outcome is Code.APPLIED]
    assert len(applied) >= 8
    assert all(outcome.saved >= 300 for outcome in applied)
    assert len(crossings) == len(outcomes)
    assert session.status().attempts == 0


def test_c03_a_compaction_goes_down_to_a_target_and_pays_for_several_turns(
    memory: Compactor, worker: InlineWorker
) -> None:
    session = memory.session("c03", ModelConfig("gpt-4o", 24))
    crossings = grow(session, worker, "c03", 60)
    first = session.compactions()[0]
    assert first.reached
    assert first.after <= 0.51 * 18_000
    assert crossings[1] - crossings[0] >= 8
    assert len(crossings) <= 60 / 8


def test_c03_compact_answers_when_it_has_ended(modelless: Service) -> None:
    session = modelless.session("c03", SMALL)
    session.push(conversation(9))
    outcome = session.compact(wait=20)
    assert outcome.outcome is Code.APPLIED
    assert session.prepare().verdict.total == outcome.after


NEWEST: Final = {
    "not read yet": [system("s"), user("list dir"), calling(call("a", "ls")), result("a", "row = 1\n" * 60_000)],
    "two in parallel": [user("go"), calling("a", "b"), result("a", X * 20), result("b", "数据" * 40_000)],
    "among others": [*steps(2), user("and"), calling("z"), result("z", "line\n" * 60_000)],
    "without an id": [user("go"), calling(call(None)), result(None, X * 40)],
    "in parts": [user("go"), calling("a"), result("a", [{"type": "text", "text": X * 20}] * 2)],
}


@pytest.mark.parametrize("chat", NEWEST.values(), ids=NEWEST.keys())
def test_c04_one_huge_result_is_shown_by_head_and_tail(chat: list[Chat], memory: Compactor) -> None:
    session = memory.session("c04", ModelConfig("gpt-4o", 8))
    session.push(chat)
    context = session.prepare()
    assert (context.verdict.fit, context.verdict.sent <= 7_000) == (Fit.SHORTENED, True)
    assert recount(context.messages) + 3 == context.verdict.sent > 3_000, "not more than needed is cut"
    shown = json.dumps(context.messages[-1], ensure_ascii=False)
    assert "left out here; original: m" in shown or "个字符；原文：m" in shown
    assert session.originals() == chat


def test_c04_once_read_the_newest_result_is_compacted_when_nothing_else_can(
    memory: Compactor, worker: InlineWorker
) -> None:
    session = memory.session("c04/read", SMALL)
    session.push([user("list dir"), calling(call("a", "ls")), result("a", long_text(9_000)), assistant("There it is.")])
    assert session.prepare().verdict.compaction == "queued"
    outcome = worker.work("c04/read").outcome
    assert (outcome.outcome, outcome.reached, outcome.positions) == (Code.APPLIED, True, (2,))
    assert session.prepare().verdict.fit is Fit.FITS


@pytest.mark.parametrize("unread", [[result("z", X * 10)], [result("y", X * 5), result("z", X * 5)]])
def test_c05_what_the_model_has_not_read_is_never_replaced(
    unread: list[Chat], memory: Compactor, worker: InlineWorker
) -> None:
    session = memory.session("c05", SMALL)
    names = [message["tool_call_id"] for message in unread]
    session.push([*steps(4), user("more"), calling(*names), *unread])
    session.prepare()
    assert worker.work("c05").outcome.outcome is Code.APPLIED
    again = session.prepare().verdict.compaction
    assert again.startswith("held") or again == "not_needed"
    replaced = {position for outcome in session.compactions() for position in outcome.positions}
    assert replaced
    assert max(replaced) < len(session.originals()) - len(unread)


def test_c05_nothing_but_the_size_starts_a_compaction(memory: Compactor, settings: Settings, raw: Any) -> None:
    session = memory.session("c05/count", ModelConfig("gpt-4o", 128))
    for order in range(120):
        session.push([calling(f"c{order}"), result(f"c{order}", "ok")])
        assert session.prepare().verdict.compaction == "not_needed"
    assert published(raw, settings) == 0


FAILURES: Final = (
    "Error: permission denied on /srv/x",
    'Traceback (most recent call last):\n  File "/srv/a.py", line 3\nValueError: no such row 4711',
    "exit status 2: make: *** [all] Fatal error",
    "错误：没有权限 /srv/x",
    '{"status": "failed", "error": {"code": "E42", "path": "/srv/x"}}',
)


@pytest.mark.parametrize("failure", FAILURES)
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_c06_a_failure_stays_a_failure_in_what_replaces_it(failure: str, place: str) -> None:
    rows = [long_text(500, word) for word in ("copied", "listed")]
    rows.insert(("first", "middle", "last").index(place), failure)
    chat = [user("go"), calling("a"), result("a", "\n".join(rows)), assistant("hm"), user("on")]
    kept = [sent for sent in every_window(chat) if sent.how.startswith("extracts") and len(sent.messages) > 2]
    assert kept
    for sent in kept:
        shown = sent.messages[2]["content"]
        assert len(shown) < 3_000
        assert failure.splitlines()[-1][:30] in shown, sent.how


def test_c06_a_failure_stays_one_when_the_model_does_not_mention_it() -> None:
    text = f"{long_text(500)}\n{FAILURES[0]}\n{long_text(500)}"
    chat = [user("go"), calling("a"), result("a", text), assistant("hm"), user("on")]
    assert "denied" in compacted(chat, 1, saying("The tool copied rows."))[2]["content"]


def test_c06_a_small_failure_is_never_replaced_alone_and_a_fold_tells_of_it() -> None:
    chat = steps(5)
    chat[2] = result("c0", FAILURES[0])
    for sent in every_window(chat):
        if sent.how.startswith(("extracts", "model")):
            shown = sent.messages[2]
            told = "earlier steps" in shown["content"] and FAILURES[0].splitlines()[-1][:30] in shown["content"]
            assert shown is chat[2] or told, sent.how


def test_c07_a_result_that_comes_late_starts_nothing(
    memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("c07", SMALL)
    session.push([*conversation(9), calling("late"), user("and?")])
    session.prepare()
    outcome = worker.work("c07").outcome
    waiting = published(raw, settings)
    session.push(result("late", "it came in the end"))
    for _ in range(3):
        verdict = session.prepare().verdict
        assert verdict.compaction == "not_needed"
        assert verdict.total < outcome.after + 200
    assert published(raw, settings) == waiting


def test_c08_a_smaller_window_is_seen_at_the_next_send_and_a_larger_one_too(
    memory: Compactor, worker: InlineWorker
) -> None:
    large, small = (memory.session("c08", ModelConfig("gpt-4o", limit)) for limit in (128, 8))
    large.push(conversation(12))
    assert large.prepare().verdict.compaction == "not_needed"
    context = small.prepare()
    assert (context.verdict.compaction, context.verdict.fit) == ("queued", Fit.SHORTENED)
    assert context.verdict.sent <= context.verdict.ceiling == 7_000
    again = large.prepare()
    assert (again.verdict.fit, again.messages) == (Fit.FITS, conversation(12))
    outcome = worker.work("c08").outcome
    assert (outcome.outcome, outcome.reached) == (Code.APPLIED, True)
    assert small.prepare().verdict.fit is Fit.FITS


def test_c08_the_summarizer_has_a_window_of_its_own() -> None:
    encode = encoder("o200k_base")
    text = long_text(20_000)
    request = SummaryRequest("ls", "{}", text, "goal", count_text(text, encode), 340)
    parts = pieces(request, window=4_000, encode=encode)
    assert len(parts) > 5
    assert "".join(part.text for part in parts) == text


@pytest.mark.parametrize("window", [0.05, 0.3, 0.8])
def test_c10_whatever_is_left_out_leaves_a_mark(window: float, memory: Compactor) -> None:
    chat = [system("s"), *steps(9), user("on"), assistant("yes"), user("and?")]
    tokens = sum(message.tokens for message in read(chat, chat))
    session = memory.session("c10", ModelConfig("gpt-4o", context_limit_tokens=int(tokens * window)))
    session.push(chat)
    context = session.prepare()
    assert context.verdict.fit is not Fit.FITS
    assert context.left_out == len(chat) - len(context.messages)
    if any(message["role"] == "tool" for message in context.messages):
        assert "originals: m" in json.dumps(context.messages)
    for sent in views("view", read(chat, chat), [window]):
        assert_sound(chat, sent)


def test_c10_a_session_that_is_full_refuses_instead_of_forgetting(settings: Settings) -> None:
    small = settings.model_copy(update={"max_session_bytes": 40_000})
    with Compactor(settings=small) as memory:
        session = memory.session("c10/full", SMALL)
        session.push(conversation(9))
        with pytest.raises(MessageTooLargeError, match="nothing was stored"):
            session.push([user("one more"), user("x" * 40_000)])
        assert session.originals() == conversation(9)


def test_c01_the_model_is_asked_once_for_what_it_can_shrink(modelled: Service, model: ModelServer) -> None:
    session = modelled.session("c01/once", SMALL)
    session.push([message if message["role"] != "tool" else {**message, "content": f"mark-c01 {message['content']}"}
                  for message in conversation(9)])  # fmt: skip
    outcome = session.compact(wait=20)
    for _ in range(10):
        session.prepare()
    assert len(requests_with(model, "mark-c01")) == outcome.items
