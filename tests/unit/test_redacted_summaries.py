"""Drafts and replies where secrets and personal data stand in the source."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compactor.encodings import encoder
from compactor.exceptions import SummarizerReplyRejected
from compactor.formats.openai import text_of
from compactor.personal_data import PersonalData
from compactor.prompts import SummaryRequest
from compactor.replies import Reply, read_reply
from compactor.reuse import request_name
from tests.unit.chat import assistant, call, calling, long_text, result, user
from tests.unit.summarizers import saying
from tests.unit.test_drafting import drafted, one

ENCODE = encoder("o200k_base")
SOURCE = "mia@example.org and 13800138000, order 4711\n" + "word " * 400


def request(text: str = SOURCE) -> SummaryRequest:
    return SummaryRequest("grep", '{"to": "bob@example.org"}', text, "answer mia@example.org", 600, 90)


def read(*values: str, note: str = "Two contacts.") -> str:
    """The summary that a reply with these facts becomes."""
    facts = [{"label": "contact", "value": value} for value in values]
    content = json.dumps({"outcome": "ok", "facts": facts, "note": note, "omitted": ""})
    return read_reply(Reply(content, "stop"), request().without(PersonalData()), ENCODE)


def asked(text: str, arguments: str = "{}", goal: str = "find it") -> SummaryRequest:
    """What a model is asked for one result."""
    model = saying("It returned rows.")
    chat = [user(goal), calling(call("a", arguments=arguments)), result("a", f"{text}\n{long_text(900)}")]
    drafted([*chat, assistant("ok")], model)
    return model.requests[0]


def test_placeholders_come_back_before_a_reply_is_judged() -> None:
    assert read("[EMAIL_1]", "[PHONE_1]", "[EMAIL_2]", note="Wrote to [EMAIL_1] of order 4711.") == (
        "ok\ncontact = mia@example.org\ncontact = 13800138000\ncontact = bob@example.org\n"
        "Wrote to mia@example.org of order 4711."
    )


@pytest.mark.parametrize("bent", ["[EMAIL_9]", "[email_1]", "<EMAIL 1>", "PHONE-1", "(Phone 1)"])
def test_one_bent_placeholder_costs_its_fact_and_two_cost_the_summary(bent: str) -> None:
    assert read("[EMAIL_1]", bent) == "ok\ncontact = mia@example.org\nTwo contacts."
    assert read("[EMAIL_1]", note=f"Rows. They wrote to {bent}.") == "ok\ncontact = mia@example.org\nRows."
    with pytest.raises(SummarizerReplyRejected):
        read("[EMAIL_1]", bent, "[CARD_5]")


def test_secrets_are_taken_out_of_result_arguments_and_goal() -> None:
    request = asked("password: hunter2-Zq9", '{"api_key": "hunter2-Zq8"}', "my password is hunter2-Zq7")
    assert request.text.startswith("password: [SECRET_1]\n")
    assert request.arguments == '{"api_key": "[SECRET_2]"}'
    assert request.goal == "my password is [SECRET_3]"


@pytest.mark.parametrize("model", [None, saying("It said hunter2-Zq9, password: hunter2-Zq9."), saying("")])
def test_no_replacement_holds_a_secret_whatever_wrote_it(model: Any) -> None:
    item = one(f"password: hunter2-Zq9\n{long_text(900)}", model)
    if model is None or not model.answer(request()).text:
        assert "password: [SECRET_1]" in text_of(item.value)
    assert "password: hunter2" not in text_of(item.value)


def test_a_secret_of_any_length_does_not_tell_itself_by_what_is_asked_again() -> None:
    first, second = asked("password: hunter2-Zq9"), asked("password: other-secret-Zq8")
    assert request_name(first, "m") == request_name(second, "m"), "the same request without them"
    assert request_name(request(), "m") != request_name(request(SOURCE.replace("mia", "eve")), "m"), "values come back"


def test_a_changed_redaction_asks_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    before = request_name(request(), "m")
    monkeypatch.setattr("compactor.reuse.REDACTION_VERSION", 1_000)
    assert request_name(request(), "m") != before


def test_the_ends_of_a_long_goal_are_read() -> None:
    goal = asked("rows", goal="password: hunter2-Zq9 " + "x " * 400_000 + "password: hunter2-Zq8").goal
    assert len(goal) < 20_000
    assert "hunter2" not in goal
    assert goal.count("[SECRET_") == 2
