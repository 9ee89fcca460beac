"""redact(): no secret of a known kind is left, and nothing that only looks like one is touched."""

from __future__ import annotations

import pytest

from compactor.redaction import redact
from tests.conftest import recorded
from tests.unit.secret_corpus import LOOK_ALIKES, SECRETS, Planted, drawn

SOURCES = (
    "claudecode_cua", "deerflow_replays", "livemcp_claude4", "miniswe_deepseek", "openhands_claude35_swe", "tau2_gpt41",
    "taubench_airline_gpt4o", "msagent_finance_zh",
)  # fmt: skip
# Passwords of a URL validator's tests, and signed addresses of a shop: in the shape of secrets.
SHAPED_LIKE_ONE = ("user:", "foo:", "dib=")


def hidden(text: str) -> str:
    return redact(text)[0]


@pytest.mark.parametrize("planted", SECRETS, ids=lambda planted: planted.kind)
def test_a_secret_is_replaced_wherever_it_stands(planted: Planted) -> None:
    assert planted.secret in planted.text
    for text in (planted.text, "row 1\n" * 50 + planted.text + "\nrow 2", f"结果：\n{planted.text}"):
        shown = hidden(text)
        assert planted.secret not in shown
        assert "[SECRET_1]" in shown


@pytest.mark.parametrize("kind", LOOK_ALIKES)
def test_a_look_alike_is_left_alone(kind: str) -> None:
    assert hidden(LOOK_ALIKES[kind]) == LOOK_ALIKES[kind]


def test_what_a_secret_is_called_stays() -> None:
    assert hidden("DB_PASSWORD=Tr0ub4dor\nDB_USER=app") == "DB_PASSWORD=[SECRET_1]\nDB_USER=app"
    assert hidden("postgres://app:S3cr3tPw@db:5432/app") == "postgres://app:[SECRET_1]@db:5432/app"
    assert hidden("Authorization: Bearer abc123def456") == "Authorization: Bearer [SECRET_1]"


def test_one_value_has_one_mark_in_all_texts_and_another_value_another() -> None:
    texts = redact("password: hunter2-Zq9\napi_key: " + drawn(32), '{"password": "hunter2-Zq9"}', "password=other-Zq8")
    assert texts == (
        "password: [SECRET_1]\napi_key: [SECRET_2]", '{"password": "[SECRET_1]"}', "password=[SECRET_3]"
    )  # fmt: skip


def test_a_known_secret_is_found_where_nothing_announces_it() -> None:
    text, goal = redact("password: hunter2-Zq9\nlogged in with hunter2-Zq9.", "Why does hunter2-Zq9 not work?")
    assert text == "password: [SECRET_1]\nlogged in with [SECRET_1]."
    assert goal == "Why does [SECRET_1] not work?"


def test_a_password_that_is_a_word_goes_only_where_it_is_the_password() -> None:
    assert hidden("password: swordfish\nmenu: swordfish 12.00") == "password: [SECRET_1]\nmenu: swordfish 12.00"


def test_marks_that_a_text_holds_already_keep_their_numbers() -> None:
    assert hidden("old [SECRET_4]\npassword: hunter2-Zq9") == "old [SECRET_4]\npassword: [SECRET_5]"


def test_what_stands_behind_a_mark_or_the_next_line_of_a_json_string_is_no_part_of_a_secret() -> None:
    assert hidden(r"password: hunter2-Zq0\nmail: mia@example.org") == r"password: [SECRET_1]\nmail: mia@example.org"
    assert hidden("[SECRET_1]: mia0@example.org") == "[SECRET_1]: mia0@example.org"


def test_a_secret_behind_the_line_end_of_a_json_string_is_found() -> None:
    key = "ghp_" + drawn(36)
    assert hidden(rf'{{"out": "line\n{key}\nsk-{drawn(48)}"}}') == r'{"out": "line\n[SECRET_1]\n[SECRET_2]"}'


@pytest.mark.parametrize("name", SOURCES)
def test_recorded_tool_output_holds_hardly_a_false_alarm(name: str) -> None:
    results = [
        message["content"]
        for session in recorded(name, most=12)
        for message in session["messages"]
        if message["role"] == "tool" and isinstance(message["content"], str)
    ]
    touched = [text for text in results if hidden(text) != text and not any(part in text for part in SHAPED_LIKE_ONE)]
    assert results or name == "openhands_claude35_swe", "contents there are lists of parts"
    assert len(touched) <= max(1, len(results) // 200)
