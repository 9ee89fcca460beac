"""Personal data leaves as numbered placeholders and comes back exactly; numbers that only look like it stay."""

from __future__ import annotations

import pytest

from compactor.personal_data import PersonalData
from tests.conftest import recorded

DATA = PersonalData()
FOUND = {
    "mail": ("Write to mia.k+shop@corp.example.cn today", "mia.k+shop@corp.example.cn", "EMAIL"),
    "mail in json": (r'{"out": "line\nmia@example.org"}', "mia@example.org", "EMAIL"),
    "mail in chinese": ("邮箱：mia@example.org，请回复", "mia@example.org", "EMAIL"),
    "chinese mobile": ("电话13800138000。", "13800138000", "PHONE"),
    "chinese mobile apart": ("tel 138 0013 8000", "138 0013 8000", "PHONE"),
    "chinese mobile abroad": ("+86-13800138000", "+86-13800138000", "PHONE"),
    "chinese mobile in json": (r'{"a":"\n13800138000"}', "13800138000", "PHONE"),
    "chinese land line": ("座机 010-62345678", "010-62345678", "PHONE"),
    "us phone": ("call (415) 555-2671 now", "(415) 555-2671", "PHONE"),
    "us phone dashed": ("call 415-555-2671", "415-555-2671", "PHONE"),
    "phone abroad": ("call +44 20 7946 0958", "+44 20 7946 0958", "PHONE"),
    "resident": ("身份证号11010519491231002X", "11010519491231002X", "IDENTITY"),
    "ssn": ("SSN 219-09-9999", "219-09-9999", "IDENTITY"),
    "visa": ("card 4111111111111111", "4111111111111111", "CARD"),
    "visa in groups": ("card 4111 1111 1111 1111, 12/30", "4111 1111 1111 1111", "CARD"),
    "amex": ("card 3782-822463-10005", "3782-822463-10005", "CARD"),
    "unionpay": ("卡号6212345678901232", "6212345678901232", "CARD"),
    "german iban": ("to DE89 3704 0044 0532 0130 00 today", "DE89 3704 0044 0532 0130 00", "IBAN"),
    "british iban": ("to GB82WEST12345698765432.", "GB82WEST12345698765432", "IBAN"),
}
LEFT = {
    "card with a wrong digit": "card 4111111111111112",
    "resident with a wrong digit": "11010519491231002Y 110105194912310021 11010519491331002X",
    "iban with a wrong digit": "DE88370400440532013000",
    "ssn that was never given": "000-12-3456 666-12-3456 219-00-9999",
    "orders": "order #W2378156, tracking 1Z999AA10123456784, part 000-4711",
    "times": "1700000000000 1700000000 2031-04-09T12:00:00+08:00 12:33:10.123456",
    "hosts": "192.168.100.200 10.20.30.44:8080 ::1 fe80::1",
    "hashes": "9f3c2ab13800138000d1 6f1c2d9e-0b7a-4c3d-9e8f-1a2b3c4d5e6f",
    "figures": "0.13800138000 1,234,567.89 -4111.25 3.14159265358979",
    "packages": "left-pad@1.3.0 @scope/name @pytest.fixture user@localhost",
    "another's placeholders": "[EMAIL_1] [PHONE_22] <EMAIL_3>",
}


@pytest.mark.parametrize("name", FOUND)
def test_a_value_leaves_as_a_placeholder_and_comes_back(name: str) -> None:
    text, value, kind = FOUND[name]
    (shown,), personal = DATA.hide(text)
    assert value not in shown
    assert f"[{kind}_1]" in shown
    assert personal.put_back(shown) == text


@pytest.mark.parametrize("name", LEFT)
def test_what_only_looks_like_it_stays(name: str) -> None:
    (shown,), personal = DATA.hide(LEFT[name])
    assert shown == LEFT[name]
    assert personal.values == {}


def test_the_same_value_has_the_same_number_in_all_texts_of_a_request() -> None:
    shown, personal = DATA.hide("a@b.co, c@d.co, a@b.co", '{"to": "c@d.co"}', "tell a@b.co")
    assert shown == ("[EMAIL_1], [EMAIL_2], [EMAIL_1]", '{"to": "[EMAIL_2]"}', "tell [EMAIL_1]")
    assert personal.values == {"[EMAIL_1]": "a@b.co", "[EMAIL_2]": "c@d.co"}


def test_placeholders_that_stood_there_before_are_nobodys() -> None:
    text = "[EMAIL_3] wrote to a@b.co"
    (shown,), personal = DATA.hide(text)
    assert shown == "[EMAIL_3] wrote to [EMAIL_4]"
    assert personal.put_back(shown) == text
    assert personal.put_back("[EMAIL_3] [EMAIL_4] [EMAIL_5]") == "[EMAIL_3] a@b.co [EMAIL_5]"


def test_addresses_without_a_space_between_them_are_two() -> None:
    text = "mia@corp.example.cnmia.k+shop@corp.example.cn"
    (shown,), personal = DATA.hide(text)
    assert shown == "[EMAIL_1][EMAIL_2]"
    assert personal.put_back(shown) == text


def test_the_operators_patterns_go_first() -> None:
    data = PersonalData([r"EMP-\d{6}", r"Mia Kim"])
    (shown,), personal = data.hide("Mia Kim, EMP-004711, mia@example.org")
    assert shown == "[PERSONAL_1], [PERSONAL_2], [EMAIL_1]"
    assert personal.put_back(shown) == "Mia Kim, EMP-004711, mia@example.org"


@pytest.mark.parametrize(
    "written",
    ["[EMAIL_7]", "[email_1]", "(EMAIL_1)", "<Email 1>", "【EMAIL-2】", "EMAIL 2", "EMAIL_12", r"\[EMAIL\_1\]"],
)
def test_what_a_model_bent_or_made_up_is_told_apart(written: str) -> None:
    source = "write to a@b.co"
    _, personal = DATA.hide(source)
    said = personal.put_back(f"They wrote to {written} and to [EMAIL_1].")
    assert "to a@b.co." in said
    assert len(list(personal.strange(said, source))) == 1
    assert list(personal.strange("They wrote 3 mails to a@b.co by phone 2.", source)) == []


def test_what_the_source_calls_so_itself_is_no_invention() -> None:
    source = "email_1,phone_1\na@b.co,13800138000\nEMAIL 9"
    _, personal = DATA.hide(source)
    assert list(personal.strange("Columns email_1 and phone_1, EMAIL 9.", source)) == []


def test_recorded_tool_output_comes_back_byte_for_byte() -> None:
    texts = [
        message["content"]
        for name in ("tau2_gpt41", "taubench_airline_gpt4o", "livemcp_claude4", "msagent_finance_zh")
        for session in recorded(name, most=8)
        for message in session["messages"]
        if message["role"] == "tool" and isinstance(message["content"], str)
    ]
    found = 0
    for text in texts:
        (shown,), personal = DATA.hide(text)
        assert personal.put_back(shown) == text
        found += len(personal.values)
    assert found > 50
