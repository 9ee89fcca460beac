"""The account of a compaction: the break-even formula against a step-by-step simulation, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from compactor.bills import Bill
from compactor.ledger import Rates, bill, break_even, figures, line, steps_until
from compactor.models import Code, Outcome
from compactor.outcomes import from_json, to_json
from compactor.pricing import Price, price
from tests.unit.chat import assistant as said
from tests.unit.chat import result, stored, system, user

CLAUDE = price(Decimal(3), Decimal(15), Decimal("0.3"), Decimal("3.75"))
CHEAP = price(Decimal("0.15"), Decimal("0.6"), Decimal("0.075"))
APPLIED = Outcome(
    Code.APPLIED, before=98_000, after=50_000, items=12, model="cheap", spent_in=60_000, spent_out=3_000, rewrite=40_000
)
TOKENS = st.integers(0, 200_000)


def billed(outcome: Outcome, rates: Rates, *, cold: bool = False) -> Bill:
    return bill(
        outcome, rates, before=outcome.before, after=outcome.after, rewritten=outcome.rewrite, steps=40, cold=cold
    )


def cost_of_steps(steps: int, *, front: int, behind: int, first: Decimal, read: Decimal) -> Decimal:
    """Sends in a row: the part in front of the cut always comes from the cache, what is behind it once at `first`."""
    total = Decimal(0)
    for step in range(steps):
        total += front * read + behind * (first if step == 0 else read)
    return total


@given(
    front=TOKENS, dropped=TOKENS, summaries=TOKENS, behind=TOKENS, spent=st.integers(0, 100_000),
    read=st.sampled_from(["0.1", "0.25", "0.5", "1"]), write=st.sampled_from(["1", "1.25", "2"]),
)  # fmt: skip
def test_the_formula_names_the_step_at_which_both_ways_cost_the_same(
    front: int, dropped: int, summaries: int, behind: int, spent: int, read: str, write: str
) -> None:
    r, w = Decimal(read), Decimal(write)
    assume(dropped > summaries)
    found = break_even(
        write_factor=w, read_factor=r, rewritten=behind + summaries, freed=dropped - summaries, spent=Decimal(spent)
    )
    assert found is not None
    assume(found < 300)

    def with_it(steps: int) -> Decimal:
        return cost_of_steps(steps, front=front, behind=behind + summaries, first=w, read=r) + spent

    def without(steps: int) -> Decimal:
        return cost_of_steps(steps, front=front, behind=behind + dropped, first=r, read=r)

    reached = max(1, int(found) + (found != int(found)))
    assert with_it(reached) <= without(reached)
    if reached > 1:
        assert with_it(reached - 1) > without(reached - 1)


def test_what_frees_nothing_never_pays_back() -> None:
    assert break_even(write_factor=Decimal(1), read_factor=Decimal(1), rewritten=9, freed=0, spent=Decimal(0)) is None


def test_a_bill_names_spent_re_write_steps_payback_and_net() -> None:
    found = billed(APPLIED, Rates(CLAUDE, CLAUDE, CHEAP))
    assert found.spent == 60_000 * 0.15 + 3_000 * 0.6
    assert found.rewrite == 40_000 * (3.75 - 0.3)
    assert (found.step_before, found.step_after) == (29_400, 15_000)
    assert found.saved == 40 * 14_400
    assert found.net == 576_000 - 138_000 - 10_800
    assert found.payback == pytest.approx((138_000 + 10_800) / 14_400, abs=0.05)


def test_a_cold_cache_makes_the_cut_free() -> None:
    found = billed(APPLIED, Rates(CLAUDE, CLAUDE, CHEAP), cold=True)
    assert (found.rewrite, found.payback) == (0, 0.8)


def test_a_context_that_falls_below_a_tier_costs_less_for_each_token_too() -> None:
    dear = price(Decimal(6), Decimal(15), Decimal("0.6"), Decimal("7.5"))
    found = billed(APPLIED, Rates(dear, CLAUDE, CHEAP))
    assert (found.step_before, found.step_after) == (58_800, 15_000)


@pytest.mark.parametrize(
    ("rates", "unknown", "known"),
    [
        (Rates(None, None, CHEAP), ("rewrite", "step_before", "step_after", "payback", "saved", "net"), ("spent",)),
        (Rates(CLAUDE, CLAUDE, None), ("spent", "payback", "net"), ("rewrite", "step_before", "step_after", "saved")),
        (Rates(), ("spent", "rewrite", "step_before", "step_after", "payback", "saved", "net"), ()),
    ],
)  # fmt: skip
def test_a_price_that_is_not_known_is_never_zero(
    rates: Rates, unknown: tuple[str, ...], known: tuple[str, ...]
) -> None:
    found = billed(APPLIED, rates)
    assert all(getattr(found, name) is None for name in unknown)
    assert all(getattr(found, name) for name in known)
    told = line(replace(APPLIED, bill=found))
    assert "price unknown" in told
    assert "$0 " not in f"{told} "
    assert "$0," not in told


def test_extracts_cost_nothing_whatever_the_price_of_a_model() -> None:
    extracts = Outcome(Code.APPLIED, before=98_000, after=50_000, rewrite=40_000)
    assert billed(extracts, Rates(CLAUDE, CLAUDE, None)).spent == 0


def test_a_run_that_replaced_nothing_has_spent_and_saved_nothing() -> None:
    failed = Outcome(
        Code.SUMMARIZER_FAILED, reason="timeout", before=98_000, after=98_000, spent_in=1_000, rewrite=40_000
    )
    found = billed(failed, Rates(CLAUDE, CLAUDE, CHEAP))
    assert (found.spent, found.rewrite, found.saved, found.net, found.payback) == (150, 0, 0, -150, None)
    told = line(replace(failed, bill=found))
    assert told == "summarizer_failed (timeout), 98,000 -> 98,000 tokens, 0 replaced; spent $0.000150"


def test_one_line_tells_a_compaction() -> None:
    assert line(replace(APPLIED, bill=billed(APPLIED, Rates(CLAUDE, CLAUDE, CHEAP)))) == (
        "applied, 98,000 -> 50,000 tokens, 12 replaced; spent $0.0108, cache re-write $0.1380, "
        "a step $0.0294 -> $0.0150, pays back in 10.3 steps, net $0.4272 in 40 steps"
    )


def test_flower_gets_a_bill_as_whole_numbers_and_codes() -> None:
    assert figures(APPLIED) == {}
    assert figures(replace(APPLIED, bill=billed(APPLIED, Rates(CLAUDE, CLAUDE, CHEAP)))) == {
        "micro_spent": 10_800,
        "micro_rewrite": 138_000,
        "micro_step_before": 29_400,
        "micro_step_after": 15_000,
        "micro_net": 427_200,
        "steps": 40,
        "payback_steps": 11,
    }
    unpriced = figures(replace(APPLIED, bill=billed(APPLIED, Rates(CLAUDE, CLAUDE, None))))
    assert (unpriced["micro_spent"], unpriced["micro_net"]) == ("price_unknown", "price_unknown")
    assert "payback_steps" not in unpriced
    failed = replace(APPLIED, after=APPLIED.before, bill=Bill(spent=150))
    assert figures(failed) == {"micro_spent": 150}


@given(st.builds(
    Bill, st.none() | TOKENS, st.none() | TOKENS, st.none() | TOKENS, st.none() | TOKENS, TOKENS,
    st.none() | st.floats(0, 1e6), st.booleans(),
))  # fmt: skip
def test_a_bill_survives_the_audit(found: Bill) -> None:
    assert from_json(to_json(Outcome(Code.APPLIED, bill=found))).bill == found


@pytest.mark.parametrize("damaged", [None, 5, [], "x", {}, {"spent": "5", "steps": True, "payback": "x", "cold": 1}])
def test_audits_of_older_releases_and_damaged_ones_are_read(damaged: Any) -> None:
    row = {key: value for key, value in to_json(APPLIED).items() if key != "bill"}
    assert from_json(row) == APPLIED, "an older release wrote no bill"
    assert from_json({**row, "bill": damaged}).bill in (None, Bill())


@given(
    st.dictionaries(
        st.sampled_from(list(to_json(APPLIED))),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.just(10**400) | st.text(max_size=3),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["spent", "rewrite", "steps", "payback", "cold"]), inner)
            ),
        ),
    )
)
def test_any_row_of_an_audit_is_read(row: dict[str, Any]) -> None:
    to_json(from_json(row))


def test_a_fraction_that_no_float_holds_is_passed_over() -> None:
    found = from_json({"outcome": "applied", "at": 10**400, "bill": {"payback": 10**400}})
    assert (found.at, found.bill) == (0.0, Bill())


def test_the_pace_of_a_session_tells_when_it_is_full_again() -> None:
    chat = stored(
        [system("s" * 9_000), user("go"), *(m for _ in range(10) for m in (said("x" * 100), result("r" * 300)))]
    )
    pace = sum(message.tokens for message in chat[1:]) / 10
    assert steps_until(10_000, 5_000, chat) == -(-5_000 // pace)
    assert steps_until(10_000, 20_000, chat) == 1
    assert steps_until(10_000, 5_000, chat[:2]) == 1, "no step yet, nothing to go by"


@given(before=TOKENS, after=TOKENS, rewritten=TOKENS, spent=TOKENS, steps=st.integers(1, 1_000))
def test_any_figures_make_a_bill_whose_parts_add_up(
    before: int, after: int, rewritten: int, spent: int, steps: int
) -> None:
    outcome = Outcome(Code.APPLIED, before=before, after=after, spent_in=spent)
    prices: list[Price] = [CLAUDE, CHEAP, price(Decimal(0), Decimal(0))]
    for each in prices:
        found = bill(outcome, Rates(each, each, CHEAP), before=before, after=after, rewritten=rewritten, steps=steps)
        assert found.saved is not None
        assert found.net == found.saved - (found.spent or 0) - (found.rewrite or 0)
        assert found.payback is None or found.payback >= 0
