"""SystemTemplate: places filled once, whatever the values say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from compactor.exceptions import ConfigurationError
from compactor.judging import Request, count_fixed, request_key
from compactor.system_template import SystemTemplate, unavailable
from compactor.tokens import json_text
from tests.unit.chat import by_length
from tests.unit.conversations import json_values

TEXT = "You run the lab.\n{{topology_info}}\nAnswer {{ name }} in one sentence."
values = st.one_of(
    st.text(max_size=60), st.sampled_from(["{{name}}", "{{topology_info}}", "{{{{name}}}}", "\\1", "{0}"])
)


def filled(text: str, variables: Any) -> str:
    return SystemTemplate(text, variables).filled


@given(values.filter(bool), values.filter(bool))
def test_what_a_value_says_stands_as_it_is_and_is_never_expanded_again(topology: str, name: str) -> None:
    assert filled(TEXT, {"topology_info": topology, "name": name}) == (
        f"You run the lab.\n{topology}\nAnswer {name} in one sentence."
    )


@given(st.text(max_size=80))
def test_without_variables_a_text_stands_as_it_is(text: str) -> None:
    assert filled(text, None) == filled(text, {}) == text


def test_a_place_without_a_value_stays() -> None:
    assert filled(TEXT, {"name": "Ada"}) == TEXT.replace("{{ name }}", "Ada")


def test_a_name_may_have_several_places() -> None:
    assert filled("{{a}} {{b}} {{ a }}", {"a": "x", "b": "{{a}}"}) == "x {{a}} x"


@pytest.mark.parametrize("nothing", [None, ""])
def test_nothing_known_is_said_in_words(nothing: str | None) -> None:
    assert filled("{{topology_info}}", {"topology_info": nothing}) == "(No topology information available)"
    assert unavailable("open_tickets") == "(No open tickets available)"


@given(json_values.filter(lambda value: value not in (None, "")))
def test_any_value_of_json_has_a_text(value: Any) -> None:
    assert filled("<{{x}}>", {"x": value}) == f"<{value if isinstance(value, str) else json_text(value)}>"


class Topology(BaseModel):
    name: str
    routers: list[str] = ["R1"]


class Broken:
    def __init__(self, dumped: Any) -> None:
        self.dumped = dumped

    def model_dump(self, **_: Any) -> Any:
        if isinstance(self.dumped, Exception):
            raise self.dumped
        return self.dumped


def test_a_pydantic_model_is_sent_whole_defaults_included() -> None:
    assert filled("<{{x}}>", {"x": Topology(name="lab")}) == '<{"name":"lab","routers":["R1"]}>'


UNKNOWN = [object(), {1, 2}, b"bytes", print, {"a": {object()}}, {(1, 2): 3}, Topology, Broken({1}), Broken(OSError())]


@pytest.mark.parametrize("value", UNKNOWN, ids=lambda value: type(value).__name__)
def test_a_value_that_json_does_not_know_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="x: expected text, or data that JSON knows, found"):
        SystemTemplate("{{x}}", {"x": value})


def test_a_value_without_a_place_is_refused_since_it_would_be_lost() -> None:
    with pytest.raises(ConfigurationError, match=r"no place for topology in the system text.*Write \{\{topology\}\}"):
        SystemTemplate("{{topology_info}}", {"topology": "r1"})
    with pytest.raises(ConfigurationError, match="no place for a, b"):
        SystemTemplate("{a} {{ b c }}", {"a": "1", "b": "2"})


@pytest.mark.parametrize("variables", ["topology", ["a"], 7, True])
def test_variables_that_are_no_mapping_are_refused(variables: Any) -> None:
    with pytest.raises(ConfigurationError, match="variables: expected a mapping of names to texts"):
        SystemTemplate(TEXT, variables)


def test_variables_without_a_system_text_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="pass it as system="):
        Request(variables={"name": "Ada"})


@given(values, values)
def test_base_and_variables_are_the_system_text(topology: str, name: str) -> None:
    request = Request(system=TEXT, variables={"topology_info": topology, "name": name})
    fixed, plain = count_fixed(request, by_length), count_fixed(Request(system=request.filled), by_length)
    assert (fixed.system, fixed.total) == (plain.system, plain.total)
    assert 0 <= fixed.variables <= fixed.system
    assert plain.variables == count_fixed(Request(system=TEXT), by_length).variables == 0


def test_the_base_never_holds_the_braces() -> None:
    request = Request(system="{{a}} Be kind.", variables={"a": "x" * 400})
    fixed = count_fixed(request, by_length)
    empty = count_fixed(Request(system=" Be kind."), by_length)
    assert (fixed.variables, fixed.system - fixed.variables) == (100, empty.system)


@given(st.tuples(values, values), st.tuples(values, values))
def test_other_values_are_counted_anew(one: tuple[str, str], other: tuple[str, str]) -> None:
    keys = [
        request_key(Request(system="{{a}}{{b}}", variables=dict(zip("ab", each, strict=True))), "o200k_base")
        for each in (one, other)
    ]
    assert (keys[0] == keys[1]) is (one == other)
