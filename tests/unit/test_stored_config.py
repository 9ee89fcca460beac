"""StoredConfig: what is checked before anything is stored, and what an error may show."""

from __future__ import annotations

import json
import traceback
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from compactor.exceptions import ConfigDamagedError, ConfigurationError, InvalidConfigError
from compactor.stored_config import (
    FIELDS,
    LIMIT_IS_REQUIRED,
    StoredConfig,
    body_of,
    check_fields,
    check_server,
    check_user,
    mask,
    merged,
)
from tests.unit.configs import DOCUMENTED, SECRET


def refused(**changes: Any) -> dict[str, str]:
    """The problems of the documented config with these changes."""
    with pytest.raises(InvalidConfigError) as caught:
        check_fields(DOCUMENTED | changes)
    return dict(caught.value.problems)


def test_the_documented_config_is_taken_as_it_is() -> None:
    fields = check_fields(DOCUMENTED)
    shown = {name: value for name, value in fields.model_dump().items() if name in DOCUMENTED and name != "api_key"}
    assert shown == {name: value for name, value in DOCUMENTED.items() if name != "api_key"}
    assert fields.judged_by.limit == 128_000


def test_what_is_optional_has_the_documented_default() -> None:
    fields = check_fields({"name": "x", "provider": "openai", "model": "gpt-4o", "context_limit": 128})
    assert (fields.context_strategy, fields.model_type, fields.is_default) == ("balanced", "text", False)


def test_without_context_limit_the_text_is_the_documents() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        check_fields({"name": "Invalid Config", "provider": "openai", "model": "gpt-4o"})
    assert str(caught.value) == (
        "context_limit is required (unit: K tokens, e.g., 128 = 128K = 128,000 tokens). Please check your model "
        "provider's documentation for the current context window size and specify it in the configuration."
    )


def test_the_documents_text_stands_alone_and_the_rest_is_in_the_list() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        check_fields({"provider": "openai", "context_limit": None})
    assert str(caught.value) == LIMIT_IS_REQUIRED
    assert {field for field, _ in caught.value.problems} == {"context_limit", "name", "model"}


@pytest.mark.parametrize("limit", [0, -1, 1.5, 128.0, True, False, "abc", "", "12.5", "-1", "K", 128_000, [128], {}])
def test_a_context_limit_that_is_none_says_the_unit_and_an_example(limit: Any) -> None:
    problems = refused(context_limit=limit)
    assert list(problems) == ["context_limit"]
    assert "K tokens" in problems["context_limit"]
    assert "128" in problems["context_limit"]


@pytest.mark.parametrize(
    ("limit", "kept"),
    [(1, 1), (17, 17), (128, 128), (200, 200), (1000, 1000), (2800, 2800), ("128K", 128), ("128", 128), (" 64k ", 64)],
)
def test_the_documents_limits_are_taken(limit: Any, kept: int) -> None:
    fields = check_fields(DOCUMENTED | {"context_limit": limit})
    assert fields.context_limit == kept
    assert fields.judged_by.limit == kept * 1000


def test_an_exact_window_is_taken_beside_or_instead_of_the_rounded_one() -> None:
    assert check_fields(DOCUMENTED | {"context_limit": 17, "context_limit_tokens": 16_385}).judged_by.limit == 16_385
    assert check_fields(DOCUMENTED | {"context_limit": None, "context_limit_tokens": 16_385}).judged_by.limit == 16_385


def test_two_different_windows_are_refused_since_one_of_them_would_do_nothing() -> None:
    assert "different windows" in refused(context_limit=128, context_limit_tokens=16_385)["context_limit_tokens"]
    assert check_fields(DOCUMENTED | {"context_limit": 128, "context_limit_tokens": 131_072}).judged_by.limit == 131_072


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""), ("name", "   "), ("name", "x" * 101), ("name", "a\nb"), ("name", 7), ("name", None),
        ("name", "\ud800"), ("model_type", "x" * 51), ("provider", "a\x00b"), ("model", "x" * 201), ("model", ["gpt"]),
        ("is_default", "true"), ("is_default", 1), ("is_default", None),
        ("temperature", -0.1), ("temperature", 2.01), ("temperature", "0.7"), ("temperature", True),
        ("temperature", float("nan")), ("temperature", float("inf")), ("temperature", 10**400),
        ("base_url", "ftp://host/v1"), ("base_url", "api.openai.com"), ("base_url", "https://"), ("base_url", ""),
        ("base_url", "https://user:pw@host/v1"), ("base_url", "https://host/v1?key=abc"), ("base_url", "https://host/#x"),
        ("base_url", "https://host:99999/"), ("base_url", "https://host:x/"), ("base_url", "https://ho st/"),
        ("base_url", "https://host\\@evil/"), ("base_url", "javascript:alert(1)"), ("base_url", "https://[::1/"),
        ("base_url", "https://host/" + "x" * 2000), ("base_url", 5),
        ("api_key", ""), ("api_key", "a b"), ("api_key", "a\n"), ("api_key", "ключ"), ("api_key", "x" * 4097),
        ("api_key", 5),
        ("context_limit_tokens", 0), ("context_limit_tokens", 1.5), ("context_limit_tokens", True),
        ("context_limit_tokens", 10**30), ("context_strategy", "reckless"), ("context_strategy", None),
        ("compact_at", 0), ("compact_at", "x"), ("max_output_tokens", -1), ("max_output_tokens", 128_000),
        ("encoding", "p50k_base"),
    ],
)  # fmt: skip
def test_each_wrong_field_is_named_alone_with_what_was_expected(field: str, value: Any) -> None:
    problems = refused(**{field: value})
    assert list(problems) == [field]
    assert "expected" in problems[field] or "leaves no room" in problems[field]


def test_an_unknown_strategy_names_the_three() -> None:
    text = refused(context_strategy="reckless")["context_strategy"]
    assert all(name in text for name in ("conservative", "balanced", "aggressive"))


def test_every_wrong_field_is_named_at_once() -> None:
    assert set(refused(name="", temperature=9, base_url="x")) == {"name", "temperature", "base_url"}


@pytest.mark.parametrize(
    ("typed", "meant"), [("contxt_limit", "context_limit"), ("apiKey", "api_key"), ("temprature", "temperature")]
)
def test_a_mistyped_field_is_refused_with_the_name_that_was_meant(typed: str, meant: str) -> None:
    assert f"did you mean {meant}" in refused(**{typed: 1})[typed]


@pytest.mark.parametrize("field", ["id", "user_id", "version", "created_at", "updated_at"])
def test_what_the_service_sets_is_refused(field: str) -> None:
    assert "set by the service" in refused(**{field: 1})[field]


@pytest.mark.parametrize("values", [None, [], "text", 5, True])
def test_what_is_no_object_is_refused(values: Any) -> None:
    with pytest.raises(InvalidConfigError, match="JSON object"):
        check_fields(values)


def test_the_masked_key_that_a_client_sends_back_is_not_taken_for_a_key() -> None:
    assert "leave api_key out" in refused(api_key="sk-…xR5w")["api_key"]


@pytest.mark.parametrize(
    "values",
    [
        {"api_key": SECRET + " "}, {"api_key": [SECRET]}, {SECRET: 1}, {"base_url": f"https://u:{SECRET}@h/"},
        {"name": SECRET + "\n"}, {"context_limit": SECRET}, {"encoding": SECRET}, {"api_key": {"key": SECRET}},
    ],
)  # fmt: skip
def test_no_error_shows_a_value_in_its_text_its_problems_or_behind_it(values: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        check_fields(DOCUMENTED | values)
    error = caught.value
    assert SECRET not in str(error) + repr(error) + repr(error.problems)
    assert error.__cause__ is None
    assert error.__context__ is None
    assert SECRET not in "".join(traceback.format_exception_only(error))


def test_the_key_shows_in_no_form_of_the_fields() -> None:
    fields = check_fields(DOCUMENTED)
    assert SECRET not in repr(fields) + str(fields) + fields.model_dump_json() + repr(fields.model_dump())
    assert SECRET.encode() not in body_of(fields, mask(SecretStr(SECRET)))


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        ("sk-" + "a" * 20 + "wxyz", "sk-…wxyz"), ("x" * 19, "…"), ("x" * 16 + "wxyz", "…wxyz"), ("s", "…"),
        ("AIza" + "b" * 30 + "1234", "…1234"), ("gsk_" + "c" * 30 + "1234", "gsk_…1234"),
    ],
)  # fmt: skip
def test_a_mask_shows_four_characters_of_a_long_key_and_none_of_a_short_one(key: str, shown: str) -> None:
    assert mask(SecretStr(key)) == shown


def test_a_merge_patch_changes_what_it_names_and_null_takes_back() -> None:
    old = check_fields(DOCUMENTED)
    new = check_fields(merged(old, {"context_limit": "64K", "temperature": None}, is_default=True))
    assert (new.context_limit, new.temperature, new.is_default) == (64, None, True)
    assert new.model_dump(exclude={"context_limit", "temperature", "api_key"}) == old.model_dump(
        exclude={"context_limit", "temperature", "api_key"}
    )


@pytest.mark.parametrize("patch", [{"context_limit": None}, {"name": None}, {"model": None}, {"colour": None}])
def test_a_merge_patch_cannot_take_away_what_is_needed_or_name_what_is_not(patch: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        check_fields(merged(check_fields(DOCUMENTED), patch, is_default=False))
    assert caught.value.problems[0][0] == next(iter(patch))


@pytest.mark.parametrize(
    "changes",
    [
        {"base_url": "https://evil.example/v1"}, {"base_url": "http://api.openai.com/v1"},
        {"base_url": "https://api.openai.com:8443/v1"}, {"base_url": None},
    ],
)  # fmt: skip
def test_a_stored_key_is_not_taken_along_to_another_server(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidConfigError, match="must be given again"):
        check_server(check_fields(DOCUMENTED), check_fields(DOCUMENTED | changes))


@pytest.mark.parametrize("address", ["https://API.openai.com:443/v2", "https://api.openai.com"])
def test_another_path_of_the_same_server_keeps_the_key(address: str) -> None:
    check_server(check_fields(DOCUMENTED), check_fields(DOCUMENTED | {"base_url": address}))


@given(st.dictionaries(st.sampled_from([*FIELDS, "other"]), st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=30), st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)))  # fmt: skip
def test_any_values_are_taken_whole_or_refused_by_name(values: dict[str, Any]) -> None:
    problems: set[str] = set()
    fields = None
    try:
        fields = check_fields(DOCUMENTED | values)
    except InvalidConfigError as error:
        problems = {field for field, _ in error.problems}
    assert problems <= {*FIELDS, "other"}
    assert bool(problems) is (fields is None)
    if fields is not None:
        back = StoredConfig.read("cfg", "u", 1, (0, 0), body_of(fields, "…"), is_default=False)
        assert back.model_config == fields.judged_by


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b'{"name": 5}', b"\xff", json.dumps({"name": "x", "provider": "o"}).encode()]
)
def test_a_record_that_was_changed_from_outside_is_damaged(body: bytes) -> None:
    with pytest.raises(ConfigDamagedError, match="cfg_1"):
        StoredConfig.read("cfg_1", "u", 1, (0, 0), body, is_default=False)


def test_a_record_of_a_newer_release_is_read_for_what_this_one_knows() -> None:
    body = json.loads(body_of(check_fields(DOCUMENTED), "…")) | {"mood": "sunny"}
    found = StoredConfig.read("cfg_1", "u", 3, (0, 1), json.dumps(body).encode(), is_default=True)
    assert (found.model_config.limit, found.masked_key) == (128_000, "…")


@pytest.mark.parametrize("user", ["user-42", "a", "x" * 100, "me@example.com", "a:b_c.d"])
def test_a_user_id_is_taken(user: str) -> None:
    assert check_user(user) == user


@pytest.mark.parametrize("user", ["", "x" * 101, "a/b", "a b", "ü", "a\n", "{x}", "*", None, 5])
def test_what_is_no_user_id_is_refused(user: Any) -> None:
    with pytest.raises(ConfigurationError, match="user_id"):
        check_user(user)
