"""Output: tables and colours for people on stdout, JSON lines with `--json`."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any, Final

import typer
from rich.console import Console

stdout: Final = Console(highlight=False)
stderr: Final = Console(stderr=True, highlight=False)

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line instead of tables.")]


def print_json(value: Any) -> None:
    """One line of JSON on stdout."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, default=str) + "\n")
    sys.stdout.flush()
