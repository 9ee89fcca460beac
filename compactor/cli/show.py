"""`compactor show SESSION`: the live history as it stands in Redis."""

from __future__ import annotations

import json as json_lib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from compactor.cli.app import app
from compactor.cli.console import Json, one_line, print_json, stdout
from compactor.cli.reading import SessionName, stored_session
from compactor.client import Compactor
from compactor.commands.read import State, Stored
from compactor.exceptions import SessionDamagedError
from compactor.formats.openai import calls, media_of, text_of
from compactor.models import Kind, recall_id
from compactor.pins import holds, read_phrases
from compactor.records import ENCODINGS, KEPT, PINNED, PROVISIONAL, Record

PREVIEW: Final = 400  # characters; the table cuts them to its width
_COLOURS: Final = {"system": "magenta", "developer": "magenta", "user": "cyan", "assistant": "green"}


@app.command()
def show(session: SessionName, json: Json = False) -> None:
    """Shows the messages of a session: position, role, kind, pins, tokens, and how each one begins.

    The id column is what `compactor recall` takes. With --json each line is one whole message.
    """
    with Compactor.from_env() as memory:
        stored = stored_session(memory, session)
    rows = [
        _row(record, position, stored.state, read_phrases(stored.raw.get("pins")))
        for position, record in enumerate(stored.records, start=stored.state.offset)
        if record.kind is not Kind.TOMBSTONE
    ]
    if json:
        for row in rows:
            print_json(row)
    else:
        _print(session, stored, rows)


def _row(record: Record, position: int, state: State, phrases: Sequence[str]) -> dict[str, Any]:
    value = _value(record)
    return {
        "position": position,
        "recall_id": recall_id(position),
        "role": str(value.get("role", "?")),
        "kind": record.kind.name.lower() if value else "corrupt",
        "replaced": bool(value) and record.kind is not Kind.ORIGINAL,
        "tokens": _tokens(record, state),
        "provisional": bool(record.flags & PROVISIONAL),
        "pinned": bool(record.flags & PINNED),
        "kept": bool(record.flags & KEPT),
        "phrases": [phrase for phrase in phrases if holds(text_of(value), phrase)],
        "message": value,
    }


def _value(record: Record) -> Mapping[str, Any]:
    """The message; nothing of a record that cannot be read, which is listed all the same."""
    try:
        return {} if record.kind is Kind.CORRUPT else record.value()
    except SessionDamagedError:
        return {}


def _tokens(record: Record, state: State) -> int | None:
    """Tokens in the encoding of the session's last send, else in one that somebody counted."""
    judged = json_lib.loads(state.judged or b"{}").get("encoding")
    order = sorted(ENCODINGS, key=lambda name: name != judged)
    return next((counted for name in order if (counted := record.counted(name)) is not None), None)


def _print(session: str, stored: Stored, rows: list[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for title, justify in (("id", "right"), ("role", "left"), ("kind", "left"), ("tokens", "right")):
        table.add_column(title, justify=justify, no_wrap=True)  # type: ignore[arg-type] # why: two of rich's words
    table.add_column("begins with", no_wrap=True, overflow="ellipsis", ratio=1)
    for row in rows:
        tokens = "?" if row["tokens"] is None else f"{row['tokens']:,}"
        plain = row["kind"] == "original"
        kind = Text("" if plain else row["kind"] + (" (provisional)" if row["provisional"] else ""))
        kind.append(" pinned" if row["pinned"] else "").append(" holds a pin" if row["phrases"] else "")
        kind.stylize("yellow")
        role = Text(row["role"], style=_COLOURS.get(row["role"], ""))
        table.add_row(row["recall_id"], role, kind, tokens, Text(_preview(row["message"])))
    stdout.print(table)
    replaced = sum(row["replaced"] for row in rows)
    total = sum(row["tokens"] or 0 for row in rows)
    stdout.print(
        Text(
            f"{session}: {len(rows)} messages, {total:,} tokens, {replaced} replaced, revision {stored.state.revision}"
        )
    )


def _preview(message: Mapping[str, Any]) -> str:
    count = media_of(message)
    parts = [f"[{count} media]" if count else "", one_line(text_of(message), PREVIEW)]
    parts += [f"-> {call.name}({one_line(call.arguments, 60)})" for call in calls(message)]
    return " ".join(part for part in parts if part)
