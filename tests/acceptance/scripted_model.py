"""A cheap model over HTTP whose manners follow a word in the text that it is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from compactor.testing import Answer, ModelServer, completion, summary
from tests.integration.conversations import SYSTEM, assistant, call, result, rows, user

HTML = Answer(b"<html><body>Sign in to the hotel network</body></html>", content_type="text/html")


def manners(name: str) -> str:
    """A line that makes the model behave as named, when it stands in a tool result."""
    return f"manners: {name};"


def failing(status: int, code: str = "", **headers: str) -> Answer:
    """An error as OpenAI words it."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer({"error": {"message": f"no ({status})", "type": "x", "code": code}}, status=status, headers=names)


def rejecting(parameter: str) -> Callable[[dict[str, Any]], Answer]:
    """Refuses requests that carry a parameter, naming it."""

    def answer(body: dict[str, Any]) -> Answer:
        if parameter not in body:
            return summary()
        error = {
            "message": f"Unsupported parameter: '{parameter}'",
            "param": parameter,
            "code": "unsupported_parameter",
        }
        return Answer({"error": error}, status=400)

    return answer


MANNERS: dict[str, Answer | Callable[[dict[str, Any]], Answer]] = {
    "well": summary(),
    "unhurried": replace(summary(), delay=0.4),
    "slow-but-fine": replace(summary(), delay=1.5),
    "unauthorized": failing(401, "invalid_api_key"),
    "forbidden": failing(403),
    "not-found": failing(404, "model_not_found"),
    "rate-limited": failing(429, "rate_limit_exceeded", retry_after="1"),
    "server-error": failing(500),
    "html": HTML,
    "empty": completion(""),
    "null": completion(None),
    "no-choices": Answer({"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": []}),
    "refuses": completion(None, refusal="I cannot."),
    "calls-a-tool": completion(None, finish_reason="tool_calls", tool_calls=[]),
    "cut-off": completion("The tool ret", finish_reason="length"),
    "slow": replace(summary(), delay=2.6),
    "wants-max_tokens": rejecting("max_completion_tokens"),
    "wants-no-response_format": rejecting("response_format"),
    "wants-no-temperature": rejecting("temperature"),
}


def asked(body: dict[str, Any]) -> str:
    """The text of one request."""
    return str(body["messages"][1]["content"])


def answer(body: dict[str, Any]) -> Answer:
    """The answer that the manners in the text ask for; a good summary when they ask for nothing."""
    text = asked(body)
    named = text.partition("manners: ")[2].partition(";")[0]
    found = MANNERS.get(named, summary())
    return found if isinstance(found, Answer) else found(body)


def scripted_model() -> ModelServer:
    """A server with these manners; to be entered."""
    return ModelServer(answer)


def requests_with(model: ModelServer, text: str) -> list[dict[str, Any]]:
    """The requests received whose text holds `text`."""
    return [body for body in list(model.requests) if text in asked(body)]


def long_talk(steps: int, behaviour: str, mark: str) -> list[dict[str, Any]]:
    """A question, that many calls whose results carry the model's manners and a mark, an answer.

    Under SMALL 7 steps stand between threshold and ceiling, 9 above it.
    """
    middle = [
        message
        for order in range(steps)
        for message in (call(order), result(order, f"{manners(behaviour)} {mark}-{order}\n{rows(order)}"))
    ]
    return [SYSTEM, user("Where are the values?"), *middle, assistant("In src.")]
