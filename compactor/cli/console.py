"""Output: tables and colours for people on stdout, JSON lines with `--json`."""

from __future__ import annotations

import json
import re
import sys
from typing import Annotated, Any, Final

import typer
from rich.console import Console

stdout: Final = Console(highlight=False)
stderr: Final = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line instead of tables.")]

# Stored text may hold escape sequences that a terminal would obey.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def print_json(value: Any) -> None:
    """One line of JSON on stdout; escaped where the terminal's encoding lacks a character."""
    line = json.dumps(value, ensure_ascii=False, default=str)
    try:
        line.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        line = json.dumps(value, default=str)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def printable(text: str) -> str:
    """Text that is safe on a terminal: control characters become U+FFFD, line ends and tabs stay."""
    return _CONTROL.sub("\ufffd", text.replace("\r\n", "\n"))


def one_line(text: str, characters: int) -> str:
    """The first characters of a text on one line, with an ellipsis when there is more."""
    line = " ".join(printable(text[: 4 * characters]).split())
    return line if len(line) <= characters and len(text) <= 4 * characters else f"{line[: characters - 1]}…"
