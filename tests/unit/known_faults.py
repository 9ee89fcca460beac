"""Shapes of input for which a fault is known and not mended yet.

Each has its own test, marked xfail(strict=True), with the smallest example; the property tests pass
these shapes over. A function here goes when its fault does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compactor.history import read_history
from compactor.json_values import is_array, is_object


def has_unhashable_part_type(message: Mapping[str, Any]) -> bool:
    """test_openai_format: test_a_part_whose_type_is_no_text_is_read."""
    content = message.get("content")
    return is_array(content) and any(
        is_object(part) and (is_array(part.get("type")) or is_object(part.get("type"))) for part in content
    )


def has_open_step_with_answers(messages: Sequence[Mapping[str, Any]]) -> bool:
    """test_view_faults: test_an_abandoned_step_adds_no_open_call, test_a_read_result_of_an_open_step_is_shortened."""
    return any(step.open and step.answered for step in read_history(messages).steps)


def has_answer_behind_a_user_message(messages: Sequence[Mapping[str, Any]]) -> bool:
    """test_view_faults: test_a_remembered_cut_leaves_no_orphan."""
    history = read_history(messages)
    return any(
        "user" in history.roles[step.start : index]
        for step in history.steps
        for index in [*step.answered, *step.orphans]
    )
