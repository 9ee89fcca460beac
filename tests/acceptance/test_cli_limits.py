"""`compactor limits`: windows for reference, in K tokens, from a table that ships with a package; never a default."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from tests.acceptance.cli_process import Ended, run

ROOT = Path(__file__).resolve().parents[2]
_WITHOUT_NETWORK = """
import socket, sys
def refuse(*_a, **_k):
    raise SystemExit("the network was asked")
socket.socket.connect = socket.getaddrinfo = refuse
from compactor.cli.app import main
sys.argv[0] = "compactor"
main()
"""
_WITHOUT_TABLE = """
import sys
sys.modules["genai_prices"] = None
from compactor.cli.app import main
main()
"""


def limits(*arguments: str, env: Mapping[str, str] | None = None) -> Ended:
    """The command in a process that fails when it asks for a name or a connection."""
    return run("limits", *arguments, env=env, program=(sys.executable, "-c", _WITHOUT_NETWORK))


def test_a_window_is_shown_in_k_tokens_as_the_configuration_takes_it() -> None:
    row = limits("openai/gpt-4o", "--json").row
    assert (row["provider"], row["model"], row["tokens"], row["context_limit"], row["excess"]) == (
        "openai", "gpt-4o", 128_000, 128, 0,
    )  # fmt: skip
    assert row["source"].startswith("genai-prices ")
    assert date(2025, 1, 1) < date.fromisoformat(row["newest_price"]) <= datetime.now(UTC).date()


def test_the_k_value_is_rounded_up_and_says_so_and_where_it_comes_from() -> None:
    ended = limits("openai/gpt-3.5-turbo")
    assert re.search(r"openai +gpt-3\.5-turbo +16,385 +~17", ended.out)
    assert "context_limit_tokens" in ended.out
    assert re.search(r"From genai-prices [\d.]+, newest price in force since \d{4}-\d\d-\d\d", ended.out)
    assert "check your provider's documentation" in ended.out


def test_an_alias_finds_its_model() -> None:
    assert {row["model"] for row in limits("openai/gpt-4o-2024-11-20", "--json").rows} == {"gpt-4o"}


def test_without_a_model_the_makers_models_are_listed() -> None:
    rows = limits("--json").rows
    assert {row["provider"] for row in rows} == {"openai", "anthropic", "google", "deepseek", "x-ai"}
    assert {"gpt-4o", "gpt-4o-mini", "gpt-4-turbo", "gemini-1.5-pro", "deepseek-chat"} <= {r["model"] for r in rows}
    assert [row["excess"] for row in rows if row["model"] == "gpt-3.5-turbo"] == [615]
    assert all(0 <= row["excess"] < 1_000 and row["context_limit"] > 0 for row in rows)


def test_an_unknown_model_names_near_ones_and_ends_with_one() -> None:
    ended = limits("gpt-4oo")
    assert ended.code == 1
    assert not ended.out
    assert "gpt-4oo: not in the table. Near: gpt-4o" in ended.err


@pytest.mark.parametrize("name", ["", "\x1b[31mred", "[bold]" * 900])
def test_whatever_is_asked_for_ends_with_a_sentence(name: str) -> None:
    ended = limits("--json", "--", name)
    assert ended.code == 1
    assert "provider's documentation" in ended.err
    assert "Traceback" not in ended.err
    assert "\x1b" not in ended.err


def test_without_the_table_it_says_what_to_install() -> None:
    ended = run("limits", "gpt-4o", program=(sys.executable, "-c", _WITHOUT_TABLE))
    assert ended.code == 2
    assert "pip install 'compactor[prices]'" in ended.err


def test_no_other_part_reads_a_window_from_the_table() -> None:
    sources = [path for folder in ("compactor", "workers") for path in (ROOT / folder).rglob("*.py")]
    assert [path.name for path in sources if ".context_window" in path.read_text(encoding="utf-8")] == ["limits.py"]
