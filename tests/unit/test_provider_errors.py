"""provider_error(): one class of ours for each thing that servers mean, however they word it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.exceptions import (
    SummarizerError,
    SummarizerNotFound,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerRequestRejected,
    SummarizerServerError,
    SummarizerTimeout,
    SummarizerTooLong,
    SummarizerUnauthorized,
)
from compactor.provider_errors import is_about_output, is_too_long, provider_error, retry_after

NOW = datetime(2031, 4, 9, 12, 0, tzinfo=UTC)

# As servers word that a prompt is over the model's window.
OVERFLOWS = [
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 10230 tokens.",
    '{"error": {"message": "no", "code": "context_length_exceeded"}}',
    "prompt is too long: 205000 tokens > 200000 maximum",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    '{"type": "exceed_context_size_error", "message": "the request exceeds the available context size"}',
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "The decoder prompt (length 9000) is longer than the maximum model length of 8192.",
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 inputs tokens",
    "Input is too long for requested model.",
    "Please reduce the length of the messages or completion.",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Range of input length should be [1, 30720]",
    "the model is loaded with context length of only 4096 tokens",
    "Your request exceeded model token limit: 8192",
    "invalid params, context window exceeds limit (2013)",
    "too many tokens: total number of tokens in the prompt cannot exceed 4081",
    "the input length exceeds the context length",
    "litellm.ContextWindowExceededError: AnthropicException",
    "Request too large for gpt-4o on tokens per min (TPM): Limit 30000, Requested 41234.",
    "Input tokens exceed the configured limit of 272000 tokens.",
    "Prompt 超长",
    "输入内容超出模型的最大长度",
]
# The same words in errors that smaller pieces do not mend.
OTHERS = [
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    "max_tokens is too large: 5000. This model supports at most 4096 completion tokens, whereas you provided 5000.",
    "Unrecognized request argument supplied: reasoning_effort",
    "Invalid value for 'content': expected a string, got null.",
    "Rate limit reached for gpt-4o in organization org-x on requests per min (RPM): Limit 500, Used 500.",
    "The server had an error while processing your request. Sorry about that!",
    "Invalid API key provided",
    "response_format of type json_object requires the word json in the messages",
]


@pytest.mark.parametrize("status", [400, 413, 422, 429, 500, 503])
@pytest.mark.parametrize("text", OVERFLOWS)
def test_a_prompt_over_the_window_is_told_from_the_words_whatever_the_status(text: str, status: int) -> None:
    assert is_too_long(text)
    assert isinstance(provider_error(status, text), SummarizerTooLong)


@pytest.mark.parametrize("text", OTHERS)
def test_other_errors_are_not_taken_for_one(text: str) -> None:
    assert not is_too_long(text)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_wrong_key_or_model_stays_one_whatever_the_words(status: int) -> None:
    kind = SummarizerNotFound if status == 404 else SummarizerUnauthorized
    assert isinstance(provider_error(status, OVERFLOWS[0]), kind)


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [
        (400, "no", SummarizerRequestRejected),
        (400, '{"code": "content_filter"}', SummarizerRefused),
        (400, "The response was filtered due to Azure OpenAI's content management policy", SummarizerRefused),
        (400, '{"innererror": {"code": "ResponsibleAIPolicyViolation"}}', SummarizerRefused),
        (401, "", SummarizerUnauthorized),
        (403, "<html>", SummarizerUnauthorized),
        (404, "", SummarizerNotFound),
        (408, "", SummarizerTimeout),
        (409, "", SummarizerRequestRejected),
        (413, "", SummarizerTooLong),
        (422, "no", SummarizerRequestRejected),
        (429, "", SummarizerRateLimited),
        (500, "", SummarizerServerError),
        (529, "overloaded", SummarizerServerError),
    ],
)
def test_a_status_has_its_class(status: int, text: str, kind: type[SummarizerError]) -> None:
    error = provider_error(status, text)
    assert type(error) is kind
    assert "<html>" not in str(error)


@given(st.integers(400, 599), st.text(max_size=300), st.one_of(st.none(), st.floats(0.1, 600)))
def test_any_error_has_a_class_and_its_text_is_never_repeated(status: int, text: str, wait: float | None) -> None:
    error = provider_error(status, text, retry_after=wait)
    assert error.code
    assert error.detail in ("", str(status), "content_filter")
    assert error.retry_after in (None, wait)


def test_a_long_error_body_is_read_in_part() -> None:
    assert not is_too_long("x" * 1_000_000 + OVERFLOWS[0])


def test_what_names_the_output_is_told_apart() -> None:
    assert [is_about_output(text) for text in OTHERS].count(True) == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "2"}, 1.5),
        ({"retry-after": format_datetime(NOW + timedelta(seconds=30), usegmt=True)}, 30.0),
        ({"retry-after": "Wed, 09 Apr 2031 12:01:00 -0000"}, 60.0),
        ({"retry-after": "86400"}, 600.0),
        ({"retry-after": format_datetime(NOW + timedelta(days=2), usegmt=True)}, 600.0),
        ({"retry-after": format_datetime(NOW - timedelta(seconds=5), usegmt=True)}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "0"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Wed, 09 Apr 99999 12:01:00 GMT"}, None),
        ({}, None),
    ],
)
def test_the_pause_that_a_server_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, now=NOW.timestamp()) == seconds


@given(st.text(max_size=40))
def test_any_header_is_read_without_an_error(value: str) -> None:
    found = retry_after({"retry-after": value}, now=NOW.timestamp())
    assert found is None or 0 < found <= 600
