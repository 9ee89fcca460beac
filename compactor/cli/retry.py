"""`compactor retry SESSION... | --all`: dead sessions get new attempts and are queued again."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stderr, stdout
from compactor.cli.judged import judged_config
from compactor.cli.reading import not_found
from compactor.client import Compactor
from compactor.commands.command import session_keys
from compactor.commands.dead import Dead, revive
from compactor.dead_list import dead_sessions
from compactor.effects import run
from compactor.exceptions import CompactorError, ConfigurationError, SessionDamagedError, StoreUnavailableError
from compactor.models import Outcome, SessionId, session_id
from compactor.outcomes import to_json


@app.command()
def retry(
    sessions: Annotated[list[str] | None, typer.Argument(metavar="SESSION...", help="Ids of sessions.")] = None,
    everyone: Annotated[bool, typer.Option("--all", help="Every session that `compactor dead` lists.")] = False,
    json: Json = False,
) -> None:
    """Queues sessions again, with new attempts, as session.compact() does. Exits with 2 when one could not be.

    Model and window are those that the session's last send was judged by.
    """
    if bool(sessions) is everyone:
        raise ConfigurationError("retry: expected ids of sessions, or --all alone.")
    given = [session_id(name) for name in dict.fromkeys(sessions or ())]
    with Compactor.from_env() as memory:
        names = [each.session for each in _dead(memory)] if everyone else given
        failed = sum(not _retried(memory, name, json=json) for name in names)
        _dead(memory)  # what lives again leaves the list
    if not names and not json:
        stdout.print(Text("none is dead"))
    if failed:
        raise typer.Exit(2)


def _dead(memory: Compactor) -> list[Dead]:
    settings = memory.settings
    return memory.drive(dead_sessions(settings.namespace, max_attempts=settings.max_attempts))


def _retried(memory: Compactor, name: SessionId, *, json: bool) -> bool:
    """Tells how it went; one that fails keeps no other from its turn, but a server that is away ends them all."""
    try:
        outcome = _queue(memory, name)
    except CompactorError as error:
        if isinstance(error, StoreUnavailableError) and not isinstance(error, SessionDamagedError):
            raise
        stderr.print(Text.assemble(("error ", "bold red"), f"{name}: {error}"), soft_wrap=True)
        return False
    if json:
        print_json({"session": name, **to_json(outcome)})
    else:
        stdout.print(Text(f"{name}: {outcome.outcome.value}"))
    return True


def _queue(memory: Compactor, name: SessionId) -> Outcome:
    """Raises SessionNotFoundError, SchemaVersionError, DispatchError, StoreUnavailableError."""
    if memory.drive(run(revive(session_keys(memory.settings.namespace, name)))) == "gone":
        raise not_found()
    config = judged_config(memory, name)
    if config is None:
        raise ConfigurationError("session: no send of it was judged yet; its next prepare queues it when it is due.")
    return memory.session(name, config).compact()
