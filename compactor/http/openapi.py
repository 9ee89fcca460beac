"""The OpenAPI document: answers described from the library's own values, problems for every operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, get_type_hints

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from compactor.bills import Bill
from compactor.http.answers import names_of
from compactor.http.config_schemas import CONFIG
from compactor.http.problems import MEDIA_TYPE
from compactor.models import Erased, Outcome, Pinned, Pins, Receipt, Status, Verdict

_REF: Final = "#/components/schemas/"
Schema = dict[str, Any]


def answered(name: str, *, status: int = 200, description: str = "Done.") -> dict[int | str, dict[str, Any]]:
    """How a route's success is documented; its problems are added to every operation alike."""
    return {status: {"description": description, "content": _content("application/json", name)}}


def describe(app: FastAPI) -> Callable[[], dict[str, Any]]:
    """What the app serves as /openapi.json, made once."""
    made: dict[str, Any] = {}

    def document() -> dict[str, Any]:
        if not made:
            made.update(_document(app))
        return made

    return document


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=app.openapi_tags
    )
    schemas: Schema = document.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas.update(_schemas())
    for operations in document["paths"].values():
        for operation in operations.values():
            if operation.get("security"):
                _add_problems(operation)
    return document


def _add_problems(operation: Schema) -> None:
    answers: Schema = operation["responses"]
    if "HTTPValidationError" in str(answers.get("422")):
        del answers["422"]
    for status, description in _PROBLEMS.items():
        answered = answers.setdefault(str(status), {"description": description})
        answered["content"] = _content(MEDIA_TYPE, "Problem")
        if status in (429, 503):
            answered["headers"] = {"Retry-After": _SECONDS}


_PROBLEMS: Final = {
    400: "The request or its body cannot be read.",
    401: "No valid key.",
    404: "Nothing of this name, or it belongs to somebody else.",
    408: "The body came too slowly.",
    409: "The state of what is named does not allow it.",
    413: "The body, a message or the session is too large.",
    415: "The body is not declared as JSON.",
    422: "Part of the request is not what is expected.",
    429: "Too many requests.",
    500: "The service failed.",
    503: "Redis or the queue does not answer.",
    504: "The service took too long.",
}
_SECONDS: Final[Schema] = {"description": "Seconds until the next try.", "schema": {"type": "integer", "minimum": 1}}
_TEXT: Final[Schema] = {"type": "string"}
_COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
_OBJECT: Final[Schema] = {"type": "object", "additionalProperties": True}
_OBJECTS: Final[Schema] = {"type": "array", "items": _OBJECT}


def _content(media_type: str, name: str) -> Schema:
    return {media_type: {"schema": {"$ref": f"{_REF}{name}"}}}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _schemas() -> dict[str, Schema]:
    schemas = {
        "Problem": {
            **_object(
                type=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT, code=_TEXT
            ),
            "description": "Problem details (RFC 9457); `code` never changes its meaning.",
        },
        "SessionList": _object(
            sessions={"type": "array", "items": _object(name=_TEXT)},
            cursor={"anyOf": [_TEXT, {"type": "null"}]},
        ),
        "Context": _object(
            messages=_OBJECTS,
            verdict={"$ref": f"{_REF}Verdict"},
            system={"anyOf": [_TEXT, {"type": "null"}]},
            replaced=_COUNT,
            left_out=_COUNT,
        ),
        "Recalled": _object(message=_OBJECT),
        "RecallTool": _object(schema=_OBJECT),
        "ToolText": _object(content=_TEXT),
        "Originals": _object(messages=_OBJECTS),
        "Compactions": _object(compactions={"type": "array", "items": {"$ref": f"{_REF}Outcome"}}),
        "Learned": _object(learned={"type": "boolean"}),
        "Released": _object(released=_COUNT),
        "Left": _object(left=_COUNT),
        "Forked": _object(name=_TEXT),
        "Cleared": _object(messages=_COUNT),
        "Config": CONFIG,
        "Health": _object(status={"enum": ["ok", "unavailable"]}),
    }  # fmt: skip
    for kind in (Verdict, Receipt, Outcome, Bill, Status, Erased, Pinned, Pins):
        _add_value(schemas, kind)
    return schemas


def _add_value(schemas: dict[str, Schema], kind: type[Any]) -> None:
    """The schema of a value with the figures it computes; what it refers to stands beside it."""
    schema = TypeAdapter(kind).json_schema(mode="serialization", ref_template=f"{_REF}{{model}}")
    definitions: Mapping[str, Schema] = schema.pop("$defs", {})
    for name, inner in definitions.items():
        schemas.setdefault(name, inner)
    known: Schema = schema["properties"]
    for name in names_of(kind):
        if name not in known:
            getter = getattr(kind, name).fget
            known[name] = TypeAdapter(get_type_hints(getter)["return"]).json_schema()
    schema["required"] = list(names_of(kind))
    schemas[kind.__name__] = schema
