"""`compactor compact`: JSON in, JSON out, without Redis or a worker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compactor.testing import ModelServer, summary

SCRIPT = str(Path(sys.executable).with_name("compactor"))


def compact(data: bytes, *options: str, **env: str) -> subprocess.CompletedProcess[bytes]:
    command = [SCRIPT, "compact", *options]
    return subprocess.run(command, input=data, capture_output=True, timeout=60, check=False, env={**os.environ, **env})


def conversation(results: int = 8) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look at the logs."}]
    for number in range(results):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {number}}}'}}
        rows = "\n".join(f"job-{number}-{row} took {row * 7} ms" for row in range(90))
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": rows},
        ]
    return [*messages, {"role": "assistant", "content": "All is well."}]


def test_a_list_over_the_threshold_comes_back_shorter() -> None:
    messages = conversation()
    done = compact(json.dumps(messages).encode(), "--limit", "8")
    shorter = json.loads(done.stdout)
    assert done.returncode == 0
    assert b"applied" in done.stderr
    assert len(shorter) == len(messages)
    assert len(done.stdout) < len(json.dumps(messages)) / 1.5
    assert [m for m in shorter if m["role"] != "tool"] == [m for m in messages if m["role"] != "tool"]


def test_pins_and_the_operators_rules_hold() -> None:
    messages = conversation()
    rules = json.dumps([{"tool": "read", "arguments": {"n": "0"}, "never": True}])
    pins = ("--pin", "m4", "--pin", "job-2-45 took 315 ms")
    done = compact(json.dumps(messages).encode(), "--limit", "8", "--target-tokens", "1", *pins, COMPACTOR_RULES=rules)
    shorter = json.loads(done.stdout)
    assert [shorter[place] == messages[place] for place in (2, 4, 6)] == [True, True, False]
    assert "job-2-45 took 315 ms" in shorter[6]["content"].splitlines()


def test_with_json_the_originals_come_too() -> None:
    messages = conversation()
    done = compact(json.dumps({"messages": messages, "tools": None}).encode(), "--limit", "8", "--json")
    whole = json.loads(done.stdout)
    assert whole["outcome"]["outcome"] == "applied"
    assert whole["originals"]["m2"] == messages[2]
    assert whole["after"] < whole["before"]


def test_a_list_below_the_threshold_comes_back_as_it_was() -> None:
    messages = conversation(1)
    done = compact(json.dumps(messages).encode(), "--limit", "128")
    assert json.loads(done.stdout) == messages


def test_a_model_writes_the_summaries_when_one_is_set() -> None:
    with ModelServer(lambda _body: summary("Ninety jobs, all fast.")) as model:
        env = {"OPENAI_BASE_URL": model.url, "COMPACTOR_SUMMARIZER_MODEL": "cheap"}
        done = compact(json.dumps(conversation()).encode(), "--limit", "8", **env)
    assert b"Ninety jobs, all fast." in done.stdout
    assert model.requests


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b'{"rows": []}', b"\xff\xfe", b'[{"role": "nobody"}]'])
def test_what_is_no_list_of_messages_is_refused(data: bytes) -> None:
    done = compact(data, "--limit", "8")
    assert done.returncode == 2
    assert b"error" in done.stderr
    assert b"Traceback" not in done.stderr
    assert done.stdout == b""
