"""What leaves for the model: no secret, and personal data as placeholders that come back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compactor import Code, Compactor, Outcome, compact_messages
from compactor.embedded import Child, EmbeddedServer, start_worker
from compactor.settings import Settings, read_settings
from compactor.summarizer import ModelSummarizer
from compactor.testing import Answer, ModelServer, completion
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import short_settings
from tests.integration.conversations import SMALL, WIDE, assistant, call, result, rows, user
from tests.unit.secret_corpus import SECRETS
from tests.unit.test_personal_data import FOUND

PLACEHOLDER = re.compile(r"\[(?:EMAIL|PHONE|CARD|IDENTITY|IBAN|PERSONAL|SECRET)_\d+\]")
PERSONAL = {name: (text, value) for name, (text, value, _) in FOUND.items() if name != "mail in json"}
PERSONAL["own"] = "of EMP-004711", "EMP-004711"


def copying(body: dict[str, Any]) -> Answer:
    """Lists every mark in the result as a fact; changes or makes up one where the text asks for it."""
    text = str(body["messages"][1]["content"]).split("===")[2]
    facts = [{"label": "value", "value": mark} for mark in dict.fromkeys(PLACEHOLDER.findall(text))]
    if "model: bends;" in text:
        facts.append({"label": "bent", "value": "[email-1]"})
    if "model: invents;" in text:
        facts.append({"label": "invented", "value": "[EMAIL_99]"})
    if "model: fails;" in text:
        return Answer({"error": {"message": f"cannot read {text}"}}, status=500)
    return completion(json.dumps({"outcome": "ok", "facts": facts, "note": "The tool returned rows.", "omitted": ""}))


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer(copying) as running:
        yield running


@pytest.fixture(scope="module")
def service(server: EmbeddedServer, model: ModelServer, tmp_path_factory: Any) -> Iterator[tuple[Settings, Child]]:
    """A worker with the model and one pattern of the operator's."""
    settings = short_settings(server.url, "redaction")
    env = {
        "REDIS_URL": server.url,
        "COMPACTOR_NAMESPACE": "redaction",
        "OPENAI_BASE_URL": model.url,
        "OPENAI_API_KEY": "test",
        "COMPACTOR_SUMMARIZER_MODEL": "cheap",
        "COMPACTOR_BREAKER_FAILURES": "1000",
        "COMPACTOR_PERSONAL_PATTERNS": r'["EMP-\\d{6}"]',
    }
    log: Path = tmp_path_factory.mktemp("redaction") / "worker.log"
    worker = start_worker(env=env, log=log, concurrency=8, options=("-l", "DEBUG"))
    try:
        yield settings, worker
    finally:
        worker.stop(grace=20)


def told(model: ModelServer, mark: str) -> str:
    """Everything that the model was sent in requests of a conversation, as text and as it went over the wire."""
    bodies = [body for body in model.requests if mark in json.dumps(body, ensure_ascii=False)]
    assert bodies, "the model was asked"
    contents = [str(message["content"]) for body in bodies for message in body["messages"]]
    return "\n".join([*contents, *(json.dumps(body, ensure_ascii=False) for body in bodies)])


def asking(order: int, text: str) -> dict[str, Any]:
    """A call whose arguments hold a text."""
    asked = call(order)
    asked["tool_calls"][0]["function"]["arguments"] = json.dumps({"text": text}, ensure_ascii=False)
    return asked


def planted(mark: str, texts: list[str], goal: str = "go on") -> list[dict[str, Any]]:
    """A conversation with one of the texts in each result and call, on top of rows."""
    middle = [
        message
        for order, text in enumerate(texts)
        for message in (asking(order, text), result(order, f"{mark}\n{text}\n{rows(order, 30)}\n{text}"))
    ]
    return [user("start"), *middle, assistant("seen"), user(goal)]


def compacted(memory: Compactor, name: str, chat: list[dict[str, Any]]) -> tuple[Outcome, list[str]]:
    """The outcome of compacting a conversation to a small window, and the texts that replace results."""
    session = memory.session(name, SMALL)
    session.push(chat)
    session.prepare(keep_rows=True)  # each result is told of in its own place
    outcome = wait_until(lambda: session.status().last)
    assert outcome.outcome is Code.APPLIED
    messages = memory.session(name, WIDE).prepare().messages
    return outcome, [str(messages[position]["content"]) for position in outcome.positions]


def test_no_secret_reaches_the_model_and_none_comes_back(service: tuple[Settings, Child], model: ModelServer) -> None:
    settings, worker = service
    goal = SECRETS[0].text + "\n" + SECRETS[-1].text
    with Compactor(settings=settings) as memory:
        chat = planted("mark-secrets", [item.text for item in SECRETS], goal)
        outcome, replaced = compacted(memory, "redaction/secrets", chat)
        session = memory.session("redaction/secrets", WIDE)
        assert outcome.by_model > len(SECRETS) / 2
        sent = told(model, "mark-secrets")
        assert [item.kind for item in SECRETS if item.secret in sent] == []
        assert "[SECRET_1]" in sent
        whole = "\n".join(replaced)
        assert [item.kind for item in SECRETS if item.secret in whole] == []
        assert "[SECRET_1]" in whole, "that there was one is told"
        recalled = session.recall(f"m{outcome.positions[0]}")["content"]
        assert SECRETS[0].secret in recalled, "the original keeps it"
        shown = worker.tail(10_000_000) + repr(session.compactions())
    assert [item.kind for item in SECRETS if item.secret in shown] == []


def test_personal_data_reaches_the_model_as_placeholders_and_comes_back(
    service: tuple[Settings, Child], model: ModelServer
) -> None:
    settings, _ = service
    goal = "mail mia.k+shop@corp.example.cn or call 13800138000 or EMP-004711"
    with Compactor(settings=settings) as memory:
        chat = planted("mark-personal", [text for text, _ in PERSONAL.values()], goal)
        outcome, replaced = compacted(memory, "redaction/personal", chat)
        assert outcome.by_model == len(replaced) > len(PERSONAL) / 2
        sent = told(model, "mark-personal")
        assert [name for name, (_, value) in PERSONAL.items() if value in sent] == []
        for shown, (_, value) in zip(replaced, PERSONAL.values(), strict=False):
            assert f"value = {value}" in shown
            assert not PLACEHOLDER.search(shown)


@pytest.mark.parametrize("manner", ["bends", "invents"])
def test_a_placeholder_that_the_model_bent_or_made_up_is_left_out(service: tuple[Settings, Child], manner: str) -> None:
    settings, _ = service
    with Compactor(settings=settings) as memory:
        texts = [f"model: {manner};\nwrite to mia@example.org {n}" for n in range(14)]
        outcome, replaced = compacted(memory, f"redaction/{manner}", planted(f"mark-{manner}", texts))
        assert outcome.by_model == len(replaced) > 0
        for shown in replaced:
            assert "value = mia@example.org" in shown
            assert "email-1" not in shown
            assert "EMAIL_99" not in shown


def test_a_model_that_fails_leaves_extracts_without_secrets(service: tuple[Settings, Child]) -> None:
    settings, worker = service
    with Compactor(settings=settings) as memory:
        texts = [f"model: fails;\npassword: hunter2-Zq{n}\nmail: mia{n}@example.org" for n in range(14)]
        outcome, replaced = compacted(memory, "redaction/fails", planted("mark-fails", texts))
        assert (outcome.by_model, outcome.by_extract) == (0, len(replaced))
        assert "[EMAIL_" not in "\n".join(replaced), "an extract never left, so values stay"
        audit = repr(memory.session("redaction/fails", SMALL).compactions())
    assert "hunter2" not in "\n".join([*replaced, worker.tail(10_000_000), audit])


@pytest.mark.parametrize("on", [True, False])
def test_placeholders_can_be_turned_off_and_redaction_cannot(model: ModelServer, on: bool) -> None:
    mark = f"mark-switch-{on}"
    settings = read_settings(
        openai_base_url=model.url, openai_api_key="test", summarizer_model="cheap", personal_placeholders=on
    )
    chat = planted(mark, ["write to mia@example.org\npassword: hunter2-Zq9"])
    summarizer = ModelSummarizer(settings)
    try:
        done = compact_messages(chat, WIDE, summarizer=summarizer, target_tokens=1, keep_recent_results=0)
    finally:
        summarizer.close()
    assert done.outcome.by_model == 1
    sent = told(model, mark)
    assert ("mia@example.org" in sent) is not on
    assert "hunter2" not in sent
