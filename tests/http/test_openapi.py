"""The OpenAPI document: committed as it is served, and true; schemathesis sends what it allows and what it does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
import schemathesis.checks as offered
from hypothesis import HealthCheck, settings

from compactor.http.app import create_app
from compactor.settings import read_settings
from tests.http.routes import ALL, EACH, Operation
from tests.http.service import CONFIG, Bot, Service

COMMITTED: Final = Path(__file__).resolve().parents[2] / "docs" / "openapi.json"
SLOW: Final = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture)
EXAMPLES: Final = 4  # of each operation
# "What the schema allows is accepted": of a window and an output, or config and config_id, it cannot say which go
# together; the refusals of such pairs have tests of their own.
_CHECKS: Final[Any] = offered
BEYOND_SCHEMA: Final[Any] = _CHECKS.positive_data_acceptance


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    app = create_app(read_settings(redis_url="redis://127.0.0.1:1/0"))
    made: dict[str, Any] = app.openapi()
    return made


def test_the_committed_document_is_what_is_served(document: dict[str, Any], service: Service) -> None:
    served = service.anybody.get("/openapi.json").good()
    assert served == document
    assert json.loads(COMMITTED.read_text(encoding="utf-8")) == document, (
        "the API changed: write it anew with `python -m compactor.http > docs/openapi.json`"
    )


@pytest.mark.parametrize("operation", ALL, ids=EACH)
def test_every_operation_is_described_with_its_key_and_problems(document: dict[str, Any], operation: Operation) -> None:
    told = document["paths"][operation.path][operation.method.lower()]
    assert told["security"] == [{"key": []}]
    assert {"401", "404", "429", "503", "504"} <= told["responses"].keys()
    assert ("requestBody" in told) == (operation.takes_body or operation.body == {})
    assert told.get("description")


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    for name in document["components"]["schemas"]:
        assert f"#/components/schemas/{name}" in text, f"{name} is described and never used"
    for reference in {part.split('"')[0] for part in text.split('"$ref": "')[1:]}:
        assert reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]


@pytest.fixture(scope="module")
def bot(service: Service) -> Bot:
    """A caller that has a session under the name that most examples use."""
    found = service.bot("fuzzed")
    found.post("/v1/sessions/0/messages", {"messages": {"role": "user", "content": "hi"}, "config": CONFIG}).good()
    return found


schema: Any = schemathesis.openapi.from_dict(create_app(read_settings(redis_url="redis://127.0.0.1:1/0")).openapi())


@schema.parametrize()  # type: ignore[untyped-decorator] # why: the schema, made from a dict, has no types
@settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=SLOW, deadline=None)
def test_what_the_document_says_holds(case: Any, bot: Bot) -> None:
    case.call_and_validate(
        base_url=f"http://127.0.0.1:{bot.port}",
        headers={"Authorization": f"Bearer {bot.key}"},
        excluded_checks=[BEYOND_SCHEMA],
    )
