"""A model that misbehaves: each fault ends in a typed outcome, and never in a lost or wrong message."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from compactor import Code
from compactor.embedded import EmbeddedServer
from compactor.models import Kind
from compactor.records import PROVISIONAL
from compactor.testing import ModelServer, summary
from compactor.validity import faults
from tests.acceptance.conftest import Service
from tests.acceptance.misbehaving import ABOVE, BELOW, Case, begin, finish
from tests.acceptance.scripted_model import long_talk, requests_with
from tests.acceptance.waiting import wait_until
from tests.integration.conversations import SMALL
from tests.integration.stored import bare

CONFIGURATION = {"unauthorized": "unauthorized", "forbidden": "unauthorized", "not-found": "not_found"}
PASSING = {
    "rate-limited": "rate_limited",
    "server-error": "server_error",
    "html": "server_error",
    "slow": "timeout",
}
LIMITED = "rate-limited"
REPLIES = ("empty", "null", "no-choices", "refuses", "calls-a-tool", "cut-off")


@pytest.fixture(scope="module")
def cases(server: EmbeddedServer, modelled: Service) -> Iterator[dict[tuple[str, int], Case]]:
    """Every fault below and above the ceiling, all in flight at once: each waits for the others' time.

    Rate limits come last, since all calls pause for them.
    """
    names = [name for name in (*CONFIGURATION, *PASSING, *REPLIES) if name != LIMITED]
    with bare(server) as raw:
        begun = {(fault, steps): begin(modelled, raw, fault, steps) for fault in names for steps in (BELOW, ABOVE)}
        cases = {key: finish(modelled, raw, case) for key, case in begun.items()}
        for steps in (BELOW, ABOVE):
            cases[LIMITED, steps] = finish(modelled, raw, begin(modelled, raw, LIMITED, steps))
        yield cases


@pytest.mark.parametrize("fault", CONFIGURATION)
def test_a_wrong_key_or_model_fails_at_once_and_leaves_the_history_byte_for_byte(
    cases: dict[tuple[str, int], Case], modelled: Service, model: ModelServer, fault: str
) -> None:
    case = cases[fault, BELOW]
    assert (case.outcome.outcome, case.outcome.reason) == (Code.SUMMARIZER_FAILED, CONFIGURATION[fault])
    assert case.records == case.before
    assert case.session.prepare().verdict.compaction == "held(summarizer_failed)"
    asked = requests_with(model, f"mark-{fault}-{BELOW}")
    assert 0 < len(asked) == len({body["messages"][1]["content"] for body in asked}), "each result was tried once"


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_may_pass_is_retried_then_leaves_the_history_byte_for_byte(
    cases: dict[tuple[str, int], Case], modelled: Service, model: ModelServer, fault: str
) -> None:
    case = cases[fault, BELOW]
    assert (case.outcome.outcome, case.outcome.reason) == (Code.SUMMARIZER_FAILED, PASSING[fault])
    assert case.records == case.before
    assert case.session.prepare().verdict.compaction == "held(summarizer_failed)"
    asked = requests_with(model, f"mark-{fault}-{BELOW}")
    results = len({body["messages"][1]["content"] for body in asked})
    if fault == LIMITED:  # a call that is told to pause may hold back those beside it
        assert results <= len(asked) <= 2 * results
    else:
        assert len(asked) == 2 * results, "each result was tried twice"
    log = modelled.worker.tail(1_000_000)
    assert f"compactor.compact_session[{case.outcome.id}] retry: Retry in" in log


@pytest.mark.parametrize("fault", [*CONFIGURATION, *PASSING])
def test_above_the_ceiling_a_provisional_extract_stands_in(cases: dict[tuple[str, int], Case], fault: str) -> None:
    case = cases[fault, ABOVE]
    outcome = case.outcome
    assert outcome.outcome is Code.APPLIED
    assert (outcome.by_model, outcome.by_extract) == (0, outcome.items)
    assert outcome.reached
    for position in outcome.positions:
        record = case.read()[position]
        assert (record.kind, bool(record.flags & PROVISIONAL)) == (Kind.EXTRACT, True)
    context = case.session.prepare()
    assert context.verdict.fit == "fits"
    assert not faults(context.messages)


@pytest.mark.parametrize("steps", [BELOW, ABOVE])
@pytest.mark.parametrize("fault", REPLIES)
def test_a_reply_that_fails_its_checks_is_replaced_by_an_extract(
    cases: dict[tuple[str, int], Case], fault: str, steps: int
) -> None:
    case = cases[fault, steps]
    outcome = case.outcome
    assert outcome.outcome is Code.APPLIED
    assert (outcome.by_model, outcome.by_extract) == (0, outcome.items)
    for position in outcome.positions:
        record = case.read()[position]
        assert (record.kind, bool(record.flags & PROVISIONAL)) == (Kind.EXTRACT, False)


def test_nothing_is_lost_whatever_the_fault(cases: dict[tuple[str, int], Case]) -> None:
    for case in cases.values():
        assert case.session.originals() == case.pushed
        changed = [i for i, (old, new) in enumerate(zip(case.before, case.records, strict=True)) if old != new]
        assert tuple(changed) == case.outcome.positions
        assert {case.pushed[position]["role"] for position in changed} <= {"tool"}


def test_a_retry_after_a_rate_limit_waits_at_least_as_long_as_the_server_asked(
    cases: dict[tuple[str, int], Case], modelled: Service
) -> None:
    case = cases["rate-limited", BELOW]
    retries = rf"\[{case.outcome.id}\] retry: Retry in ([\d.]+)s: SummarizerRateLimited\('rate_limited'\)"
    (seconds,) = re.findall(retries, modelled.worker.tail(1_000_000))
    assert 1.0 <= float(seconds) < 2.0


def test_a_session_whose_model_failed_is_compacted_when_somebody_asks_and_the_model_is_well(
    modelled: Service, model: ModelServer
) -> None:
    session = modelled.session("faults/recovers", SMALL)
    session.push(long_talk(BELOW, "unauthorized", "mark-recovers"))
    session.prepare()
    assert wait_until(lambda: session.status().last).outcome is Code.SUMMARIZER_FAILED
    model.script.extend([summary()] * 8)
    try:
        outcome = session.compact(wait=20)
    finally:
        model.script.clear()
    assert outcome.outcome is Code.APPLIED
    assert outcome.by_model == outcome.items


@pytest.mark.parametrize(
    ("manner", "rejected", "instead"),
    [
        ("wants-max_tokens", "max_completion_tokens", "max_tokens"),
        ("wants-no-response_format", "response_format", None),
        ("wants-no-temperature", "temperature", None),
    ],
)
def test_a_parameter_that_the_server_rejects_is_learnt_once(
    modelled: Service, model: ModelServer, manner: str, rejected: str, instead: str | None
) -> None:
    for attempt, mark in enumerate((f"mark-first-{rejected}", f"mark-second-{rejected}")):
        session = modelled.session("faults/learns", SMALL)
        session.push(long_talk(ABOVE, manner, mark))
        outcome = session.compact(wait=20)
        assert (outcome.outcome, outcome.by_model) == (Code.APPLIED, outcome.items)
        asked = requests_with(model, mark)
        accepted = [body for body in asked if rejected not in body]
        assert len(accepted) == outcome.items
        assert all(instead in body for body in accepted if instead)
        assert attempt == 0 or len(asked) == outcome.items, "known from the first time on"
