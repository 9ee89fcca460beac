"""Money as frozen values, in micro-dollars: the bill of one compaction, and one tenant's day."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bill:
    """What a compaction cost and saves, in micro-dollars; None where a price is unknown.

    `spent` went to the summarizer, `rewrite` is the estimate of what the provider's cache charges for
    what stands behind the cut, `step_before` and `step_after` are what one step reads from that cache.
    `steps` are those until the threshold is reached again, at the session's pace; `payback` those after
    which the compaction has paid for itself. `cold`: the cache had run out, so the cut re-wrote nothing.
    """

    spent: int | None = None
    rewrite: int | None = None
    step_before: int | None = None
    step_after: int | None = None
    steps: int = 0
    payback: float | None = None
    cold: bool = False

    @property
    def saved(self) -> int | None:
        """What the `steps` cost less."""
        if self.step_before is None or self.step_after is None:
            return None
        return (self.step_before - self.step_after) * self.steps

    @property
    def net(self) -> int | None:
        """What is left of it after `spent` and `rewrite`."""
        if self.saved is None or self.spent is None or self.rewrite is None:
            return None
        return self.saved - self.spent - self.rewrite


@dataclass(frozen=True, slots=True)
class Spending:
    """What the compactions of one tenant spent and saved on one day (UTC, as YYYY-MM-DD).

    `micro` and `net` are micro-dollars, the first what the model calls cost or are set aside for those
    under way; `tokens` what they read and wrote, `unpriced` those of models without a price. `freed`
    counts tokens, `capped` the compactions that wrote extracts because a cap was reached.
    """

    tenant: str
    day: str
    micro: int = 0
    tokens: int = 0
    unpriced: int = 0
    compactions: int = 0
    capped: int = 0
    freed: int = 0
    net: int = 0
    cap_micro: int | None = None
    cap_tokens: int | None = None
