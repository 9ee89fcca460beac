"""`compactor demo` shows the truth, with and without a model, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from compactor.testing import Answer, ModelServer, completion
from tests.acceptance.cli_process import SCRIPT, Command, Ended, is_alive
from tests.acceptance.waiting import wait_until

LIMIT = 16_000
NOTE = "The tool printed what was asked for."


@dataclass(frozen=True, slots=True)
class Runs:
    """Three demos that ran side by side, and the bodies that the working model was sent."""

    plain: Ended
    modelled: Ended
    refused: Ended
    requests: list[dict[str, Any]]
    left: list[Path]


def _summary(_body: dict[str, Any]) -> Answer:
    return completion(json.dumps({"outcome": "ok", "facts": [], "note": NOTE, "omitted": ""}))


def _refusal(_body: dict[str, Any]) -> Answer:
    return Answer({"error": {"message": "wrong key"}}, status=401)


def _model(server: ModelServer) -> dict[str, str]:
    return {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": "key-99", "COMPACTOR_SUMMARIZER_MODEL": "tiny-model"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runs]:
    """The demo with extracts (JSON lines), with a model (plain lines), with a wrong key (JSON lines)."""
    folder = tmp_path_factory.mktemp("demo")
    # A project with packages of these names must not get in the way.
    for name in ("workers", "compactor"):
        (folder / "project" / name).mkdir(parents=True)
        (folder / "project" / name / "__init__.py").write_text("raise RuntimeError('not ours')")
    temporary = folder / "tmp"
    temporary.mkdir()
    env = {"TMPDIR": str(temporary)}
    with ModelServer(_summary) as model, ModelServer(_refusal) as refusing:
        with (
            Command("demo", "--json", env=env, cwd=folder / "project") as plain,
            Command("demo", env=env | _model(model)) as modelled,
            Command("demo", "--json", env=env | _model(refusing)) as refused,
        ):
            ended = (plain.end(), modelled.end(), refused.end())
        yield Runs(*ended, model.requests, list(temporary.iterdir()))


def _events(ended: Ended, name: str) -> list[dict[str, Any]]:
    return [row for row in ended.rows if row["event"] == name]


def test_compacts_at_least_twice_and_every_check_passes(runs: Runs) -> None:
    assert runs.plain.code == 0, runs.plain.err
    (end,) = _events(runs.plain, "finished")
    assert end["ok"]
    assert len(end["checks"]) == 8
    assert all(end["checks"].values())
    applied = [row for row in _events(runs.plain, "compaction") if row["outcome"] == "applied"]
    assert len(applied) == end["compactions"] >= 2
    assert end["after"] < end["before"]
    assert end["recalled"] == end["recalled_same"] == end["replaced"] > 0
    assert end["kept_unchanged"] == end["kept_messages"] > 2
    assert (end["lost"], end["faults"]) == (0, {})


def test_the_figures_at_the_end_are_those_of_the_events(runs: Runs) -> None:
    (end,) = _events(runs.plain, "finished")
    sends = _events(runs.plain, "sent")
    assert [send["number"] for send in sends] == list(range(1, len(sends) + 1))
    assert end["sends"] == len(sends)
    assert end["sent_in_all"] == sum(send["sent"] for send in sends)
    assert end["sent_without"] == sum(send["raw"] for send in sends)
    assert end["largest_send"] == max(send["sent"] for send in sends) <= end["ceiling"]
    compactions = _events(runs.plain, "compaction")
    assert all(row["saved"] == row["before"] - row["after"] > 0 for row in compactions)
    assert end["replaced"] == sum(row["items"] for row in compactions)
    assert end["by_extract"] + end["by_condensed"] + end["by_fold"] + end["by_pointer"] == end["replaced"]
    assert end["by_model"] == 0


def test_the_history_grows_by_what_is_pushed_and_shrinks_by_what_is_saved(runs: Runs) -> None:
    sends = _events(runs.plain, "sent")
    saved: Counter[int] = Counter()
    for row in _events(runs.plain, "compaction"):
        saved[row["number"]] += row["saved"]
    for before, after in pairwise(sends):
        pushed = after["raw"] - before["raw"]
        assert pushed > 0
        assert after["stored"] == before["stored"] + pushed - saved[after["number"]]
    assert sends[0]["stored"] == sends[0]["raw"]
    assert sends[-1]["raw"] > LIMIT, "without Compactor the conversation would have outgrown the window"


def test_a_send_is_the_whole_history_unless_it_says_shortened(runs: Runs) -> None:
    for send in _events(runs.plain, "sent"):
        assert (send["sent"] == send["stored"]) == (send["fit"] == "fits")


def test_each_compaction_was_queued_at_the_threshold_before_it_ended(runs: Runs) -> None:
    order = [row["event"] for row in runs.plain.rows if row["event"] in ("queued", "compaction")]
    assert order[:4] == ["queued", "compaction", "queued", "compaction"]
    assert all(row["percent"] >= 75 for row in _events(runs.plain, "queued"))


def test_a_model_writes_the_summaries_and_is_named(runs: Runs) -> None:
    assert runs.modelled.code == 0, runs.modelled.err
    assert "the model tiny-model at 127.0.0.1" in runs.modelled.out
    assert NOTE in runs.modelled.out, "the sample at the end shows what the model wrote"
    assert len(runs.requests) >= 5
    assert "FAILED" not in runs.modelled.out


def test_without_a_model_it_says_so(runs: Runs) -> None:
    (started,) = _events(runs.plain, "started")
    assert started["summaries"].startswith("extracts, no model is called")


def test_a_wrong_key_fails_the_demo_and_names_the_reason(runs: Runs) -> None:
    assert runs.refused.code == 1
    (end,) = _events(runs.refused, "finished")
    assert not end["ok"]
    assert not end["checks"]["compacted"]
    assert end["failures"] == ["unauthorized"]
    assert end["checks"]["nothing_lost"]
    assert end["checks"]["valid"]


def test_shows_neither_keys_nor_colours_where_there_is_no_terminal(runs: Runs) -> None:
    for ended in (runs.plain, runs.modelled, runs.refused):
        assert "\x1b" not in ended.out + ended.err
        assert "key-99" not in ended.out + ended.err


def test_leaves_no_file_behind(runs: Runs) -> None:
    assert runs.left == []


def test_interrupted_on_a_terminal_it_stops_everything(tmp_path: Path) -> None:
    terminal, inner = os.openpty()
    env = {**os.environ, "TMPDIR": str(tmp_path), "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "40"}
    with subprocess.Popen([*SCRIPT, "demo"], stdin=inner, stdout=inner, stderr=inner, env=env) as process:
        os.close(inner)
        seen = b""
        while "█".encode() not in seen:
            seen += os.read(terminal, 65_536)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        rest = _read_to_the_end(terminal)
    os.close(terminal)
    assert process.returncode == 130
    assert b"\x1b[32m" in seen, "a terminal gets colours"
    assert b"interrupted; everything is stopped and removed" in rest
    assert len(children) == 2, "a server and a worker"
    wait_until(lambda: not any(is_alive(child) for child in children), what="the end of the children")
    assert not list(tmp_path.iterdir())


def _read_to_the_end(terminal: int) -> bytes:
    read = b""
    with suppress(OSError):  # Linux: the other side is closed
        while part := os.read(terminal, 65_536):
            read += part
    return read


@pytest.mark.parametrize("moment", ["starting", "sent"])
def test_terminated_it_stops_everything(tmp_path: Path, moment: str) -> None:
    with Command("demo", "--json", env={"TMPDIR": str(tmp_path)}) as command:
        while json.loads(command.line())["event"] != moment:
            pass
        children = wait_until(lambda: (found := command.descendants())[1:] and found, what="server and worker")
        command.process.send_signal(signal.SIGTERM)
        assert command.end().code == 130
    wait_until(lambda: not any(is_alive(child) for child in children), what="the end of the children")
    assert not list(tmp_path.iterdir())
