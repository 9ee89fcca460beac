"""Provisional extracts are told anew by a model that works again: once, beside a compaction, from originals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from compactor.drafting import Draft, Limits, Summarize, draft
from compactor.exceptions import SummarizerError, SummarizerRefused, SummarizerTimeout
from compactor.models import Kind, Message
from compactor.planning import Plan, Snapshot, plan
from compactor.renewals import provisional, renewing
from compactor.rules import Rule, rules_of
from compactor.tokens import count_message
from tests.unit.chat import by_length, levels, replaced, result, steps, stored, total
from tests.unit.summarizers import failing, saying

WHOLE = stored(steps(8, tokens=1_000))
EXTRACTED = (2, 4)  # results that a provisional extract stands for


def extracted(message: Message) -> Message:
    return replace(
        replaced(message, "[grep: earlier tool output] row1 has value 7919", kind=Kind.EXTRACT), provisional=True
    )


MESSAGES = [extracted(message) if index in EXTRACTED else message for index, message in enumerate(WHOLE)]
ORIGINALS = {index: WHOLE[index] for index in EXTRACTED}


def snapshot(messages: list[Message] = MESSAGES) -> Snapshot:
    return Snapshot(messages, total(messages))


def planned(of: Snapshot) -> Plan:
    found = plan(of, levels(ceiling=4_000, threshold=3_000))
    assert isinstance(found, Plan)
    return found


def drafted(summarize: Summarize, *, over: bool = False) -> Draft:
    seen = snapshot()
    whole = renewing(planned(seen), seen, ORIGINALS)
    return draft(whole, seen, encode=by_length, summarize=summarize, limits=Limits(99.0, over=over))


def renewed(found: Draft) -> dict[int, Kind]:
    return {item.position: item.kind for item in found.replacements if item.position in EXTRACTED}


def test_the_extracts_that_a_plan_leaves_are_found() -> None:
    seen = snapshot()
    assert provisional(seen, planned(seen)) == list(EXTRACTED)
    for first in (replace(MESSAGES[2], pinned=True), replace(MESSAGES[2], kept=True)):
        seen = snapshot([*MESSAGES[:2], first, *MESSAGES[3:]])
        assert provisional(seen, planned(seen)) == [4]


def test_a_summary_of_the_original_takes_the_place_of_the_extract() -> None:
    found = drafted(saying("Row 1 has value 7919."))
    assert renewed(found) == dict.fromkeys(EXTRACTED, Kind.SUMMARY)
    for item in found.replacements:
        if item.position in EXTRACTED:
            assert not item.provisional
            assert (item.before, item.after) == (MESSAGES[item.position].tokens, count_message(item.value, by_length))
            assert f"shortened from {WHOLE[item.position].tokens} tokens" in item.value["content"]
            assert item.value["tool_call_id"] == result(f"c{item.position // 2 - 1}")["tool_call_id"]


@pytest.mark.parametrize("error", [SummarizerTimeout(), SummarizerRefused()])
@pytest.mark.parametrize("over", [False, True])
def test_without_a_summary_the_extract_stays(error: SummarizerError, over: bool) -> None:
    assert renewed(drafted(failing(error), over=over)) == {}


def test_a_plan_counts_them_for_nothing_but_its_last_position() -> None:
    seen = snapshot()
    bare = planned(seen)
    whole = renewing(bare, seen, ORIGINALS)
    assert (whole.items, whole.need, whole.reaches) == (bare.items, bare.need, bare.reaches)
    assert [item.message.position for item in whole.renewed] == list(EXTRACTED)
    behind = renewing(replace(bare, last_position=1), seen, ORIGINALS)
    assert behind.last_position == max(EXTRACTED)


@pytest.mark.parametrize("rule", [Rule("grep", never=True), Rule("grep", extract=True)])
def test_a_rule_that_keeps_a_tool_from_the_model_keeps_the_extract(rule: Rule) -> None:
    seen = replace(snapshot(), rules=rules_of((rule,)))
    assert renewing(planned(snapshot()), seen, ORIGINALS).renewed == ()


def test_an_original_that_is_not_kept_leaves_its_extract() -> None:
    seen = snapshot()
    assert [item.index for item in renewing(planned(seen), seen, {4: WHOLE[4]}).renewed] == [4]
