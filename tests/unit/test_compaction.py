"""The story of one compaction: snapshot, plan, summarize, verify, archive ahead, swap; each way it can end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, TypeVar, cast

import pytest

from compactor.archive import decompress
from compactor.claims import Begun
from compactor.commands.claim import Begin
from compactor.commands.command import Command, session_keys
from compactor.commands.read import Stored
from compactor.compaction import PAUSE, THROTTLED_PAUSE, Ended, Tools, run_compaction
from compactor.drafting import Summarize
from compactor.exceptions import (
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerThrottled,
    SummarizerTimeout,
    SummarizerUnauthorized,
)
from compactor.models import Code, CompactionId, Kind, Outcome, Revision
from compactor.pricing import Price, price
from compactor.records import unpack
from compactor.tokens import count_message
from tests.unit.chat import Chat, assistant, by_length, calling, result, steps, system, user
from tests.unit.flows import NAME, O200K, records, state
from tests.unit.summarizers import failing, saying

T = TypeVar("T")
OWNER = CompactionId("owner-1")
KEYS = session_keys("test", NAME)
CHAT = [system("s" * 400), *steps(12, tokens=1_000)]
TOTAL = sum(count_message(message, by_length) for message in CHAT)


@dataclass
class Scripted:
    """Answers each command by its script's name; keeps what it was asked."""

    answers: dict[str, Any]
    commands: list[Command[Any]] = field(default_factory=list[Command[Any]])

    def run(self, command: Command[T]) -> T:
        if command.script is None:  # what earlier attempts asked the model: nothing
            ((_, _, *names),) = command.reads
            return cast("T", [None] * len(names))
        self.commands.append(command)
        return cast("T", self.answers[command.script])

    @property
    def ran(self) -> list[str | None]:
        aside = ("remember", "reserve", "spend")
        return [command.script for command in self.commands if command.script not in aside]

    def args(self, script: str) -> tuple[Any, ...]:
        (command,) = [command for command in self.commands if command.script == script]
        return command.args


def begun(
    chat: Sequence[Chat] = CHAT,
    *,
    threshold: int = 3_000,
    ceiling: int = 10**6,
    model: str = "",
    prior: float = 1.0,
    **raw: bytes,
) -> Begin:
    judged = {"encoding": O200K, "limit": 10**7, "threshold": threshold, "ceiling": ceiling, "fixed": 3}
    judged |= {"model": model, "prior": prior, "keep_rows": True}
    total = sum(count_message(message, by_length) for message in chat)
    held = state(length=len(chat), lead=1, revision=Revision(7), totals={O200K: (total, 0)})
    return Begin(Begun.RUNNING, Stored(held, records(chat), {"claimed": json.dumps(judged).encode(), **raw}))


def compaction(
    begin: Begin, summarize: Summarize | None = None, progress: Callable[[str, str], None] | None = None, **answers: Any
) -> tuple[Ended, Scripted]:
    given = {
        "begin": begin,
        "archive": "ok",
        "swap": "applied",
        "release": True,
        "retry": True,
        "remember": True,
        "reserve": True,
        "spend": True,
        **answers,
    }
    runner = Scripted(given)
    times = iter(range(1_000))
    tools = Tools(runner, lambda _name: by_length, summarize, clock=lambda: float(next(times)), now=lambda: 99.0)
    return run_compaction(KEYS, OWNER, tools, progress or (lambda _phase, _text: None)), runner


def audited(runner: Scripted, script: str) -> Any:
    return json.loads(runner.args(script)[2 if script == "swap" else 1])


@pytest.mark.parametrize(
    ("found", "code"), [(Begun.LOST, Code.STALE), (Begun.GONE, Code.GONE), (Begun.DEAD, Code.DEAD)]
)
def test_without_a_claim_a_run_ends_at_once(found: Begun, code: Code) -> None:
    ended, runner = compaction(Begin(found))
    assert (ended.outcome.outcome, ended.retry_in) == (code, None)
    assert runner.ran == ["begin"]


def test_while_the_same_owner_still_runs_it_tries_again_after_the_lease() -> None:
    ended, _ = compaction(Begin(Begun.BUSY, busy_ms=4_000))
    assert (ended.outcome.outcome, ended.retry_in, ended.code) == (Code.BUSY, 5.0, "busy")


def test_below_the_threshold_it_releases_the_claim_without_a_trace_in_the_audit() -> None:
    ended, runner = compaction(begun(threshold=10**6))
    assert ended.outcome.outcome is Code.BELOW_THRESHOLD
    assert runner.ran == ["begin", "release"]
    assert runner.args("release")[-1] == 0


def test_originals_are_archived_before_the_swap() -> None:
    ended, runner = compaction(begun(), saying("Twelve rows."))
    assert runner.ran == ["begin", "archive", "swap"]
    assert ended.outcome.outcome is Code.APPLIED
    kept = runner.args("archive")[1:]
    for position, blob in zip(kept[::2], kept[1::2], strict=True):
        assert unpack(decompress(blob)).value() == CHAT[position]
    assert list(kept[::2]) == list(ended.outcome.positions)


def test_the_swap_replaces_what_was_archived_and_tells_what_it_saves() -> None:
    ended, runner = compaction(begun(), saying("Twelve rows."))
    args = runner.args("swap")
    assert args[0] == OWNER
    assert args[6:9] == (1, O200K, ended.outcome.before - ended.outcome.after)
    replaced = args[9:]
    assert list(replaced[::2]) == list(ended.outcome.positions)
    assert args[1] == max(ended.outcome.positions)
    for position, data in zip(replaced[::2], replaced[1::2], strict=True):
        new = unpack(data)
        assert new.kind is Kind.SUMMARY
        assert new.counted(O200K) == count_message(new.value(), by_length)
        assert new.value()["tool_call_id"] == CHAT[position]["tool_call_id"]


def test_the_outcome_adds_up() -> None:
    ended, runner = compaction(begun(), saying("Twelve rows."))
    outcome = ended.outcome
    assert outcome.before == TOTAL + 3
    assert outcome.items == outcome.by_model == len(outcome.positions)
    assert (outcome.model, outcome.spent_in, outcome.spent_out) == ("cheap", 10 * outcome.items, 2 * outcome.items)
    assert (outcome.id, outcome.at, outcome.reached) == (OWNER, 99.0, True)
    assert audited(runner, "swap")["saved"] == outcome.saved > 0


def priced(begin: Begin, prices: dict[str, Price], summarize: Summarize | None = None) -> Outcome:
    """The outcome of a run whose models have these prices."""
    kept = dict.fromkeys(("release", "remember", "reserve", "spend"), True)
    tools = Tools(
        Scripted({"begin": begin, "archive": "ok", "swap": "applied", **kept}),
        lambda _name: by_length,
        summarize,
        clock=lambda: 0.0,
        now=lambda: 99.0,
        model="cheap",
        price=lambda model, _tokens: prices.get(model),
    )
    return run_compaction(KEYS, OWNER, tools, lambda _phase, _text: None).outcome


DEAR, CHEAP = price(Decimal(3), Decimal(15), Decimal("0.3"), Decimal("3.75")), price(Decimal(1), Decimal(2))


def test_every_compaction_is_billed_at_the_prices_of_both_models() -> None:
    outcome = priced(begun(model="bot"), {"bot": DEAR, "cheap": CHEAP}, saying("Twelve rows."))
    assert outcome.bill is not None
    assert outcome.bill.spent == outcome.spent_in + 2 * outcome.spent_out > 0
    assert outcome.bill.rewrite == pytest.approx(3.45 * outcome.rewrite, abs=1)
    assert outcome.bill.step_before == pytest.approx(0.3 * outcome.before, abs=1)
    assert outcome.bill.step_after == pytest.approx(0.3 * outcome.after, abs=1)
    assert outcome.bill.rewrite is not None
    paid = outcome.bill.rewrite + outcome.spent_in + 2 * outcome.spent_out
    assert outcome.bill.payback == pytest.approx(paid / (0.3 * outcome.saved), abs=0.1)


def test_a_bot_model_without_a_price_leaves_only_what_was_spent() -> None:
    outcome = priced(begun(model="bot"), {"cheap": CHEAP}, saying("Twelve rows."))
    assert outcome.bill is not None
    assert outcome.bill.spent == outcome.spent_in + 2 * outcome.spent_out
    assert outcome.bill.step_before is outcome.bill.net is outcome.bill.payback is None


def test_money_is_counted_in_the_tokens_that_the_provider_counts() -> None:
    plain = priced(begun(model="bot"), {"bot": DEAR}).bill
    doubled = priced(begun(model="bot", prior=2.0, threshold=6_000), {"bot": DEAR}).bill
    assert plain is not None
    assert doubled is not None
    assert plain.step_before is not None
    assert doubled.step_before == pytest.approx(2 * plain.step_before, abs=1)


def test_a_failure_is_billed_too() -> None:
    error = SummarizerUnauthorized()
    error.spent_in = 500
    outcome = priced(begun(model="bot"), {"bot": DEAR, "cheap": CHEAP}, failing(error))
    assert outcome.outcome is Code.SUMMARIZER_FAILED
    assert outcome.bill is not None
    assert outcome.bill.spent == outcome.spent_in > 0
    assert outcome.bill.net == -outcome.spent_in


def test_at_a_spend_cap_extracts_are_written_and_nobody_is_asked() -> None:
    model = saying("Twelve rows.")
    ended, runner = compaction(begun(), model, reserve=False)
    outcome = ended.outcome
    assert (outcome.outcome, outcome.reason, outcome.by_model) == (Code.APPLIED, "spend_cap", 0)
    assert outcome.by_extract == outcome.items > 0
    assert model.requests == []
    assert audited(runner, "swap")["reason"] == "spend_cap"


def test_nothing_that_is_told_holds_content() -> None:
    heard: list[str] = []
    _, runner = compaction(
        begun(), saying("Twelve rows."), progress=lambda phase, text: heard.append(f"{phase} {text}")
    )
    assert heard[0].startswith("snapshot ")
    assert heard[-1].startswith("swapping ")
    assert not any("row" in line for line in heard)
    assert "row" not in json.dumps(audited(runner, "swap"))


def test_a_compaction_that_stays_over_waits_for_new_tokens() -> None:
    chat = [*CHAT, user("u" * 40_000)]
    ended, runner = compaction(begun(chat, ceiling=12_000), saying("Twelve rows."))
    rearm, held = runner.args("swap")[4:6]
    assert ended.outcome.after >= 3_000
    assert held == "target_not_reached"
    assert ended.outcome.after < rearm <= ended.outcome.after + 3_000


def test_what_was_only_unread_is_worth_a_try_at_the_next_send() -> None:
    """However far the total is above the ceiling: new tokens would come late for sends that need the view."""
    chat = [*CHAT[:-1], calling("big"), result("big", "r" * 40_000)]
    ended, runner = compaction(begun(chat, ceiling=6_000), saying("Twelve rows."))
    assert ended.outcome.after > 6_000
    assert runner.args("swap")[4] == ended.outcome.after + 1
    alone, runner = compaction(begun([system("s"), user("go"), calling("big"), result("big", "r" * 40_000)]))
    assert (alone.outcome.outcome, alone.outcome.reason) == (Code.EXHAUSTED, "recent_or_small_results")
    assert runner.args("release")[3] == alone.outcome.before + 1


def test_one_that_comes_down_may_run_again_at_the_threshold() -> None:
    _, runner = compaction(begun(), saying("Twelve rows."))
    assert runner.args("swap")[4:6] == (0, "")


@pytest.mark.parametrize(("answer", "code"), [("lost", Code.STALE), ("gone", Code.GONE)])
def test_a_claim_lost_before_the_swap_changes_nothing(answer: str, code: Code) -> None:
    ended, runner = compaction(begun(), saying("Twelve rows."), archive=answer)
    assert (ended.outcome.outcome, ended.outcome.items, ended.outcome.saved) == (code, 0, 0)
    assert "swap" not in runner.ran


@pytest.mark.parametrize(("answer", "code"), [("stale", Code.STALE), ("gone", Code.GONE)])
def test_a_swap_that_came_too_late_counts_nothing_as_replaced(answer: str, code: Code) -> None:
    ended, _ = compaction(begun(), saying("Twelve rows."), swap=answer)
    assert (ended.outcome.outcome, ended.outcome.items, ended.outcome.saved) == (code, 0, 0)
    assert ended.outcome.spent_in > 0


def test_without_a_model_extracts_are_swapped_in() -> None:
    ended, _ = compaction(begun())
    assert (ended.outcome.outcome, ended.outcome.by_extract > 0, ended.outcome.model) == (Code.APPLIED, True, "")


def test_a_refusal_gives_extracts() -> None:
    ended, _ = compaction(begun(), failing(SummarizerRefused()))
    assert ended.outcome.by_extract == ended.outcome.items > 0


def test_a_failure_that_may_pass_hands_the_claim_to_a_retry() -> None:
    ended, runner = compaction(begun(attempts=b"1"), failing(SummarizerRateLimited(retry_after=7.0)))
    assert (ended.outcome.outcome, ended.retry_in, ended.code) == (Code.SUMMARIZER_FAILED, 7.0, "rate_limited")
    assert runner.ran == ["begin", "retry"]
    assert runner.args("retry")[1] > 7_000


def test_a_model_that_was_not_asked_costs_no_attempt() -> None:
    ended, runner = compaction(begun(attempts=b"3"), failing(SummarizerThrottled(retry_after=12.0)))
    assert (ended.outcome.outcome, ended.retry_in, ended.code) == (Code.SUMMARIZER_FAILED, 12.0, "throttled")
    assert runner.ran == ["begin", "retry"]
    assert runner.args("retry")[-1] == 0
    assert compaction(begun(), failing(SummarizerThrottled(retry_after=0.1)))[0].retry_in == THROTTLED_PAUSE


def test_a_long_pause_gives_the_claim_back_with_its_reason() -> None:
    ended, runner = compaction(begun(), failing(SummarizerThrottled(retry_after=600.0)))
    assert (ended.outcome.outcome, ended.outcome.reason, ended.retry_in) == (Code.SUMMARIZER_FAILED, "throttled", None)
    assert runner.args("release")[2:5] == (600_000, 0, "throttled")


def test_without_a_wish_of_the_server_the_pause_doubles_with_each_attempt() -> None:
    waits = [compaction(begun(attempts=b"%d" % n), failing(SummarizerTimeout()))[0].retry_in for n in (1, 2)]
    assert waits == [2.0, 4.0]


@pytest.mark.parametrize(
    ("error", "attempts"),
    [
        (SummarizerTimeout(), b"3"),
        (SummarizerUnauthorized("401"), b"1"),
        (SummarizerRateLimited(retry_after=600.0), b"1"),
    ],
)
def test_the_last_attempt_and_what_will_not_pass_end_with_a_pause(error: Any, attempts: bytes) -> None:
    ended, runner = compaction(begun(attempts=attempts), failing(error))
    assert (ended.outcome.outcome, ended.outcome.reason, ended.retry_in) == (Code.SUMMARIZER_FAILED, error.code, None)
    assert runner.ran == ["begin", "release"]
    assert runner.args("release")[2] >= PAUSE * 1_000
    assert runner.args("release")[4] == "summarizer_failed"
    assert ended.outcome.items == ended.outcome.saved == 0


def test_above_the_ceiling_a_failure_is_bridged_by_provisional_extracts() -> None:
    ended, runner = compaction(begun(ceiling=4_000), failing(SummarizerTimeout()))
    assert ended.outcome.outcome is Code.APPLIED
    assert ended.outcome.by_extract == ended.outcome.items > 0
    assert all(unpack(data).flags & 2 for data in runner.args("swap")[10::2])


def test_what_nothing_can_shrink_is_told_and_held() -> None:
    ended, runner = compaction(begun([system("s"), user("u" * 40_000)]))
    assert (ended.outcome.outcome, ended.outcome.reason) == (Code.EXHAUSTED, "user_and_assistant_text")
    assert runner.args("release")[4] == "exhausted"
    assert runner.args("release")[3] > ended.outcome.before


def test_a_claim_lost_meanwhile_is_stale_however_it_ended() -> None:
    ended, _ = compaction(begun([system("s"), user("u" * 40_000)]), release=False)
    assert (ended.outcome.outcome, ended.outcome.reason) == (Code.STALE, "lost")


def test_a_draft_that_frees_too_little_is_no_gain_and_held() -> None:
    """The results look large, but most of each is a call id that stays."""
    chat = [system("s"), user("u" * 20_000)]
    for number in range(3):
        name = f"{number}" * 6_000
        chat += [calling(name), result(name, f"{number}" + "z" * 2_000)]
    ended, runner = compaction(begun([*chat, assistant("ok")], threshold=9_000))
    assert (ended.outcome.outcome, ended.outcome.items) == (Code.NO_GAIN, 0)
    assert runner.ran == ["begin", "release"]
    assert runner.args("release")[4] == "no_gain"
