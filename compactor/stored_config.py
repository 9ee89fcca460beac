"""StoredConfig: a model config as a user keeps it, with the checks that come before anything is stored."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError, WithJsonSchema

from compactor.exceptions import ConfigDamagedError, ConfigurationError, InvalidConfigError
from compactor.json_values import is_object
from compactor.model_config import LARGEST_RECLAIM, LONGEST_TTL, ModelConfig, k_tokens
from compactor.records import ENCODINGS
from compactor.rules import MOST_KEPT, MOST_RULES, check_rules

LIMIT_IS_REQUIRED: Final = (
    "context_limit is required (unit: K tokens, e.g., 128 = 128K = 128,000 tokens). "
    "Please check your model provider's documentation for the current context window size "
    "and specify it in the configuration."
)
SHOWN_FROM: Final = 20  # characters an api_key must have before its mask shows four of them
MASK: Final = "…"
_READ_ONLY: Final = frozenset({"id", "user_id", "version", "created_at", "updated_at"})
_API_KEY: Final = re.compile(r"[\x21-\x7e]{1,4096}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_USER: Final = re.compile(r"[A-Za-z0-9._:@-]{1,100}")
_ID: Final = re.compile(r"cfg_[0-9a-f]{32}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")  # of a field: what may be repeated in an error
_SERVER: Final = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_PORTS: Final = {"http": 80, "https": 443}


def _line(value: Any) -> Any:
    """Text for people: on one line, not blank."""
    if isinstance(value, str) and (_CONTROL.search(value) or not value.strip()):
        raise ValueError("one line of text")
    return value


def _address(value: Any) -> Any:
    """An address of a model server, without anything that may be a credential."""
    if not isinstance(value, str):
        return value
    parts = urlsplit(value)
    port = parts.port  # raises ValueError
    if parts.scheme not in _PORTS or port == 0 or re.search(r"[^\x21-\x7e]|\\", value):
        raise ValueError("no http(s) address")
    # One reading for every client: what follows the key to a server must not go to another one.
    if not _SERVER.fullmatch(parts.netloc) or "?" in value or "#" in value:
        raise ValueError("no plain server, or credentials")
    return value


def _k_tokens(name: str) -> Callable[[Any], Any]:
    return lambda value: None if value is None else k_tokens(name, value)


def _api_key(value: Any) -> Any:
    if isinstance(value, str) and MASK in value:
        raise ConfigurationError("api_key: this is its masked form; leave api_key out to keep the stored one.")
    if isinstance(value, str) and not _API_KEY.fullmatch(value):
        raise ValueError("no key")
    return value


def _rules(value: Any) -> Any:
    return [] if value is None else [rule.as_json() for rule in check_rules(value)]


Line = Annotated[str, BeforeValidator(_line)]
Tokens = Annotated[int, Field(gt=0, le=20_000_000)]
_K_SCHEMA: Final = WithJsonSchema({
    "anyOf": [
        {"type": "integer", "minimum": 1, "maximum": 20_000},
        {"type": "string", "pattern": r"^[1-9][0-9]{0,3}[kK]?$"},
        {"type": "null"},
    ]
})  # fmt: skip

Reclaim = Annotated[
    float, Field(ge=0, le=LARGEST_RECLAIM, allow_inf_nan=False, description="Share of the room a compaction must free.")
]
CacheTtl = Annotated[
    float,
    Field(ge=1, le=LONGEST_TTL, allow_inf_nan=False, description="Seconds that the provider keeps a cached prompt."),
]
_PATTERN: Final = {"type": "string", "minLength": 1, "maxLength": 200}
RULES_SCHEMA: Final = WithJsonSchema({
    "type": "array",
    "maxItems": MOST_RULES,
    "description": "What compactions may do with the results of which tools; patterns know * and ?.",
    "items": {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "tool": {**_PATTERN, "default": "*"},
            "arguments": {"type": "object", "maxProperties": 8, "additionalProperties": _PATTERN},
            **{name: {"type": "boolean"} for name in ("never", "extract", "summarize", "keep_errors", "repeatable")},
            "keep_last": {"anyOf": [{"type": "integer", "minimum": 0, "maximum": MOST_KEPT}, {"type": "null"}]},
        },
    },
})  # fmt: skip


class ConfigFields(BaseModel):
    """What a user sets. `context_limit` and `compact_at` are in K tokens, the other sizes in tokens."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)

    name: Annotated[Line, Field(max_length=100)]
    model_type: Annotated[Line, Field(max_length=50)] = "text"
    is_default: bool = False
    provider: Annotated[Line, Field(max_length=100)]
    base_url: Annotated[str, Field(max_length=2000), BeforeValidator(_address)] | None = None
    model: Annotated[Line, Field(max_length=200)]
    temperature: Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)] | None = None
    api_key: Annotated[SecretStr, BeforeValidator(_api_key)] | None = None
    context_limit: Annotated[int | None, BeforeValidator(_k_tokens("context_limit")), _K_SCHEMA] = None
    context_limit_tokens: Tokens | None = None
    context_strategy: Literal["conservative", "balanced", "aggressive"] = "balanced"
    compact_at: Annotated[int | None, BeforeValidator(_k_tokens("compact_at")), _K_SCHEMA] = None
    max_output_tokens: Tokens | None = None
    encoding: Literal["cl100k_base", "o200k_base"] | None = None
    rules: Annotated[list[dict[str, Any]], BeforeValidator(_rules), RULES_SCHEMA] = Field(
        default_factory=list[dict[str, Any]]
    )
    min_reclaim: Reclaim | None = None
    cache_ttl: CacheTtl | None = None
    prefer_idle: bool = False

    @property
    def judged_by(self) -> ModelConfig:
        """What sessions are judged by. Raises ConfigurationError."""
        return ModelConfig(
            self.model,
            self.context_limit,
            self.context_strategy,
            self.context_limit_tokens,
            self.compact_at,
            self.encoding,
            self.max_output_tokens,
            self.rules,
            self.min_reclaim,
            self.cache_ttl,
            self.prefer_idle,
        )

    @property
    def server(self) -> str:
        """Where the api_key goes: scheme, host and port of the address, else the provider's own."""
        if self.base_url is None:
            return f"provider:{self.provider}"
        parts = urlsplit(self.base_url)
        return f"{parts.scheme}://{(parts.hostname or '').lower()}:{parts.port or _PORTS[parts.scheme]}"


FIELDS: Final = tuple(ConfigFields.model_fields)
_EXPECTED: Final = {
    "name": "expected 1-100 characters on one line, for example 'GPT-4o Configuration'",
    "model_type": "expected 1-50 characters on one line, for example 'text'",
    "is_default": "expected true or false",
    "provider": "expected 1-100 characters on one line, for example 'openai'",
    "base_url": "expected an http:// or https:// address of at most 2,000 characters without user, password, query "
    "and fragment, for example 'https://api.openai.com/v1'",
    "model": "expected the model's name, 1-200 characters on one line, for example 'gpt-4o'",
    "temperature": "expected a number from 0 to 2, for example 0.7",
    "api_key": "expected 1-4,096 printable ASCII characters without spaces and line ends",
    "context_limit_tokens": "expected a whole number of tokens from 1 to 20,000,000, for example 16385",
    "context_strategy": "expected one of conservative, balanced, aggressive; 'balanced' suits most chats",
    "max_output_tokens": "expected a whole number of tokens from 1 to 20,000,000, for example 4096",
    "encoding": f"expected one of {', '.join(ENCODINGS)}, or null to go by the model",
    "min_reclaim": f"expected a share of the room from 0 to {LARGEST_RECLAIM}, for example 0.1",
    "cache_ttl": f"expected seconds from 1 to {LONGEST_TTL}, for example 300",
    "prefer_idle": "expected true or false",
    "rules": f"expected a list of at most {MOST_RULES} rules by tool",
}


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """One config of one user; `version` counts its changes, `masked_key` is all that is shown of the api_key."""

    id: str
    user: str
    version: int
    created: datetime
    updated: datetime
    is_default: bool
    fields: ConfigFields
    masked_key: str | None

    @property
    def model_config(self) -> ModelConfig:
        """What sessions are judged by."""
        return self.fields.judged_by

    def as_json(self) -> dict[str, Any]:
        """The config as the service answers it."""
        own = {
            "id": self.id,
            "user_id": self.user,
            "version": self.version,
            "created_at": _timestamp(self.created),
            "updated_at": _timestamp(self.updated),
        }
        shown = {"is_default": self.is_default, "api_key": self.masked_key}
        return own | self.fields.model_dump() | shown

    @classmethod
    def read(
        cls, config_id: str, user: str, version: int, times_ms: tuple[int, int], body: bytes, *, is_default: bool
    ) -> Self:
        """A config out of what is stored. Raises ConfigDamagedError."""
        try:
            values: dict[str, Any] = json.loads(body)
            masked = values.pop("masked_key", None)
            # A newer release may have stored more.
            fields = ConfigFields.model_validate({name: values[name] for name in FIELDS if name in values})
            _ = fields.judged_by
            created, updated = (datetime.fromtimestamp(each / 1000, UTC) for each in times_ms)
        except (ValueError, TypeError, AttributeError, OverflowError, OSError):
            damaged = True
        else:
            return cls(config_id, user, version, created, updated, is_default, fields, masked)
        assert damaged
        raise unreadable(config_id)


def check_fields(values: Any) -> ConfigFields:
    """The fields, whole and right. Raises InvalidConfigError, which names each wrong one and shows no value."""
    if not is_object(values):
        raise _invalid([("", "expected a JSON object with name, provider, model and context_limit")])
    problems = _unknown(values)
    if values.get("context_limit") is None and values.get("context_limit_tokens") is None:
        problems.insert(0, ("context_limit", LIMIT_IS_REQUIRED))
    fields: ConfigFields | None = None
    try:
        fields = ConfigFields.model_validate({name: value for name, value in values.items() if name in FIELDS})
    except ValidationError as error:
        problems += [_problem(item) for item in error.errors(include_url=False, include_input=False)]
    if fields is not None and not problems:
        try:
            _ = fields.judged_by
        except ConfigurationError as error:
            problems.append(_split(str(error)))
        problems += _two_windows(fields)
    if fields is None or problems:  # raised out here, so that no error behind it holds the values
        raise _invalid(problems)
    return fields


def merged(fields: ConfigFields, patch: Any, *, is_default: bool) -> dict[str, Any]:
    """The stored fields with a merge patch on top (RFC 7396): null takes a field back to its default.

    Raises InvalidConfigError.
    """
    if not is_object(patch):
        raise _invalid([("", "expected a JSON object with the fields to change")])
    values = fields.model_dump(exclude={"api_key"}) | {"is_default": is_default} | dict(patch)
    return {name: value for name, value in values.items() if value is not None or name not in FIELDS}


def check_server(old: ConfigFields, new: ConfigFields) -> None:
    """Refuses to point a stored api_key at another server. Raises InvalidConfigError.

    Whoever may change the address could read the key there otherwise.
    """
    if new.server != old.server:
        raise _invalid([
            (
                "api_key",
                "must be given again (or null) when base_url, or without one provider, points to another server",
            )
        ])  # fmt: skip


def body_of(fields: ConfigFields, masked_key: str | None) -> bytes:
    """What is stored of the fields: everything but the api_key, and the default, which stands with the user."""
    values = fields.model_dump(exclude={"api_key", "is_default"})
    return json.dumps({**values, "masked_key": masked_key}, ensure_ascii=False, separators=(",", ":")).encode()


def mask(secret: SecretStr) -> str:
    """`sk-…abcd` for a long key, `…` for one that four characters would give away too much of."""
    value = secret.get_secret_value()
    if len(value) < SHOWN_FROM:
        return MASK
    prefix = re.match(r"[a-z]{2,4}[-_]", value)
    return f"{prefix[0] if prefix else ''}{MASK}{value[-4:]}"


def check_user(user: Any) -> str:
    """Raises ConfigurationError for what is no user id."""
    if not isinstance(user, str) or not _USER.fullmatch(user):
        raise ConfigurationError("user_id: expected 1-100 characters of A-Z a-z 0-9 . _ : @ - (for example 'user-42').")
    return user


def is_config_id(value: Any) -> bool:
    """Whether it has the form of a config's id."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def unreadable(config_id: str) -> ConfigDamagedError:
    """The error for a record that was changed from outside."""
    return ConfigDamagedError(f"config {config_id}: what is stored of it cannot be read. Delete it and store it again.")


def _two_windows(fields: ConfigFields) -> list[tuple[str, str]]:
    """An exact window that is not the one in K tokens: it would win, and a change of the other do nothing."""
    exact, rough = fields.context_limit_tokens, (fields.context_limit or 0) * 1_000
    if exact is None or not rough or abs(exact - rough) <= max(exact, rough) / 10:
        return []
    return [
        (
            "context_limit_tokens",
            f"{exact} tokens and context_limit {fields.context_limit}K are different windows; set both, or null one",
        )
    ]


def _unknown(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(_shown(name), _hint(name)) for name in values if name not in FIELDS]


def _shown(name: Any) -> str:
    """The name of an unknown field, when it is one: a value in its place is not repeated."""
    return name if isinstance(name, str) and _NAME.fullmatch(name) else "(a field)"


def _hint(name: Any) -> str:
    if name in _READ_ONLY:
        return "is set by the service; leave it out"
    near = get_close_matches(str(name)[:40].lower(), FIELDS, n=1)
    return f"is no field of a config; did you mean {near[0]}" if near else f"is no field; known are {', '.join(FIELDS)}"


def _problem(item: Any) -> tuple[str, str]:
    field, message = str(item["loc"][0]), str(item["msg"]).removeprefix("Value error, ")
    if item["type"] == "missing":
        return field, f"is required: {_EXPECTED[field]}"
    if message.startswith(f"{field}["):  # ours say in which of the list
        return field, message.removeprefix(field).removesuffix(".")
    own = message.startswith(f"{field}: ")  # ours say what was expected
    return _split(message) if own else (field, _EXPECTED[field])


def _split(message: str) -> tuple[str, str]:
    field, _, text = message.partition(": ")
    return field, text.removesuffix(".")


def _invalid(problems: list[tuple[str, str]]) -> InvalidConfigError:
    texts = [f"{field}: {text}." if field else f"{text}." for field, text in problems]
    missing = any(text == LIMIT_IS_REQUIRED for _, text in problems)  # said alone, word for word
    return InvalidConfigError(LIMIT_IS_REQUIRED if missing else " ".join(texts), problems)


def _timestamp(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
