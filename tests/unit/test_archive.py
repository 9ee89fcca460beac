"""How originals and outcomes are kept: what goes in comes out, damage has our own error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.archive import compress, decompress
from compactor.exceptions import SessionDamagedError
from compactor.models import Code, Outcome
from compactor.outcomes import from_json, to_json

outcomes = st.builds(
    Outcome,
    outcome=st.sampled_from(Code),
    id=st.text(max_size=8),
    reason=st.text(max_size=8),
    before=st.integers(0, 10**7),
    after=st.integers(0, 10**7),
    items=st.integers(0, 99),
    reached=st.booleans(),
    at=st.floats(0, 2e9),
    positions=st.lists(st.integers(0, 10**6), max_size=5).map(tuple),
)


@given(st.binary(max_size=500))
def test_an_archived_record_comes_back(record: bytes) -> None:
    assert decompress(compress(record)) == record


@given(st.binary(max_size=100))
def test_the_same_record_always_gives_the_same_bytes(record: bytes) -> None:
    assert compress(record) == compress(record)


@given(st.binary(max_size=60))
def test_foreign_bytes_are_a_damaged_session(blob: bytes) -> None:
    try:
        record = decompress(blob)
    except SessionDamagedError:
        return
    assert decompress(compress(record)) == record


@pytest.mark.parametrize("blob", [b"", b"x", compress(b"record" * 50)[:-5], b"\x00" + compress(b"record")[1:]])
def test_damage_is_named_without_quoting(blob: bytes) -> None:
    with pytest.raises(SessionDamagedError, match="archived original"):
        decompress(blob)


@given(outcomes)
def test_an_outcome_survives_the_audit(outcome: Outcome) -> None:
    row = to_json(outcome)
    assert from_json(json.loads(json.dumps(row))) == outcome
    assert row["saved"] == outcome.saved


def test_fields_of_a_newer_release_are_passed_over() -> None:
    row = {**to_json(Outcome(Code.APPLIED, id="a")), "net": 7, "provider": "x"}
    assert from_json(row) == Outcome(Code.APPLIED, id="a")


def test_a_row_of_an_older_release_gets_the_defaults() -> None:
    assert from_json({"outcome": "applied", "id": "a"}) == Outcome(Code.APPLIED, id="a")


def test_an_outcome_of_a_newer_release_does_not_hide_the_audit() -> None:
    assert from_json({**to_json(Outcome(Code.APPLIED, id="a")), "outcome": "folded"}).id == "a"


@pytest.mark.parametrize("positions", [5, "12", {"1": 2}, ["x"], [1.5], [True], None])
def test_positions_that_are_none_are_passed_over(positions: object) -> None:
    assert from_json({"outcome": "applied", "id": "a", "positions": positions}) == Outcome(Code.APPLIED, id="a")


@pytest.mark.parametrize("figures", [{"before": "x"}, {"after": None}, {"id": ["a"]}, {"at": "now"}, {"reached": 1}])
def test_figures_of_another_type_are_passed_over(figures: dict[str, object]) -> None:
    assert from_json({"outcome": "applied", "items": 3, "at": 7, **figures}).items == 3
    assert from_json({"outcome": "applied", **figures}) == Outcome(Code.APPLIED)


@pytest.mark.parametrize("word", [None, 5, [], {}])
def test_an_outcome_without_a_word_is_unknown(word: object) -> None:
    assert from_json({"outcome": word}).outcome is Code.UNKNOWN
    assert from_json({}).outcome is Code.UNKNOWN
