"""compact_messages: the same planning, summaries and checks on a plain list, without Redis or a worker."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compactor.budget import Budget, budget_for
from compactor.correction import Correction, first_correction
from compactor.drafting import LARGEST, Draft, Limits, Summarize, draft
from compactor.drafts import describe
from compactor.encodings import encoder, encoding_name, prior_of
from compactor.exceptions import ConfigurationError, InvalidMessageError
from compactor.formats.openai import leading_system, text_of
from compactor.json_values import is_object
from compactor.judging import Request, count_fixed
from compactor.ledger import PriceOf, bill, rates_of, steps_until
from compactor.model_config import ModelConfig
from compactor.models import Code, Compacted, Kind, Message, Outcome, recall_id
from compactor.pins import split_pins
from compactor.planning import KEEP_RESULTS, Nothing, Plan, Snapshot, plan
from compactor.records import encode_message
from compactor.rules import rules_of
from compactor.tokens import Encode, count_message
from compactor.wording import carries_header

DEADLINE = 60.0  # seconds for all model calls of one list


def compact_messages(
    messages: Sequence[Any],
    config: ModelConfig,
    tools: Any = None,
    summarizer: Summarize | None = None,
    target_tokens: int | None = None,
    keep_recent_results: int = KEEP_RESULTS,
    format: str = "openai",  # noqa: A002 # why: the name users know
    pins: Sequence[int | str] = (),
    price: PriceOf | None = None,
) -> Compacted:
    """Compacts a list of chat messages; the list given is not changed.

    Above the threshold of `config` the oldest large tool results are replaced, by `summarizer` (for
    example ModelSummarizer) or, without one, by extracts. `target_tokens` (tokens of the whole send)
    compacts whatever the threshold says. `keep_recent_results` newest results stay while older can
    be had. `pins` are messages (by index, or as `m12`) that stay as they are, and phrases that stand word for
    word in whatever replaces a result that holds one; the rules of `config` hold too. `price` of a
    model at a size of its prompt (PriceTable) adds the bill. Raises ConfigurationError, InvalidMessageError.
    """
    if format != "openai":
        raise ConfigurationError("format: expected 'openai' (Chat Completions messages).")
    if target_tokens is not None:
        _check_whole("target_tokens", target_tokens, least=1)
    _check_whole("keep_recent_results", keep_recent_results, least=0)
    given = _listed(messages)
    started = time.monotonic()
    encode = encoder(encoding_name(config.model, config.encoding))
    snapshot, fixed, lead = _snapshot(given, tools, encode)
    snapshot = _governed(snapshot, config, pins)
    correction = first_correction(prior_of(config.model))
    budget = correction.levels(budget_for(config, fixed=fixed + lead))
    planned = plan(snapshot, budget, keep_results=keep_recent_results, target_tokens=target_tokens)
    if isinstance(planned, Nothing):
        return _unchanged(given, snapshot, Outcome(planned.code, reason=planned.reason))
    over = snapshot.total > budget.ceiling
    limits = Limits(deadline=started + DEADLINE, over=over)
    drafted = draft(planned, snapshot, encode=encode, summarize=summarizer, limits=limits)
    needed = 1 if over or target_tokens is not None else max(1, budget.min_reclaim)
    if drafted.saved < needed:
        return _unchanged(given, snapshot, _without_gain(drafted))
    done = _changed(given, snapshot, planned, drafted, int((time.monotonic() - started) * 1000))
    if price is None:
        return done
    return replace(done, outcome=_billed(done.outcome, price, config.model, correction, budget, snapshot))


def _billed(
    outcome: Outcome, price: PriceOf, model: str, correction: Correction, budget: Budget, snapshot: Snapshot
) -> Outcome:
    before, after = correction.expected(outcome.before), correction.expected(outcome.after)
    found = bill(
        outcome,
        rates_of(price, model, outcome.model, before=before, after=after),
        before=before,
        after=after,
        rewritten=int(correction.slope * outcome.rewrite),
        steps=steps_until(budget.threshold, outcome.after, snapshot.messages),
    )
    return replace(outcome, bill=found)


def _check_whole(name: str, value: Any, *, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigurationError(f"{name}: expected a whole number, at least {least}.")


def _listed(messages: Any) -> list[Any]:
    wrong = InvalidMessageError("messages: expected a list of chat messages.")
    if isinstance(messages, (str, bytes)) or is_object(messages):
        raise wrong
    try:
        return list(messages)
    except TypeError:
        raise wrong from None


def _snapshot(messages: Sequence[Any], tools: Any, encode: Encode) -> tuple[Snapshot, int, int]:
    """The list as a snapshot, tokens beside it, tokens of its leading system messages."""
    values: list[Mapping[str, Any]] = [encode_message(message).value for message in messages]
    read = [_message(position, value, encode) for position, value in enumerate(values)]
    fixed = count_fixed(Request(tools=tools), encode).total
    leading = leading_system(values)
    return Snapshot(read, fixed + sum(m.tokens for m in read)), fixed, sum(m.tokens for m in read[:leading])


def _governed(snapshot: Snapshot, config: ModelConfig, pins: Sequence[int | str]) -> Snapshot:
    """The snapshot with what may not be replaced: pinned messages and phrases, and the rules."""
    places, phrases = split_pins(pins)
    if places and max(places) >= len(snapshot.messages):
        raise ConfigurationError(f"pins: expected places below {len(snapshot.messages)}, the number of messages.")
    messages = [replace(m, pinned=True) if m.position in places else m for m in snapshot.messages]
    return replace(snapshot, messages=messages, rules=rules_of(config.tool_rules), phrases=phrases)


def _message(position: int, value: Mapping[str, Any], encode: Encode) -> Message:
    """A message of a plain list; what already carries our header stays as it is.

    Only the size of ours is spared so: larger text with our header is text of a tool's own making.
    """
    tokens = count_message(value, encode)
    return Message(position, value, tokens, pinned=tokens <= LARGEST and carries_header(text_of(value)))


def _without_gain(drafted: Draft) -> Outcome:
    if drafted.failure is not None:
        return Outcome(Code.SUMMARIZER_FAILED, reason=drafted.failure.code)
    return Outcome(Code.NO_GAIN, reason=f"would free {drafted.saved} tokens")


def _unchanged(messages: Sequence[Any], snapshot: Snapshot, outcome: Outcome) -> Compacted:
    whole = replace(outcome, before=snapshot.total, after=snapshot.total)
    return Compacted(list(messages), {}, whole, snapshot.total, snapshot.total)


def _changed(messages: Sequence[Any], snapshot: Snapshot, planned: Plan, drafted: Draft, ms: int) -> Compacted:
    outcome = replace(describe(drafted, snapshot, planned), ms=ms)
    new = {item.position: item for item in drafted.replacements}
    kept = [
        new[i].value if i in new else message
        for i, message in enumerate(messages)
        if i not in new or new[i].kind is not Kind.FOLDED
    ]
    originals = {recall_id(position): messages[position] for position in sorted(new)}
    return Compacted(kept, originals, outcome, outcome.before, outcome.after)
