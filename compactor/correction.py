"""From our count to the provider's: a prior by the model's name, then an anchor learned from reported usage.

What a provider bills differs from a count mostly by an offset (hidden prompts, its own encoding of
tools), so a factor alone makes a count worse, and one report is an anchor:
`expected = anchor + slope x (count now - count then)`. The slope is 1 until two reports lie apart;
one outside 0.5-2 tells of hidden text that came or went, not of another tokenizer, and starts anew.
Measured on recorded usage of seven sources: docs/parity.md.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

from compactor.budget import Budget
from compactor.json_values import is_object

UNKNOWN_PRIOR: Final = 1.15  # for models whose tokenizer tiktoken does not know; the recorded ones bill 1.1-1.4 times
_APART: Final = 50  # tokens between two reports that tell a slope
_STEEPEST: Final = 2.0
_LEAST_BILLED: Final = 0.4  # of our count; less is a bill without what was cached, or of another request
_MOST: Final = 10**9  # tokens; a larger figure is no count of a prompt
_OVERFLOW: Final = 1.1  # windows, for a list that was refused without a figure
_SENT: Final = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_STORED: Final = re.compile(r"([0-9.]{1,20})" + 5 * r" ([0-9]{1,10})")


@dataclass(frozen=True, slots=True)
class Correction:
    """`expected = offset + slope x count`, in tokens; `by` names its source: count, prior or anchor.

    `limit` is a window in tokens that the provider itself named, smaller than the one configured; 0: none.
    """

    offset: float = 0.0
    slope: float = 1.0
    by: str = "count"
    limit: int = 0

    def expected(self, count: int) -> int:
        """What the provider is expected to count, in tokens; never negative."""
        return max(0, math.floor(self.offset + self.slope * count))

    def within(self, level: int) -> int:
        """The largest count that is expected to stay at or below a level; at least 1."""
        if self.slope == 1.0 and self.offset == 0.0:
            return max(1, level)
        count = math.floor((level - self.offset) / self.slope)
        while self.expected(count + 1) <= level:
            count += 1
        while count > 1 and self.expected(count) > level:
            count -= 1
        return max(1, count)

    def levels(self, budget: Budget) -> Budget:
        """A budget's levels as counts, so that what is planned and cut can go on counting."""
        lowered = self.lowered(budget)
        return replace(
            lowered,
            limit=self.within(lowered.limit),
            threshold=self.within(lowered.threshold - 1) + 1,
            ceiling=self.within(lowered.ceiling),
        )

    def lowered(self, budget: Budget) -> Budget:
        """The budget under the window that the provider named, its shares kept."""
        if not 0 < self.limit < budget.limit:
            return budget
        return replace(
            budget,
            limit=self.limit,
            threshold=max(1, budget.threshold * self.limit // budget.limit),
            ceiling=max(1, budget.ceiling * self.limit // budget.limit),
        )


PLAIN: Final = Correction()


@dataclass(frozen=True, slots=True)
class Anchor:
    """What a session learned of one model: the last report, and the one that the slope is measured from."""

    count: int
    billed: int
    base_count: int
    base_billed: int
    slope: float = 1.0
    limit: int = 0

    @property
    def correction(self) -> Correction:
        return Correction(self.billed - self.slope * self.count, self.slope, "anchor", self.limit)


def first_correction(prior: float) -> Correction:
    """Before any report."""
    return Correction(slope=prior, by="count" if prior == 1.0 else "prior")


def reported(anchor: Anchor | None, count: int, billed: int) -> Anchor | None:
    """The anchor after one more report: a list of `count` tokens was billed as `billed`. None: not to be believed."""
    if not 0 < count <= _MOST or not _LEAST_BILLED * count <= billed <= _MOST:
        return anchor
    return _moved(anchor, count, billed)


def _moved(anchor: Anchor | None, count: int, billed: int) -> Anchor:
    if anchor is None:
        return Anchor(count, billed, count, billed)
    limit = 0 if billed > anchor.limit else anchor.limit  # so long a list was accepted
    moved = replace(anchor, count=count, billed=billed, limit=limit)
    apart = count - anchor.base_count
    if abs(apart) < _APART:
        return moved
    slope = (billed - anchor.base_billed) / apart
    if 1 / _STEEPEST <= slope <= _STEEPEST:
        return replace(moved, slope=slope)
    return replace(moved, slope=1.0, base_count=count, base_billed=billed)


def overflowed(anchor: Anchor | None, count: int, *, expected: int, limit: int, named: int, window: int) -> Anchor:
    """The anchor after the provider refused a list of `count` tokens as too long.

    `window` and `named` are the limit and the size in tokens that it named (0: none), `limit` the one
    that was believed. Without a size, the list is taken for a tenth more than the window, or for what
    was expected if that is more; so a refusal that is told twice teaches nothing new.
    """
    real = min(limit, window) if window else limit
    told = real < named <= _MOST and named >= _LEAST_BILLED * count
    billed = named if told else min(_MOST, max(expected, math.ceil(_OVERFLOW * real)))
    known = 0 if anchor is None else anchor.limit
    learned = _moved(anchor, max(1, min(count, _MOST)), billed)
    return replace(learned, limit=min(known or window, window) if 0 < window < limit else known)


def model_key(model: str) -> str:
    """12 hex digits that name a model in a session's state; names come from users and may be long."""
    return blake2b(model.strip().lower().encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def written(anchor: Anchor) -> str:
    """An anchor as it is stored: the slope, then whole numbers; `prepare.lua` reads it too."""
    numbers = (anchor.count, anchor.billed, anchor.base_count, anchor.base_billed, anchor.limit)
    return " ".join((repr(anchor.slope), *map(str, numbers)))


def read_anchor(text: str) -> Anchor | None:
    """A stored anchor; None for none, and for one garbled from outside."""
    found = _STORED.fullmatch(text)
    if found is None:
        return None
    try:
        slope = float(found[1])
    except ValueError:
        return None
    count, billed, base_count, base_billed, limit = numbers = [int(figure) for figure in found.groups()[1:]]
    sound = 1 / _STEEPEST <= slope <= _STEEPEST and count > 0 and max(numbers) <= _MOST
    return Anchor(count, billed, base_count, base_billed, slope, limit) if sound else None


def billed_tokens(usage: Any) -> int:
    """The prompt's tokens in a reply's usage, cached ones included; 0 when it tells none.

    Reads Chat Completions (`prompt_tokens`), Responses (`input_tokens`) and Anthropic's messages,
    whose `input_tokens` leave out what was cached. Takes objects and mappings.
    """
    return _whole(usage, "prompt_tokens") or sum(_whole(usage, name) for name in _SENT)


def _whole(usage: Any, name: str) -> int:
    values: Mapping[str, Any] | None = usage if is_object(usage) else None
    value = values.get(name) if values is not None else getattr(usage, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def known_correction(judged: Mapping[str, Any], raw: Mapping[str, bytes]) -> Correction:
    """What the session has learned of the model by now, else the prior; from a judgement and a state's fields."""
    kept = raw.get(f"anchor:{model_key(judged.get('model', ''))}", b"").decode(errors="replace")
    anchor = read_anchor(kept)
    return first_correction(judged.get("prior", 1.0)) if anchor is None else anchor.correction
