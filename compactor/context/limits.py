"""How large a window and its input budget are, as a framework's own configuration states them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from compactor.budget import budget_for
from compactor.context import log
from compactor.exceptions import ConfigurationError
from compactor.json_values import is_object
from compactor.langbot import RESERVE, WINDOW, from_langbot
from compactor.model_config import ModelConfig

_MISSING: Final = (
    "context_limit is required but not provided for model '{model}'.\n"
    "Please configure context_limit in your LLM model configuration.\n"
    "Refer to the model provider's documentation for the current context window size.\n"
    "Unit: K tokens, for example 128 = 128K = 128,000 tokens."
)


def get_model_context_limit(model_name: str, llm_config: Any) -> int:
    """The model's window in tokens, from its configuration; none is ever guessed.

    Raises ConfigurationError (a ValueError), after logging it, when it is missing or no limit.
    """
    limit = read_llm_config(model_name, llm_config).limit
    log.limit_used(limit, model_name).emit()
    return limit


def calculate_max_tokens(model_limit: int, strategy: str = "balanced") -> int:
    """The input budget in tokens: 60, 75 or 85 % of the window; the rest is the answer's.

    Raises ConfigurationError.
    """
    return budget_for(ModelConfig("any", None, strategy, context_limit_tokens=model_limit), fixed=0).threshold


def read_llm_config(model_name: str, llm_config: Any, strategy: str | None = None) -> ModelConfig:
    """A framework's configuration as ours; a strategy named in the call goes before its own.

    Raises ConfigurationError, after logging it.
    """
    try:
        if isinstance(llm_config, ModelConfig):
            return llm_config if strategy is None else replace(llm_config, context_strategy=strategy)
        if llm_config is not None and not is_object(llm_config):
            raise ConfigurationError(
                f"llm_config: expected a mapping such as {{'context_limit': 128}}, found {type(llm_config).__name__}."
            )
        given = _with_ours(llm_config or {}, model_name)
        if given.get("context_limit") is None and given.get("context_limit_tokens") is None:
            raise ConfigurationError(_MISSING.format(model=log.one_line(str(model_name))))
        return ModelConfig(
            model_name,
            given.get("context_limit"),
            next(word for word in (strategy, given.get("context_strategy"), "balanced") if word is not None),
            context_limit_tokens=given.get("context_limit_tokens"),
            encoding=given.get("encoding"),
            max_output_tokens=given.get("max_output_tokens"),
        )
    except ConfigurationError as error:
        log.limit_refused(str(error), str(model_name)).emit()
        raise


def _with_ours(given: Mapping[str, Any], model_name: str) -> Mapping[str, Any]:
    """The configuration, its window and reserve also where LangBot's names hold them; ours go before."""
    ours = (given.get("context_limit"), given.get("context_limit_tokens"))
    if given.get(WINDOW) is None or ours != (None, None):
        return given
    read = from_langbot({name: given.get(name) for name in (WINDOW, RESERVE)}, model_name).config
    return {"max_output_tokens": read.max_output_tokens, **given, "context_limit_tokens": read.context_limit_tokens}
