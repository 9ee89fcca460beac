"""`compactor pin` and `unpin`, and what `show` tells of pins."""

from __future__ import annotations

from tests.acceptance.conftest import Service
from tests.acceptance.test_cli_undo import PUSHED, Case


def test_a_replaced_message_is_pinned_shown_and_released(modelless: Service) -> None:
    case = Case(modelless)
    (replaced,) = [row for row in case.session.compactions() if row.positions]
    name = f"m{replaced.positions[0]}"
    assert case.run("pin", case.name).out.strip() == "nothing is pinned"
    assert case.run("pin", case.name, name).out.strip() == f"pinned {name}; originals are back: {name}"
    phrase = "value_3 = 8003"
    assert case.run("pin", case.name, phrase, "--json").row["pin"] == phrase
    assert case.run("pin", case.name, "--json").row == {"messages": [name], "phrases": [phrase]}
    assert case.live()[replaced.positions[0]] == PUSHED[replaced.positions[0]]
    rows = {row["recall_id"]: row for row in case.run("show", case.name, "--json").rows}
    assert [each for each, row in rows.items() if row["pinned"]] == [name]
    assert [row["phrases"] for row in rows.values() if row["phrases"]] == [[phrase]]
    assert " pinned" in case.run("show", case.name).out
    assert case.run("unpin", case.name, name).out.strip() == f"released {name}"
    assert case.run("unpin", case.name, name).out.strip() == f"{name} was not pinned"
    assert case.run("unpin", case.name, phrase, "--json").row == {"released": 1}


def test_what_cannot_be_pinned_is_said(modelless: Service) -> None:
    case = Case(modelless)
    for arguments, told in ((("pin", "nobody/here", "m1"), "not found"), (("pin", case.name, "m999"), "m999")):
        ended = case.run(*arguments)
        assert ended.code == 2
        assert told in ended.err
