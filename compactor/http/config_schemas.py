"""What the OpenAPI document says of the config API; bodies are checked by `stored_config`, not by these."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from starlette.responses import Response

from compactor.http.problems import MEDIA_TYPE
from compactor.stored_config import ConfigFields

_TIME: Final = {"type": "string", "format": "date-time"}
_VERSION: Final = {"type": "integer", "minimum": 1}
_PROBLEM: Final = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "code"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
        "current_version": {**_VERSION, "description": "of the config, when the expected one is not it"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "expected"],
                "properties": {"field": {"type": "string"}, "expected": {"type": "string"}},
            },
        },
    },
}
_WHY: Final = {
    412: "The config is not at the version of If-Match.",
    428: "The expected version is missing.",
}


def _fields() -> dict[str, Any]:
    schema = ConfigFields.model_json_schema()
    schema.pop("description", None)
    address = schema["properties"]["base_url"]["anyOf"][0]
    address |= {"pattern": r"^https?://[A-Za-z0-9.-]+(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~/-]*)?$"}
    key = schema["properties"]["api_key"]["anyOf"][0]
    key |= {"pattern": r"^[\x21-\x7e]{1,4096}$"}
    for name in ("name", "model_type", "provider", "model"):
        schema["properties"][name] |= {"pattern": r"^[!-~]([ -~]*[!-~])?$"}
    return schema


def _shown(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The config as it is answered: every field is there, and some that the service sets."""
    properties = deepcopy(dict(fields["properties"]))
    for each in properties.values():
        each.pop("default", None)
        each.pop("pattern", None)
        for kind in each.get("anyOf", ()):
            kind.pop("pattern", None)
    properties["api_key"] = {"anyOf": [{"type": "string"}, {"type": "null"}], "description": "masked"}
    for name in ("context_limit", "compact_at"):
        properties[name] = {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "description": "K tokens"}
    own = {
        "id": {"type": "string"},
        "user_id": {"type": "string"},
        "version": _VERSION,
        "created_at": _TIME,
        "updated_at": _TIME,
    }
    return {"type": "object", "properties": own | properties, "required": [*own, *properties]}


def _patch(fields: Mapping[str, Any]) -> dict[str, Any]:
    properties = {name: {"anyOf": [deepcopy(each), {"type": "null"}]} for name, each in fields["properties"].items()}
    return {
        "type": "object",
        "properties": {**properties, "expected_version": _VERSION},
        "additionalProperties": False,
    }


def _body(schema: Mapping[str, Any], *media_types: str) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {each: {"schema": schema} for each in media_types}}}


FIELDS: Final = _fields()
BODY: Final = _body(FIELDS, "application/json")
REPLACEMENT: Final = _body(
    {**FIELDS, "properties": {**FIELDS["properties"], "expected_version": _VERSION}}, "application/json"
)
PATCH: Final = _body(_patch(FIELDS), "application/merge-patch+json", "application/json")
DELETION: Final = {
    "requestBody": {
        "required": False,
        "content": {"application/json": {"schema": {"type": "object", "properties": {"expected_version": _VERSION}}}},
    }
}
CONFIG: Final = _shown(FIELDS)
CONFIGS: Final = {
    "type": "object",
    "required": ["configs", "default_config_id"],
    "properties": {
        "configs": {"type": "array", "maxItems": 100, "items": CONFIG},
        "default_config_id": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
}
VERSION: Final = {
    "parameters": [
        {
            "name": "If-Match",
            "in": "header",
            "required": False,
            "description": "The version that the change was made from, in quotes; or expected_version in the body.",
            "schema": {"type": "string", "pattern": '^"[1-9][0-9]{0,14}"$'},
        }
    ]
}


def documented(
    request: Mapping[str, Any] | None, status: int, answer: Mapping[str, Any] | None, *further: int
) -> dict[str, Any]:
    """Arguments of a route: what it takes, what it answers, and the problems that other operations do not have."""
    responses: dict[int | str, dict[str, Any]] = {
        each: {"description": _WHY[each], "content": {MEDIA_TYPE: {"schema": _PROBLEM}}} for each in further
    }
    good: dict[str, Any] = {"description": "Done."}
    if answer is not None:
        good["content"] = {"application/json": {"schema": answer}}
        good["headers"] = {"ETag": {"description": "the version in quotes", "schema": {"type": "string"}}}
    responses[status] = good
    return {
        "responses": responses,
        "openapi_extra": dict(request) if request is not None else {},
        "response_class": Response,
    }
