"""Tool definitions as the JSON that a provider gets, whatever a framework keeps them in.

OpenAI schemas with and without their outer object, pydantic models (v1 and v2 style), tools with
`name`, `description` and a schema (LangChain's `args_schema`, MCP's `inputSchema`, the Agents SDK's
`params_json_schema`), callables with a signature and a docstring.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pydantic import Field, TypeAdapter, create_model

from compactor.exceptions import ConfigurationError
from compactor.json_values import is_array, is_object
from compactor.records import write_json
from compactor.tokens import Encode, count_json

UNREADABLE_TOOL: Final = 1_000  # tokens; a typical definition costs 500-1,500
_SCHEMAS: Final = ("args_schema", "params_json_schema", "inputSchema", "input_schema", "parameters")
_NO_PARAMETERS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}


def count_tools(tools: Any, encode: Encode) -> tuple[int, tuple[str, ...]]:
    """Tokens of all definitions as compact JSON, and the types of those that could not be read.

    Each unreadable one costs UNREADABLE_TOOL. Raises ConfigurationError when `tools` is no list.
    """
    read: list[Mapping[str, Any]] = []
    unreadable: list[str] = []
    for tool in listed(tools):
        schema = tool_schema(tool)
        if schema is None:
            unreadable.append(type(tool).__name__)
        else:
            read.append(schema)
    tokens = count_json(read, encode) if read else 0
    return tokens + UNREADABLE_TOOL * len(unreadable), tuple(unreadable)


def listed(tools: Any) -> Sequence[Any]:
    """The tools as a list; None is no tools. Raises ConfigurationError."""
    if tools is None:
        return ()
    if is_array(tools):
        return tools
    raise ConfigurationError(
        f"tools: expected a list of tools, found {type(tools).__name__}; "
        "write [tool] for a single one, list(tools) for several."
    )


def tool_schema(tool: Any) -> Mapping[str, Any] | None:
    """The definition of one tool as it is sent; None when it cannot be read. Never raises an Exception."""
    try:
        schema = _read(tool)
        write_json(schema)
    except Exception:  # noqa: BLE001 # why: tools are foreign objects, and whatever one raises means the same
        return None
    return schema


def _read(tool: Any) -> Mapping[str, Any] | None:
    if is_object(tool):
        return _whole(tool)
    if isinstance(tool, type):
        return _of_class(tool)
    named = _langchain(tool)
    if named is not None:
        return named
    if isinstance(getattr(tool, "name", None), str):
        return _of_object(tool)
    if callable(getattr(tool, "model_dump", None)):
        dumped = tool.model_dump(mode="json", exclude_unset=True)
        return _whole(dumped) if is_object(dumped) else None
    return _of_callable(tool) if callable(tool) else None


def _whole(tool: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A dict as it is; a bare function (name and parameters) gets the object that goes around it."""
    if not tool:
        return None
    whole = dict(tool)
    bare = "type" not in tool and isinstance(tool.get("name"), str) and "input_schema" not in tool
    return {"type": "function", "function": whole} if bare else whole


def _function(name: str, description: Any, parameters: Any) -> Mapping[str, Any]:
    function: dict[str, Any] = {"name": name}
    if isinstance(description, str) and description:
        function["description"] = description
    function["parameters"] = parameters
    return {"type": "function", "function": function}


def _of_class(kind: type) -> Mapping[str, Any] | None:
    parameters = _schema(kind)
    if parameters is not None:
        return _function(kind.__name__, inspect.getdoc(kind), parameters)
    return _of_callable(kind)


def _of_object(tool: Any) -> Mapping[str, Any] | None:
    given = next((found for name in _SCHEMAS if (found := getattr(tool, name, None)) is not None), None)
    parameters = _NO_PARAMETERS if given is None else _schema(given)
    if given is None and is_object(args := getattr(tool, "args", None)):
        parameters = {"type": "object", "properties": args}
    return None if parameters is None else _function(tool.name, getattr(tool, "description", None), parameters)


def _schema(given: Any) -> Mapping[str, Any] | None:
    """JSON schema of a pydantic model, or the schema itself."""
    if is_object(given):
        return given
    for name in ("model_json_schema", "schema"):
        make = getattr(given, name, None)
        if callable(make):
            made = make()
            return made if is_object(made) else None
    return None


def _langchain(tool: Any) -> Mapping[str, Any] | None:
    """A tool of LangChain as LangChain sends it: without injected arguments and titles."""
    tools = sys.modules.get("langchain_core.tools")
    if tools is None or not isinstance(tool, tools.BaseTool):
        return None
    from langchain_core.utils.function_calling import convert_to_openai_tool

    return convert_to_openai_tool(tool)


def _of_callable(tool: Callable[..., Any]) -> Mapping[str, Any] | None:
    name = getattr(tool, "__name__", None) or type(tool).__name__
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(tool, eval_str=True).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        kind = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        # Under names of our own: a model takes no field called `model_config` or `_hidden`.
        fields[f"p{len(fields)}"] = (_known(kind), Field(default, alias=parameter.name))
    model = create_model(name, **fields)
    return _function(name, inspect.getdoc(tool), model.model_json_schema())


def _known(kind: Any) -> Any:
    """The annotation, or Any where it has no JSON schema."""
    try:
        TypeAdapter(kind).json_schema()
    except Exception:  # noqa: BLE001 # why: annotations are foreign objects; pydantic raises several kinds of error
        return Any
    return kind
