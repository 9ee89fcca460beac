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


_opened: list[ModelSummarizer] = []


def summarizer(url: str, **settings: Any) -> ModelSummarizer:
    """A summarizer on a server, with a key of its own; `close_all` closes it."""
    read = read_settings(openai_base_url=url, openai_api_key="test", summarizer_model="cheap", **settings)
    _opened.append(ModelSummarizer(read))
    return _opened[-1]


def close_all() -> None:
    """Closes every summarizer opened since the last time."""
    while _opened:
        _opened.pop().close()


def request(text: str = rows(0)) -> SummaryRequest:
    """A tool result as the plan hands it on."""
    size = count_text(text, ENCODE)
    body = min(340, size // 6 + 60)
    return SummaryRequest("grep", '{"query": "value_0"}', text, "Where are the values?", size, body)


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
