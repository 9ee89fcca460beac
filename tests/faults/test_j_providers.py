"""Section J: what providers and gateways do to a request, behind the same 200 or in other words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from email.utils import formatdate
from typing import Any
from uuid import uuid4

import pytest

from compactor import Code
from compactor.embedded import EmbeddedServer
from compactor.exceptions import SummarizerRateLimited, SummarizerReplyRejected, SummarizerServerError
from compactor.models import Kind
from compactor.prompts import Summary
from compactor.records import unpack
from compactor.testing import Answer, ModelServer, summary
from tests.acceptance.conftest import Service, serving
from tests.acceptance.misbehaving import BELOW, begin, finish
from tests.acceptance.scripted_model import asked, failing
from tests.faults.asking import answer, close_all, fenced, summarizer
from tests.integration.conversations import SMALL, conversation, recount, rows, step
from tests.integration.stored import bare, records
from tests.unit.test_provider_errors import OVERFLOWS

LONG = "\n".join(rows(order) for order in range(5))  # about 4,600 tokens


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    close_all()


def reporting(prompt_tokens: int | None) -> Answer:
    """A good summary whose usage says how much of the prompt was read; None: no usage at all."""
    good = summary()
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": 20, "total_tokens": 0}
    body = {**good.body, "usage": usage}
    return replace(good, body={k: v for k, v in body.items() if k != "usage" or prompt_tokens is not None})


@pytest.mark.parametrize("read", [1_024, 2_048])
def test_j01_a_prompt_that_was_cut_without_a_word_makes_no_summary(read: int) -> None:
    with ModelServer(lambda _body: reporting(read)) as model:
        found = answer(summarizer(model.url), LONG)
    assert isinstance(found, SummarizerReplyRejected)
    assert (found.reason, found.spent_in, found.spent_out) == ("input_cut", read, 20)


@pytest.mark.parametrize("share", [0.55, 0.73, 1.0, 1.3])
def test_j01_servers_that_count_otherwise_are_believed(share: float) -> None:
    def served(body: dict[str, Any]) -> Answer:
        return reporting(int(share * recount(body["messages"])))

    with ModelServer(served) as model:
        assert isinstance(answer(summarizer(model.url), LONG), Summary)


@pytest.mark.parametrize("read", [None, 0, 1, 27])
def test_j01_servers_that_report_nothing_or_only_what_was_not_cached_are_believed(read: int | None) -> None:
    with ModelServer(lambda _body: reporting(read)) as model:
        assert isinstance(answer(summarizer(model.url), LONG), Summary)


@pytest.fixture(scope="module")
def cutting() -> Iterator[ModelServer]:
    """A server that reads 512 tokens of whatever it is sent, and says 200."""
    with ModelServer(lambda body: reporting(min(512, recount(body["messages"])))) as running:
        yield running


@pytest.fixture(scope="module")
def cut(server: EmbeddedServer, cutting: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    yield from serving(server, tmp_path_factory, f"cut-{uuid4().hex[:8]}", cutting)


def test_j01_in_a_session_the_result_itself_stands_in(cut: Service, server: EmbeddedServer) -> None:
    with bare(server) as raw:
        case = finish(cut, raw, begin(cut, raw, "any", BELOW))
    assert case.is_extracted(provisional=False)
    assert case.outcome.spent_in == 512 * case.outcome.items


def wrapped(text: str, status: int) -> Answer:
    return Answer({"error": {"message": text, "type": "invalid_request_error", "code": None}}, status=status)


def overflowing(text: str, status: int, window: int) -> Any:
    """A server of a window that it tells in its own words."""

    def served(body: dict[str, Any]) -> Answer:
        return summary() if recount(body["messages"]) <= window else wrapped(text, status)

    return served


@pytest.mark.parametrize("text", OVERFLOWS)
def test_j02_an_overflow_in_any_words_is_asked_again_in_smaller_pieces_never_as_it_was(text: str) -> None:
    with ModelServer(overflowing(text, 400, 3_000)) as model:
        assert isinstance(answer(summarizer(model.url), LONG), Summary)
    assert len({asked(body) for body in model.requests}) == len(model.requests)
    tried, *sent = model.requests
    assert "".join(fenced(body) for body in sent) == LONG
    assert recount(tried["messages"]) > 3_000


@pytest.mark.parametrize("status", [413, 422, 429])
def test_j02_whatever_the_status(status: int) -> None:
    with ModelServer(overflowing(OVERFLOWS[0], status, 3_000)) as model:
        assert isinstance(answer(summarizer(model.url), LONG), Summary)


def test_j02_the_code_alone_is_enough() -> None:
    body = {"error": {"message": "Bad request", "code": "context_length_exceeded"}}
    with ModelServer() as model:
        model.script.append(Answer(body, status=400))
        assert isinstance(answer(summarizer(model.url), LONG), Summary)
    assert len(model.requests) > 2


@pytest.fixture(scope="module")
def narrow() -> Iterator[ModelServer]:
    """A server with a window below any result, behind a gateway that calls it 503."""
    with ModelServer(overflowing(f"litellm.ServiceUnavailableError: {OVERFLOWS[2]}", 503, 700)) as running:
        yield running


@pytest.fixture(scope="module")
def narrowed(
    server: EmbeddedServer, narrow: ModelServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    yield from serving(server, tmp_path_factory, f"narrow-{uuid4().hex[:8]}", narrow)


def test_j02_a_session_gets_its_summaries_from_a_server_with_a_smaller_window_than_configured(
    narrowed: Service, narrow: ModelServer
) -> None:
    session = narrowed.session("j02", SMALL)
    pushed = conversation(BELOW)
    session.push(pushed)
    outcome = session.compact(wait=20)
    assert (outcome.outcome, outcome.by_model) == (Code.APPLIED, outcome.items)
    assert len({asked(body) for body in narrow.requests}) == len(narrow.requests)
    assert session.originals() == pushed


def test_j03_what_stands_before_the_first_replacement_and_every_replacement_keep_their_bytes(
    modelled: Service, server: EmbeddedServer
) -> None:
    name = f"j03-{uuid4().hex[:8]}"
    session = modelled.memory.session(name, SMALL)
    session.push(conversation(BELOW))
    with bare(server) as raw:
        before = records(raw, modelled.settings, name)
        first = session.compact(wait=20)
        between = records(raw, modelled.settings, name)
        session.push([message for order in range(20, 26) for message in step(order)])
        session.push({"role": "assistant", "content": "Seen."})
        second = session.compact(wait=20)
        after = records(raw, modelled.settings, name)
    assert first.outcome is second.outcome is Code.APPLIED
    assert between[: first.positions[0]] == before[: first.positions[0]]
    frontier = max(first.positions) + 1
    assert after[:frontier] == between[:frontier], "one crossing pays for many turns: nothing behind it changes again"
    assert min(second.positions) >= frontier
    assert {unpack(between[position]).kind for position in first.positions} == {Kind.SUMMARY}


def test_j03_a_send_between_two_compactions_is_its_predecessor_and_what_was_pushed(modelled: Service) -> None:
    session = modelled.session("j03-sends", SMALL)
    session.push(conversation(BELOW))
    session.compact(wait=20)
    sent = session.prepare().messages
    for order in range(30, 34):
        session.push(step(order, lines=4))
        following = session.prepare().messages
        assert following[: len(sent)] == sent
        sent = following


@pytest.mark.parametrize("status", [500, 502, 503])
@pytest.mark.parametrize("text", OVERFLOWS[::4])
def test_j04_an_overflow_that_a_gateway_wraps_is_told_from_its_words(status: int, text: str) -> None:
    with ModelServer(overflowing(f"litellm.ServiceUnavailableError: upstream said: {text}", status, 3_000)) as model:
        assert isinstance(answer(summarizer(model.url), LONG), Summary)


@pytest.mark.parametrize("code", [400, 503, None])
def test_j04_an_overflow_inside_a_200_is_told_from_its_words(code: int | None) -> None:
    with ModelServer() as model:
        model.script.append(Answer({"error": {"message": OVERFLOWS[0], "code": code}}))
        assert isinstance(answer(summarizer(model.url), LONG), Summary)
    assert len(model.requests) > 2


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"message": "Rate limited upstream", "code": 429}}, SummarizerRateLimited),
        ({"error": {"message": "Provider returned error", "code": 502}}, SummarizerServerError),
        ({"error": "model is loading"}, SummarizerServerError),
        ({"object": "error", "message": "CUDA out of memory", "code": 50001}, SummarizerServerError),
    ],
)
def test_j04_an_error_inside_a_200_is_an_error(body: dict[str, Any], kind: type[Exception]) -> None:
    with ModelServer(lambda _body: Answer(body)) as model:
        assert isinstance(answer(summarizer(model.url)), kind)


def test_j_a_wait_told_as_seconds_or_as_a_date_is_kept() -> None:
    with ModelServer() as model:
        asking = summarizer(model.url)
        model.script.append(failing(429, retry_after="7"))
        assert getattr(answer(asking), "retry_after", None) == 7.0
        model.script.append(failing(503, retry_after=formatdate(time.time() + 60, usegmt=True)))
        found = answer(asking)
        assert isinstance(found, SummarizerServerError)
        assert found.retry_after is not None
        assert 50 < found.retry_after <= 60


def test_j_content_in_parts_is_read() -> None:
    good = summary()
    text = good.body["choices"][0]["message"]["content"]
    parts = [{"type": "text", "text": text[:30]}, {"type": "text", "text": text[30:]}]
    choice = {**good.body["choices"][0], "message": {"role": "assistant", "content": parts}}
    with ModelServer(lambda _body: replace(good, body={**good.body, "choices": [choice]})) as model:
        assert isinstance(answer(summarizer(model.url)), Summary)
