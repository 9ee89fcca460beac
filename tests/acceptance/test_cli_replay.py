"""Recorded sessions through the real script, server and worker: nothing lost, invalid or changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.cli_process import Ended, run
from tests.conftest import recorded
from tests.integration.test_simulated_clock import searches

FILES = (
    "agentica_cleared_zh", "claudecode_cua", "deerflow_replays", "deerflow_threads", "glaive_zh_synthetic",
    "inspect_browser", "livemcp_claude4", "miniswe_deepseek", "msagent_finance_zh", "openhands_claude35_swe",
    "sweagent_demos", "sweagent_live_zh_issue", "tau2_gpt41", "tau2_gpt5_parallel", "tau2_gptoss_loops",
    "tau2_sft_openai_format", "taubench_airline_gpt4o", "toolbench_legacy", "uitars",
)  # fmt: skip
KEYS = {
    "id", "source", "limit", "messages", "prepares", "shortened", "compactions", "outcome", "max_estimate",
    "final_tokens", "tokens_saved", "lost", "invalid", "changed",
}  # fmt: skip


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions of every recorded file, the dirty ones first: 36 in all."""
    path = tmp_path_factory.mktemp("replay") / "sample.jsonl"
    with path.open("w", encoding="utf-8") as out:
        for name in FILES:
            sessions = sorted(recorded(name, most=12), key=lambda row: "dirty" not in row["labels"])
            for row in sessions[:2]:
                out.write(json.dumps({"id": row["id"], "messages": row["messages"], "tools": row["tools"]}) + "\n")
    return path


@pytest.fixture(scope="module")
def played(sample: Path) -> Ended:
    return run("replay", str(sample), "--limit", "8", "--json")


def sessions(played: Ended) -> list[dict[str, Any]]:
    return [row for row in played.rows if "total" not in row]


def test_nothing_is_lost_invalid_or_changed(played: Ended, sample: Path) -> None:
    assert played.code == 0, played.err
    assert len(sessions(played)) == len(sample.read_text(encoding="utf-8").splitlines())
    for row in sessions(played):
        assert row.keys() >= KEYS
        assert (row["lost"], row["invalid"], row["changed"]) == (0, 0, 0), row


def test_the_total_is_the_sum_of_the_sessions(played: Ended) -> None:
    total = played.rows[-1]["total"]
    for name in ("messages", "prepares", "shortened", "compactions", "tokens_saved", "lost", "invalid", "changed"):
        assert total[name] == sum(row[name] for row in sessions(played))
    assert total["compactions"] > 10


def test_every_outcome_is_true(played: Ended) -> None:
    for row in sessions(played):
        over = row["final_tokens"] >= row["threshold"]
        if row["outcome"] == "below_threshold":
            assert not over, row
        if over:
            assert row["outcome"] in ("exhausted", "no_gain", "applied"), row
        if row["outcome"] == "exhausted":
            assert row["reason"], row


def test_a_plain_message_list_is_replayed_and_shown_as_a_table(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    (tmp_path / "chat.json").write_text(json.dumps(chat), encoding="utf-8")
    done = run("replay", str(tmp_path / "chat.json"))
    assert done.code == 0
    assert "Lost 0, invalid 0, changed 0" in " ".join(done.out.split())


@pytest.mark.parametrize("text", ["", "{", '{"rows": []}', "\x00\x01"])
def test_a_file_that_holds_no_session_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "odd.jsonl").write_text(text, encoding="utf-8")
    done = run("replay", str(tmp_path / "odd.jsonl"))
    assert done.code == (2 if text else 0)
    assert "Traceback" not in done.err


# --- a simulated clock, see also tests/integration/test_simulated_clock.py


def test_several_windows_give_the_share_of_views_by_source(tmp_path: Path) -> None:
    path = tmp_path / "searches.jsonl"
    path.write_text(json.dumps(searches(24)), encoding="utf-8")
    done = run(
        "replay", str(path), "--limit", "8", "--limit", "16", "--step-seconds", "5", "--model-seconds", "31",
        "--strategy", "aggressive",
    )  # fmt: skip
    assert done.code == 0, done.err
    row = next(line for line in done.out.splitlines() if line.startswith("| searches "))
    at_8, at_16 = (float(cell.strip(" %")) for cell in row.strip("|").split("|")[1:])
    assert at_8 > at_16 == 0
    assert "Lost 0, invalid 0, changed 0" in " ".join(done.out.split())


def test_a_model_without_a_clock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "chat.json").write_text("[]", encoding="utf-8")
    done = run("replay", str(tmp_path / "chat.json"), "--model-seconds", "4")
    assert done.code == 2
    assert "--step-seconds" in done.err
