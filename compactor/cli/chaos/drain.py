"""After the last fault: every claim comes to an end, by itself or with its lease."""

from __future__ import annotations

import time
from collections.abc import Mapping

from compactor.cli.chaos.bot import TOOLS
from compactor.client import Compactor
from compactor.exceptions import CompactorError
from compactor.model_config import ModelConfig

_LOOK = 0.2  # seconds


def drain(memory: Compactor, configs: Mapping[str, ModelConfig], seconds: float) -> list[str]:
    """Sends for every session until none is due, queued or running; the names of those that still are."""
    waiting = list(configs)
    until = time.monotonic() + seconds
    while True:
        waiting = [name for name in waiting if _is_busy(memory, name, configs[name])]
        if not waiting or time.monotonic() > until:
            return waiting
        time.sleep(_LOOK)


def _is_busy(memory: Compactor, name: str, config: ModelConfig) -> bool:
    """Whether a compaction is still to come; one that is due, or whose claim ran out, is queued anew."""
    session = memory.session(name, config)
    try:
        session.prepare(tools=TOOLS)
        return session.estimate(tools=TOOLS).compaction in ("due", "queued", "running")
    except CompactorError:  # the audit tells
        return False
