"""Rules by tool and arguments: what they match, what they let a compaction do, what is refused."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compactor import Code, ConfigurationError, ModelConfig, Rule, compact_messages
from compactor.models import Compacted
from compactor.rules import FREE, MOST_RULES, STANDARD, How, Rules, check_rules, stored_rules
from compactor.wording import carries_header
from tests.unit.chat import Chat, assistant, call, calling, long_text, result, user
from tests.unit.summarizers import saying

ERRORS = [
    f"ERROR {n}: disk /dev/sd{chr(97 + n)} reported {n * 37} unreadable sectors during the nightly scan"
    for n in range(3)
]


def reading(*called: tuple[str, dict[str, Any], str]) -> list[Chat]:
    """A conversation of one call a step, all of them answered and read."""
    chat = [user("go")]
    for n, (tool, arguments, text) in enumerate(called):
        chat += [calling(call(f"c{n}", tool, json.dumps(arguments))), result(f"c{n}", text)]
    return [*chat, assistant("done"), user("on")]


def compacted(chat: list[Chat], *rules: Rule | dict[str, Any], summarizer: Any = None, **given: Any) -> Compacted:
    config = ModelConfig("gpt-4o", 128, rules=rules)
    given = {"target_tokens": 1, "keep_recent_results": 0, **given}
    return compact_messages(chat, config, summarizer=summarizer, **given)


def replaced(done: Compacted) -> list[int]:
    return sorted(int(name[1:]) for name in done.originals)


TWO = reading(("read_file", {"path": "notes.md"}, long_text(900)), ("read_file", {"path": "a.py"}, long_text(900, "x")))


@pytest.mark.parametrize(
    ("rule", "stays"),
    [
        (Rule("read_file", {"path": "*.md"}, never=True), [2]),
        (Rule("READ_*", {"*": "*.MD"}, never=True), [2]),
        (Rule("read_file", {"p*": "?.py"}, never=True), [4]),
        (Rule("read_file", never=True), [2, 4]),
        (Rule(never=True), [2, 4]),
        (Rule("read", never=True), []),
        (Rule("read_file", {"path": "*.md", "mode": "*"}, never=True), []),
        (Rule("read_file", {"file": "*.md"}, never=True), []),
        (Rule("read_file", {"path": "[an]*"}, never=True), []),
    ],
)
def test_a_rule_holds_where_its_tool_and_all_its_arguments_match(rule: Rule, stays: list[int]) -> None:
    done = compacted(TWO, rule)
    assert [i for i in (2, 4) if done.messages[i] is TWO[i]] == stays


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("read_file", {"path": "AGENTS.md"}), ("Read", {"file_path": "/srv/app/CLAUDE.md"}),
        ("view", {"files": [{"path": "C:\\app\\agents.md"}]}), ("bash", {"command": "cd app && cat docs/AGENTS.md"}),
        ("fs", {"path": "/skills/pdf/SKILL.md"}), ("Skill", {"command": "pdf"}), ("mcp__x__load_skill", {}),
    ],
)  # fmt: skip
def test_instructions_and_skills_an_agent_read_stay(tool: str, arguments: dict[str, Any]) -> None:
    chat = reading((tool, arguments, long_text(900)), ("grep", {}, long_text(900, "x")))
    assert replaced(compacted(chat)) == [4]
    assert replaced(compacted(chat, Rule(tool, summarize=True))) == [2, 4], "a rule of one's own comes first"


@pytest.mark.parametrize("arguments", [r'{"path": "\u0041GENTS.md"}', r'{"path": "docs\/AGENTS\u002emd"}'])
def test_escapes_in_arguments_hide_nothing_from_a_rule(arguments: str) -> None:
    assert STANDARD.treatment("read_file", arguments).how is How.NEVER


@pytest.mark.parametrize("tool", ["search_skills_db", "read_file", "skillet"])
def test_other_results_do_not(tool: str) -> None:
    assert replaced(compacted(reading((tool, {"path": "AGENTS.md.txt"}, long_text(900))))) == [2]


def test_no_model_sees_what_a_rule_keeps_for_extracts() -> None:
    chat = reading(("crm", {"id": 1}, f"secret-a {long_text(900)}"), ("grep", {}, f"open-b {long_text(900, 'x')}"))
    model = saying("It found rows.")
    done = compacted(chat, Rule("crm", extract=True), summarizer=model)
    assert [request.tool for request in model.requests] == ["grep"]
    assert "secret-a" not in repr(model.requests)
    assert (done.outcome.by_extract, done.outcome.by_model) == (1, 1)


def test_a_summary_takes_the_place_of_the_condensed_form() -> None:
    rows = json.dumps([{"id": n, "state": "open", "kind": "task"} for n in range(40)], indent=2)
    chat, model = reading(("list", {}, rows), ("grep", {}, long_text(2_000))), saying("Forty open tasks.")
    size = {"target_tokens": 2_600, "keep_recent_results": 1}
    assert compacted(chat, summarizer=model, **size).outcome.by_condensed == 1
    done = compacted(chat, Rule("list", summarize=True), summarizer=model, **size)
    assert (done.outcome.by_condensed, done.outcome.by_model) == (0, 1)


@pytest.mark.parametrize("summarizer", [None, saying("A scan ran.")], ids=["extract", "model"])
@pytest.mark.parametrize("form", ["lines", "JSON", "repeated call"])
def test_lines_that_tell_of_failures_survive_whole(summarizer: Any, form: str) -> None:
    parts = [long_text(700), ERRORS[0], long_text(700, "x"), ERRORS[1], ERRORS[2], long_text(700, "y")]
    text = json.dumps({"log": parts}) if form == "JSON" else "\n".join(parts)
    chat = reading(("scan", {}, text), ("scan", {"again": form != "repeated call"}, "ok"))
    if form == "repeated call":
        chat = reading(("scan", {}, text), ("scan", {}, "clean now"))
    done = compacted(chat, {"tool": "scan", "keep_errors": True, "repeatable": True}, summarizer=summarizer)
    assert carries_header(done.messages[2]["content"]) is (form != "repeated call")
    rows = done.messages[2]["content"].splitlines()
    assert all(any(error in row for row in rows) for error in ERRORS)
    assert len(done.messages[2]["content"]) < len(text) / 4


def test_a_result_full_of_failures_stays_rather_than_lose_one() -> None:
    text = "\n".join(f"ERROR {n}: host-{n * 7919} refused the connection on port {n * 31}" for n in range(90))
    chat = reading(("scan", {}, text))
    assert replaced(compacted(chat)) == [2]
    assert compacted(chat, Rule("scan", keep_errors=True)).outcome.outcome is Code.NO_GAIN


def test_the_newest_results_of_a_tool_stay() -> None:
    calls = [(tool, {"n": n}, f"{tool} {n} {long_text(700, f'{tool}{n}')}") for n in range(4) for tool in ("a", "b")]
    done = compacted(reading(*calls), Rule("a", keep_last=2), Rule("*", keep_last=1))
    assert replaced(done) == [2, 4, 6, 8, 12], "two of a, one of b"
    assert replaced(compacted(reading(*calls), Rule("a", keep_last=0), Rule("*", keep_last=1)))[-1] == 14


def repeated(newer: str = "newer") -> list[Chat]:
    nothing: dict[str, Any] = {}
    return reading(*[("status", nothing, f"build {n} {newer} {long_text(190, f'w{n}')}") for n in range(3)])


def test_only_repeatable_answers_are_superseded_below_the_ceiling() -> None:
    chat = [*repeated(), *reading(("grep", {}, long_text(24_000)))]
    for rules, pointers in (((), 0), ((Rule("status", repeatable=True),), 2), ((Rule("grep", repeatable=True),), 0)):
        done = compact_messages(
            chat, ModelConfig("gpt-4o", None, "conservative", 40_000, rules=rules), keep_recent_results=0
        )
        assert done.before < 32_000, "below the ceiling"
        assert done.outcome.by_pointer == pointers
        if pointers:
            assert "original: m2" in done.messages[2]["content"]
            assert done.messages[6] is chat[6], "the newest stays"


def test_what_is_never_replaced_is_named_when_it_fills_the_window() -> None:
    chat = reading(("read_file", {"path": "AGENTS.md"}, long_text(9_000)))
    done = compact_messages(chat, ModelConfig("gpt-4o", 8))
    assert (done.outcome.outcome, done.outcome.reason) == (Code.EXHAUSTED, "pins_and_rules")
    assert done.messages == chat


def test_the_first_rule_that_says_something_decides_each_question() -> None:
    rules = Rules(
        [Rule("a*", keep_last=2), Rule("ab", extract=True, keep_last=5), Rule("*", never=True, keep_errors=True)]
    )
    treatment = rules.treatment("ab", "{}")
    assert (treatment.how, treatment.keep_last, treatment.keep_errors) == (How.EXTRACT, 2, True)
    assert rules.treatment("x", "{}").how is How.NEVER
    assert Rules().treatment("x", "{}") == FREE


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("never", "rules: expected a list"),
        ({"tool": "a"}, "rules: expected a list"),
        ([{"tool": "a", "never": True}] * (MOST_RULES + 1), "rules: expected a list of at most 64"),
        ([1], "rules[0]: expected a Rule"),
        ([{"tool": "a", "never": True}, {"tool": "a"}], "rules[1].says nothing"),
        ([{"tool": "a", "nevr": True}], "rules[0].nevr: is no field"),
        ([{"tool": "", "never": True}], "rules[0].tool: expected a pattern"),
        ([{"tool": "x" * 201, "never": True}], "rules[0].tool: expected a pattern"),
        ([{"tool": 3, "never": True}], "rules[0].tool: expected a pattern"),
        ([{"tool": "\ud800", "never": True}], "rules[0].tool: expected a pattern"),
        ([{"arguments": "*.md", "never": True}], "rules[0].arguments: expected at most"),
        ([{"arguments": {"path": 3}, "never": True}], "rules[0].arguments: expected a pattern"),
        ([{"arguments": {str(n): "x" for n in range(9)}, "never": True}], "rules[0].arguments: expected at most"),
        ([{"never": 1}], "rules[0].never: expected true or false"),
        ([{"keep_last": -1}], "rules[0].keep_last: expected a whole number"),
        ([{"keep_last": True}], "rules[0].keep_last: expected a whole number"),
        ([{"never": True, "extract": True}], "rules[0].never, extract, summarize: exclude each other"),
        (
            [{"tool": f"{n}" * 100, "arguments": {"a" * 99: "b" * 99}, "never": True} for n in range(60)],
            "bytes as JSON",
        ),
    ],
)
def test_wrong_rules_are_refused_with_their_place(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        ModelConfig("gpt-4o", 128, rules=given)
    assert told in str(raised.value)


def test_a_config_with_rules_is_still_a_value() -> None:
    one, same = (
        ModelConfig("gpt-4o", 128, rules=[{"tool": "a", "arguments": {"b": "c"}, "never": True}]) for _ in "ab"
    )
    assert one == same
    assert hash(one) == hash(same)
    assert pickle.loads(pickle.dumps(one)) == one
    assert one != ModelConfig("gpt-4o", 128)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abAB[]\\*?"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("pq"), inner, max_size=3),
)


def made(how: str, **given: Any) -> Rule:
    said: dict[str, Any] = {how: True}
    return Rule(**said, **given)


RULE = st.builds(
    made,
    tool=st.text("ab*?[]", min_size=1, max_size=6),
    arguments=st.dictionaries(
        st.text("pq*", min_size=1, max_size=3), st.text("ab*?[\\", min_size=1, max_size=6), max_size=2
    ),
    keep_last=st.none() | st.integers(0, 9),
    how=st.sampled_from(["never", "extract", "summarize", "repeatable", "keep_errors"]),
)


@given(st.lists(RULE, max_size=4), st.text("abAB"), JSON | st.text())
def test_any_rules_judge_any_call_and_come_back_as_they_were_stored(rules: list[Rule], tool: str, whole: Any) -> None:
    arguments = whole if isinstance(whole, str) else json.dumps(whole)
    told = Rules(rules).treatment(tool, arguments)
    kept = json.loads(json.dumps([rule.as_json() for rule in rules]))
    assert stored_rules(kept) == check_rules(kept) == tuple(rules)
    assert Rules(stored_rules(kept)).treatment(tool, arguments) == told


@given(st.lists(st.sampled_from(["a", "*", "?"]), min_size=1, max_size=12).map("".join), st.text("ab", max_size=12))
def test_a_pattern_means_what_a_simple_reading_of_it_says(pattern: str, name: str) -> None:
    def fits(p: str, n: str) -> bool:
        if not p:
            return not n
        if p[0] == "*":
            return fits(p[1:], n) or (bool(n) and fits(p, n[1:]))
        return bool(n) and p[0] in ("?", n[0]) and fits(p[1:], n[1:])

    matched = Rules([Rule(pattern, keep_errors=True)]).treatment(name, "{}").keep_errors
    assert matched is fits(pattern, name)


def test_what_a_newer_release_says_beside_is_left_out() -> None:
    kept = [{"tool": "a", "never": True, "until": 9}, {"tool": "b", "until": 9}, 3, None]
    assert stored_rules(kept) == (Rule("a", never=True),)
    assert stored_rules({"tool": "a"}) == stored_rules(None) == ()


@pytest.mark.parametrize("pattern", ["*a" * 90, "*?" * 90 + "b", "*[a" * 60])
def test_no_pattern_takes_long_on_a_long_argument(pattern: str) -> None:
    rules = Rules([Rule(arguments={"*": pattern}, never=True)])
    assert rules.treatment("write", json.dumps({"text": "a" * 200_000 + "c"})).how in (How.FREELY, How.NEVER)
    deep = "[" * 200 + "]" * 200
    assert rules.treatment("write", deep) == FREE


def test_arguments_stay_where_results_of_the_call_do() -> None:
    written = {"path": "notes.md", "text": long_text(1_500)}
    chat = reading(("write", written, "ok"), ("grep", {}, "ok"))
    assert replaced(compacted(chat)) == [1]
    assert compacted(chat, Rule("write", never=True)).outcome.outcome is Code.NOTHING_TO_DO
    assert compacted(chat, pins=["word 7 has value 55433"]).outcome.outcome is Code.NOTHING_TO_DO
