"""Bots in any language tell what the provider made of a list."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import ModelConfig
from tests.http.routes import HELLO
from tests.http.service import CONFIG, Bot, Service

CHAT = "/v1/sessions/chat"


def verdict(bot: Bot) -> dict[str, Any]:
    found: dict[str, Any] = bot.post(f"{CHAT}/prepare", {"config": CONFIG}).good()["verdict"]
    return found


def test_a_reported_bill_moves_what_is_expected(bot: Bot) -> None:
    bot.post(f"{CHAT}/messages", {"messages": [HELLO] * 30, "config": CONFIG}).good()
    before = verdict(bot)
    assert (before["counted_by"], before["expected"]) == ("count", before["total"])
    body = {"sent": before["sent"], "usage": {"prompt_tokens": before["sent"] + 500}, "config": CONFIG}
    assert bot.post(f"{CHAT}/usage", body).good() == {"learned": True}
    after = verdict(bot)
    assert (after["counted_by"], after["expected"]) == ("anchor", before["expected"] + 500)
    assert bot.post(f"{CHAT}/estimate", {"config": CONFIG}).good()["expected"] == after["expected"]


def test_a_refusal_makes_the_next_list_tighter(bot: Bot) -> None:
    bot.post(f"{CHAT}/messages", {"messages": [HELLO] * 600, "config": CONFIG}).good()
    before = verdict(bot)
    error = {"error": {"message": "This model's maximum context length is 4000 tokens.", "code": "x"}}
    body = {"sent": before["sent"], "error": error, "config": CONFIG}
    assert bot.post(f"{CHAT}/overflow", body).good() == {"learned": True}
    after = verdict(bot)
    assert after["limit"] == 4_000
    assert after["sent"] < before["sent"]


@pytest.mark.parametrize("usage", [{}, {"prompt_tokens": 0}, {"prompt_tokens": "many"}, {"prompt_tokens": 1}])
def test_a_usage_not_to_be_believed_teaches_nothing(bot: Bot, usage: dict[str, Any]) -> None:
    bot.post(f"{CHAT}/messages", {"messages": [HELLO] * 30, "config": CONFIG}).good()
    body = {"sent": verdict(bot)["sent"], "usage": usage, "config": CONFIG}
    assert bot.post(f"{CHAT}/usage", body).good() == {"learned": False}
    assert verdict(bot)["counted_by"] == "count"


@pytest.mark.parametrize("error", ["Rate limit reached", {"error": {"message": "no such model"}}, 7, None, ["x"]])
def test_another_error_is_no_refusal(bot: Bot, error: Any) -> None:
    bot.post(f"{CHAT}/messages", {"messages": HELLO, "config": CONFIG}).good()
    bot.post(f"{CHAT}/overflow", {"sent": 10, "error": error, "config": CONFIG}).problem(422, "invalid_request")
    assert verdict(bot)["counted_by"] == "count"


def test_what_one_tenant_reports_teaches_no_other(service: Service, bot: Bot) -> None:
    other = service.bot("other")
    for each in (bot, other):
        each.post(f"{CHAT}/messages", {"messages": [HELLO] * 30, "config": CONFIG}).good()
    body = {"sent": 1_000, "usage": {"prompt_tokens": 5_000}, "config": CONFIG}
    assert bot.post(f"{CHAT}/usage", body).good() == {"learned": True}
    assert verdict(other)["counted_by"] == "count"


def test_a_copy_counts_as_its_source_learned(service: Service) -> None:
    memory, config = service.memory, ModelConfig("gpt-4o", 8)
    session = memory.session("acme/source", config)
    session.push([HELLO] * 30)
    sent = session.prepare()
    assert sent.report_usage({"prompt_tokens": sent.verdict.sent + 300})
    copied = session.fork("acme/copied").prepare().verdict
    assert (copied.counted_by, copied.expected) == ("anchor", sent.verdict.expected + 300)
