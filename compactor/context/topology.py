"""The system text of the context functions: the prompt with its topology and other variables, in one message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from compactor.exceptions import ConfigurationError
from compactor.json_values import is_object
from compactor.system_template import SystemTemplate

TOPOLOGY: Final = "topology_info"


def with_topology(system_prompt: str, topology: Any, others: Mapping[str, Any] | None) -> SystemTemplate:
    """The system text with its values; a topology without a place goes behind it, after a blank line.

    Raises ConfigurationError.
    """
    if not isinstance(system_prompt, str):
        raise ConfigurationError(f"system_prompt: expected text, found {type(system_prompt).__name__}.")
    if others is not None and not is_object(others):
        raise ConfigurationError("system_variables: expected a mapping of names to texts, for example {'user': 'Ada'}.")
    values = dict(others or {})
    known = not _is_nothing(topology)
    if known and TOPOLOGY in values:
        raise ConfigurationError(f"system_variables: {TOPOLOGY} is topology_context's already; leave one of them out.")
    has_place = TOPOLOGY in SystemTemplate(system_prompt).places
    if known or (has_place and TOPOLOGY not in values):
        values[TOPOLOGY] = topology if known else None
    text = system_prompt
    if known and not has_place:
        text = f"{system_prompt}\n\n{{{{{TOPOLOGY}}}}}" if system_prompt.strip() else f"{{{{{TOPOLOGY}}}}}"
    return SystemTemplate(text, values or None)


def _is_nothing(value: Any) -> bool:
    if isinstance(value, str):
        return not value.strip()
    return value is None or (isinstance(value, (list, tuple, dict)) and not value)
