"""Which originals an undo brings back, read from the audit: what nothing touched since."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compactor.exceptions import CompactionNotFoundError
from compactor.models import Code, Outcome
from compactor.undoing import chosen, standing


def row(code: Code, positions: tuple[int, ...] = (), *, name: str = "") -> Outcome:
    return Outcome(code, id=name, positions=positions)


def applied(*positions: int, name: str = "a") -> Outcome:
    return row(Code.APPLIED, positions, name=name)


def undone(*positions: int) -> Outcome:
    return row(Code.UNDONE, positions, name="u")


_positions = st.lists(st.integers(0, 9), unique=True, max_size=4).map(lambda found: tuple(sorted(found)))
_codes = st.sampled_from([Code.APPLIED, Code.APPLIED, Code.UNDONE, Code.NO_GAIN, Code.STALE, Code.UNKNOWN])
audits = st.lists(st.builds(row, _codes, _positions), max_size=8).map(
    lambda rows: [Outcome(made.outcome, id=f"c{index}", positions=made.positions) for index, made in enumerate(rows)]
)


def replaced_by(audit: list[Outcome]) -> dict[int, str]:
    """What stands at each position, told by playing the audit forward: the compaction that replaced it."""
    shown: dict[int, str] = {}
    for outcome in audit:
        for position in outcome.positions:
            if outcome.outcome is Code.APPLIED:
                shown[position] = outcome.id
            elif outcome.outcome is Code.UNDONE:
                shown.pop(position, None)
    return shown


@settings(max_examples=200)
@given(audits)
def test_what_stands_is_what_playing_the_audit_forward_shows(audit: list[Outcome]) -> None:
    shown = replaced_by(audit)
    for outcome in audit:
        if outcome.outcome is Code.APPLIED:
            expected = tuple(position for position in outcome.positions if shown.get(position) == outcome.id)
            assert standing(audit, outcome) == expected


@given(audits)
def test_without_a_name_the_last_one_that_still_stands_is_chosen(audit: list[Outcome]) -> None:
    left = [outcome for outcome in audit if outcome.outcome is Code.APPLIED and standing(audit, outcome)]
    if left:
        assert chosen(audit, None) is left[-1]
        return
    with pytest.raises(CompactionNotFoundError, match="compactions"):
        chosen(audit, None)


@given(audits)
def test_one_can_undo_until_nothing_is_replaced_any_more(audit: list[Outcome]) -> None:
    for _ in range(len(audit) + 1):
        try:
            back = standing(audit, chosen(audit, None))
        except CompactionNotFoundError:
            break
        assert back
        audit = [*audit, row(Code.UNDONE, back, name=f"u{len(audit)}")]
    assert replaced_by(audit) == {}


@given(audits)
def test_only_an_applied_compaction_can_be_named(audit: list[Outcome]) -> None:
    for outcome in audit:
        if outcome.outcome is Code.APPLIED:
            assert chosen(audit, outcome.id) is outcome
        else:
            with pytest.raises(CompactionNotFoundError):
                chosen(audit, outcome.id)


def test_a_name_that_no_row_has_is_refused_and_not_quoted() -> None:
    with pytest.raises(CompactionNotFoundError) as caught:
        chosen([applied(1)], "hunter2")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("audit", "expected"),
    [
        ([applied(1, 2)], (1, 2)),
        ([applied(1, 2), undone(1)], (2,)),
        ([applied(1, 2), undone(1, 2)], ()),
        ([applied(1, 2), applied(2, name="b")], (1,)),
        ([applied(1, 2), undone(1, 2), applied(1, name="b")], ()),
        ([applied(1, 2), row(Code.NO_GAIN, (1,))], (1, 2)),
        ([undone(1), applied(1, 2)], (1, 2)),
    ],
)
def test_what_a_later_row_touched_stands_no_more(audit: list[Outcome], expected: tuple[int, ...]) -> None:
    compaction = next(outcome for outcome in audit if outcome.id == "a")
    assert standing(audit, compaction) == expected


def test_a_repeated_name_means_the_latest() -> None:
    audit = [applied(1), applied(2)]
    assert chosen(audit, "a") is audit[1]
    assert standing(audit, audit[0]) == (1,)
