"""Asking a model server for summaries past the worker: one summarizer, one result, its answer."""

from __future__ import annotations

import time
from typing import Any

from compactor.encodings import encoder
from compactor.exceptions import SummarizerError
from compactor.prompts import Summary, SummaryRequest
from compactor.settings import read_settings
from compactor.summarizer import ModelSummarizer
from compactor.tokens import count_text
from tests.integration.conversations import rows

ENCODE = encoder("o200k_base")


def summarizer(url: str, **settings: Any) -> ModelSummarizer:
    """A summarizer on a server, with a key of its own."""
    return ModelSummarizer(
        read_settings(openai_base_url=url, openai_api_key="test", summarizer_model="cheap", **settings)
    )


def request(text: str = rows(0), **fields: Any) -> SummaryRequest:
    """A tool result as the plan hands it on."""
    size = count_text(text, ENCODE)
    given = {"tool": "grep", "arguments": '{"query": "value_0"}', "goal": "Where are the values?"}
    return SummaryRequest(**{**given, "text": text, "tokens": size, "body_tokens": min(340, size // 6 + 60), **fields})


def ask(model: ModelSummarizer, *requests: SummaryRequest, seconds: float = 20.0) -> list[Summary | SummarizerError]:
    """The answers to requests, all at once."""
    told: dict[int, Summary | SummarizerError] = {}
    answers = model(
        requests, encode=ENCODE, deadline=time.monotonic() + seconds, done=lambda at, answer: told.update({at: answer})
    )
    assert [told[at] for at in range(len(requests))] == answers
    return answers


def answer(model: ModelSummarizer, text: str = rows(0), **given: Any) -> Summary | SummarizerError:
    """The answer for one result."""
    return ask(model, request(text), **given)[0]


def fenced(body: dict[str, Any]) -> str:
    """The tool result in a request, found between its marks."""
    prompt = body["messages"][1]["content"]
    mark = next(line for line in prompt.splitlines() if line.startswith("=== ") and line.endswith(" ==="))
    return str(prompt.split(f"{mark}\n", 1)[1].rsplit(f"\n{mark}", 1)[0])
