"""LangBot's names for Compactor's objects: what a bot moving over has in its runner's settings."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from compactor.agent_loop import LimitPolicy, LoopGuard
from compactor.agent_loop.loop_guard import MAX_ITERATIONS
from compactor.agent_loop.tool_results import MAX_CHARS
from compactor.exceptions import ConfigurationError
from compactor.json_values import is_object
from compactor.model_config import ModelConfig

ITERATIONS: Final = "max-tool-iterations"
RESULT_CHARS: Final = "max-tool-result-chars"
WINDOW: Final = "context-window-tokens"
RESERVE: Final = "context-reserve-tokens"
KEEP_RECENT: Final = "context-keep-recent-tokens"
SUMMARY: Final = "context-summary-tokens"
NAMES: Final = (ITERATIONS, RESULT_CHARS, WINDOW, RESERVE, KEEP_RECENT, SUMMARY)

_LARGEST_RESERVE: Final = 4  # LangBot takes at most a quarter of the window
_IGNORED: Final = {
    KEEP_RECENT: "what is recent is not counted in tokens here: the newest three tool results, or those of the newest "
    "two steps, stay as long as older ones can be had, and a compaction ends when half of the room is free again.",
    SUMMARY: "there is no one summary here: each replaced tool result keeps at most 400 tokens of its own.",
}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LangBotSettings:
    """LangBot's settings as Compactor's objects: `config` for a session, `limit_result` for its pushes.

    `notes` says, by name, what of the settings has no counterpart here or was taken otherwise, and why.
    """

    config: ModelConfig
    limit_result: LimitPolicy
    max_iterations: int
    notes: Mapping[str, str]

    def guard(self, **more: Any) -> LoopGuard:
        """A guard for one run, with the iterations of the settings; `more` as for LoopGuard."""
        return LoopGuard(self.max_iterations, **more)


def from_langbot(settings: Mapping[str, Any], model: str) -> LangBotSettings:
    """Reads settings under LangBot's names; numbers may be text of digits, None is not set.

    `context-window-tokens` is mandatory, since no window is ever guessed; the others default to what
    they are here. What is taken otherwise than LangBot does is in `notes`, and logged as a warning.
    Raises ConfigurationError, for an unknown name with the nearest one.
    """
    given = _numbers(settings)
    notes = {name: f"{name}: ignored; {why}" for name, why in _IGNORED.items() if name in given}
    window = given.get(WINDOW)
    if not window:
        raise ConfigurationError(
            f"{WINDOW}: is mandatory, in tokens (for example 128000), and not 0: without the window nothing can be "
            "kept inside it. Take it from your provider's model page."
        )
    reserve = given.get(RESERVE, 0)
    most = window // _LARGEST_RESERVE
    if reserve > most:
        notes[RESERVE] = f"{RESERVE}: {reserve} is taken as {most}, a quarter of the window, as LangBot does."
        reserve = most
    for note in notes.values():
        _log.warning("%s", note)
    return LangBotSettings(
        config=ModelConfig(model, context_limit_tokens=window, max_output_tokens=reserve or None),
        limit_result=LimitPolicy(given.get(RESULT_CHARS, MAX_CHARS)),
        max_iterations=given.get(ITERATIONS, MAX_ITERATIONS),
        notes=notes,
    )


def _numbers(settings: Mapping[str, Any]) -> dict[str, int]:
    if not is_object(settings):
        raise ConfigurationError(f"settings: expected a dict of LangBot's names, for example {{'{WINDOW}': 128000}}.")
    for name in settings:
        if name not in NAMES:
            raise ConfigurationError(_unknown(name))
    return {name: _whole(name, value) for name, value in settings.items() if value is not None}


def _unknown(name: object) -> str:
    near = difflib.get_close_matches(str(name).replace("_", "-").lower(), NAMES, n=1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(NAMES)}."
    shown = repr(name) if isinstance(name, str) and len(name) <= 64 else f"a {type(name).__name__}"
    return f"settings: {shown} is no setting of LangBot's context or tool loop. {hint}"


def _whole(name: str, value: Any) -> int:
    text = value.strip() if isinstance(value, str) else ""
    if text.isascii() and text.isdigit() and len(text) <= 12:
        value = int(text)
    unit = {ITERATIONS: "steps", RESULT_CHARS: "characters"}.get(name, "tokens")
    least = 0 if unit == "tokens" else 1
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigurationError(f"{name}: expected a whole number of {unit}, at least {least}, or text of digits.")
    return value
