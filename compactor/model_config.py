"""ModelConfig: the model a session talks to, its window and the strategy that guards it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.exceptions import ConfigurationError
from compactor.records import ENCODINGS
from compactor.rules import Rule, check_rules

K: Final = 1_000  # the unit of context limits: 1K = 1,000 tokens
LARGEST: Final = 20_000  # K tokens; more means that somebody gave tokens
_LONGEST: Final = 10**12  # K tokens; more is not even worth a guess at what was meant
LARGEST_RECLAIM: Final = 0.5  # of the room
LONGEST_TTL: Final = 86_400  # seconds
STRATEGIES: Final = {"conservative": 0.60, "balanced": 0.75, "aggressive": 0.85}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What a session is judged by.

    `context_limit` and `compact_at` are in K tokens (128 = 128,000; "128K" is taken too),
    `context_limit_tokens` and `max_output_tokens` in tokens. One of the two limits is mandatory: no
    window is ever guessed. `rules` say what may be done with the results of which tools (see `Rule`);
    mappings of its fields are taken too. `min_reclaim` is the share of the room that a compaction must free
    below the ceiling (0.1 when left out), `cache_ttl` the seconds for which the provider keeps a prompt
    in its cache: a send after a longer pause compacts from half the threshold on. `prefer_idle` lets
    replacements be written at the threshold and swapped in when that cache has run out, or the context
    is half way to the ceiling. Raises ConfigurationError, which says what was expected.
    """

    model: str
    context_limit: int | str | None = None
    context_strategy: str = "balanced"
    context_limit_tokens: int | None = None
    compact_at: int | str | None = None
    encoding: str | None = None
    max_output_tokens: int | None = None
    rules: Sequence[Rule | Mapping[str, Any]] = ()
    min_reclaim: float | None = None
    cache_ttl: float | None = None
    prefer_idle: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.model, str) or not self.model.strip():
            raise ConfigurationError("model: expected the model's name as text, for example 'gpt-4o'.")
        if self.context_limit is None and self.context_limit_tokens is None:
            raise ConfigurationError(
                "context_limit: is mandatory, in K tokens (128 = 128,000 tokens). Take it from your provider's "
                "model page, for example ModelConfig(model='gpt-4o', context_limit=128)."
            )
        for name in ("context_limit", "compact_at"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, k_tokens(name, getattr(self, name)))
        for name in ("context_limit_tokens", "max_output_tokens"):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name))
        object.__setattr__(self, "rules", check_rules(self.rules))
        self._check_choices()
        self._check_sizes()

    def _check_choices(self) -> None:
        if not isinstance(self.context_strategy, str) or self.context_strategy not in STRATEGIES:
            raise ConfigurationError(
                f"context_strategy: expected one of {', '.join(STRATEGIES)}; 'balanced' suits most chats."
            )
        if self.encoding is not None and self.encoding not in ENCODINGS:
            raise ConfigurationError(f"encoding: expected one of {', '.join(ENCODINGS)}, or None to go by the model.")
        if self.min_reclaim is not None and not _is_within(self.min_reclaim, 0, LARGEST_RECLAIM):
            raise ConfigurationError(
                f"min_reclaim: expected a share of the room from 0 to {LARGEST_RECLAIM}, for example 0.1; a compaction "
                "aims at half of the room."
            )
        if self.cache_ttl is not None and not _is_within(self.cache_ttl, 1, LONGEST_TTL):
            raise ConfigurationError(
                f"cache_ttl: expected the seconds that the provider keeps a cached prompt, from 1 to {LONGEST_TTL}, "
                "for example 300."
            )
        if not isinstance(self.prefer_idle, bool):
            raise ConfigurationError("prefer_idle: expected True or False.")

    def _check_sizes(self) -> None:
        if self.max_output_tokens is not None and self.max_output_tokens >= self.limit:
            raise ConfigurationError(
                f"max_output_tokens: {self.max_output_tokens} leaves no room in a window of {self.limit} tokens."
            )

    @property
    def limit(self) -> int:
        """The model's window in tokens."""
        if self.context_limit_tokens is not None:
            return self.context_limit_tokens
        assert isinstance(self.context_limit, int)
        return self.context_limit * K

    @property
    def tool_rules(self) -> tuple[Rule, ...]:
        """The rules as they were checked."""
        return tuple(rule for rule in self.rules if isinstance(rule, Rule))

    @property
    def compact_at_tokens(self) -> int | None:
        """The absolute threshold in tokens, when one is set."""
        return self.compact_at * K if isinstance(self.compact_at, int) else None


def _is_within(value: Any, least: float, most: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most


def k_tokens(name: str, value: Any) -> int:
    """Reads a number of K tokens: a whole number, or digits with an optional K.

    Raises ConfigurationError with the unit and an example.
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,12})\s*[kK]?\s*", value, re.ASCII)
        value = int(match[1]) if match else None
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ConfigurationError(
            f"{name}: expected a positive whole number of K tokens, for example 128 or '128K' for 128,000 tokens."
        )
    if value > _LONGEST:
        raise ConfigurationError(
            f"{name}: is more than any window has; expected K tokens, for example 128 or '128K' for 128,000 tokens."
        )
    if value > LARGEST:
        raise ConfigurationError(
            f"{name}: {value}K would be {value * K:,} tokens; the unit is K tokens. "
            f"Did you mean {max(1, value // K)} (= {max(1, value // K) * K:,} tokens)? "
            "For an exact window use context_limit_tokens."
        )
    return value


def _whole(name: str, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ConfigurationError(f"{name}: expected a positive whole number of tokens, for example 16385.")
    if value > LARGEST * K:
        raise ConfigurationError(f"{name}: is more than any window has; expected tokens, for example 16385.")
