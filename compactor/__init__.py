"""Compactor keeps the memory of chat bots and agents inside their model's context window."""

from compactor.client import AsyncCompactor, AsyncSession, Compactor, Session
from compactor.exceptions import (
    CompactorError,
    ConfigurationError,
    DispatchError,
    EmbeddedServerError,
    InvalidMessageError,
    MessageTooLargeError,
    RecallExpiredError,
    SessionDamagedError,
    SessionNotFoundError,
    StoreUnavailableError,
    SummarizerError,
    VocabularyError,
)
from compactor.message_list import compact_messages
from compactor.model_config import ModelConfig
from compactor.models import Code, Compacted, Context, Fit, Outcome, Receipt, Status, Verdict
from compactor.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "AsyncCompactor",
    "AsyncSession",
    "Code",
    "Compacted",
    "Compactor",
    "CompactorError",
    "ConfigurationError",
    "Context",
    "DispatchError",
    "EmbeddedServerError",
    "Fit",
    "InvalidMessageError",
    "MessageTooLargeError",
    "ModelConfig",
    "Outcome",
    "RecallExpiredError",
    "Receipt",
    "Session",
    "SessionDamagedError",
    "SessionNotFoundError",
    "Settings",
    "Status",
    "StoreUnavailableError",
    "SummarizerError",
    "Verdict",
    "VocabularyError",
    "compact_messages",
]
