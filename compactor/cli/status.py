"""`compactor status [SESSION]`: where a session stands, or server, queue and workers."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import Annotated, Any, Final

import typer
from rich.table import Table
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.broker import Broker
from compactor.cli.console import Json, print_json, stdout
from compactor.cli.reading import NEUTRAL, not_found, outcome_row
from compactor.cli.spending import day_line, days_of, days_table
from compactor.client import Compactor
from compactor.commands import turns
from compactor.exceptions import CompactorError, ConfigurationError, StoreUnavailableError
from compactor.models import Outcome, Status
from compactor.pricing import dollars
from compactor.settings import Settings, read_settings
from compactor.store import Store, unavailable

TENANT: Final = re.compile(r"[A-Za-z0-9._:@-]{1,199}")


@app.command()
def status(
    session: Annotated[
        str | None, typer.Argument(metavar="[SESSION]", help="The session's id; none: the server.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="What this tenant spent, day by day.")] = None,
    json: Json = False,
) -> None:
    """Shows where a session stands, or what a tenant spends; without one, the server, the queue and the workers."""
    if session is not None and tenant is not None:
        raise ConfigurationError("status: expected a session or --tenant, not both.")
    if tenant is not None:
        _tenant(tenant, json=json)
    elif session is None:
        _server(json=json)
    else:
        _session(session, json=json)


def _tenant(name: str, *, json: bool) -> None:
    if not TENANT.fullmatch(name):
        raise ConfigurationError("--tenant: expected what stands before the first slash of a session's id.")
    days = days_of(read_settings(), name)
    if json:
        for day in days:
            print_json(asdict(day))
        return
    stdout.print(Text(day_line(days[0])))
    stdout.print()
    stdout.print(days_table(days))


def _session(name: str, *, json: bool) -> None:
    with Compactor.from_env() as memory:
        opened = memory.session(name, NEUTRAL)
        seen = opened.status()
        if not seen.exists:
            raise not_found()
        runs = opened.compactions()
    if json:
        last = outcome_row(seen.last) if seen.last else None
        print_json({"session": name, **asdict(seen), "last": last, "audit": [outcome_row(run) for run in runs]})
        return
    stdout.print(_facts(_session_facts(name, seen)))
    if runs:
        stdout.print()
        stdout.print(_audit(runs))


def _session_facts(name: str, seen: Status) -> dict[str, str]:
    tokens = ", ".join(f"{count:,} ({encoding})" for encoding, count in seen.totals.items())
    claim = seen.claim + (f", held: {seen.held}" if seen.held else "")
    last = ""
    if seen.last is not None:
        last = seen.last.outcome.value + (f" ({seen.last.reason})" if seen.last.reason else "")
    return {
        "session": name,
        "messages": f"{seen.length:,}",
        "tokens": tokens or "not counted yet",
        "claim": claim,
        "compactions": f"{seen.compactions}" + (f", {seen.attempts} attempts now" if seen.attempts else ""),
        "last outcome": last or "none yet",
        "tenant today": day_line(seen.spending) if seen.spending else "",
        "archived": f"{seen.archived:,} originals",
        "stored": f"{seen.stored_bytes / 1024:,.1f} KiB",
        "expires in": f"{seen.expires_in / 86_400:.1f} days",
    }


def _audit(runs: list[Outcome]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("compaction")
    for title in ("before", "after", "saved", "replaced", "ms", "spent", "re-write", "pays back", "net"):
        table.add_column(title, justify="right")
    for run in runs:
        figures = (f"{run.before:,}", f"{run.after:,}", f"{run.saved:,}", f"{run.items}", f"{run.ms:,}", *_money(run))
        table.add_row(run.outcome.value + (f" ({run.reason})" if run.reason else ""), *figures)
    return table


def _money(run: Outcome) -> tuple[str, ...]:
    """What a run spent, what the cache re-write costs, steps until it is paid for, and what is left."""
    found = run.bill
    if found is None:  # of a release that kept no account
        return "", "", "", ""
    steps = "" if found.payback is None else f"{found.payback:g} steps"
    return _short(found.spent), _short(found.rewrite), steps, _short(found.net)


def _short(amount: int | None) -> str:
    return "unknown" if amount is None else dollars(amount)


def _facts(facts: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, Text(value))
    return table


def _server(*, json: bool) -> None:
    settings = read_settings()
    facts = {**_redis(settings), "tenants": _crowds(settings), **_broker(settings)}
    if json:
        print_json(facts)
    else:
        _print_server(facts)
    if not (facts["redis"] and facts["broker"]):
        raise typer.Exit(1)


def _redis(settings: Settings) -> dict[str, Any]:
    with Store(settings) as store:
        try:
            servers = store.primaries()
            info = servers[0].info("server")
        except StoreUnavailableError as error:
            return {"redis": False, "redis_error": str(error).removeprefix("redis: ")}
        except Exception as error:  # noqa: BLE001 # why: whatever it was, the figure is "not reachable" with its reason
            return {"redis": False, "redis_error": str(unavailable(error)).removeprefix("redis: ")}
    version = info.get("valkey_version") or info.get("redis_version", "")
    server = f"{info.get('server_name', 'redis')} {version}"
    if len(servers) > 1:
        server += f", a cluster of {len(servers)} primaries"
    return {"redis": True, "server": server, "namespace": settings.namespace}


def _crowds(settings: Settings) -> dict[str, dict[str, int]]:
    """The tenants that have sessions waiting for their turn."""
    with Store(settings) as store:
        try:
            entered = store.run(turns.read_crowded(settings.namespace))
            if not entered:
                return {}
            crowds = store.run(turns.read_crowds(settings.namespace, list(entered)))
        except StoreUnavailableError:  # told by the first row
            return {}
    return {tenant: asdict(crowd) for tenant, crowd in sorted(crowds.items()) if crowd.waiting}


def _broker(settings: Settings) -> dict[str, Any]:
    broker = Broker(settings)
    try:
        length = broker.queue_length()
        workers = broker.workers()
    except CompactorError as error:
        return {"broker": False, "broker_error": str(error).removeprefix("broker: "), "queue": broker.queue}
    finally:
        broker.close()
    ours = [name for name, takes in workers.items() if takes]
    return {"broker": True, "queue": broker.queue, "queue_length": length, "workers": ours}


def _print_server(facts: dict[str, Any]) -> None:
    shown = {"redis": f"answers, {facts['server']}" if facts["redis"] else facts["redis_error"]}
    for tenant, crowd in facts["tenants"].items():
        shown[f"tenant {tenant}"] = f"{crowd['published']} published, {crowd['waiting']} waiting for their turn"
    if facts["broker"]:
        shown["broker"] = "answers"
        shown[f"queue {facts['queue']}"] = f"{facts['queue_length']} waiting"
        shown["workers"] = ", ".join(facts["workers"]) or "none answers: start one with celery -A workers worker"
    else:
        shown["broker"] = facts["broker_error"]
    stdout.print(_facts(shown))
