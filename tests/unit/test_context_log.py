"""The log lines of context preparation: byte for byte, and the same figures as fields."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from compactor.context import log
from compactor.context.log import Figures, Line, context_prepared, k_label

EXAMPLE = Figures("gpt-4o", 128_000, "balanced", system=6_124, variables=3_320, history=11_800, tools=1_862)


def test_the_documents_example_byte_for_byte() -> None:
    assert context_prepared(EXAMPLE).text == (
        "Context prepared: system=6124 (base=2804 + topology=3320) + history=11800 + tools=1862 = 19786 total / "
        "128K limit (15.5%), strategy=balanced"
    )


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (log.using_encoding("cl100k_base"), "Using tiktoken (cl100k_base) for accurate token counting"),
        (log.tools_estimated(8_500, 8), "Tool definitions estimated at ~8500 total tokens (8 tools)"),
        (
            log.limit_used(128_000, "gpt-4o"),
            "Using database config context limit: 128000 tokens for model 'gpt-4o'",
        ),
        (log.trimming(95_000, 82_000, "gpt-4o"), "Trimming messages: 95000 → 82000 tokens (model: gpt-4o)"),
        (log.trimmed(50, 25), "Trimmed 50 → 25 messages"),
        (log.output_available(32_000), "Available for output: ~32000 tokens"),
    ],
)
def test_each_line_of_the_document(line: Line, text: str) -> None:
    assert line.text == text
    assert line.level == logging.INFO


@pytest.mark.parametrize(
    ("tokens", "label"),
    [
        (128_000, "128K"),
        (1_000, "1K"),
        (2_800_000, "2800K"),
        (16_385, "16.4K"),
        (16_400, "16.4K"),
        (16_040, "16K"),
        (8_192, "8.2K"),
        (1_048_576, "1048.6K"),
        (999, "1K"),
    ],
)
def test_a_window_is_named_in_k_with_one_decimal_at_most(tokens: int, label: str) -> None:
    assert k_label(tokens) == label


@pytest.mark.parametrize(
    ("history", "percent"), [(0, "0.0%"), (10, "1.0%"), (995, "99.5%"), (999, "99.9%"), (3_000, "300.0%")]
)
def test_percent_has_one_decimal(history: int, percent: str) -> None:
    figures = Figures("m", 1_000, "balanced", system=0, variables=0, history=history, tools=0)
    assert f"({percent})" in context_prepared(figures).text


def test_the_document_writes_28_9_percent_of_36932_tokens() -> None:
    figures = Figures("gpt-4o", 128_000, "balanced", system=0, variables=0, history=28_432, tools=8_500)
    assert "= 36932 total / 128K limit (28.9%)" in context_prepared(figures).text


@pytest.mark.parametrize(
    ("names", "label"),
    [(frozenset({"topology_info"}), "topology"), (frozenset({"user"}), "variables"),
     (frozenset({"topology_info", "user"}), "variables")],
)  # fmt: skip
def test_other_variables_than_the_topology_are_called_so(names: frozenset[str], label: str) -> None:
    figures = Figures("m", 1_000, "balanced", system=9, variables=4, history=0, tools=0, names=names)
    assert f"(base=5 + {label}=4)" in context_prepared(figures).text


def test_the_fields_are_flat_and_hold_every_figure_of_the_line() -> None:
    assert context_prepared(EXAMPLE).fields == {
        "event": "context_prepared",
        "model": "gpt-4o",
        "limit": 128_000,
        "strategy": "balanced",
        "system": 6_124,
        "base": 2_804,
        "variables": 3_320,
        "history": 11_800,
        "tools": 1_862,
        "total": 19_786,
        "percent": 15.5,
    }


def test_every_line_has_an_event_of_its_own_that_the_manual_lists_and_json_fields() -> None:
    lines = [
        log.using_encoding("cl100k_base"), log.tools_estimated(1, 1), log.limit_used(1, "m"),
        log.trimming(2, 1, "m"), log.trimmed(2, 1), context_prepared(EXAMPLE),
        log.bill_expected(1, 2, "anchor"), log.output_available(1),
        log.tools_over_budget(2, 1), log.system_over_budget(2, 1),
        log.history_trimmed_away(1), log.context_impossible(2, 1),
        log.tools_unreadable(("X",), 1), log.limit_refused("r", "m"), log.encoder_missing("r"),
        log.counting_failed("r"), log.trimming_failed("r"),
    ]  # fmt: skip
    assert len({line.fields["event"] for line in lines}) == len(lines)
    page = (Path(__file__).resolve().parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
    for line in lines:
        json.dumps(line.fields)
        assert f"`{line.fields['event']}`" in page
        assert callable(getattr(log, line.fields["event"]))


def test_a_line_goes_to_the_logger_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "compactor.context"):
        context_prepared(EXAMPLE).emit()
        log.tools_over_budget(2, 1).emit()
    first, second = caplog.records
    assert (first.name, first.levelname, first.getMessage()) == (
        "compactor.context", "INFO", context_prepared(EXAMPLE).text,
    )  # fmt: skip
    assert vars(first)["compactor"]["total"] == 19_786
    assert second.levelname == "WARNING"
    assert "increase context_limit or reduce the number of tools" in second.getMessage()


def test_a_host_silences_the_lines_by_its_ordinary_configuration(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "compactor.context"):
        context_prepared(EXAMPLE).emit()
        log.tools_over_budget(2, 1).emit()
    assert not caplog.records


def test_a_model_name_with_percent_signs_and_lines_stays_one_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "compactor.context"):
        log.limit_used(1_000, "50%s\nERROR: forged").emit()
    assert caplog.records[0].getMessage() == (
        "Using database config context limit: 1000 tokens for model '50%s\ufffdERROR: forged'"
    )
