"""The account of one compaction: what it spent, what it saves at each later step, when it has paid for itself.

A step sends P tokens before the first cut, D that the compaction replaces by S, and R behind the cut.
Without a compaction N steps read all of it from the provider's cache: N r (P + D + R) p, where p is the
price of an input token and r what one from the cache costs of it. With one, the first step writes what
stands behind the cut to the cache anew (w) and the others read it: N r P p + (w + (N - 1) r) (R + S) p,
and C was paid for the summaries. The two are equal at

    N* = [(w - r)(R + S) + C / p] / [r (D - S)]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from compactor.bills import Bill
from compactor.models import Message, Outcome
from compactor.pricing import UNKNOWN, Price, dollars, micro, rounded

_MOST_STEPS: Final = 100_000
_TENTH: Final = Decimal("0.1")


PriceOf = Callable[[str, int], Price | None]


@dataclass(frozen=True, slots=True)
class Rates:
    """Prices of the model whose context it is, at its size before and after, and of the summarizer; None: unknown."""

    before: Price | None = None
    after: Price | None = None
    summarizer: Price | None = None


def rates_of(price: PriceOf, model: str, summarizer: str, *, before: int, after: int) -> Rates:
    """The prices of an outcome: of the bot's model at both sizes of its prompt, and of the summarizer."""
    return Rates(price(model, before), price(model, after), price(summarizer, 0))


def break_even(
    *, write_factor: Decimal, read_factor: Decimal, rewritten: int, freed: int, spent: Decimal
) -> Decimal | None:
    """N*: the steps after which a compaction has paid for itself; None when it frees nothing that costs.

    `rewritten` is R + S and `freed` D - S in tokens, `spent` is C / p: the cost of the summaries in
    input tokens of the model.
    """
    gain = read_factor * freed
    if gain <= 0:
        return None
    return max(Decimal(0), (write_factor - read_factor) * rewritten + spent) / gain


def steps_until(level: int, after: int, messages: Sequence[Message]) -> int:
    """Steps until a context of `after` tokens is at `level` again, at the pace of the messages behind the frontier."""
    start = max((index + 1 for index, message in enumerate(messages) if message.replaced), default=0)
    recent = messages[start:]
    steps = sum(message.role == "assistant" for message in recent)
    tokens = sum(message.tokens for message in recent if message.role not in ("system", "developer"))
    pace = tokens / steps if steps else 0.0
    return min(_MOST_STEPS, max(1, math.ceil((level - after) / pace))) if pace > 0 else 1


def bill(
    outcome: Outcome, rates: Rates, *, before: int, after: int, rewritten: int, steps: int, cold: bool = False
) -> Bill:
    """The bill of an outcome; `before`, `after` and `rewritten` are tokens as the provider is expected to count them.

    `cold`: nothing of the context was in the provider's cache any more, so the cut re-writes nothing.
    """
    cost = spent_on(outcome, rates.summarizer)
    freed = before - after
    if rates.before is None or rates.after is None:
        return Bill(None if cost is None else rounded(cost), None, None, None, steps, cold=cold)
    new = rates.after
    dearer = max(Decimal(0), new.cache_write - new.cache_read)
    rewrite = Decimal(0) if cold or freed <= 0 else micro(rewritten, dearer)
    payback = None
    if cost is not None and freed > 0 and new.input:
        reached = break_even(
            write_factor=new.read_factor if cold else new.write_factor,
            read_factor=new.read_factor,
            rewritten=rewritten,
            freed=freed,
            spent=cost / new.input,
        )
        payback = None if reached is None else float(reached.quantize(_TENTH))
    return Bill(
        spent=None if cost is None else rounded(cost),
        rewrite=rounded(rewrite),
        step_before=rounded(micro(before, rates.before.cache_read)),
        step_after=rounded(micro(after, new.cache_read)),
        steps=steps,
        payback=payback,
        cold=cold,
    )


def spent_on(outcome: Outcome, summarizer: Price | None) -> Decimal | None:
    """Micro-dollars for what the model read and wrote; None without a price, 0 when no model was asked."""
    if not outcome.spent_in and not outcome.spent_out:
        return Decimal(0)
    if summarizer is None:
        return None
    return micro(outcome.spent_in, summarizer.input) + micro(outcome.spent_out, summarizer.output)


def line(outcome: Outcome) -> str:
    """One line of a compaction for logs: codes and figures only."""
    told = outcome.outcome.value + (f" ({outcome.reason})" if outcome.reason else "")
    size = f"{outcome.before:,} -> {outcome.after:,} tokens, {outcome.items} replaced"
    return f"{told}, {size}; {money(outcome)}"


def money(outcome: Outcome) -> str:
    """What an outcome cost and saves, in words."""
    found = outcome.bill
    if found is None:
        return UNKNOWN
    spent = f"spent {dollars(found.spent)}"
    if outcome.saved <= 0:
        return spent
    if found.step_before is None:
        return f"{spent}, saved {UNKNOWN}"
    pays = "" if found.payback is None else f", pays back in {found.payback:g} steps"
    return (
        f"{spent}, cache re-write {dollars(found.rewrite)}, a step {dollars(found.step_before)} -> "
        f"{dollars(found.step_after)}{pays}, net {dollars(found.net)} in {found.steps:,} steps"
    )


def figures(outcome: Outcome) -> dict[str, int | str]:
    """The same as whole numbers, in micro-dollars and steps, and a code for a price that is not known."""
    found = outcome.bill
    if found is None:
        return {}
    amounts: dict[str, int | None] = {"micro_spent": found.spent}
    if outcome.saved > 0:
        amounts |= {
            "micro_rewrite": found.rewrite,
            "micro_step_before": found.step_before,
            "micro_step_after": found.step_after,
            "micro_net": found.net,
        }
    told: dict[str, int | str] = {name: "price_unknown" if value is None else value for name, value in amounts.items()}
    if outcome.saved > 0:
        told["steps"] = found.steps
        if found.payback is not None:
            told["payback_steps"] = math.ceil(found.payback)
    return told
