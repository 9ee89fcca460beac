"""`compactor configs`: the keyring that stored api_keys are encrypted with."""

from __future__ import annotations

import typer
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stdout
from compactor.config_store import ConfigStore
from compactor.secret_box import new_key

configs = typer.Typer(help="Looks after the encryption of stored model configs.", no_args_is_help=True)
app.add_typer(configs, name="configs")


@configs.command("new-key")
def make_key() -> None:
    """Prints a random key for COMPACTOR_CONFIG_KEYS."""
    typer.echo(new_key())


@configs.command()
def rotate(json: Json = False) -> None:
    """Encrypts every stored api_key with the first key of COMPACTOR_CONFIG_KEYS, while the service runs.

    Can be interrupted and repeated. Exits with 2 when there are api_keys that no key opens.
    """
    with ConfigStore() as store:
        done = store.rotate()
    if json:
        lost = [{"tenant": tenant, "config_id": config_id} for tenant, config_id in done.unreadable]
        print_json({"rotated": done.rotated, "current": done.current, "unreadable": lost})
    else:
        stdout.print(Text(f"{done.rotated:,} api_keys encrypted anew, {done.current:,} were already"))
        for tenant, config_id in done.unreadable:
            stdout.print(
                Text(f"no key opens the api_key of {config_id} (tenant {tenant}): its user must store it again")
            )
    if done.unreadable:
        raise typer.Exit(2)
