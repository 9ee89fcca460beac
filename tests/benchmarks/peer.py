"""headroom-ai in an environment of its own (`HEADROOM_PYTHON=/path/to/its/python`), kept running beside us."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

PEER: Final = os.environ.get("HEADROOM_PYTHON", "")
_SCRIPT: Final = """
import json, logging, sys, time
logging.disable(logging.CRITICAL)
answers, sys.stdout = sys.stdout, sys.stderr
from headroom import compress
def turn(text):
    call = {"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}
    return [{"role": "user", "content": "go on"}, {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": text}, {"role": "assistant", "content": "ok"},
            {"role": "user", "content": "go on"}, {"role": "assistant", "content": "ok"}]
compress(turn("warm " * 300), model="gpt-4o", protect_recent=0)
for line in sys.stdin:
    turns = [turn(text) for text in json.loads(line)]
    begun = time.process_time()
    taken = [compress(messages, model="gpt-4o", protect_recent=0).messages[2]["content"] for messages in turns]
    print(json.dumps({"texts": taken, "seconds": time.process_time() - begun}), file=answers, flush=True)
"""


class Peer:
    """Compresses tool results, each in a conversation of its own: of several in one it leaves nearly all alone."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def compress(self, texts: Sequence[str]) -> tuple[list[str], float]:
        """The texts as it leaves them, and the seconds of CPU that it took."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(list(texts)) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return [text if isinstance(text, str) else json.dumps(text) for text in answer["texts"]], answer["seconds"]


@contextmanager
def peer() -> Generator[Peer | None]:
    """The running peer; None where none is installed."""
    if not PEER:
        yield None
        return
    surroundings = os.environ | {"HEADROOM_OFFLINE": "1", "HF_HUB_OFFLINE": "1"}
    with subprocess.Popen(
        [PEER, "-c", _SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=surroundings,
    ) as process:  # fmt: skip
        try:
            yield Peer(process)
        finally:
            process.kill()
