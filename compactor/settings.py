"""Settings: everything the environment decides, read once at each entry point and passed down."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AliasChoices,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from compactor.exceptions import ConfigurationError
from compactor.json_values import is_array
from compactor.rules import Rule, check_rules
from compactor.server_url import Kind, kind_of

Seconds = Annotated[float, Field(gt=0, le=10 * 365 * 86_400, allow_inf_nan=False)]


class Settings(BaseSettings):
    """Frozen settings; each field is read from `COMPACTOR_<NAME>` or the alias named here.

    Times are seconds, sizes bytes. Raises ConfigurationError through `read_settings`.
    """

    model_config = SettingsConfigDict(
        env_prefix="COMPACTOR_",
        env_ignore_empty=True,
        frozen=True,
        extra="ignore",
        populate_by_name=True,
        hide_input_in_errors=True,
    )

    redis_url: SecretStr = Field(
        SecretStr("redis://127.0.0.1:6379/0"), validation_alias=AliasChoices("redis_url", "REDIS_URL")
    )
    broker_url: SecretStr | None = Field(
        None, validate_default=True, validation_alias=AliasChoices("broker_url", "CELERY_BROKER_URL")
    )
    namespace: str = "compactor"
    session_ttl: Seconds = 30 * 86_400.0
    max_message_bytes: int = Field(8 * 1024**2, gt=0)
    max_session_bytes: int = Field(256 * 1024**2, gt=0)
    max_tenant_bytes: int | None = Field(None, gt=0)
    connect_timeout: Seconds = 0.5
    read_timeout: Seconds = 1.0
    cache_bytes: int = Field(64 * 1024**2, ge=0)
    allow_eviction_policy: str | None = None
    config_keys: SecretStr | None = Field(
        None, description="keyring of stored api_keys, comma separated; the first one encrypts"
    )
    max_tenant_configs: int = Field(10_000, ge=1, description="stored model configs of one tenant, all users together")

    openai_api_key: SecretStr | None = Field(None, validation_alias=AliasChoices("openai_api_key", "OPENAI_API_KEY"))
    openai_base_url: str | None = Field(
        None, repr=False, validation_alias=AliasChoices("openai_base_url", "OPENAI_BASE_URL")
    )
    summarizer_model: str | None = None
    summarizer_context_limit: int = Field(32, gt=0, description="K tokens of the summarizer's own window")
    tenant_daily_dollars: Decimal | None = Field(
        None, gt=0, le=10**9, allow_inf_nan=False, description="what model calls for one tenant may cost in a day (UTC)"
    )
    tenant_daily_tokens: int | None = Field(
        None, ge=1, le=10**15, description="what they may read and write, for models without a price"
    )
    prices_file: Path | None = Field(None, description="own prices of models: JSON, dollars per million tokens")
    summarizer_rpm: int | None = Field(None, ge=1, description="requests to the model per minute, of all workers")
    summarizer_tpm: int | None = Field(None, ge=1, description="tokens to and from it per minute, of all workers")
    personal_placeholders: bool = Field(True, description="personal data goes to the model as placeholders")
    personal_patterns: Annotated[tuple[str, ...], NoDecode] = Field(
        (), repr=False, description="a JSON list of regular expressions for personal data of your own"
    )
    rules: Annotated[tuple[Rule, ...], NoDecode] = Field(
        (), description="a JSON list of rules by tool, asked before those of the bots"
    )
    shadow: Literal["off", "extracts", "model"] = Field(
        "off", description="compactions are drafted and recorded, and replace nothing"
    )
    call_connect_timeout: Seconds = 5.0
    call_timeout: Seconds = 30.0
    breaker_failures: int = Field(5, ge=1, description="failures of the model server in a row that open its breaker")
    breaker_pause: Seconds = 30.0
    compaction_deadline: Seconds = 60.0
    claim_lease: Seconds = 90.0
    queue_patience: Seconds = 900.0
    visibility_timeout: Seconds = 180.0
    stop_grace: Seconds = 90.0
    max_attempts: int = Field(3, ge=1)
    worker_concurrency: int = Field(32, ge=1)
    tenant_published: int = Field(32, ge=1, description="compactions of a tenant in the queue or under way at once")

    http_max_body_bytes: int = Field(16 * 1024**2, gt=0)
    http_request_timeout: Seconds = 60.0
    http_key_requests: int = Field(6_000, ge=1, description="requests per minute of one API key")
    http_tenant_requests: int = Field(12_000, ge=1, description="requests per minute of all keys of a tenant")
    http_tenant_concurrency: int = Field(32, ge=1, description="requests of a tenant under way at once, per process")

    @field_validator("namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,64}", value):
            raise ValueError("expected 1-64 of A-Z a-z 0-9 . _ -")
        return value

    @field_validator("broker_url")
    @classmethod
    def _broker(cls, value: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        url = value or info.data.get("redis_url")  # absent when it was wrong itself
        if url is not None and kind_of(url.get_secret_value()) is Kind.CLUSTER:
            raise ValueError(
                "a cluster cannot hold the queue, since Celery knows none; set CELERY_BROKER_URL to a Redis of its "
                "own, to Sentinels or to RabbitMQ"
            )
        return value

    @field_validator("personal_patterns", mode="before")
    @classmethod
    def _patterns(cls, value: Any) -> Any:
        try:
            listed: Any = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            listed = None
        if not is_array(listed) or not all(isinstance(pattern, str) for pattern in listed):
            raise ValueError("expected a JSON list of regular expressions")
        for order, pattern in enumerate(listed, 1):
            try:
                is_empty = re.fullmatch(pattern, "") is not None
            except re.error:
                raise ValueError(f"expression {order} cannot be read") from None
            if is_empty:
                raise ValueError(f"expression {order} matches an empty text")
        return tuple(listed)

    @field_validator("rules", mode="before")
    @classmethod
    def _rules(cls, value: Any) -> Any:
        try:
            listed: Any = json.loads(value) if isinstance(value, str) else value
        except ValueError:
            listed = None
        try:
            return check_rules(listed)
        except ConfigurationError as error:
            raise ValueError(str(error).removeprefix("rules: ")) from None

    @model_validator(mode="after")
    def _order(self) -> Self:
        order = {
            "call_connect_timeout": self.call_connect_timeout,
            "call_timeout": self.call_timeout,
            "compaction_deadline": self.compaction_deadline,
            "claim_lease": self.claim_lease,
            "visibility_timeout": self.visibility_timeout,
        }
        names = list(order)
        for shorter, longer in pairwise(names):
            if order[shorter] >= order[longer]:
                raise ValueError(f"{shorter} must be below {longer}: a step must end before the one around it does")
        if self.stop_grace <= self.compaction_deadline:
            raise ValueError("stop_grace must be above compaction_deadline, so that a stop lets a compaction end")
        return self

    @property
    def broker(self) -> str:
        """The broker's URL: CELERY_BROKER_URL, else the store's server."""
        return (self.broker_url or self.redis_url).get_secret_value()

    @property
    def has_model(self) -> bool:
        """Whether a model writes the summaries; without one, extracts do."""
        return self.summarizer_model is not None and (
            self.openai_api_key is not None or self.openai_base_url is not None
        )


def read_settings(**values: Any) -> Settings:
    """Settings from the environment, with `values` on top.

    Raises ConfigurationError naming each wrong setting; values are never shown.
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as error:
        wrong = "; ".join(
            f"{_place(item['loc'])}: {item['msg'].removeprefix('Value error, ')}" for item in error.errors()
        )
        raise ConfigurationError(f"settings: {wrong}. Set them in the environment as COMPACTOR_<NAME>.") from None


def _place(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "order of times"


def choose_settings(settings: Settings | None, redis_url: str | None, broker_url: str | None) -> Settings:
    """The settings given, else those of the environment with these addresses on top. Raises ConfigurationError."""
    return settings or read_settings(redis_url=redis_url, broker_url=broker_url)
