"""`compactor up`: server, worker, Flower and the HTTP service, kept running in the foreground."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlsplit

import typer
from rich.table import Table
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stderr, stdout
from compactor.cli.service import Parts, start
from compactor.cli.state_folder import default_folder, owned
from compactor.cli.stopping import StopFlag
from compactor.cli.supervisor import Supervisor
from compactor.dispatch import queue_name
from compactor.exceptions import ConfigurationError
from compactor.settings import Settings

REDIS_PORT: Final = 6379
FLOWER_PORT: Final = 5555
FLOWER_USER: Final = "flower"
_HASTY: Final = 2.0  # seconds of grace after a second Ctrl-C, or when a start failed


@app.command()
def up(
    redis_port: Annotated[
        int | None, typer.Option(min=1, max=65_535, metavar="PORT", help="Port of the server (6379).")
    ] = None,
    flower_port: Annotated[int, typer.Option(min=1, max=65_535, metavar="PORT", help="Port of Flower.")] = FLOWER_PORT,
    http_port: Annotated[
        int | None, typer.Option(min=1, max=65_535, metavar="PORT", help="Starts the HTTP service too, on this port.")
    ] = None,
    no_flower: Annotated[bool, typer.Option("--no-flower", help="Starts no Flower.")] = False,
    flower_password: Annotated[
        str | None, typer.Option(help="For Flower's user `flower`; FLOWER_BASIC_AUTH keeps it out of `ps`.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder for the server's data, Flower's memory and logs.")] = None,
    json: Json = False,
) -> None:
    """Runs a server, a worker and Flower on this machine until Ctrl-C or SIGTERM.

    With `--http-port` the HTTP service runs too.
    With `REDIS_URL` set no server is started and that one is used. Data stays in `--data`, by default
    `$XDG_STATE_HOME/compactor` or `~/.local/state/compactor` (macOS: Application Support). Everything
    listens on 127.0.0.1 only. A part that ends, whatever its exit code, is started again. Flower's
    password is made and shown unless `FLOWER_BASIC_AUTH=flower:PASSWORD` or `--flower-password`
    gives one.
    """
    if redis_port is not None and os.environ.get("REDIS_URL"):
        raise ConfigurationError("redis_port: REDIS_URL is set, so no server is started. Leave out one of the two.")
    password, made = ("", False) if no_flower else _password(flower_password)
    parts = Parts(
        folder=(data or default_folder()).expanduser().absolute(),
        redis_port=None if os.environ.get("REDIS_URL") else redis_port or REDIS_PORT,
        flower_port=None if no_flower else flower_port,
        flower_password=password,
        http_port=http_port,
    )
    flag = StopFlag()
    with flag.listening(), owned(parts.folder):
        _run(parts, flag, shown_password=password if made else None, json=json)


def _password(given: str | None) -> tuple[str, bool]:
    """Flower's password, and whether it was made here. Raises ConfigurationError."""
    if given is not None:
        return given, False
    configured = os.environ.get("FLOWER_BASIC_AUTH", "")
    if not configured:
        return secrets.token_urlsafe(12), True
    match = re.fullmatch(rf"{FLOWER_USER}:([^,]+)", configured)
    if match is None:
        raise ConfigurationError(f"FLOWER_BASIC_AUTH: expected {FLOWER_USER}:<password>, one user and no comma.")
    return match[1], False


def _run(parts: Parts, flag: StopFlag, *, shown_password: str | None, json: bool) -> None:
    supervisor = Supervisor(lambda text: stderr.print(Text(text), soft_wrap=True))
    try:
        if not json:
            supervisor.say("starting")
        settings = start(parts, supervisor, flag)
        if not flag.asked:
            ready = _ready(parts, settings, supervisor, shown_password)
            print_json(ready) if json else _announce(ready, started=parts.url is not None)
        supervisor.keep_running(flag)
        supervisor.say("stopping; a compaction that runs may end first (Ctrl-C again: at once)")
        supervisor.stop(settings.stop_grace)
    except KeyboardInterrupt:
        supervisor.say("stopping at once")
        raise typer.Exit(130) from None
    finally:
        supervisor.stop(_HASTY)


def _ready(parts: Parts, settings: Settings, supervisor: Supervisor, shown_password: str | None) -> dict[str, Any]:
    ready: dict[str, Any] = {
        "ready": True,
        "redis_url": _without_secret(settings.redis_url.get_secret_value()),
        "queue": queue_name(settings.namespace),
        "summaries": settings.summarizer_model if settings.has_model else "extracts",
        "data": str(parts.folder),
        "pids": supervisor.pids(),
    }
    if settings.broker_url is not None:
        ready["broker_url"] = _without_secret(settings.broker)
    if parts.flower_port is not None:
        ready |= {"flower_url": f"http://127.0.0.1:{parts.flower_port}", "flower_user": FLOWER_USER}
    if parts.http_port is not None:
        ready["http_url"] = f"http://127.0.0.1:{parts.http_port}"
    if shown_password is not None:
        ready["flower_password"] = shown_password
    return ready


def _announce(ready: dict[str, Any], *, started: bool) -> None:
    flower = "not started"
    if "flower_url" in ready:
        password = ready.get("flower_password", "as configured")
        flower = f"{ready['flower_url']}  user {ready['flower_user']}, password {password}"
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    rows = {
        "redis": ready["redis_url"],
        "broker": ready.get("broker_url", ""),
        "worker": f"takes from the queue {ready['queue']}, summaries by {ready['summaries']}",
        "flower": flower,
        "http": f"{ready['http_url']}  compactor keys create TENANT makes a key" if "http_url" in ready else "",
        "data": f"{ready['data']} (logs in its folder logs)",
    }
    for name, text in rows.items():
        if text:
            table.add_row(name, Text(text))
    stdout.print(table)
    hint = f"set REDIS_URL={ready['redis_url']} for your bot" if started else "your bot uses the same REDIS_URL"
    stdout.print(Text.assemble(("ready", "bold green"), f": {hint}; Ctrl-C stops"))


def _without_secret(url: str) -> str:
    """A URL without user, password and query."""
    parts = urlsplit(url)
    if "@" not in parts.netloc and not parts.query:
        return url
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
