"""read_overflow(): the window and the prompt's size that a refusal names, in whatever form it comes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor.provider_errors import Overflow, provider_error, read_overflow
from tests.unit.conversations import json_values
from tests.unit.test_provider_errors import OTHERS, OVERFLOWS

# Window and size that each of OVERFLOWS names.
NAMED = [
    (8_192, 10_230), (0, 0), (200_000, 205_000), (1_048_576, 1_200_000), (0, 0), (32_768, 40_000), (8_192, 9_000),
    (4_096, 5_000), (0, 0), (0, 0), (131_072, 537_812), (30_720, 0), (4_096, 0), (8_192, 0), (0, 0), (4_081, 0),
    (0, 0), (0, 0), (0, 0), (272_000, 0), (0, 0), (0, 0),
]  # fmt: skip
_IN_ALL = (
    "This model's maximum context length is 128000 tokens. However, you requested 131596 tokens "
    "(127500 in the messages, 4096 in the completion). Please reduce the length of the messages."
)
_OF_BOTH = (
    "Requested token count exceeds the model's maximum context length of 131072 tokens. You requested a total of "
    "140000 tokens: 120000 tokens from the input messages and 20000 tokens for the completion."
)
_TWO_LINES = "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300561 tokens."
MORE = [
    (_IN_ALL, (128_000, 131_596)),
    (_OF_BOTH, (131_072, 140_000)),
    (_TWO_LINES, (272_000, 300_561)),
    ("maximum context length is 16,385 tokens. However, your messages resulted in 17,012 tokens", (16_385, 17_012)),
    ("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input", (200_000, 0)),
    ("The number of input tokens (9000) exceeds the model context window of 8192", (8_192, 9_000)),
    ("request (9012 tokens) exceeds the available context size (8192 tokens), try increasing it", (8_192, 9_012)),
    ('{"error": {"type": "exceed_context_size_error", "n_prompt_tokens": 9012, "n_ctx": 8192}}', (8_192, 9_012)),
    ("The prompt is too long: 210000, model maximum context length: 131072", (131_072, 210_000)),
    ("Your input exceeds the context window of this model. Please adjust your input and try again.", (0, 0)),
    ("total tokens of image and text exceed max message tokens", (0, 0)),
]
WORDINGS = [*zip(OVERFLOWS, NAMED, strict=True), *MORE]


def refused(status: int, message: str, code: str | None = None) -> openai.APIStatusError:
    """The SDK's exception for an answer."""
    body = {"message": message, "type": "invalid_request_error", "code": code}
    request = httpx.Request("POST", "http://127.0.0.1/v1/chat/completions")
    response: Any = httpx.Response(status, request=request, json={"error": body})
    kind = openai.BadRequestError if status == 400 else openai.APIStatusError
    return kind(f"Error code: {status} - {{'error': {body}}}", response=response, body=body)


@pytest.mark.parametrize(("text", "named"), WORDINGS)
def test_window_and_size_are_read_from_every_wording(text: str, named: tuple[int, int]) -> None:
    expected = Overflow(*named)
    assert read_overflow(text) == expected
    assert read_overflow({"error": {"message": text}}) == expected
    assert read_overflow(Exception(text)) == expected
    assert read_overflow(refused(400, text)) == expected


def test_the_code_is_enough() -> None:
    assert read_overflow(refused(400, "no", "context_length_exceeded")) == Overflow()
    assert read_overflow(SimpleNamespace(code="context_length_exceeded")) == Overflow()
    assert read_overflow(refused(413, "<html>")) == Overflow()


@pytest.mark.parametrize("text", OTHERS)
def test_other_errors_are_none(text: str) -> None:
    assert read_overflow(text) is None
    assert read_overflow(refused(400, text)) is None


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refused_key_or_model_is_none_whatever_the_words(status: int) -> None:
    assert read_overflow(refused(status, OVERFLOWS[0])) is None


@pytest.mark.parametrize(
    "error",
    [None, 0, 7.5, True, [], object(), Exception(), KeyError("x"),
     SimpleNamespace(code=print, body=object(), message={1: {2}}), SimpleNamespace(status_code="413")],
)  # fmt: skip
def test_whatever_is_handed_in_is_read_without_an_error(error: object) -> None:
    assert read_overflow(error) is None


@given(st.one_of(json_values, st.text(), st.dictionaries(st.text(max_size=8), json_values, max_size=3)))
def test_any_json_is_read_without_an_error(error: Any) -> None:
    read_overflow(error)


def test_a_long_text_is_read_in_part() -> None:
    assert read_overflow("x" * 100_000 + OVERFLOWS[0]) is None


def test_a_summarizer_s_server_is_read_by_the_same_words() -> None:
    for text, _ in MORE:
        assert provider_error(400, text).code == "too_long"
