"""`compactor chaos` breaks what it says it breaks, finds nothing lost, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from compactor.cli.chaos.audit import BEYOND, PROMISES
from compactor.cli.chaos.table import lines
from tests.acceptance.cli_process import Command, Ended, is_alive, run
from tests.acceptance.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

PUSHES, SESSIONS, FAULTS = 500, 12, 22
SMALL = ("--pushes", str(PUSHES), "--sessions", str(SESSIONS), "--faults", str(FAULTS), "--seed", "7")


@pytest.fixture(scope="module")
def ended() -> Ended:
    return run("chaos", *SMALL, "--minutes", "2", "--json")


@pytest.fixture(scope="module")
def report(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, (ended.out[-3_000:], ended.err[-1_000:])
    return ended.row


def test_nothing_is_lost_twice_out_of_order_invalid_or_changed(report: dict[str, Any]) -> None:
    assert {name: report[name] for name in (*PROMISES, *BEYOND)} == dict.fromkeys((*PROMISES, *BEYOND), 0)
    assert report["details"] == []
    assert (report["stuck"], report["crashed"], report["unfinished"]) == (0, 0, "")


def test_all_pushes_and_faults_really_took_place(report: dict[str, Any]) -> None:
    assert report["pushes"] >= PUSHES
    assert report["sessions"] == SESSIONS
    assert report["faults"] == FAULTS == sum(report["hits"].values())
    assert report["kinds"] >= 12


def test_compactions_went_on_meanwhile_and_every_original_is_recalled(report: dict[str, Any]) -> None:
    assert report["compactions"] > 0
    assert report["replaced"] == report["recalled"] > 0
    assert report["model_calls"] > 0


def test_only_calls_that_a_fault_spoilt_are_made_again(report: dict[str, Any]) -> None:
    assert report["double-billed"] <= report["at_risk"]


def test_the_report_for_people_begins_with_the_verdict(report: dict[str, Any]) -> None:
    told = lines(report)
    assert told[0].startswith("lost 0, duplicated 0, reordered 0, invalid 0, changed 0, double-billed ")
    assert "The claim's lease was 3 s." in " ".join(told)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_a_stop_ends_every_child_and_leaves_no_file(number: signal.Signals, tmp_path: Path) -> None:
    with Command("chaos", "--pushes", "90000", "--faults", "900", env={"TMPDIR": str(tmp_path)}) as command:
        started = wait_until(lambda: _everybody(command), seconds=40, what="server, two workers and two bots")
        os.kill(command.process.pid, number)
        assert command.end().code != 0
        wait_until(lambda: not any(map(is_alive, started)), what="the end of every child")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal-0.jsonl").write_text("{}")
    refused = run("chaos", "--keep", str(tmp_path))
    assert (refused.code, refused.out) == (2, "")
    assert "empty folder" in refused.err


def _everybody(command: Command) -> list[psutil.Process] | None:
    found = command.descendants()
    return found if len(found) >= 5 else None
