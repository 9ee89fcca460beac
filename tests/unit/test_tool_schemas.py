"""Tool definitions, whatever holds them, are counted as the JSON that is sent; none is free."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal
from unittest.mock import MagicMock

import pydantic
import pydantic.v1
import pytest
from langchain_core.tools import InjectedToolArg, StructuredTool, tool

from compactor.context.tool_schemas import UNREADABLE_TOOL, count_tools, tool_schema
from compactor.encodings import encoder
from compactor.exceptions import ConfigurationError
from compactor.tokens import count_json

ENCODE = encoder("cl100k_base")
PARAMETERS = {
    "type": "object",
    "properties": {"host": {"type": "string"}, "port": {"type": "integer", "default": 22}},
    "required": ["host"],
}
FUNCTION = {"name": "connect", "description": "Connects to a host.", "parameters": PARAMETERS}
SENT = {"type": "function", "function": FUNCTION}


class V2(pydantic.BaseModel):
    """Connects to a host."""

    host: str
    port: int = 22


class V1(pydantic.v1.BaseModel):
    """Connects to a host."""

    host: str
    port: int = 22


@dataclass
class Like:
    """A tool as LangChain's look, without LangChain."""

    name: str = "connect"
    description: str = "Connects to a host."
    args_schema: Any = None


def connect(host: str, port: int = 22) -> str:
    """Connects to a host."""
    return f"{host}:{port}"


def read(given: Any) -> dict[str, Any]:
    schema = tool_schema(given)
    assert schema is not None
    function: dict[str, Any] = schema["function"]
    assert schema["type"] == "function"
    return function


@pytest.mark.parametrize("given", [SENT, FUNCTION, {**SENT, "strict": True}])
def test_an_openai_schema_is_sent_as_it_is_with_the_object_that_goes_around_it(given: dict[str, Any]) -> None:
    assert tool_schema(given) == ({"type": "function", "function": given} if given is FUNCTION else given)


def test_one_schema_costs_the_same_with_and_without_the_outer_object() -> None:
    assert count_tools([SENT], ENCODE) == count_tools([FUNCTION], ENCODE)


def test_definitions_cost_what_the_session_counts_for_them() -> None:
    assert count_tools([SENT, SENT], ENCODE) == (count_json([SENT, SENT], ENCODE), ())


def test_text_is_counted_as_sent_not_as_escapes() -> None:
    """ensure_ascii=False, as the SDKs send it: escapes would cost several times as much."""
    chinese = {**FUNCTION, "description": "在多个网络设备上执行命令"}
    tokens, _ = count_tools([chinese], ENCODE)
    sent = {"type": "function", "function": chinese}
    assert tokens == ENCODE(json.dumps([sent], ensure_ascii=False, separators=(",", ":")))
    assert tokens < ENCODE(json.dumps([sent], separators=(",", ":")))


@pytest.mark.parametrize("model", [V2, V1])
def test_a_pydantic_model_of_either_version_is_read(model: type) -> None:
    function = read(model)
    assert (function["name"], function["description"]) == (model.__name__, "Connects to a host.")
    assert set(function["parameters"]["properties"]) == {"host", "port"}
    assert function["parameters"]["required"] == ["host"]


@pytest.mark.parametrize("schema", [V2, V1, PARAMETERS])
def test_a_tool_with_a_schema_is_read_without_langchain(schema: Any) -> None:
    function = read(Like(args_schema=schema))
    assert (function["name"], function["description"]) == ("connect", "Connects to a host.")
    assert set(function["parameters"]["properties"]) == {"host", "port"}


def test_a_tool_without_a_schema_takes_no_parameters() -> None:
    assert read(Like())["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize("attribute", ["inputSchema", "params_json_schema", "parameters"])
def test_tools_of_other_frameworks_keep_their_schema_elsewhere(attribute: str) -> None:
    other = type("Other", (), {"name": "connect", "description": None, attribute: PARAMETERS})()
    assert read(other) == {"name": "connect", "parameters": PARAMETERS}


def test_a_tool_of_langchain_is_counted_as_langchain_sends_it() -> None:
    @tool
    def fetch(url: str, token: Annotated[str, InjectedToolArg] = "") -> str:
        """Fetches a page."""
        return url + token

    assert set(read(fetch)["parameters"]["properties"]) == {"url"}
    assert read(StructuredTool.from_function(connect))["name"] == "connect"


def test_a_callable_is_read_by_signature_and_docstring() -> None:
    def search(query: str, *, kind: Literal["a", "b"] = "a", limit: int | None = None, **_more: Any) -> str:
        """Searches."""
        return query + kind + str(limit)

    function = read(search)
    assert (function["name"], function["description"]) == ("search", "Searches.")
    assert function["parameters"]["required"] == ["query"]
    assert function["parameters"]["properties"]["kind"]["enum"] == ["a", "b"]


unhinted: dict[str, Any] = {}
exec("def no_hints(a, b=1): ...\nlambda_ = lambda x: x", unhinted)  # as callers without type hints write them


class Holder:
    def method(self, host: str) -> str:
        return host

    def __call__(self, host: str) -> str:
        return host


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (unhinted["no_hints"], {"a", "b"}),
        (Holder().method, {"host"}),
        (Holder(), {"host"}),
        (functools.partial(connect, port=1), {"host", "port"}),
        (unhinted["lambda_"], {"x"}),
    ],
    ids=["no hints", "method", "callable object", "partial", "lambda"],
)
def test_callables_of_every_kind_are_read(given: Callable[..., Any], names: set[str]) -> None:
    assert set(read(given)["parameters"]["properties"]) == names


def test_an_annotation_without_a_json_schema_is_any_value() -> None:
    def odd(where: Holder, model_config: int, _hidden: int = 1) -> str:
        """Odd."""
        return str((where, model_config, _hidden))

    assert {"where", "model_config"} <= set(read(odd)["parameters"]["properties"])


class Raising:
    @property
    def name(self) -> str:
        raise RuntimeError("secret")


class Recursive(dict[str, Any]):
    def __init__(self) -> None:
        super().__init__(name="loop")
        self["parameters"] = self


@pytest.mark.parametrize(
    "given",
    [
        None,
        5,
        "connect",
        {},
        object(),
        MagicMock(),
        Raising(),
        Recursive(),
        Like(args_schema=7),
        Like(args_schema=object),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_read_costs_the_flat_price(given: Any) -> None:
    tokens, unreadable = count_tools([given, SENT], ENCODE)
    assert tokens == UNREADABLE_TOOL + count_json([SENT], ENCODE)
    assert unreadable == (type(given).__name__,)


@pytest.mark.parametrize("given", ["connect", connect, {"name": "x"}, 7, V2])
def test_tools_that_are_no_list_are_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"expected a list of tools.*\[tool\]"):
        count_tools(given, ENCODE)


@pytest.mark.parametrize("none", [None, [], ()])
def test_no_tools_cost_nothing(none: Any) -> None:
    assert count_tools(none, ENCODE) == (0, ())


def test_the_tools_given_are_not_changed() -> None:
    given: Mapping[str, Any] = json.loads(json.dumps(FUNCTION))
    count_tools([given], ENCODE)
    assert given == FUNCTION
