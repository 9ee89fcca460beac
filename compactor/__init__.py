"""Compactor keeps the memory of chat bots and agents inside their model's context window."""

from compactor.async_client import AsyncCompactor, AsyncSession
from compactor.client import Compactor, Session
from compactor.exceptions import (
    CompactionNotFoundError,
    CompactorError,
    ConfigurationError,
    DispatchError,
    EmbeddedServerError,
    InvalidMessageError,
    MessageTooLargeError,
    RecallExpiredError,
    SchemaVersionError,
    SessionDamagedError,
    SessionEvictedError,
    SessionNotFoundError,
    StoreUnavailableError,
    SummarizerError,
    TenantFullError,
    TokenizerMissingError,
    VocabularyError,
)
from compactor.message_list import compact_messages
from compactor.model_config import ModelConfig
from compactor.models import Code, Compacted, Context, Erased, Fit, Outcome, Pinned, Pins, Receipt, Status, Verdict
from compactor.rules import Rule
from compactor.session_context import AsyncSessionContext, SessionContext
from compactor.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "AsyncCompactor",
    "AsyncSession",
    "AsyncSessionContext",
    "Code",
    "Compacted",
    "CompactionNotFoundError",
    "Compactor",
    "CompactorError",
    "ConfigurationError",
    "Context",
    "DispatchError",
    "EmbeddedServerError",
    "Erased",
    "Fit",
    "InvalidMessageError",
    "MessageTooLargeError",
    "ModelConfig",
    "Outcome",
    "Pinned",
    "Pins",
    "RecallExpiredError",
    "Receipt",
    "Rule",
    "SchemaVersionError",
    "Session",
    "SessionContext",
    "SessionDamagedError",
    "SessionEvictedError",
    "SessionNotFoundError",
    "Settings",
    "Status",
    "StoreUnavailableError",
    "SummarizerError",
    "TenantFullError",
    "TokenizerMissingError",
    "Verdict",
    "VocabularyError",
    "compact_messages",
]
