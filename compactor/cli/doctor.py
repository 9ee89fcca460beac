"""`compactor doctor`: each part that Compactor needs, checked from here, with what to do about it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Final, Self

import typer
from rich.table import Table
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.broker import Broker
from compactor.cli.console import Json, print_json, stderr, stdout
from compactor.cli.reading import NEUTRAL
from compactor.client import Compactor
from compactor.commands.counters import EVICTED, read_counters
from compactor.dead_list import dead_sessions
from compactor.effects import run
from compactor.encodings import encoder, vocabulary
from compactor.exceptions import (
    CompactorError,
    DispatchError,
    StoreUnavailableError,
    SummarizerError,
    SummarizerReplyRejected,
)
from compactor.prompts import Summary, SummaryRequest
from compactor.records import ENCODINGS
from compactor.server_check import Finding, Level, check_server
from compactor.settings import Settings, read_settings
from compactor.store import Store, unavailable
from compactor.tokens import count_text

_COLOURS: Final = {Level.OK: "green", Level.WARNING: "yellow", Level.FAILED: "bold red"}
_PROBE_TTL: Final = 60.0  # seconds; the probe's session ends by itself
_MODEL_PATIENCE: Final = 20.0  # seconds

Check = Callable[[Settings], Iterator[Finding]]


@app.command()
def doctor(json: Json = False) -> None:
    """Checks settings, vocabularies, Redis, broker, workers and model. Exits with 1 when one failed.

    It sees the environment of this shell: run it where the bot or the worker runs.
    """
    findings = list(_findings(json=json))
    if json:
        print_json({"ok": not _failed(findings), "checks": [asdict(finding) for finding in findings]})
    else:
        _print(findings)
    raise typer.Exit(1 if _failed(findings) else 0)


def _failed(findings: list[Finding]) -> bool:
    return any(finding.level is Level.FAILED for finding in findings)


def _findings(*, json: bool) -> Iterator[Finding]:
    with stderr.status("checking") if stderr.is_terminal and not json else _Silent() as spinner:
        yield from _vocabularies()
        try:
            settings = read_settings()
        except CompactorError as error:
            yield Finding("settings", Level.FAILED, str(error), "Correct the variable named here; then run this again.")
            return
        yield Finding("settings", Level.OK, "complete, and each time limit lies within the one around it")
        if settings.shadow != "off":
            on = "is on: compactions are recorded and replace nothing; compactor shadow sums them up"
            yield Finding("shadow mode", Level.OK, on)
        checks: tuple[tuple[str, Check], ...] = (
            ("redis", _redis),
            ("broker and workers", _broker),
            ("model", _model),
        )
        for name, check in checks:
            spinner.update(f"checking {name}")
            yield from check(settings)


class _Silent:
    """Stands in for the spinner where there is no terminal."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, _text: str) -> None:
        pass


def _vocabularies() -> Iterator[Finding]:
    try:
        for name in ENCODINGS:
            vocabulary(name)
    except CompactorError as error:
        yield Finding("vocabulary", Level.FAILED, str(error), "install it again from where it came")
    else:
        yield Finding("vocabulary", Level.OK, f"{' and '.join(ENCODINGS)} ship with the package and are undamaged")


def _redis(settings: Settings) -> Iterator[Finding]:
    with Store(settings) as store:
        started = time.perf_counter()
        try:
            servers = store.primaries()
            for server in servers:
                server.ping()
        except Exception as error:  # noqa: BLE001 # why: every failure of a ping is the same finding with its own text
            yield Finding(
                "redis",
                Level.FAILED,
                _reason(error),
                "Start it (compactor up starts all parts), or correct REDIS_URL.",
            )
            return
        took = f"in {1000 * (time.perf_counter() - started):.1f} ms"
        answer = f"{len(servers)} primaries of a cluster answer {took}" if len(servers) > 1 else f"answers {took}"
        yield Finding("redis", Level.OK, answer)
        try:
            yield from check_server(store, settings)
        except CompactorError as error:
            yield Finding("configuration", Level.FAILED, str(error), "Look at the server's log.")
    yield _probe(settings)
    yield from _sessions(settings)


def _reason(error: Exception) -> str:
    return str(error if isinstance(error, StoreUnavailableError) else unavailable(error)).removeprefix("redis: ")


def _probe(settings: Settings) -> Finding:
    """Stores one message and reads it back: scripts, rights, memory and a writable server in one."""
    short = settings.model_copy(update={"session_ttl": _PROBE_TTL})
    try:
        with Compactor(settings=short) as memory:
            session = memory.session(f"compactor-doctor/{secrets.token_hex(8)}", NEUTRAL)
            message = {"role": "user", "content": "probe"}
            session.push(message)
            same = session.recall("m0") == message
            session.clear()
    except CompactorError as error:
        advice = "The server must be a writable primary, its user may read, write, run EVALSHA and SCRIPT LOAD."
        return Finding("storage", Level.FAILED, str(error), advice)
    if not same:
        return Finding("storage", Level.FAILED, "a stored message came back changed", "Look for a proxy that rewrites.")
    return Finding("storage", Level.OK, "a message was stored and came back the same")


def _sessions(settings: Settings) -> Iterator[Finding]:
    """Sessions that need somebody; nothing when none does."""
    try:
        with Compactor(settings=settings) as memory:
            dead = memory.drive(dead_sessions(settings.namespace, max_attempts=settings.max_attempts))
            evicted = memory.drive(run(read_counters(settings.namespace))).get(EVICTED, 0)
    except CompactorError as error:
        yield Finding("sessions", Level.FAILED, str(error), "Look at the server's log.")
        return
    if dead:
        text = f"{len(dead)} dead: each attempt to compact them failed"
        yield Finding(
            "dead sessions", Level.WARNING, text, "compactor dead lists them, compactor retry queues them again."
        )
    if evicted:
        text = f"{evicted} times a session was found with a part missing"
        yield Finding(
            "evicted sessions", Level.WARNING, text, "Set maxmemory-policy noeviction on a server of our own."
        )


def _broker(settings: Settings) -> Iterator[Finding]:
    broker = Broker(settings)
    try:
        waiting = broker.queue_length()
        yield Finding("broker", Level.OK, f"answers; {waiting} tasks wait in the queue {broker.queue}")
        yield _workers(broker)
    except DispatchError as error:
        yield Finding(
            "broker", Level.FAILED, str(error).removeprefix("broker: "), "Start it, or correct CELERY_BROKER_URL."
        )
        yield Finding("worker", Level.FAILED, "could not be asked: the broker does not answer", "Set the broker right.")
    finally:
        broker.close()


def _workers(broker: Broker) -> Finding:
    answers = broker.workers()
    ours = [name for name, takes in answers.items() if takes]
    if ours:
        return Finding("worker", Level.OK, f"{len(ours)} answer: {', '.join(ours)}")
    others = f"; {len(answers)} others answer, but take from other queues" if answers else ""
    return Finding(
        "worker",
        Level.FAILED,
        f"none takes from the queue {broker.queue}{others}",
        "Start one with: celery -A workers worker. It needs the same REDIS_URL, CELERY_BROKER_URL and "
        "COMPACTOR_NAMESPACE.",
    )


def _model(settings: Settings) -> Iterator[Finding]:
    name = settings.summarizer_model
    if name is None:
        yield Finding("model", Level.OK, "none is set: extracts shorten results, no model is called")
    elif not settings.has_model:
        yield Finding(
            "model",
            Level.WARNING,
            f"COMPACTOR_SUMMARIZER_MODEL is {name}, but no server is set: extracts shorten results",
            "Set OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own.",
        )
    else:
        yield _completion(settings, name)


def _completion(settings: Settings, name: str) -> Finding:
    """One small summary by the real path."""
    from compactor.summarizer import ModelSummarizer

    encode = encoder(ENCODINGS[0])
    text = "\n".join(
        f"2026-01-{day:02d} order A-{1000 + day} status shipped, 3 parcels, no error" for day in range(1, 21)
    )
    request = SummaryRequest("list_orders", "{}", text, "Which orders were shipped?", count_text(text, encode), 120)
    started = time.monotonic()
    try:
        (answer,) = ModelSummarizer(settings)(
            [request], encode=encode, deadline=started + _MODEL_PATIENCE, done=lambda _index, _answer: None
        )
    except ImportError:
        return Finding("model", Level.FAILED, "the package openai is missing", "pip install 'compactor[worker]'")
    seconds = time.monotonic() - started
    if isinstance(answer, Summary):
        return Finding("model", Level.OK, f"{name} wrote a summary that passed the checks, in {seconds:.1f} s")
    if isinstance(answer, SummarizerReplyRejected):
        text = f"{name} answers, but its summary failed a check ({answer.reason}); extracts stand in for such ones"
        return Finding("model", Level.WARNING, text, "Try a larger model, or one that does not think aloud.")
    return Finding("model", Level.FAILED, f"{name} gave no summary: {answer}", _advice(answer))


def _advice(error: SummarizerError) -> str:
    return {
        "unauthorized": "Correct OPENAI_API_KEY.",
        "not_found": "Correct COMPACTOR_SUMMARIZER_MODEL, or the path in OPENAI_BASE_URL (it often ends in /v1).",
        "unreachable": "Correct OPENAI_BASE_URL, or start that server.",
        "timeout": "The server is too slow or overloaded; a smaller model answers sooner.",
        "rate_limited": "The account's limit is reached; wait, or raise it with the provider.",
        "server_error": "Look at the model server's log; OPENAI_BASE_URL may name something that is no model server.",
    }.get(error.code, "Look at the model server's log.")


def _print(findings: list[Finding]) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        text = Text(finding.text)
        if finding.advice and finding.level is not Level.OK:
            text.append(f"\n{finding.advice}", style="italic")
        table.add_row(Text(finding.level.value, style=_COLOURS[finding.level]), finding.check, text)
    stdout.print(table)
    failed = sum(finding.level is Level.FAILED for finding in findings)
    warned = sum(finding.level is Level.WARNING for finding in findings)
    stdout.print(Text(f"{failed} failed, {warned} warnings, {len(findings) - failed - warned} ok"))
