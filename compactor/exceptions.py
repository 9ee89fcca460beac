"""Every error of Compactor, one tree.

    CompactorError
    ├── ConfigurationError         a setting, a model config or a session id is wrong (also ValueError)
    │   ├── VocabularyError        a token vocabulary is missing or damaged
    │   ├── TokenizerMissingError  tiktoken is not installed (also ImportError)
    │   └── InvalidConfigError     a model config cannot be stored; `.problems` names each wrong field
    ├── StoredConfigError          the config store cannot do what was asked
    │   ├── ConfigNotFoundError    the user has no config of this id, the session none bound (also LookupError)
    │   ├── ConfigVersionError     somebody changed the config meanwhile; `.current` is its version now
    │   ├── ConfigGoneError        the session is bound to a config that was deleted
    │   ├── ConfigsFullError       the user, or the tenant, has as many configs as one may have
    │   ├── ConfigKeysMissingError     no keyring is set: an api_key is not stored in plain text
    │   ├── ApiKeyUnreadableError  no key of the keyring opens this api_key
    │   └── ConfigDamagedError     what Redis holds of the config cannot be read
    ├── InvalidMessageError        a message cannot be stored (also ValueError)
    │   └── MessageTooLargeError   a message, or the session with it, is over its size limit
    │       └── TenantFullError    the sessions of the tenant together are at their size limit
    ├── SessionNotFoundError       the session holds nothing under this id (also LookupError)
    │   ├── RecallExpiredError     the session lives, but this original does not (any more)
    │   └── CompactionNotFoundError    the session has no applied compaction of this id
    ├── StoreUnavailableError      Redis did not answer, or refused
    │   └── SessionDamagedError    part of a session is missing in Redis, or unreadable
    │       └── SessionEvictedError    its parts disagree: one was evicted or deleted from outside
    ├── SchemaVersionError         a newer release wrote the session; this one must not write to it
    ├── SpendCapReached            the tenant's model calls of today are at their cap; extracts are written instead
    ├── DispatchError              the task could not be published to the broker
    ├── EmbeddedServerError        no server binary, or it did not start
    └── SummarizerError            the model gave no usable summary; `.code` names the reason
        ├── SummarizerTransient    may work later: retried
        │   └── SummarizerRateLimited, SummarizerTimeout, SummarizerUnreachable, SummarizerServerError,
        │       SummarizerBreakerOpen  the server failed several times in a row: not called for a while
        │       SummarizerThrottled  the quota per minute is used up, or the server asked all workers for a pause
        ├── SummarizerMisconfigured  wrong key, model or address: nothing works until it is set right
        │   └── SummarizerUnauthorized, SummarizerNotFound
        └── SummarizerPermanent    will not work for this text
            └── SummarizerRefused, SummarizerRequestRejected, SummarizerTooLong, SummarizerReplyRejected

Messages never contain conversation text, arguments or secrets: ids, numbers and codes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class CompactorError(Exception):
    """The root of every error this package raises on purpose."""


class ConfigurationError(CompactorError, ValueError):
    """A setting, a model config or a session id is wrong; the text says what was expected."""


class VocabularyError(ConfigurationError):
    """A token vocabulary is missing or damaged, so nothing can be counted."""


class TokenizerMissingError(ConfigurationError, ImportError):
    """tiktoken is not installed, so nothing can be counted; tokens are never guessed."""

    def __init__(self) -> None:
        super().__init__(
            "tiktoken is required for accurate token counting.\n"
            "Please install it with: pip install tiktoken>=0.8.0\n"
            "(0.13 or newer: older releases take minutes for long texts.)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


class InvalidConfigError(ConfigurationError):
    """A model config cannot be stored; `problems` holds (field, what was expected) for each wrong field."""

    def __init__(self, detail: str, problems: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(detail)
        self.problems = tuple(problems)


class StoredConfigError(CompactorError):
    """The config store cannot do what was asked; nothing was changed."""


class ConfigNotFoundError(StoredConfigError, LookupError):
    """The user has no config of this id, or the session is bound to none."""


class ConfigVersionError(StoredConfigError):
    """The config is not at the version that the caller expected; `current` is the one it has now."""

    def __init__(self, detail: str, current: int = 0) -> None:
        super().__init__(detail)
        self.current = current


class ConfigGoneError(StoredConfigError):
    """The session is bound to a config that was deleted; nothing else is guessed in its place."""


class ConfigsFullError(StoredConfigError):
    """The user, or the tenant, has as many configs as one may have."""


class ConfigKeysMissingError(StoredConfigError):
    """COMPACTOR_CONFIG_KEYS is not set, so no api_key can be stored or read."""


class ApiKeyUnreadableError(StoredConfigError):
    """No key of COMPACTOR_CONFIG_KEYS opens the stored api_key, or it was sealed for another config or server."""


class ConfigDamagedError(StoredConfigError):
    """What Redis holds of the config cannot be read; it was changed from outside."""


class InvalidMessageError(CompactorError, ValueError):
    """A message cannot be stored; nothing of the call was stored."""


class MessageTooLargeError(InvalidMessageError):
    """A message, or the session with it, is over its size limit (bytes); nothing was stored."""


class TenantFullError(MessageTooLargeError):
    """The sessions of one tenant hold as much (bytes) as COMPACTOR_MAX_TENANT_BYTES allows; nothing was stored."""


class SessionNotFoundError(CompactorError, LookupError):
    """No session with this id lives in Redis."""


class RecallExpiredError(SessionNotFoundError):
    """The session lives, but holds no message under this recall id."""


class CompactionNotFoundError(SessionNotFoundError):
    """The session lives, but no applied compaction of it has this id."""


class StoreUnavailableError(CompactorError):
    """Redis did not answer in time, or refused the command; the call can be repeated safely."""


class SessionDamagedError(StoreUnavailableError):
    """Part of the session is missing in Redis (most likely evicted for memory), or unreadable."""


class SchemaVersionError(CompactorError):
    """The session's state has a higher schema than this release knows; nothing was changed."""

    def __init__(
        self,
        detail: str = "session: written by a newer release of Compactor; nothing was changed. "
        "Upgrade this process first (see 'Upgrading' in docs/operating.md).",
    ) -> None:
        super().__init__(detail)


class SessionEvictedError(SessionDamagedError):
    """The parts of a session disagree: Redis evicted one, or somebody deleted it."""


class DispatchError(CompactorError):
    """The broker did not take the task; the claim was released and a later send tries again."""


class EmbeddedServerError(CompactorError):
    """The embedded server could not be found or started."""


class SpendCapReached(CompactorError):
    """What the model calls for one tenant may cost in a day is spent; no model was asked."""


OUT_OF_TIME = "deadline"  # the detail of a SummarizerTimeout that is our own deadline's, not the server's


def _again(kind: type[SummarizerError], detail: str, figures: tuple[float | None, int, int]) -> SummarizerError:
    """Builds an error anew: pickle would call the class with its finished text."""
    error = kind(detail)
    error.retry_after, error.spent_in, error.spent_out = figures
    return error


class SummarizerError(CompactorError):
    """The model gave no usable summary.

    `code` is a short fixed word, safe to show anywhere; `retry_after` is the pause in seconds that
    the server asked for, or None; `spent_in` and `spent_out` are the tokens that calls without a
    usable reply cost, as the server reports them.
    """

    code = "summarizer_error"

    def __init__(self, detail: str = "", *, retry_after: float | None = None) -> None:
        super().__init__(f"{self.code}: {detail}" if detail else self.code)
        self.detail = detail
        self.retry_after = retry_after
        self.spent_in = 0
        self.spent_out = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self.detail, (self.retry_after, self.spent_in, self.spent_out))


class SummarizerTransient(SummarizerError):
    """A failure that may be gone later."""

    code = "transient"


class SummarizerRateLimited(SummarizerTransient):
    """HTTP 429."""

    code = "rate_limited"


class SummarizerTimeout(SummarizerTransient):
    """No complete answer within the time left."""

    code = "timeout"


class SummarizerUnreachable(SummarizerTransient):
    """No connection to the model server."""

    code = "unreachable"


class SummarizerServerError(SummarizerTransient):
    """HTTP 5xx, or an answer that is not the API's JSON."""

    code = "server_error"


class SummarizerBreakerOpen(SummarizerTransient):
    """The model server failed several times in a row; it is not called until a pause is over."""

    code = "breaker_open"


class SummarizerThrottled(SummarizerTransient):
    """Not called: the quota of requests or tokens per minute is used up, or the server asked for a pause."""

    code = "throttled"


class SummarizerMisconfigured(SummarizerError):
    """The settings of the model server are wrong: every request fails until they are changed."""

    code = "misconfigured"


class SummarizerUnauthorized(SummarizerMisconfigured):
    """HTTP 401 or 403: the key is missing, wrong or not allowed."""

    code = "unauthorized"


class SummarizerNotFound(SummarizerMisconfigured):
    """HTTP 404: the model or the address does not exist."""

    code = "not_found"


class SummarizerPermanent(SummarizerError):
    """A failure that this text will meet again."""

    code = "permanent"


class SummarizerRequestRejected(SummarizerPermanent):
    """Another HTTP 4xx."""

    code = "request_rejected"


class SummarizerTooLong(SummarizerPermanent):
    """The text is over the model's window, also in smaller pieces."""

    code = "too_long"


class SummarizerRefused(SummarizerPermanent):
    """The model refused, or a content filter stopped it."""

    code = "refused"


class SummarizerReplyRejected(SummarizerPermanent):
    """The reply came, but failed a check; `reason` is the check's code."""

    code = "reply_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
