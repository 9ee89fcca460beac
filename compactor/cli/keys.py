"""`compactor keys`: the API keys of the HTTP service."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, printable, stderr, stdout
from compactor.client import Compactor
from compactor.commands.api_keys import ApiKey, is_id, issue, new_key, read_keys, revoke
from compactor.effects import run
from compactor.exceptions import ConfigurationError, StoreUnavailableError

DAY = 86_400  # seconds

keys = typer.Typer(help="Makes, lists and revokes the API keys of the HTTP service.", no_args_is_help=True)
app.add_typer(keys, name="keys")


@keys.command()
def create(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Whose sessions the key opens: tenant/….")],
    user: Annotated[str | None, typer.Option(help="Binds the key to one user's stored model configs.")] = None,
    name: Annotated[str, typer.Option(help="What the key is for; shown in the list.")] = "",
    days: Annotated[
        int | None, typer.Option(min=1, max=36_500, help="Days until it expires; never without it.")
    ] = None,
    json: Json = False,
) -> None:
    """Makes a key and shows it, this once: only a hash of it is stored."""
    now = time.time()
    key, stored = new_key(tenant, user=user, name=name, now=now, expires=None if days is None else now + days * DAY)
    with Compactor.from_env() as memory:
        if not memory.drive(run(issue(memory.settings.namespace, stored))):
            raise StoreUnavailableError("api key: another one has this id. Call again.")
    if json:
        print_json({"key": key, **_row(stored, now)})
        return
    stdout.print(Text(key), soft_wrap=True)
    stderr.print(Text(f"for tenant {tenant}; it is shown this once. compactor keys revoke {stored.id} ends it."))


@keys.command("list")
def list_keys(
    tenant: Annotated[str | None, typer.Option(help="Of one tenant only.")] = None,
    json: Json = False,
) -> None:
    """Lists all keys, revoked and expired ones too; never the keys themselves."""
    now = time.time()
    with Compactor.from_env() as memory:
        found = memory.drive(run(read_keys(memory.settings.namespace)))
    chosen = [each for each in found if tenant is None or each.tenant == tenant]
    if json:
        for each in chosen:
            print_json(_row(each, now))
        return
    if chosen:
        columns = ("id", "tenant", "user", "name", "made", "expires", "state")
        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for each in chosen:
            expires = "never" if each.expires is None else _day(each.expires)
            cells = (each.id, each.tenant, each.user or "", each.name, _day(each.created), expires, each.state(now))
            table.add_row(*(Text(printable(cell)) for cell in cells))
        stdout.print(table)
    stdout.print(Text(f"{len(chosen)} keys" if chosen else "no keys; compactor keys create TENANT makes one"))


@keys.command("revoke")
def revoke_key(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.")],
    json: Json = False,
) -> None:
    """Ends a key for good; every running service refuses it within 5 seconds."""
    if not is_id(key_id):
        raise ConfigurationError("key id: expected the 16 characters that `compactor keys list` shows, not the key.")
    with Compactor.from_env() as memory:
        if not memory.drive(run(revoke(memory.settings.namespace, key_id))):
            raise ConfigurationError("key id: there is no such key. `compactor keys list` shows all of them.")
    if json:
        print_json({"id": key_id, "state": "revoked"})
        return
    stdout.print(Text(f"{key_id} is revoked; running services refuse it within 5 seconds"))


def _day(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _row(key: ApiKey, now: float) -> dict[str, Any]:
    return {
        "id": key.id,
        "tenant": key.tenant,
        "user": key.user,
        "name": key.name,
        "created": key.created,
        "expires": key.expires,
        "state": key.state(now),
    }
