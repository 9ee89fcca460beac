"""`compactor compact`: one message list from stdin to stdout, without Redis or a worker."""

from __future__ import annotations

import json as json_module
import sys
from typing import Annotated, Any

import typer

from compactor.cli.app import app
from compactor.cli.console import Json, print_json, stderr
from compactor.exceptions import ConfigurationError
from compactor.json_values import is_array, is_object
from compactor.ledger import money
from compactor.message_list import compact_messages
from compactor.model_config import ModelConfig
from compactor.models import Compacted
from compactor.outcomes import to_json
from compactor.price_table import PriceTable
from compactor.settings import read_settings
from compactor.summarizer import ModelSummarizer


@app.command()
def compact(
    limit: Annotated[int, typer.Option(help="Context limit in K tokens.")],
    model: Annotated[str, typer.Option(help="Model name; it decides the token encoding.")] = "gpt-4o",
    strategy: Annotated[str, typer.Option(help="conservative, balanced or aggressive.")] = "balanced",
    target_tokens: Annotated[
        int | None, typer.Option(help="Compact to this size, whatever the threshold says.")
    ] = None,
    keep_recent_results: Annotated[
        int, typer.Option(min=0, help="Newest results that stay while older can be had.")
    ] = 3,
    pin: Annotated[
        list[str] | None, typer.Option(help="What must survive: m12, or a phrase. May be given several times.")
    ] = None,
    json: Json = False,
) -> None:
    """Compacts a message list: JSON in, JSON out.

    Reads a JSON list of chat messages (or an object with `messages` and `tools`) from stdin and
    writes the list to stdout; with --json an object with messages, originals and outcome. The model
    of COMPACTOR_SUMMARIZER_MODEL writes the summaries when it is set, else extracts do; COMPACTOR_RULES hold.
    """
    messages, tools = _read(sys.stdin.buffer.read())
    settings = read_settings()
    done = compact_messages(
        messages,
        ModelConfig(model, limit, strategy, rules=settings.rules),
        tools=tools,
        summarizer=ModelSummarizer(settings) if settings.has_model else None,
        target_tokens=target_tokens,
        keep_recent_results=keep_recent_results,
        price=PriceTable(settings),
        pins=pin or (),
    )
    print_json(_whole(done) if json else done.messages)
    outcome = done.outcome
    by = (
        f"{outcome.by_model} by model, {outcome.by_extract} by extract, {outcome.by_condensed} condensed, "
        f"{outcome.by_pointer} by pointer, {outcome.by_arguments} with elided arguments, {outcome.by_fold} folded"
    )
    stderr.print(f"{outcome.outcome}: {done.before:,} → {done.after:,} tokens ({by}) {outcome.reason}".strip())
    if outcome.bill is not None:
        stderr.print(money(outcome), soft_wrap=True)


def _read(data: bytes) -> tuple[list[Any], list[Any] | None]:
    try:
        value = json_module.loads(data)
    except (ValueError, RecursionError):
        raise ConfigurationError(
            "stdin: expected JSON, a list of chat messages or an object with 'messages'."
        ) from None
    if is_array(value):
        return list(value), None
    if is_object(value) and is_array(value.get("messages")):
        tools = value.get("tools")
        return list(value["messages"]), list(tools) if is_array(tools) else None
    raise ConfigurationError("stdin: expected a JSON list of chat messages, or an object with 'messages'.")


def _whole(done: Compacted) -> dict[str, Any]:
    return {
        "messages": done.messages,
        "originals": done.originals,
        "outcome": to_json(done.outcome),
        "before": done.before,
        "after": done.after,
    }
