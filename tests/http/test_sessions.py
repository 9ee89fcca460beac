"""The session API does what the library does, for bots in any language."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import ModelConfig
from tests.http.service import CONFIG, Bot, Service

HELLO: dict[str, Any] = {"role": "user", "content": "Why is the build red?"}
CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CALLING: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}


def test_what_is_pushed_comes_back_prepared(bot: Bot) -> None:
    receipt = bot.post("/v1/sessions/chat-42/messages", {"messages": HELLO, "config": CONFIG}).good()
    assert receipt["length"] == 1
    assert receipt["positions"] == [0]
    again = bot.post("/v1/sessions/chat-42/messages", {"messages": [CALLING], "config": CONFIG}).good()
    assert again["length"] == 2
    context = bot.post(
        "/v1/sessions/chat-42/prepare", {"system": "You build.", "config": CONFIG, "repair": False}
    ).good()
    assert context["messages"] == [{"role": "system", "content": "You build."}, HELLO, CALLING]
    assert context["verdict"]["limit"] == 8_000
    assert context["verdict"]["fit"] == "fits"
    assert context["verdict"]["problems"] == ["open_call@m1"]
    assert context["verdict"]["percent"] > 0


def test_a_session_is_the_tenants_whatever_library_opens_it(bot: Bot, service: Service, tenant: str) -> None:
    bot.post("/v1/sessions/chat/messages", {"messages": HELLO, "config": CONFIG}).good()
    assert service.memory.session(f"{tenant}/chat", ModelConfig("gpt-4o", 8)).originals() == [HELLO]


def test_a_repeated_key_stores_once(bot: Bot) -> None:
    path = "/v1/sessions/once/messages"
    first = bot.post(path, {"messages": HELLO, "config": CONFIG}, **{"Idempotency-Key": "event-1"}).good()
    assert bot.post(path, {"messages": HELLO, "config": CONFIG}, **{"Idempotency-Key": "event-1"}).good() == first
    assert bot.get("/v1/sessions/once/originals").good() == {"messages": [HELLO]}


def test_an_own_list_is_answered_and_what_is_new_in_it_stored(bot: Bot) -> None:
    own = [{"role": "system", "content": "It is Monday."}, HELLO]
    context = bot.post("/v1/sessions/own/prepare", {"messages": own, "config": CONFIG}).good()
    assert context["messages"] == own
    assert bot.get("/v1/sessions/own/originals").good() == {"messages": [HELLO]}
    synced = bot.post("/v1/sessions/own/sync", {"messages": [*own, CALLING], "config": CONFIG}).good()
    assert synced["length"] == 2


def test_messages_and_phrases_are_pinned_and_released(bot: Bot) -> None:
    path = "/v1/sessions/pinned"
    bot.post(f"{path}/messages", {"messages": [HELLO, CALLING], "config": CONFIG}).good()
    assert bot.post(f"{path}/pins", {"what": "m0"}).good() == {"pin": "m0", "restored": []}
    assert bot.post(f"{path}/pins", {"what": "build red"}).good()["pin"] == "build red"
    assert bot.get(f"{path}/pins").good() == {"messages": ["m0"], "phrases": ["build red"]}
    assert bot.post(f"{path}/release", {"what": ["m0", "build red"]}).good() == {"released": 2}
    assert bot.get(f"{path}/pins").good() == {"messages": [], "phrases": []}
    bot.post(f"{path}/pins", {"what": "m9"}).problem(404, "message_not_found")
    bot.post(f"{path}/pins", {"what": {"m": 9}}).problem(422, "invalid_request")
    bot.get("/v1/sessions/nobody/pins").problem(404, "session_not_found")


def test_an_estimate_counts_and_stores_nothing(bot: Bot) -> None:
    tools: list[Any] = [
        {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}
    ]
    verdict = bot.post("/v1/sessions/new/estimate", {"tools": tools, "system": "Short.", "config": CONFIG}).good()
    assert verdict["tools"] > 0
    assert verdict["history"] == 0
    bot.get("/v1/sessions/new").problem(404, "session_not_found")


def test_a_system_text_is_filled_and_extra_messages_follow_the_history(bot: Bot) -> None:
    bot.post("/v1/sessions/filled/messages", {"messages": HELLO, "config": CONFIG}).good()
    extra = {"role": "user", "content": "And be short."}
    body = {"system": "Now: {{now}}", "variables": {"now": "noon {{x}}"}, "extra": [extra], "config": CONFIG}
    context = bot.post("/v1/sessions/filled/prepare", body).good()
    assert context["messages"] == [{"role": "system", "content": "Now: noon {{x}}"}, HELLO, extra]
    verdict = context["verdict"]
    assert verdict["variables"] > 0
    assert verdict["base"] == verdict["system"] - verdict["variables"]
    assert bot.get("/v1/sessions/filled/originals").good() == {"messages": [HELLO]}


def test_a_long_result_is_stored_cut_and_recalled_whole(bot: Bot) -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "x" * 9_000}
    body = {"messages": [HELLO, CALLING, result], "limit_result": 500, "config": CONFIG}
    bot.post("/v1/sessions/cut/messages", body).good()
    sent = bot.post("/v1/sessions/cut/prepare", {"config": CONFIG}).good()["messages"][2]["content"]
    assert len(sent) < 700
    assert bot.get("/v1/sessions/cut/recall/m2").good() == {"message": result}


def test_calls_and_results_are_written_as_text(bot: Bot) -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "red"}
    bot.post("/v1/sessions/text/messages", {"messages": [HELLO, CALLING, result], "config": CONFIG}).good()
    sent = bot.post("/v1/sessions/text/prepare", {"tool_text": True, "config": CONFIG}).good()["messages"]
    assert not [message for message in sent if message.get("tool_calls") or message["role"] == "tool"]


def test_going_back(bot: Bot) -> None:
    base = "/v1/sessions/back"
    for number in range(3):
        bot.post(f"{base}/messages", {"messages": {"role": "user", "content": f"{number}"}, "config": CONFIG}).good()
    assert bot.get(f"{base}/recall/m1").good() == {"message": {"role": "user", "content": "1"}}
    assert bot.post(f"{base}/fork", {"new_name": "copy", "at": "m1"}).good(201) == {"name": "copy"}
    assert len(bot.get("/v1/sessions/copy/originals").good()["messages"]) == 2
    bot.post(f"{base}/fork", {"new_name": "copy"}).problem(409, "session_exists")
    assert bot.post(f"{base}/rewind", {"position": 0}).good() == {"left": 2}
    assert bot.post(f"{base}/clear").good() == {"messages": 1}
    erased = bot.call("DELETE", base).good()
    assert erased["cleared"] == 3 or erased["cleared"] > 0
    assert bot.get(f"{base}/originals").good() == {"messages": []}


def test_calls_that_a_dead_bot_left_open_are_closed(bot: Bot) -> None:
    bot.post("/v1/sessions/dead/messages", {"messages": [HELLO, CALLING], "config": CONFIG}).good()
    assert bot.post("/v1/sessions/dead/close-open-calls").good()["length"] == 3
    assert bot.post("/v1/sessions/dead/close-open-calls", {}).good()["length"] == 3


def test_status_and_compactions(bot: Bot) -> None:
    bot.post("/v1/sessions/seen/messages", {"messages": HELLO, "config": CONFIG}).good()
    status = bot.get("/v1/sessions/seen").good()
    assert (status["exists"], status["length"], status["claim"], status["last"]) == (True, 1, "idle", None)
    assert bot.post("/v1/sessions/seen/compact", {"config": CONFIG}).good()["outcome"] == "below_threshold"
    assert bot.get("/v1/sessions/seen/compactions").good() == {"compactions": []}
    bot.post("/v1/sessions/seen/undo").problem(404, "compaction_not_found")
    assert bot.post("/v1/sessions/seen/release", {"what": ["m0"]}).good() == {"released": 0}


def test_the_tenants_sessions_are_listed_page_by_page(bot: Bot, service: Service) -> None:
    other = service.bot("another")
    other.post("/v1/sessions/theirs/messages", {"messages": HELLO, "config": CONFIG}).good()
    names = {f"chat-{number}" for number in range(5)}
    for name in names:
        bot.post(f"/v1/sessions/{name}/messages", {"messages": HELLO, "config": CONFIG}).good()
    found: set[str] = set()
    cursor: str | None = "0"
    while cursor is not None:
        page = bot.get(f"/v1/sessions?cursor={cursor}").good()
        found |= {row["name"] for row in page["sessions"]}
        cursor = page["cursor"]
    assert found == names


def test_a_config_is_asked_for_where_one_is_needed(bot: Bot) -> None:
    for path in ("messages", "estimate", "prepare", "sync", "compact"):
        body = {"messages": [HELLO]} if path in ("messages", "sync") else {}
        told = bot.post(f"/v1/sessions/none/{path}", body).problem(422, "config_missing")
        assert "context_limit" in told["detail"]


def test_numbers_that_json_does_not_hold_come_back_as_the_store_keeps_them(
    bot: Bot, service: Service, tenant: str
) -> None:
    odd = {"role": "user", "content": "odd", "figures": [float("nan"), 2**70, "half \ud800"]}
    service.memory.session(f"{tenant}/odd", ModelConfig("gpt-4o", 8)).push(odd)
    answer = bot.post("/v1/sessions/odd/prepare", {"config": CONFIG})
    (message,) = answer.good()["messages"]
    assert str(message["figures"][0]) == "nan"
    assert message["figures"][1:] == [2**70, "half \ud800"]
    assert b"NaN" in answer.body


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "many", 128_000])
def test_a_wrong_window_is_told_with_its_unit(bot: Bot, limit: Any) -> None:
    config = {"model": "gpt-4o", "context_limit": limit}
    told = bot.post("/v1/sessions/wrong/prepare", {"config": config}).problem(422, "invalid_request")
    assert "K tokens" in told["detail"]


def test_a_model_in_any_language_fetches_originals(bot: Bot, service: Service, tenant: str) -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": "x" * 900 + " needle"}
    bot.post("/v1/sessions/look/messages", {"messages": [HELLO, CALLING, result], "config": CONFIG}).good()
    path = "/v1/sessions/look/recall-tool"
    tool = service.memory.session(f"{tenant}/look", ModelConfig("gpt-4o", 128)).recall_tool()
    assert bot.get(path).good() == {"schema": tool.schema}
    for arguments in ({"id": "m2"}, '{"id": "m2", "find": "needle"}', {"id": "m9"}, "no JSON", {}):
        assert bot.post(path, {"arguments": arguments}).good() == {"content": tool.handler(arguments)}
    assert "needle" in bot.post(path, {"arguments": {"id": "m2"}, "config": CONFIG}).good()["content"]
    bot.post(path, {}).problem(422, "invalid_request")
    bot.post(path, {"arguments": None}).problem(422, "invalid_request")
