"""`compactor bench retention FILE...`: what of old tool results later turns need, and what is left of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from compactor.cli.bench import bench_app
from compactor.cli.console import Json, print_json, stdout
from compactor.cli.recordings import read_recordings
from compactor.encodings import encoder
from compactor.formats.openai import text_of
from compactor.json_values import is_object
from compactor.needles import Case, cases
from compactor.retention import (
    Figures,
    Shorten,
    by_extracts,
    by_head_and_tail,
    by_last,
    by_oracle,
    by_placeholder,
    measure,
    old_texts,
)
from compactor.tokens import Encode

_ENCODING = "cl100k_base"


@bench_app.command()
def retention(
    files: Annotated[list[Path], typer.Argument(help="Recorded sessions: JSON lines, also as .gz.")],
    budget: Annotated[
        list[float] | None, typer.Option(help="Share of the old results' tokens that an extract may take.")
    ] = None,
    json: Json = False,
) -> None:
    """Measures extracts on recorded sessions against plain ways of making room, without a model.

    At two cuts of each session, old tool results are shortened; counted is which of the values that the
    later turns used still stand anywhere, and with their label. Headroom is measured beside it when the
    package is installed.
    """
    encode = encoder(_ENCODING)
    table = Table("file", "way", "tokens left %", "values %", "labelled %", "lines %", "error lines %", "needles")
    for path in files:
        found = [case for recording in read_recordings([path]) for case in _cases(recording.messages, encode)]
        for name, shorten in _ways(budget or [0.2, 0.3], encode):
            figures = measure(found, shorten, encode)
            if json:
                print_json({"file": path.name, "way": name, **asdict(figures)})
            table.add_row(path.name.partition(".")[0], name, *_cells(figures))
    if not json:
        stdout.print(table)


def _cases(messages: list[Any], encode: Encode) -> Iterator[Case]:
    return cases([message for message in messages if is_object(message)], encode)


def _ways(budgets: list[float], encode: Encode) -> Iterator[tuple[str, Shorten]]:
    for share in budgets:
        yield f"extracts {share:.0%}", by_extracts(share, encode)
    yield "placeholder", by_placeholder
    yield "keep-last-3", by_last(3)
    yield "head-tail 50", by_head_and_tail(50, encode)
    yield "head-tail 100", by_head_and_tail(100, encode)
    if find_spec("headroom") is not None:
        yield "headroom-ai", _by_headroom
    yield "oracle (needles alone)", by_oracle


def _by_headroom(case: Case) -> list[str]:
    """The old results as headroom-ai compresses them, nothing protected."""
    headroom: Any = import_module("headroom")
    past = [dict(message) for message in case.messages[: max(case.old) + 1]]
    short = headroom.compress(past, model="gpt-4o", model_limit=128_000, protect_recent=0).messages
    return [text_of(short[index]) for index in case.old] if len(short) == len(past) else old_texts(case)


def _cells(figures: Figures) -> list[str]:
    shares = (figures.left, figures.values, figures.labelled, figures.lines, figures.failures)
    return ["-" if share is None else f"{share:.1f}" for share in shares] + [str(figures.needles)]
