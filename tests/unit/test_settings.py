"""Settings: read from the environment once, checked as a whole, secrets never shown."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from pydantic import ValidationError

from compactor.exceptions import ConfigurationError
from compactor.settings import Settings, read_settings

SECRET = "hunter2-hunter2"


def test_the_defaults_are_in_order() -> None:
    settings = read_settings()
    assert settings.call_connect_timeout < settings.call_timeout < settings.compaction_deadline
    assert settings.compaction_deadline < settings.claim_lease < settings.visibility_timeout
    assert settings.stop_grace > settings.compaction_deadline
    assert settings.session_ttl == 30 * 24 * 3600


def test_the_environment_decides_and_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_NAMESPACE", "staging")
    monkeypatch.setenv("COMPACTOR_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("COMPACTOR_SESSION_TTL", "60")
    settings = read_settings(max_attempts=7)
    assert (settings.namespace, settings.max_attempts, settings.session_ttl) == ("staging", 7, 60.0)


def test_the_names_that_users_know_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REDIS_URL", "redis://store:6379/1")
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://broker:6379/2")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    settings = read_settings()
    assert settings.redis_url.get_secret_value() == "redis://store:6379/1"
    assert settings.broker == "redis://broker:6379/2"
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == SECRET
    assert settings.openai_base_url == "http://127.0.0.1:9/v1"


def test_without_a_broker_the_stores_server_is_the_broker() -> None:
    assert read_settings(redis_url="redis://store:6379/1").broker == "redis://store:6379/1"
    assert read_settings(redis_url="redis://store:6379/1", broker_url="").broker == "redis://store:6379/1"


def test_an_argument_of_none_leaves_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPACTOR_NAMESPACE", "staging")
    assert read_settings(namespace=None).namespace == "staging"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"namespace": "a b"}, "namespace"),
        ({"namespace": ""}, "namespace"),
        ({"namespace": "{x}"}, "namespace"),
        ({"namespace": "a:b"}, "namespace"),
        ({"namespace": "x" * 65}, "namespace"),
        ({"session_ttl": 0}, "session_ttl"),
        ({"session_ttl": "soon"}, "session_ttl"),
        ({"session_ttl": float("nan")}, "session_ttl"),
        ({"max_message_bytes": -1}, "max_message_bytes"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"worker_concurrency": 1.5}, "worker_concurrency"),
        ({"connect_timeout": -0.1}, "connect_timeout"),
    ],
)
def test_a_wrong_setting_is_named_with_where_to_set_it(given: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(**given)
    assert name in str(caught.value)
    assert "COMPACTOR_" in str(caught.value)


ORDER = ["call_connect_timeout", "call_timeout", "compaction_deadline", "claim_lease", "visibility_timeout"]


@pytest.mark.parametrize(("shorter", "longer"), list(pairwise(ORDER)))
def test_a_step_must_end_before_the_one_around_it(shorter: str, longer: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{shorter} must be below {longer}"):
        read_settings(**{shorter: getattr(read_settings(), longer)})


def test_a_stop_must_let_a_compaction_end() -> None:
    with pytest.raises(ConfigurationError, match="stop_grace must be above compaction_deadline"):
        read_settings(stop_grace=60)


@pytest.mark.parametrize(
    "given",
    [
        {"redis_url": f"redis://:{SECRET}@h/0", "max_attempts": SECRET},
        {"openai_api_key": SECRET, "session_ttl": 0},
        {"openai_api_key": SECRET, "namespace": SECRET + "!"},
        {"openai_api_key": SECRET, "call_timeout": SECRET},
    ],
)
def test_an_error_never_shows_a_value(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_settings(**given)
    assert SECRET not in str(caught.value)
    assert caught.value.__suppress_context__


def test_secrets_do_not_show_in_the_settings_themselves() -> None:
    settings = read_settings(
        redis_url=f"redis://:{SECRET}@h/0", broker_url=f"amqp://u:{SECRET}@h", openai_api_key=SECRET
    )
    assert SECRET not in repr(settings)
    assert SECRET not in str(settings.model_dump())


def test_personal_data_goes_as_placeholders_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (read_settings().personal_placeholders, read_settings().personal_patterns) == (True, ())
    monkeypatch.setenv("COMPACTOR_PERSONAL_PLACEHOLDERS", "false")
    monkeypatch.setenv("COMPACTOR_PERSONAL_PATTERNS", r'["EMP-\\d{6}"]')
    assert (read_settings().personal_placeholders, read_settings().personal_patterns) == (False, (r"EMP-\d{6}",))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("EMP-1", "expected a JSON list of regular expressions"),
        ('{"a": 1}', "expected a JSON list of regular expressions"),
        ("[1]", "expected a JSON list of regular expressions"),
        (f'["a", "({SECRET}"]', "expression 2 cannot be read"),
        (f'["({SECRET})*"]', "expression 1 matches an empty text"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused_without_being_shown(given: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=f"personal_patterns: {said}") as caught:
        read_settings(personal_patterns=given)
    assert SECRET not in str(caught.value)


def test_settings_are_frozen() -> None:
    settings = read_settings()
    with pytest.raises(ValidationError):
        settings.namespace = "other"


@pytest.mark.parametrize(
    ("given", "has_model"),
    [
        ({}, False),
        ({"summarizer_model": "gpt-4o-mini"}, False),
        ({"openai_api_key": SECRET}, False),
        ({"summarizer_model": "gpt-4o-mini", "openai_api_key": SECRET}, True),
        ({"summarizer_model": "qwen", "openai_base_url": "http://127.0.0.1:8000/v1"}, True),
    ],
)
def test_a_model_needs_a_name_and_an_account_or_an_address(given: dict[str, Any], has_model: bool) -> None:
    assert read_settings(**given).has_model is has_model


@pytest.mark.parametrize(
    "environment",
    [
        {"COMPACTOR_SUMMARIZER_MODEL": "", "OPENAI_API_KEY": "key"},
        {"COMPACTOR_SUMMARIZER_MODEL": "gpt-4o-mini", "OPENAI_API_KEY": ""},
        {"COMPACTOR_SUMMARIZER_MODEL": "gpt-4o-mini", "OPENAI_BASE_URL": ""},
    ],
)
def test_an_empty_variable_is_not_a_model(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert not read_settings().has_model


@pytest.mark.parametrize("name", ["session_ttl", "queue_patience"])
def test_an_endless_time_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        read_settings(**{name: float("inf")})


def test_every_field_can_be_set_by_its_own_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: tuple[Any, ...] = (int, float)
    plain = {
        name
        for name, field in Settings.model_fields.items()
        if field.validation_alias is None and field.annotation in numbers
    }
    for name in plain:
        monkeypatch.setenv(f"COMPACTOR_{name.upper()}", "not a number")
    with pytest.raises(ConfigurationError) as caught:
        read_settings()
    assert plain
    assert all(name in str(caught.value).lower() for name in plain)
