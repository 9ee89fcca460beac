"""Rules travel with the claim to whichever worker takes it, and hold in views; the operator's come first."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from compactor import ConfigurationError, Fit, ModelConfig, Rule
from compactor.settings import Settings, read_settings
from compactor.wording import carries_header
from tests.integration.clients import Client, Connect
from tests.integration.conversations import SYSTEM, assistant, result, rows, user
from tests.integration.inline_worker import InlineWorker


def asking(order: int, tool: str, path: str) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps({"path": path})}
    called = {"id": f"call_{order}", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [called]}


def talk(steps: int = 9, *, lines: int = 50) -> list[dict[str, Any]]:
    """Reads of `doc0.md`, `src1.py`, `doc2.md`, ..."""
    paths = [f"src{n}.py" if n % 2 else f"doc{n}.md" for n in range(steps)]
    middle = [m for n, p in enumerate(paths) for m in (asking(n, "read_file", p), result(n, rows(n, lines)))]
    return [SYSTEM, user("Where are the values defined?"), *middle, assistant("In src.")]


DOCUMENTS = {"tool": "read_*", "arguments": {"path": "*.md"}, "never": True}
SMALL = ModelConfig("gpt-4o", 8, rules=[DOCUMENTS])


def shown(messages: list[Any], *, replaced: bool) -> set[int]:
    """Which of the reads a list shows as replacements, or whole."""
    found = {int(m["tool_call_id"][5:]): str(m["content"]) for m in messages if m["role"] == "tool"}
    return {n for n, text in found.items() if carries_header(text) is replaced and (replaced or text == rows(n))}


def test_the_worker_follows_the_rules_of_the_bot_that_claimed(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("rules/claim", SMALL)
    session.push(talk())
    assert session.prepare().verdict.compaction == "queued"
    assert worker.work("rules/claim").outcome.items > 0
    seen = memory.session("rules/claim", ModelConfig("gpt-4o", 2_000)).prepare().messages
    assert shown(seen, replaced=True) <= {1, 3, 5, 7}
    assert shown(seen, replaced=False) >= {0, 2, 4, 6, 8}


def test_a_compaction_asked_for_follows_those_of_the_last_send(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("rules/compact", SMALL)
    session.push(talk())
    session.prepare()
    worker.work("rules/compact")
    session.push(talk(9)[2:])
    memory.session("rules/compact", ModelConfig("gpt-4o", 8)).compact()
    worker.work("rules/compact")
    seen = memory.session("rules/compact", ModelConfig("gpt-4o", 2_000)).prepare().messages
    assert {m["tool_call_id"] for m in seen if m["role"] == "tool" and carries_header(m["content"])} <= {
        f"call_{n}" for n in (1, 3, 5, 7)
    }


def test_the_operators_rules_come_before_the_bots(connect: Connect, worker: InlineWorker, settings: Settings) -> None:
    worker.tools = replace(worker.tools, rules=(Rule("read_file", {"path": "doc2*"}, summarize=True),))
    session = connect(settings).session("rules/operator", SMALL)
    session.push(talk())
    session.prepare()
    worker.work("rules/operator")
    seen = connect(settings).session("rules/operator", ModelConfig("gpt-4o", 2_000)).prepare().messages
    assert 2 in shown(seen, replaced=True)
    assert shown(seen, replaced=False) >= {0, 4, 6, 8}


def test_a_view_leaves_out_what_no_rule_keeps_first(memory: Client) -> None:
    session = memory.session("rules/view", SMALL)
    session.push(talk(10))
    context = session.prepare()
    assert context.verdict.fit is Fit.SHORTENED
    assert shown(context.messages, replaced=False) >= {0, 2, 4, 6, 8}
    assert context.verdict.sent <= context.verdict.ceiling


def test_rules_that_keep_more_than_fits_do_not_keep_a_send_from_fitting(memory: Client) -> None:
    session = memory.session("rules/full", SMALL)
    session.push(talk(30))
    context = session.prepare()
    assert context.verdict.fit is Fit.SHORTENED
    assert context.verdict.sent <= context.verdict.ceiling


def test_rules_that_keep_more_than_fits_take_no_pinned_phrase_with_them(memory: Client) -> None:
    session = memory.session("rules/phrase", SMALL)
    line = rows(3).splitlines()[7]
    session.push(talk(60))
    session.pin(line)
    context = session.prepare()
    assert context.verdict.fit is Fit.SHORTENED
    assert context.verdict.sent <= context.verdict.ceiling
    assert sum(line in str(message["content"]) for message in context.messages) == 1


def test_operators_set_rules_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_RULES", json.dumps([DOCUMENTS]))
    assert read_settings().rules == (Rule("read_*", {"path": "*.md"}, never=True),)
    for wrong, told in (
        ("[", "expected a list"),
        ('[{"tool": "a"}]', "rules[0].says nothing"),
        ("{}", "expected a list"),
    ):
        monkeypatch.setenv("COMPACTOR_RULES", wrong)
        with pytest.raises(ConfigurationError, match="rules") as raised:
            read_settings()
        assert told in str(raised.value)
