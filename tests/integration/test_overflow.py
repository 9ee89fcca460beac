"""report_overflow(): a refused call is followed by a list that the same provider takes, and what it taught holds."""

from __future__ import annotations

import contextlib
import copy
import pickle
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from compactor import Code, ConfigurationError, Context, Fit, ModelConfig
from compactor.embedded import EmbeddedServer
from compactor.session_context import SessionContext
from compactor.settings import Settings
from compactor.testing import Answer, ModelServer, completion
from tests.integration.clients import Client, Connect, SessionClient
from tests.integration.conversations import conversation, recount, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.snapshot import everything

NAME = "overflow/session"
CONFIG = ModelConfig("gpt-4o", 16)  # what the operator believes: threshold 12,000, ceiling 14,000 tokens
TALK = [*conversation(14), user("And now?")]
SIZED = "This model's maximum context length is {window} tokens. However, your messages resulted in {size} tokens."
WINDOWED = "the model is loaded with context length of only {window} tokens"
WORDLESS = "Input is too long for requested model."
Create = Callable[[list[Any]], Any]


@dataclass
class Provider:
    """Counts a prompt as `hidden` + `slope` x our count, and refuses it above its window."""

    window: int
    wording: str
    hidden: int = 0
    slope: float = 1.0
    code: str | None = None

    def answer(self, body: dict[str, Any]) -> Answer:
        size = self.hidden + int(self.slope * (recount(body["messages"]) + 3))
        if size <= self.window:
            return completion("Done.", tokens=(size, 1))
        said = self.wording.format(window=self.window, size=size)
        return Answer({"error": {"message": said, "type": "invalid_request_error", "code": self.code}}, status=400)


@contextlib.contextmanager
def serving(answer: Callable[[dict[str, Any]], Answer]) -> Generator[Create]:
    """The real SDK in front of a real HTTP server; yields the call that sends a list."""
    with ModelServer(answer) as server, openai.OpenAI(base_url=server.url, api_key="key", max_retries=0) as client:
        yield lambda messages: client.chat.completions.create(model="gpt-4o", messages=messages)


def sent(create: Create, context: SessionContext) -> tuple[SessionContext, int]:
    """Sends as a bot does; answers the context that was taken, and how often the provider refused."""
    for refusals in range(6):
        try:
            reply = create(context.messages)
        except openai.BadRequestError as error:
            context = context.report_overflow(error)
        else:
            assert context.report_usage(reply.usage)
            return context, refusals
    raise AssertionError("the provider never took the list")


@pytest.fixture
def session(memory: Client) -> SessionClient:
    opened = memory.session(NAME, CONFIG)
    opened.push(TALK)
    return opened


@pytest.mark.parametrize(
    ("provider", "most"),
    [
        (Provider(8_192, SIZED), 1),
        (Provider(8_192, WINDOWED), 1),
        (Provider(8_192, WORDLESS), 3),
        (Provider(8_192, "no", code="context_length_exceeded"), 3),
        (Provider(16_000, SIZED, hidden=3_000, slope=1.3), 2),
        (Provider(16_000, WORDLESS, hidden=3_000, slope=1.3), 3),
        (Provider(8_192, SIZED, hidden=2_000, slope=1.4), 2),
        (Provider(8_192, WORDLESS, hidden=2_000, slope=1.4), 4),
        (Provider(4_096, "tokens + `max_new_tokens` must be <= {window}. Given: {size} inputs tokens", slope=1.2), 2),
    ],
    ids=str,
)
def test_after_a_refusal_the_provider_takes_the_next_list(
    connect: Connect, settings: Settings, session: SessionClient, provider: Provider, most: int
) -> None:
    with serving(provider.answer) as create:
        taken, refusals = sent(create, session.prepare())
        assert 1 <= refusals <= most
        assert taken.verdict.fit is Fit.SHORTENED
        assert taken.verdict.compaction == "queued"
        assert taken.messages[-1] == TALK[-1]
        assert session.originals() == TALK
        for later in (session, connect(settings).session(NAME, CONFIG)):
            assert sent(create, later.prepare())[1] == 0


def test_a_window_that_was_named_is_the_limit_from_then_on_in_every_process(
    connect: Connect, settings: Settings, session: SessionClient, worker: InlineWorker
) -> None:
    other = connect(settings).session(NAME, CONFIG)
    assert other.prepare().verdict.limit == 16_000
    with serving(Provider(8_192, SIZED).answer) as create:
        sent(create, session.prepare())
        for verdict in (session.estimate(), session.prepare().verdict, other.prepare().verdict, other.estimate()):
            assert (verdict.limit, verdict.threshold, verdict.ceiling) == (8_192, 6_144, 7_168)
            assert verdict.counted_by == "anchor"
        outcome = worker.work(NAME).outcome
        assert (outcome.outcome, outcome.reached) == (Code.APPLIED, True)
        taken, refusals = sent(create, other.prepare())
        assert (taken.verdict.fit, refusals) == (Fit.FITS, 0)
        assert taken.verdict.expected < 6_144
        assert session.originals() == TALK


def test_the_same_refusal_told_again_teaches_nothing_new(session: SessionClient) -> None:
    for error in (WORDLESS, WINDOWED.format(window=8_192), SIZED.format(window=4_096, size=15_000)):
        context = session.prepare()
        first = context.report_overflow(error)
        again = context.report_overflow(error)
        assert (again.messages, again.verdict.expected) == (first.messages, first.verdict.expected)
        assert first.verdict.expected > first.verdict.limit


def test_a_context_that_was_copied_or_pickled_is_a_plain_one(session: SessionClient) -> None:
    context = session.prepare(system="Help.")
    for plain in (copy.copy(context), copy.deepcopy(context), pickle.loads(pickle.dumps(context))):
        assert type(plain) is Context
        assert (plain.messages, plain.verdict, plain.system) == (context.messages, context.verdict, "Help.")


def test_it_holds_for_a_callers_own_list_and_for_tool_text(memory: Client) -> None:
    arguments_of: dict[str, dict[str, Any]] = {
        "list": {"messages": TALK[1:], "system": "Help."},
        "text": {"tool_text": True},
    }
    with serving(Provider(8_192, SIZED).answer) as create:
        for name, arguments in arguments_of.items():
            session = memory.session(f"overflow/{name}", CONFIG)
            if name == "text":
                session.push(TALK)
            taken, refusals = sent(create, session.prepare(**arguments))
            assert (refusals, taken.messages[-1]) == (1, TALK[-1])
            assert sent(create, session.prepare(**arguments))[1] == 0


def test_without_redis_the_list_is_tightened_in_this_process(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session(NAME, CONFIG)
    session.push(TALK)
    context = session.prepare()
    own_server.child.kill()
    with serving(Provider(8_192, SIZED).answer) as create:
        taken, refusals = sent(create, context)
        assert (taken.verdict.fit, taken.verdict.limit, refusals) == (Fit.DEGRADED, 8_192, 1)


def failing(status: int, message: str) -> Answer:
    return Answer({"error": {"message": message}}, status=status)


ANSWERS: dict[str, tuple[Answer, type[openai.APIStatusError]]] = {
    "wrong key": (failing(401, "Invalid API key, in any context length"), openai.AuthenticationError),
    "rate": (failing(429, "Rate limit reached on requests per min: Limit 500, Used 500."), openai.RateLimitError),
    "broken": (failing(500, "The server had an error"), openai.InternalServerError),
    "parameter": (failing(400, "Unsupported parameter: 'max_tokens'"), openai.BadRequestError),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_another_error_is_raised_again_untouched(
    session: SessionClient, settings: Settings, raw: Any, name: str
) -> None:
    answer, kind = ANSWERS[name]
    context = session.prepare()
    before = everything(raw, settings, NAME)
    with serving(lambda _: answer) as create, pytest.raises(kind) as first:
        create(context.messages)
    text = str(first.value)
    with pytest.raises(kind) as again:
        context.report_overflow(first.value)
    assert again.value is first.value
    assert (str(again.value), again.value.__cause__) == (text, first.value.__cause__)
    assert everything(raw, settings, NAME) == before


@pytest.mark.parametrize("error", [None, "all is well", {"error": {"message": "no"}}, 400])
def test_what_is_no_error_at_all_is_refused_with_what_was_expected(session: SessionClient, error: object) -> None:
    context = session.prepare()
    with pytest.raises(ConfigurationError, match="report_overflow: expected the error of a model call"):
        context.report_overflow(error)


def test_a_session_that_is_gone_creates_nothing(session: SessionClient, settings: Settings, raw: Any) -> None:
    context = session.prepare()
    session.erase()
    raw.delete(*everything(raw, settings, NAME))
    again = context.report_overflow(SIZED.format(window=8_192, size=12_000))
    assert again.messages == []
    assert everything(raw, settings, NAME) == {}
