"""report_usage(): a session learns what its provider counts, and everything judges by it from then on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import CompletionUsage

from compactor import Code, Compactor, Fit, ModelConfig
from compactor.budget import Budget
from compactor.commands.prepare import Judgement, Known, prepare
from compactor.correction import Anchor, Correction, model_key, overflowed, read_anchor, reported, written
from compactor.embedded import EmbeddedServer
from compactor.models import CompactionId
from compactor.settings import Settings, read_settings
from compactor.store import Store
from tests.integration.clients import Client, Connect, SessionClient
from tests.integration.conversations import ROOMY, SMALL, SYSTEM, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.snapshot import everything
from tests.integration.stored import bare, keys_of

NAME = "usage/session"
UNKNOWN = ModelConfig("claude-sonnet-4-5", 8, encoding="o200k_base")
HIDDEN = 2_000  # tokens that the provider counts beyond ours


def tell(session: SessionClient, hidden: int = HIDDEN) -> int:
    """Reports the next send as billed with `hidden` tokens more than it counts; answers the bill."""
    context = session.prepare()
    assert context.report_usage({"prompt_tokens": context.verdict.sent + hidden}) is True
    return context.verdict.sent + hidden


def kept(raw: Any, settings: Settings, model: str = "gpt-4o") -> Anchor | None:
    """The anchor as it is stored."""
    text = raw.hget(keys_of(settings, NAME).state, f"anchor:{model_key(model)}")
    return None if text is None else read_anchor(text.decode())


def test_the_next_estimate_expects_what_was_billed_and_what_was_added(memory: Client) -> None:
    session = memory.session(NAME, ROOMY)
    session.push(conversation(3))
    first = session.prepare().verdict
    assert (first.expected, first.counted_by) == (first.total, "count")
    billed = tell(session)
    for verdict in (session.prepare().verdict, session.estimate()):
        assert (verdict.expected, verdict.total, verdict.counted_by) == (billed, first.total, "anchor")
        assert verdict.percent == round(100 * billed / 128_000, 1)
    session.push(user("word " * 300))
    grown = session.prepare().verdict
    assert grown.expected - billed == grown.total - first.total > 300


def test_two_reports_tell_how_fast_the_bill_grows(memory: Client) -> None:
    session = memory.session(NAME, ROOMY)
    session.push(conversation(3))
    tell(session, 500)
    session.push(user("word " * 1_000))
    context = session.prepare()
    grown = context.verdict.total
    assert context.report_usage(
        CompletionUsage(prompt_tokens=context.verdict.expected + 200, completion_tokens=1, total_tokens=1)
    )
    session.push(user("word " * 1_000))
    after = session.prepare().verdict
    slope = (after.expected - context.verdict.expected - 200) / (after.total - grown)
    assert slope == pytest.approx(1.2, abs=0.01)


def test_a_model_that_tiktoken_does_not_know_starts_from_a_prior(memory: Client) -> None:
    session = memory.session(NAME, UNKNOWN)
    session.push(conversation(2))
    verdict = session.prepare().verdict
    assert verdict.counted_by == session.estimate().counted_by == "prior"
    assert verdict.expected == Correction(slope=1.15).expected(verdict.total)
    tell(session, 0)
    assert session.estimate().expected == verdict.total


def test_below_the_threshold_the_output_is_the_stored_history_whatever_was_reported(memory: Client) -> None:
    session = memory.session(NAME, SMALL)
    session.push(conversation(3))
    for hidden in (0, 2_000, 900, 1_500):
        tell(session, hidden)
        context = session.prepare(system="Now.")
        assert context.messages == [{"role": "system", "content": "Now."}, *conversation(3)]
        assert (context.verdict.fit, context.verdict.compaction) == (Fit.FITS, "not_needed")


def test_a_bill_over_the_threshold_starts_a_compaction(memory: Client, worker: InlineWorker) -> None:
    session = memory.session(NAME, SMALL)
    session.push(conversation(6))
    before = session.prepare().verdict
    assert (before.over_threshold, before.compaction) == (False, "not_needed")
    tell(session)
    due = session.estimate()
    assert (due.over_threshold, due.compaction, due.fit) == (True, "due", Fit.SHORTENED)
    assert session.prepare().verdict.compaction == "queued"
    assert session.push(user("more")).over_threshold
    outcome = worker.work(NAME).outcome
    assert (outcome.outcome, outcome.reached) == (Code.APPLIED, True)
    after = session.prepare().verdict
    assert after.counted_by == "anchor"
    assert after.expected <= HIDDEN + (before.threshold - HIDDEN) // 2 + before.system


@pytest.mark.parametrize(("billed", "code"), [(1.0, Code.BELOW_THRESHOLD), (1.15, Code.APPLIED)])
def test_a_worker_goes_by_a_report_that_came_after_the_claim(
    memory: Client, worker: InlineWorker, billed: float, code: Code
) -> None:
    session = memory.session(NAME, UNKNOWN)
    session.push(conversation(6))
    context = session.prepare()
    assert context.verdict.compaction == "queued"
    assert context.report_usage({"prompt_tokens": int(context.verdict.sent * billed) + 1})
    assert worker.work(NAME).outcome.outcome is code


def test_a_send_stays_below_the_ceiling_as_the_provider_counts(memory: Client) -> None:
    session = memory.session(NAME, SMALL)
    session.push([*conversation(6), user("And now?")])
    assert session.prepare().verdict.fit is Fit.FITS
    billed = tell(session)
    context = session.prepare()
    verdict = context.verdict
    assert (verdict.fit, verdict.expected) == (Fit.SHORTENED, billed)
    assert verdict.sent + HIDDEN <= verdict.ceiling < billed
    assert (context.messages[0], context.messages[-1]) == (SYSTEM, user("And now?"))


def test_a_bill_below_our_count_lets_more_be_sent(memory: Client) -> None:
    session = memory.session(NAME, UNKNOWN)
    session.push(conversation(6)[:-1])
    assert session.estimate().over_threshold
    context = session.prepare()
    context.report_usage({"prompt_tokens": context.verdict.sent * 9 // 10})
    assert not session.estimate().over_threshold


def test_what_was_learned_is_of_one_model_and_of_the_last_four(connect: Connect, settings: Settings, raw: Any) -> None:
    memory = connect(settings)
    models = ["gpt-4o", "gpt-4.1", "o3", "gpt-5", "gpt-4o-mini"]
    sessions = [memory.session(NAME, ModelConfig(model, 128)) for model in models]
    sessions[0].push(conversation(1))
    for session, hidden in zip(sessions, range(100, 600, 100), strict=True):
        assert session.estimate().counted_by == "count"
        tell(session, hidden)
    fresh = connect(settings)
    found = [fresh.session(NAME, ModelConfig(model, 128)).estimate() for model in models]
    assert [verdict.counted_by for verdict in found] == ["count", *["anchor"] * 4]
    assert [verdict.expected - verdict.total for verdict in found] == [0, 200, 300, 400, 500]
    assert sum(field.startswith(b"anchor:") for field in raw.hkeys(keys_of(settings, NAME).state)) == 4
    tell(sessions[1], 200)  # used again: the next to go is another
    tell(sessions[0], 100)
    again = connect(settings)
    assert [again.session(NAME, ModelConfig(model, 128)).estimate().counted_by for model in models] == [
        "anchor", "anchor", "count", "anchor", "anchor",
    ]  # fmt: skip


def test_a_model_that_reports_often_does_not_push_out_another(memory: Client) -> None:
    often, once = (memory.session(NAME, ModelConfig(model, 128)) for model in ("gpt-4o", "o3"))
    often.push(conversation(1))
    for hidden in (100, 200, 300, 400, 500):
        tell(often, hidden)
    tell(once, 50)
    assert [each.estimate().counted_by for each in (often, once)] == ["anchor", "anchor"]


def test_another_process_knows_it_at_its_next_send(connect: Connect, settings: Settings) -> None:
    one, other = (connect(settings).session(NAME, SMALL) for _ in range(2))
    one.push(conversation(6))
    assert other.prepare().verdict.counted_by == "count"
    billed = tell(one)
    context = other.prepare()
    assert (context.verdict.expected, context.verdict.counted_by) == (billed, "anchor")
    assert context.verdict.fit is Fit.SHORTENED
    assert other.estimate().expected == billed


def test_two_processes_that_report_at_once_lose_nothing_but_the_race(
    connect: Connect, settings: Settings, raw: Any
) -> None:
    one, other = (connect(settings).session(NAME, ROOMY) for _ in range(2))
    one.push(conversation(2))
    first = one.prepare()
    one.push(user("word " * 500))
    second = other.prepare()
    assert first.report_usage({"prompt_tokens": first.verdict.sent + 100})
    assert second.report_usage({"prompt_tokens": second.verdict.sent + 100})
    stands = kept(raw, settings)
    assert stands == Anchor(
        second.verdict.sent, second.verdict.sent + 100, first.verdict.sent, first.verdict.sent + 100
    )
    assert one.estimate().expected == other.estimate().expected == second.verdict.sent + 100


def test_it_survives_a_swap_and_the_end_of_the_conversation(
    connect: Connect, settings: Settings, worker: InlineWorker
) -> None:
    session = connect(settings).session(NAME, SMALL)
    session.push(conversation(7))
    tell(session, 300)
    session.prepare()
    assert worker.work(NAME).outcome.outcome is Code.APPLIED
    for act in (lambda: None, session.undo, session.clear):
        act()
        verdict = connect(settings).session(NAME, SMALL).estimate()
        assert (verdict.counted_by, verdict.expected - verdict.total) == ("anchor", 300)


def test_a_callers_own_list_is_judged_by_it_too(memory: Client) -> None:
    session = memory.session(NAME, SMALL)
    context = session.prepare(conversation(6)[1:], system="Help.")
    assert context.report_usage({"prompt_tokens": context.verdict.sent + HIDDEN})
    longer = [*conversation(6)[1:], user("And now?")]
    again = session.prepare(longer, system="Help.").verdict
    assert (again.counted_by, again.fit, again.compaction) == ("anchor", Fit.SHORTENED, "queued")
    assert again.sent + HIDDEN <= again.ceiling


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": 0}, {"prompt_tokens": 3}, {"prompt_tokens": 8_001}, 7])
def test_a_usage_not_to_be_believed_changes_nothing(
    memory: Client, settings: Settings, raw: Any, usage: object
) -> None:
    session = memory.session(NAME, SMALL)
    session.push(conversation(2))
    context = session.prepare()
    before = everything(raw, settings, NAME)
    assert context.report_usage(usage) is False
    assert everything(raw, settings, NAME) == before
    assert session.estimate().counted_by == "count"


@pytest.mark.parametrize("lost", ["state", "messages", "all", "newer"])
def test_a_session_that_is_gone_or_newer_learns_nothing(
    connect: Connect, settings: Settings, raw: Any, lost: str
) -> None:
    session = connect(settings).session(NAME, SMALL)
    session.push(conversation(2))
    context = session.prepare()
    keys = keys_of(settings, NAME)
    if lost == "newer":
        raw.hset(keys.state, "schema", 2)
    else:
        raw.delete(*(keys.all if lost == "all" else [getattr(keys, lost)]))
    before = everything(raw, settings, NAME)
    assert context.report_usage({"prompt_tokens": 4_000}) is False
    assert everything(raw, settings, NAME) == before


def test_without_redis_this_process_learns_alone_and_nothing_is_raised(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session(NAME, SMALL)
    session.push(conversation(6))
    context = session.prepare()
    own_server.child.kill()
    assert context.report_usage({"prompt_tokens": context.verdict.sent + HIDDEN})
    degraded = session.prepare().verdict
    assert (degraded.fit, degraded.counted_by) == (Fit.DEGRADED, "anchor")
    assert degraded.sent + HIDDEN <= degraded.ceiling


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "garbage",
        b"\xff\xfe",
        "inf nan 1 1 1 1 0",
        "1.0 0 9 9 9 0",
        "9 9",
        "3.0 5 5 5 5 0",
        "1.0 5 " + "9" * 400 + " 5 5 0",
    ],
)
def test_an_anchor_garbled_from_outside_is_none_and_the_next_report_takes_its_place(
    connect: Connect, settings: Settings, raw: Any, worker: InlineWorker, garbage: str | bytes
) -> None:
    memory = connect(settings)
    session = memory.session(NAME, SMALL)
    session.push(conversation(6))
    tell(session)
    assert session.prepare().verdict.compaction == "queued"
    raw.hset(keys_of(settings, NAME).state, f"anchor:{model_key('gpt-4o')}", garbage)
    for reader in (session, connect(settings).session(NAME, SMALL)):
        for verdict in (reader.estimate(), reader.prepare().verdict):
            assert (verdict.counted_by, verdict.expected) == ("count", verdict.total)
            assert verdict.fit is Fit.FITS
    assert worker.work(NAME).outcome.outcome is Code.BELOW_THRESHOLD
    tell(session, 700)
    verdict = connect(settings).session(NAME, SMALL).estimate()
    assert verdict.expected - verdict.total == 700


_priors = st.sampled_from([1.0, 1.15])
_pairs = st.tuples(st.integers(1, 60_000), st.integers(1, 60_000))


@st.composite
def anchors(draw: st.DrawFn) -> Anchor | None:
    """What reports and refusals may leave."""
    anchor = None
    for count, billed in draw(st.lists(_pairs, max_size=3)):
        anchor = reported(anchor, count, billed)
    if draw(st.booleans()):
        count, window = draw(_pairs)
        anchor = overflowed(anchor, count, expected=count, limit=40_000, named=0, window=window)
    return anchor


@pytest.fixture(scope="module")
def judged(server: EmbeddedServer) -> tuple[Settings, int]:
    """A session of its own, and what its history counts."""
    settings = read_settings(redis_url=server.url, namespace="parity-of-judgements")
    with Compactor(settings=settings) as memory:
        return settings, memory.session(NAME, SMALL).push(conversation(1)).total


_garbled = st.sampled_from(["1.0 0 90000 9 9 0", "1.0 5 9999999999 5 5 0", "2.5 5 9 5 9 0", "1.0 5 90000 5 5", "x"])


@given(
    st.one_of(anchors().map(lambda anchor: "" if anchor is None else written(anchor)), _garbled),
    _priors,
    st.integers(0, 60_000),
    st.integers(-3, 3),
    st.booleans(),
)
def test_the_script_judges_as_the_correction_does(
    server: EmbeddedServer,
    judged: tuple[Settings, int],
    stored: str,
    prior: float,
    fixed: int,
    near: int,
    close: bool,
) -> None:
    settings, total = judged
    anchor = read_anchor(stored)
    line = Correction(slope=prior) if anchor is None else anchor.correction
    count = total + fixed
    threshold = max(1, line.expected(count) + near) if close else 30_000
    budget = Budget(40_000, min(threshold, 40_000), 40_000, fixed)
    state = keys_of(settings, NAME).state
    with bare(server) as raw, Store(settings) as store:
        raw.hset(state, mapping={"claim": "idle", f"anchor:{'0' * 12}": stored})
        judgement = Judgement(budget, "o200k_base", b"{}", "0" * 12, Correction(slope=prior))
        _, answer = store.run(
            prepare(
                keys_of(settings, NAME), judgement, owner=CompactionId("o"), ttl_ms=90_000, known=Known(),
                queue_ms=1_000, lease_ms=1_000, max_attempts=3,
            )
        )  # fmt: skip
        kept_threshold = int(raw.hget(state, "judged_threshold"))
    assert answer is not None
    assert answer.claimed is (line.expected(count) >= line.lowered(budget).threshold)
    assert (count >= kept_threshold) is answer.claimed
    assert read_anchor(answer.anchor) == anchor


@pytest.mark.parametrize("count", [10_500, 10_660, 20_340])
def test_a_push_and_a_send_judge_a_count_alike_where_the_inverse_is_not_exact(
    server: EmbeddedServer, judged: tuple[Settings, int], count: int
) -> None:
    line = Correction(slope=1.15)
    assert line.expected(line.within(line.expected(count)) + 1) > line.expected(count)
    test: Any = test_the_script_judges_as_the_correction_does
    test.hypothesis.inner_test(server, judged, "", 1.15, count - judged[1], 0, True)
