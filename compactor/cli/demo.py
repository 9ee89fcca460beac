"""`compactor demo`: a server, a worker and an agent with real tools, on this machine, without a key."""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import typer
from rich.text import Text

from compactor.budget import budget_for
from compactor.cli import children
from compactor.cli.app import app
from compactor.cli.console import Json, stderr, stdout
from compactor.cli.demo_agent import Agent, Pace
from compactor.cli.demo_checks import Report, verify
from compactor.cli.demo_screen import Screen
from compactor.cli.demo_watch import Display, JsonLines, Lines
from compactor.cli.stopping import interrupted_by_sigterm
from compactor.client import Compactor
from compactor.embedded import EmbeddedServer
from compactor.encodings import encoder, encoding_name
from compactor.exceptions import ConfigurationError
from compactor.model_config import ModelConfig
from compactor.settings import Settings, read_settings

CONFIG: Final = ModelConfig("gpt-4o", context_limit=16, context_strategy="balanced")
GOAL: Final = 2  # compactions
SESSION: Final = "demo/audit"
LONGEST: Final = 35.0  # seconds of work
_NAMESPACE: Final = "demo"
_BY_EXTRACT: Final = Pace(step=0.07, in_flight=0.3)
_BY_MODEL: Final = Pace(step=0.07, in_flight=0.6)


@app.command()
def demo(json: Json = False) -> None:
    """Shows a session being compacted while its agent goes on. Needs no server, no key, no files.

    A scripted agent reads this machine's Python packages with real tools, in a window of 16K tokens.
    With COMPACTOR_SUMMARIZER_MODEL and OPENAI_API_KEY or OPENAI_BASE_URL set, that model writes the
    summaries and is sent what the tools read; else extracts do. Exits with 1 when a check fails.
    """
    try:
        with interrupted_by_sigterm(), _display(json=json) as display:
            report = _run(display)
    except KeyboardInterrupt:
        stderr.print("interrupted; everything is stopped and removed")
        raise typer.Exit(130) from None
    if not json:
        _last_words(report)
    raise typer.Exit(0 if report.ok else 1)


@contextmanager
def _display(*, json: bool) -> Generator[Display, None, None]:
    if json:
        yield JsonLines()
    elif stdout.is_terminal:
        with Screen(stdout) as screen:
            yield screen
    else:
        yield Lines()


def _run(display: Display) -> Report:
    display.starting()
    threading.Thread(target=_load_vocabulary, daemon=True).start()
    with _folder() as folder, EmbeddedServer(folder=folder / "server") as server:
        settings = read_settings(redis_url=server.url, broker_url=server.url, namespace=_NAMESPACE)
        by = _summaries(settings)
        env = {"REDIS_URL": server.url, "CELERY_BROKER_URL": server.url, "COMPACTOR_NAMESPACE": _NAMESPACE}
        worker = children.worker(env=env, log=folder / "worker.log")
        try:
            with Compactor(settings=settings) as memory:
                display.started(_facts(by))
                return _work(memory, display, _BY_MODEL if settings.has_model else _BY_EXTRACT)
        finally:
            worker.stop(grace=10)


def _load_vocabulary() -> None:
    encoder(encoding_name(CONFIG.model))


@contextmanager
def _folder() -> Generator[Path, None, None]:
    folder = Path(tempfile.mkdtemp(prefix="compactor-demo-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _summaries(settings: Settings) -> str:
    """Who writes the summaries, in words. Raises ConfigurationError."""
    if not settings.has_model:
        return "extracts, no model is called (set COMPACTOR_SUMMARIZER_MODEL and OPENAI_API_KEY for a model)"
    if importlib.util.find_spec("openai") is None:
        raise ConfigurationError("openai: is not installed. pip install 'compactor[worker]'.")
    host = urlsplit(settings.openai_base_url or "https://api.openai.com").hostname
    return f"the model {settings.summarizer_model} at {host}, which is sent what the tools read"


def _facts(by: str) -> dict[str, Any]:
    budget = budget_for(CONFIG, fixed=0)
    return {
        "model": CONFIG.model,
        "limit": budget.limit,
        "threshold": budget.threshold,
        "ceiling": budget.ceiling,
        "strategy": CONFIG.context_strategy,
        "summaries": by,
    }


def _work(memory: Compactor, display: Display, pace: Pace) -> Report:
    agent = Agent(
        session=memory.session(SESSION, CONFIG),
        encode=encoder(encoding_name(CONFIG.model)),
        watch=display,
        pace=pace,
        until=time.monotonic() + LONGEST,
    )
    agent.work(GOAL)
    report = verify(memory, SESSION, agent, goal=GOAL)
    display.finished(report)
    return report


def _last_words(report: Report) -> None:
    if report.ok:
        stdout.print(Text("Only the agent was scripted: its tools, the server and the worker were real.", "dim"))
        stdout.print(Text("For your own bots: compactor up", "dim"))
    else:
        failed = ", ".join(check.title for check in report.checks if not check.ok)
        failures = ", ".join(report.figures["failures"])
        why = f"; the model failed ({failures}), `compactor doctor` tells more" if failures else ""
        stderr.print(Text(f"failed: {failed}{why}", "bold red"), soft_wrap=True)
