"""What requests on sessions hold. Messages pass as they are: the library checks each once, not pydantic too."""

from __future__ import annotations

import re
from collections import Counter
from typing import Annotated, Any, Final, Literal, Self

import orjson
from fastapi import Header, Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from compactor.json_values import is_array
from compactor.model_config import LARGEST, ModelConfig
from compactor.pins import LONGEST_PHRASE
from compactor.stored_config import RULES_SCHEMA, CacheTtl, Reclaim

LONGEST_WAIT: Final = 20.0  # seconds
MOST_MESSAGES: Final = 20_000  # of one request
MOST_FILLED: Final = 16 * 1024**2  # characters of a system text with its places filled
_PLACES: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")

_MESSAGE: Final[dict[str, Any]] = {
    "type": "object",
    "required": ["role"],
    "properties": {"role": {"enum": ["system", "developer", "user", "assistant", "tool", "function"]}},
    "additionalProperties": True,
}
_K: Final[dict[str, Any]] = {
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": LARGEST},
        {"type": "string", "pattern": "^[1-9][0-9]{0,3}[kK]?$"},
        {"type": "null"},
    ],
    "description": 'K tokens: 128 or "128K" for 128,000 tokens.',
    "default": None,
}
_TOKENS: Final[dict[str, Any]] = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None}
_CUT: Final[dict[str, Any]] = {
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "boolean"}, {"type": "null"}],
    "description": "Characters of a tool result that are stored, true for 8,000; the whole stays recallable.",
    "default": None,
}
_PLACE: Final[dict[str, Any]] = {
    "anyOf": [{"type": "string", "pattern": "^m[0-9]{1,15}$"}, {"type": "integer", "minimum": 0}],
    "description": "A recall id such as `m12`, or its number.",
}

_PIN: Final[dict[str, Any]] = {
    "anyOf": [{"type": "string", "minLength": 1, "maxLength": LONGEST_PHRASE}, {"type": "integer", "minimum": 0}],
    "description": "A recall id such as `m12`, its number, or a phrase.",
}

NAME_PATTERN: Final = "^[A-Za-z0-9._:@-]{1,150}$"
Name = Annotated[
    str,
    Path(pattern=NAME_PATTERN, min_length=1, max_length=150, description="1-150 of `A-Z a-z 0-9 . _ : @ -`."),
]
RecallId = Annotated[
    str,
    Path(
        pattern=r"^m[0-9]{1,15}(\.[1-9][0-9]{0,5}|-m?[0-9]{1,15})?$",
        description="A recall id such as `m12`; `m12.1` is the first call of that message; "
        "of a run such as `m12-48` the answer is a list.",
    ),
]
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        description="Names this push: a repeat within 8 hours stores nothing and gets the first answer.",
    ),
]

ConfigId = Annotated[str, Field(pattern="^[A-Za-z0-9_-]{1,100}$")]


def _some(messages: Any) -> Any:
    if is_array(messages) and len(messages) > MOST_MESSAGES:
        raise ValueError(f"expected at most {MOST_MESSAGES:,} messages at once")
    return messages


_LIST: Final[dict[str, Any]] = {"type": "array", "items": _MESSAGE, "maxItems": MOST_MESSAGES}
Messages = Annotated[Any, AfterValidator(_some), WithJsonSchema(_LIST)]
OneOrMore = Annotated[Any, AfterValidator(_some), WithJsonSchema({"anyOf": [_MESSAGE, _LIST]})]
Objects = Annotated[list[Any], WithJsonSchema({"type": "array", "items": {"type": "object"}})]
Wait = Annotated[float, Field(ge=0, le=LONGEST_WAIT, allow_inf_nan=False, description="Seconds.")]
Tokens = Annotated[Any, WithJsonSchema(_TOKENS)]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class InlineConfig(_Body):
    """What the session is judged by: the model, its window, and the strategy that guards it."""

    model: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S")]
    context_limit: Annotated[Any, WithJsonSchema(_K)] = None
    context_strategy: Literal["conservative", "balanced", "aggressive"] = "balanced"
    context_limit_tokens: Tokens = None
    compact_at: Annotated[Any, WithJsonSchema(_K)] = None
    encoding: Literal["cl100k_base", "o200k_base"] | None = None
    max_output_tokens: Tokens = None
    rules: Annotated[list[Any], RULES_SCHEMA] = Field(default_factory=list[Any])
    min_reclaim: Reclaim | None = None
    cache_ttl: CacheTtl | None = None
    prefer_idle: bool = False

    def read(self) -> ModelConfig:
        """The model config. Raises ConfigurationError, which says what was expected."""
        return ModelConfig(**dict(self))


class Configured(_Body):
    """A request that is judged by a model: by `config`, else `config_id`, else what the session is bound to."""

    config: InlineConfig | None = None
    config_id: ConfigId | None = None


class PushBody(Configured):
    """One message or a list of them."""

    messages: OneOrMore
    limit_result: Annotated[Any, WithJsonSchema(_CUT)] = None


class EstimateBody(Configured):
    """What stands beside the history in the model call."""

    tools: Objects | None = None
    system: str | None = None
    variables: Annotated[dict[str, Any], Field(description="Fill the `{{name}}` places of `system`, once.")] | None = (
        None
    )
    response_format: dict[str, Any] | None = None
    max_output_tokens: Tokens = None

    @model_validator(mode="after")
    def _short_enough(self) -> Self:
        """A short text may name a long value many times."""
        if self.system is None or not self.variables:
            return self
        times = Counter(_PLACES.findall(self.system))
        sizes = {name: len(orjson.dumps(value)) for name, value in self.variables.items() if times[name]}
        if sum(times[name] * size for name, size in sizes.items()) > MOST_FILLED:
            raise ValueError(f"variables: expected a system text of at most {MOST_FILLED:,} characters when filled")
        return self


class PrepareBody(EstimateBody):
    """The model call to prepare; `messages` is the caller's own list of the whole conversation, if it keeps one.

    `extra` messages follow the history in this send alone; `tool_text` writes calls and results as text;
    with `keep_rows` no message is left out.
    """

    messages: Messages = None
    extra: Messages = None
    tool_text: bool = False
    wait: Wait = 0.0
    wait_for: Literal["fit", "swap"] = "fit"
    repair: bool | None = None
    keep_rows: bool = False


class SyncBody(Configured):
    """The caller's own list of the whole conversation."""

    messages: Messages


class RecallToolBody(Configured):
    """The arguments of the model's call: its JSON text, or what that says."""

    arguments: str | dict[str, Any]


class CompactBody(Configured):
    """How long to wait for the outcome."""

    wait: Wait = 0.0


class UndoBody(Configured):
    """The compaction to undo; without an id, the last one that still stands."""

    compaction_id: Annotated[str, Field(min_length=1, max_length=100)] | None = None


class PinBody(Configured):
    """A message, by its recall id or number, or a phrase."""

    what: Annotated[Any, WithJsonSchema(_PIN)]


class ReleaseBody(Configured):
    """Recall ids, pinned phrases, or the id of an undone compaction."""

    what: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=LONGEST_PHRASE)]], Field(min_length=1, max_length=1_000)
    ]


class RewindBody(Configured):
    """The message that becomes the last one."""

    position: Annotated[Any, WithJsonSchema(_PLACE)]


class ForkBody(Configured):
    """The name of the copy, and the message it ends with."""

    new_name: Annotated[str, Field(pattern=NAME_PATTERN)]
    at: Annotated[Any, WithJsonSchema({"anyOf": [*_PLACE["anyOf"], {"type": "null"}], "default": None})] = None
