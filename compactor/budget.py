"""From limit and strategy to threshold, ceiling, target: all in tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from compactor.exceptions import ConfigurationError
from compactor.model_config import STRATEGIES, ModelConfig

TARGET_SHARE: Final = 0.5  # of the room: one crossing pays for many turns
MIN_RECLAIM_SHARE: Final = 0.1  # of the room: less is not worth a cache re-write


@dataclass(frozen=True, slots=True)
class Budget:
    """The levels one send is judged by.

    `threshold` starts a compaction, `ceiling` is never exceeded by a send, `fixed` is what no
    compaction can shrink (system text, tools, response format, the request itself). `reclaim` is the
    share of the room that a compaction must free.
    """

    limit: int
    threshold: int
    ceiling: int
    fixed: int
    reclaim: float = MIN_RECLAIM_SHARE

    @property
    def room(self) -> int:
        return max(0, self.threshold - self.fixed)

    @property
    def target(self) -> int:
        """Where a compaction aims."""
        return self.fixed + int(self.room * TARGET_SHARE)

    @property
    def min_reclaim(self) -> int:
        """What a compaction must free below the ceiling."""
        return int(self.room * self.reclaim)

    @property
    def late(self) -> int:
        """Half way from the threshold to the ceiling: what was put off at the threshold is not put off beyond it."""
        return self.threshold + max(0, self.ceiling - self.threshold) // 2

    def cold(self, total: int) -> Budget:
        """The budget of a cut that a provider's cache makes no dearer: from `total` tokens it goes down by half."""
        return replace(self, threshold=min(self.threshold, max(1, total)))

    @property
    def rearm(self) -> int:
        """New tokens after which a compaction that stayed above the threshold may run again."""
        return max(1, self.threshold - self.target)


def budget_for(config: ModelConfig, *, fixed: int, max_output_tokens: int | None = None) -> Budget:
    """The budget of a send whose fixed part counts `fixed` tokens.

    ceiling = limit - max_output_tokens, else threshold + half of what the strategy reserves;
    threshold = min(strategy x limit, compact_at, 0.95 x ceiling). Raises ConfigurationError when the
    output alone fills the window.
    """
    limit = config.limit
    share = STRATEGIES[config.context_strategy]
    output = max_output_tokens if max_output_tokens is not None else config.max_output_tokens
    if output is not None and output >= limit:
        raise ConfigurationError(f"max_output_tokens: {output} leaves no room in a window of {limit} tokens.")
    ceiling = max(1, limit - output) if output is not None else int(limit * (1 + share) / 2)
    levels = [int(limit * share), int(ceiling * 0.95)]
    if config.compact_at_tokens is not None:
        levels.append(config.compact_at_tokens)
    reclaim = MIN_RECLAIM_SHARE if config.min_reclaim is None else config.min_reclaim
    return Budget(limit=limit, threshold=max(1, min(levels)), ceiling=ceiling, fixed=fixed, reclaim=reclaim)
