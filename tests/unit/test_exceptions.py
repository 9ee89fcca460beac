"""The error tree: what callers catch, and what no error may show."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from compactor import exceptions
from compactor.exceptions import (
    CompactorError,
    ConfigurationError,
    InvalidMessageError,
    MessageTooLargeError,
    RecallExpiredError,
    SessionDamagedError,
    SessionNotFoundError,
    StoreUnavailableError,
    SummarizerError,
    SummarizerMisconfigured,
    SummarizerPermanent,
    SummarizerRateLimited,
    SummarizerReplyRejected,
    SummarizerServerError,
    SummarizerTransient,
    VocabularyError,
)

ERRORS = [
    value
    for value in vars(exceptions).values()
    if isinstance(value, type) and issubclass(value, Exception) and value.__module__ == exceptions.__name__
]
SUMMARIZER_ERRORS = [error for error in ERRORS if issubclass(error, SummarizerError)]


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_is_caught_as_a_compactor_error(error: type[Exception]) -> None:
    assert issubclass(error, CompactorError)


@pytest.mark.parametrize("error", ERRORS)
def test_every_error_stands_in_the_drawn_tree(error: type[Exception]) -> None:
    assert exceptions.__doc__ is not None
    assert error.__name__ in exceptions.__doc__


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (ConfigurationError, ValueError),
        (InvalidMessageError, ValueError),
        (MessageTooLargeError, InvalidMessageError),
        (SessionNotFoundError, LookupError),
        (RecallExpiredError, SessionNotFoundError),
        (SessionDamagedError, StoreUnavailableError),
        (VocabularyError, ConfigurationError),
    ],
)
def test_errors_are_also_what_python_users_expect(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, builtin)


def test_each_reason_of_the_summarizer_has_its_own_code() -> None:
    codes = [error.code for error in SUMMARIZER_ERRORS]
    assert len(set(codes)) == len(codes)


def test_each_reason_is_either_transient_misconfigured_or_permanent() -> None:
    families = (SummarizerTransient, SummarizerMisconfigured, SummarizerPermanent)
    for error in SUMMARIZER_ERRORS:
        if error is not SummarizerError:
            assert sum(issubclass(error, family) for family in families) == 1


def test_a_reason_says_its_code_and_its_detail() -> None:
    assert str(SummarizerRateLimited()) == "rate_limited"
    assert str(SummarizerServerError("502")) == "server_error: 502"
    assert str(SummarizerReplyRejected("empty")) == "reply_rejected: empty"


def test_a_reason_keeps_the_pause_the_server_asked_for() -> None:
    assert SummarizerRateLimited(retry_after=2.5).retry_after == 2.5
    assert SummarizerRateLimited().retry_after is None


@pytest.mark.parametrize(
    "error", [SummarizerRateLimited(retry_after=3.0), SummarizerServerError("500"), SummarizerReplyRejected("empty")]
)
def test_a_reason_survives_a_pickle(error: SummarizerError) -> None:
    back: Any = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))
