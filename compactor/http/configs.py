"""The config API: model configs of a user, with an api_key that goes in and never comes out."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path
from starlette.requests import Request
from starlette.responses import Response

from compactor.context.log import limit_used
from compactor.exceptions import ConfigurationError
from compactor.http.answers import written
from compactor.http.authentication import Caller, caller
from compactor.http.bodies import check_content_type, read_body
from compactor.http.config_problems import told, version_required
from compactor.http.config_schemas import BODY, CONFIG, CONFIGS, DELETION, PATCH, REPLACEMENT, VERSION, documented
from compactor.http.problems import Problem, not_found
from compactor.http.state import State, state
from compactor.json_values import is_object
from compactor.model_config import ModelConfig
from compactor.stored_config import StoredConfig, check_user

PREFIX: Final = "/v3/users/{user_id}/llm-model-configs"
_ETAG: Final = re.compile(r'"([1-9][0-9]{0,14})"')
_MERGE_PATCH: Final = "application/merge-patch+json"

router = APIRouter(prefix=PREFIX, tags=["configs"])
Calling = Annotated[Caller, Depends(caller)]
Service = Annotated[State, Depends(state)]
UserId = Annotated[
    str,
    Path(description="1-100 of `A-Z a-z 0-9 . _ : @ -`", json_schema_extra={"pattern": "^[A-Za-z0-9._:@-]{1,100}$"}),
]
ConfigId = Annotated[str, Path(description="The id that the config was created with.")]


@dataclass(frozen=True, slots=True)
class Expected:
    """The version that a change was made from, and whether the header named it."""

    version: int
    by_header: bool


@router.post("", status_code=201, **documented(BODY, 201, CONFIG))
async def create_config(request: Request, user_id: UserId, calling: Calling, service: Service) -> Response:
    """Stores a model config. `context_limit` (K tokens) is mandatory; the api_key is stored encrypted."""
    user = owned(calling, user_id)
    values = await _body(request)
    with told():
        stored = await service.memory.drive(service.configs.create(calling.tenant, user, values))
    place = PREFIX.format(user_id=user)
    return _answer(stored, 201, Location=f"{place}/{stored.id}")


@router.get("", **documented(None, 200, CONFIGS))
async def list_configs(user_id: UserId, calling: Calling, service: Service) -> Response:
    """The user's configs, the oldest first; at most 100."""
    user = owned(calling, user_id)
    with told():
        found = await service.memory.drive(service.configs.all(calling.tenant, user))
    default = next((each.id for each in found if each.is_default), None)
    body = {"configs": [each.as_json() for each in found], "default_config_id": default}
    return Response(written(body), media_type="application/json")


@router.get("/{config_id}", **documented(None, 200, CONFIG))
async def get_config(user_id: UserId, config_id: ConfigId, calling: Calling, service: Service) -> Response:
    """One config, its api_key masked."""
    user = owned(calling, user_id)
    with told():
        return _answer(await service.memory.drive(service.configs.get(calling.tenant, user, config_id)))


@router.put("/{config_id}", **documented(VERSION | REPLACEMENT, 200, CONFIG, 412, 428))
async def replace_config(
    request: Request, user_id: UserId, config_id: ConfigId, calling: Calling, service: Service
) -> Response:
    """Sets every field. The api_key stays when the body has none, and goes when it is null."""
    user = owned(calling, user_id)
    values = await _body(request)
    expected, rest = _expected(request, values)
    with told(precondition=expected.by_header):
        flow = service.configs.replace(calling.tenant, user, config_id, rest, expected.version)
        return _answer(await service.memory.drive(flow))


@router.patch("/{config_id}", **documented(VERSION | PATCH, 200, CONFIG, 412, 428))
async def update_config(
    request: Request, user_id: UserId, config_id: ConfigId, calling: Calling, service: Service
) -> Response:
    """Sets the fields of a merge patch (RFC 7396): null takes one back to its default."""
    user = owned(calling, user_id)
    values = await _body(request, _MERGE_PATCH)
    expected, rest = _expected(request, values)
    with told(precondition=expected.by_header):
        flow = service.configs.update(calling.tenant, user, config_id, rest, expected.version)
        return _answer(await service.memory.drive(flow))


@router.delete("/{config_id}", status_code=204, **documented(VERSION | DELETION, 204, None, 412, 428))
async def delete_config(
    request: Request, user_id: UserId, config_id: ConfigId, calling: Calling, service: Service
) -> Response:
    """Deletes a config with its api_key. Sessions bound to it are told with their next prepare."""
    user = owned(calling, user_id)
    values: Any = await _body(request) if await request.body() else {}
    expected, rest = _expected(request, values)
    if rest:
        raise Problem(
            422, "invalid_request", "The request cannot be understood", "A delete takes expected_version only."
        )
    with told(precondition=expected.by_header):
        await service.memory.drive(service.configs.delete(calling.tenant, user, config_id, expected.version))
    return Response(status_code=204)


def owned(calling: Caller, user_id: str) -> str:
    """The user of a path, when the caller may see it. Raises Problem (404), ConfigurationError."""
    if calling.user is not None and user_id != calling.user:
        raise not_found()
    return check_user(user_id)


async def load_config(service: State, calling: Caller, config_id: str) -> ModelConfig:
    """The model config that a request names, as it is stored now. Raises Problem (404, 409)."""
    with told():
        return _used(await service.memory.drive(service.configs.find(calling.tenant, calling.user, config_id)))


async def bound_config(service: State, calling: Caller, session: str) -> StoredConfig | None:
    """The config that the caller's session is bound to, to show it; None without one, or when it is another user's.

    Raises Problem (409) when it was deleted.
    """
    with told():
        found = await service.memory.drive(service.configs.bound(calling.tenant, session))
    return None if found is not None and calling.user not in (None, found.user) else found


async def bound_model_config(service: State, calling: Caller, session: str) -> ModelConfig | None:
    """What the caller's session is judged by when the request names nothing: read anew each time, whoever's it is.

    None without one. Raises Problem (409) when it was deleted.
    """
    with told():
        found = await service.memory.drive(service.configs.bound(calling.tenant, session))
    return None if found is None else _used(found.model_config)


async def bind_session(
    service: State, calling: Caller, session: str, config_id: str, user_id: str | None = None
) -> StoredConfig:
    """Binds the caller's session to a config of the user named, by default the caller's own. Raises Problem (404)."""
    user = calling.user if user_id is None else owned(calling, user_id)
    with told():
        return await service.memory.drive(service.configs.bind(calling.tenant, session, user, config_id))


async def unbind_session(service: State, calling: Caller, session: str) -> bool:
    """Ends the binding of the caller's session; answers whether there was one."""
    with told():
        return await service.memory.drive(service.configs.unbind(calling.tenant, session))


def _used(config: ModelConfig) -> ModelConfig:
    limit_used(config.limit, config.model).emit()
    return config


async def _body(request: Request, *media_types: str) -> Any:
    """The body, read strictly. Raises Problem (400, 413, 415)."""
    declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if declared not in media_types or "content-encoding" in request.headers:
        check_content_type(request)
    return await read_body(request)


def _expected(request: Request, values: Any) -> tuple[Expected, Any]:
    """The version expected, and the body without it. Raises Problem (400, 428), ConfigurationError."""
    in_body: Any = None
    if is_object(values) and "expected_version" in values:
        in_body = values["expected_version"]
        values = {name: value for name, value in values.items() if name != "expected_version"}
        if not isinstance(in_body, int) or isinstance(in_body, bool) or in_body < 1:
            raise ConfigurationError("expected_version: expected a whole number, for example 3.")
    header = ",".join(request.headers.getlist("if-match")).strip()
    if not header:
        if in_body is None:
            raise version_required()
        return Expected(in_body, by_header=False), values
    match = _ETAG.fullmatch(header)
    if match is None:
        raise Problem(
            400,
            "bad_if_match",
            "If-Match names no version",
            "Send one version in quotes, as the ETag of the config has it, for example 'If-Match: \"3\"'.",
        )
    if in_body is not None and in_body != int(match[1]):
        raise ConfigurationError("expected_version: differs from If-Match; send one of them.")
    return Expected(int(match[1]), by_header=True), values


def _answer(stored: StoredConfig, status: int = 200, **headers: str) -> Response:
    headers["ETag"] = f'"{stored.version}"'
    return Response(written(stored.as_json()), status, headers, media_type="application/json")
