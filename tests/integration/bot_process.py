"""A bot in a process of its own, for calls that may hang or break the process they run in."""

from __future__ import annotations

import os
import subprocess
import sys

from compactor.settings import Settings

HEAD = """
import asyncio
from compactor import AsyncCompactor, Code, Compactor, ModelConfig
SMALL = ModelConfig("gpt-4o", 8)
"""


def failure_of(code: str, settings: Settings, *, seconds: float = 30.0) -> str:
    """Runs code behind HEAD on the server and namespace of the settings; empty when it ended well."""
    env = {
        **os.environ,
        "REDIS_URL": settings.redis_url.get_secret_value(),
        "COMPACTOR_NAMESPACE": settings.namespace,
    }
    try:
        ended = subprocess.run(
            [sys.executable, "-c", HEAD + code], env=env, capture_output=True, text=True, check=False, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return f"did not end within {seconds} s"
    return ended.stderr[-2_000:] if ended.returncode else ""
