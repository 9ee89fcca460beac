"""The model that a session's last send was judged by."""

from __future__ import annotations

import json
from typing import Any

from compactor.client import Compactor
from compactor.commands.command import session_keys
from compactor.commands.read import read_state
from compactor.effects import run
from compactor.judging import kept_judgement
from compactor.model_config import ModelConfig
from compactor.models import SessionId
from compactor.records import ENCODINGS
from compactor.rules import stored_rules


def judged_config(memory: Compactor, name: SessionId) -> ModelConfig | None:
    """Its config; None for a session that no send was judged for."""
    keys = session_keys(memory.settings.namespace, name)
    judged = memory.drive(run(read_state(keys, ENCODINGS[0]))).judged
    if kept_judgement(judged) is None:
        return None
    kept: dict[str, Any] = json.loads(judged)
    return ModelConfig(
        kept["model"],
        context_limit_tokens=kept["limit"],
        context_strategy=kept["strategy"],
        encoding=kept["encoding"],
        rules=stored_rules(kept.get("rules")),
        min_reclaim=kept.get("min_reclaim"),
        cache_ttl=kept.get("cache_ttl"),
        prefer_idle=kept.get("prefer_idle", False),
    )
