"""extract(): a shortened result without a model: deterministic, within its budget, failures first."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from compactor.encodings import encoder
from compactor.extract import Source, extract, extracts, head_and_tail, missing
from compactor.tokens import count_text
from compactor.wording import CHINESE, ENGLISH, Wording
from compactor.words import known_values
from tests.unit.conversations import json_values, long_text, text, words

O200K = "o200k_base"


def short(whole: str, budget: int = 100, wording: Wording = ENGLISH) -> str:
    return extract(whole, budget=budget, encode=encoder(O200K), wording=wording)


def noise(count: int) -> list[str]:
    return [f"step {number} went fine without any remark" for number in range(count)]


shallow = json_values.map(lambda value: json.dumps(value, ensure_ascii=True))
texts = st.one_of(text, long_text, shallow, st.lists(words, max_size=30).map("\n".join))


@settings(max_examples=300)
@given(texts, st.integers(20, 340), st.sampled_from([ENGLISH, CHINESE]))
@example("数", 20, CHINESE)
@example("🙂" * 300, 60, ENGLISH)
@example("\ud800" * 300, 60, ENGLISH)
@example("x" * 100_000, 60, ENGLISH)
@example("[]", 60, ENGLISH)
@example("{}", 60, ENGLISH)
@example('{"a": {}}', 60, ENGLISH)
@example("[" * 500 + "]" * 500, 60, ENGLISH)
def test_an_extract_is_within_budget_and_never_empty_for_a_text_with_a_line(
    whole: str, budget: int, wording: Wording
) -> None:
    body = short(whole, budget, wording)
    if len(body) > 1:
        assert count_text(body, encoder(O200K)) <= budget
    has_line = any(line.strip() for line in whole.splitlines())
    assert bool(body.strip()) is has_line


@given(texts, st.integers(20, 340))
def test_the_same_text_always_gives_the_same_extract(whole: str, budget: int) -> None:
    assert short(whole, budget) == short(whole, budget)


@pytest.mark.parametrize("blank", ["", " ", "\n\n", "\t \r\n"])
def test_a_text_without_a_line_gives_nothing(blank: str) -> None:
    assert short(blank) == ""


def test_a_small_text_is_kept_whole() -> None:
    assert short("first line\nsecond line\n\nthird = 3") == "first line\nsecond line\nthird = 3"


@pytest.mark.parametrize(
    "line",
    [
        "Error: permission denied on /srv/x",
        "java.lang.NullPointerException: message",
        "Traceback (most recent call last):",
        "FAILED tests/test_a.py::test_b - assert 1 == 2",
        "panic: runtime error: index out of range",
        "curl: (28) Connection timed out after 5001 ms",
        "bash: foo: command not found",
        "错误：没有权限访问该文件",
        "连接失败",
    ],
)
def test_a_failure_in_the_middle_is_kept(line: str) -> None:
    body = short("\n".join([*noise(300), line, *noise(300)]), 100)
    assert line in body


def test_the_first_and_last_lines_are_kept() -> None:
    body = short("\n".join(["head", *noise(300), "tail"]), 100)
    assert body.startswith("head\n")
    assert body.endswith("\ntail")


def test_lines_with_values_and_identifiers_go_before_plain_ones() -> None:
    facts = ["ticket = INC-48213", "host: 10.20.30.44", "see https://example.com/a/b", "due 2031-04-09 in /srv/a/b.log"]
    body = short("\n".join([*noise(100), *facts, *noise(100)]), 120)
    assert all(fact in body for fact in facts)


def test_the_catalogues_facts_survive_verbatim() -> None:
    line = "ticket INC-48213, region eu-west-7, due 2031-04-09, host 10.20.30.44, sha 9f3c2ab"
    assert line in short("\n".join([*noise(100), line, *noise(100)]), 80)


def test_lines_stay_in_their_order() -> None:
    lines = [f"value_{number} = {number * 7919}" for number in range(60)]
    kept = [line for line in short("\n".join(lines), 150).splitlines() if line.startswith("value_")]
    assert kept == sorted(kept, key=lines.index)


def test_repeated_lines_are_folded_with_a_count() -> None:
    assert short("\n".join(["retrying {now}"] * 500 + ["done"])) == "retrying {now} (x500)\ndone"


def test_every_gap_says_how_many_lines_it_hides() -> None:
    whole = noise(200)
    body = short("\n".join(whole), 80)
    hidden = sum(int(line.split()[1]) for line in body.splitlines() if line.startswith("… "))
    kept = sum(1 for line in body.splitlines() if not line.startswith("… "))
    assert hidden + kept == len(whole)


def test_chinese_marks_stand_in_chinese_extracts() -> None:
    body = short("\n".join(f"第{number}步顺利完成，没有任何备注" for number in range(200)), 80, CHINESE)
    assert "…… " in body
    assert " 行 ……" in body


def test_json_is_read_as_paths_and_values() -> None:
    value = {"ticket": {"id": "INC-48213", "tags": ["a", "b"]}, "rows": [{"n": 1}, {"n": 2}], "none": None}
    assert short(json.dumps(value)) == "ticket: id=INC-48213 tags=a,b\nrows: n=1\n- 2"


def test_records_under_codes_are_told_like_a_list_and_what_they_hold_belongs_to_them() -> None:
    value = {"variants": {
        f"12345678{n}": {"item_id": f"12345678{n}", "price": 10.5 + n, "options": {"color": color}}
        for n, color in enumerate(["red", "blue", "green"])
    }}  # fmt: skip
    assert short(json.dumps(value), 120) == (
        "variants: item_id=123456780 price=10.5 color=red\n- 123456781, 11.5, blue\n- 123456782, 12.5, green"
    )


def test_json_inside_a_json_text_is_read_too() -> None:
    assert short(json.dumps({"body": json.dumps({"order": "INC-48213"})})) == "body: order=INC-48213"


@pytest.mark.parametrize("whole", ['{"a": 1', "[1, 2,", '{"a": 1} trailing', "{not json}", "[] []", '{"a": \ud800}'])
def test_broken_json_is_read_as_lines(whole: str) -> None:
    assert short(whole) == whole.strip()


def test_an_error_inside_json_is_kept() -> None:
    rows: list[dict[str, Any]] = [{"name": f"check {number}", "state": "fine"} for number in range(200)]
    rows[100]["state"] = "Error: disk full"
    assert "state=Error: disk full" in short(json.dumps({"rows": rows}), 100)


def test_a_long_line_keeps_both_ends() -> None:
    body = short("start " + "x" * 5_000 + " end", 340)
    assert body.startswith("start ")
    assert body.endswith(" end")


def test_a_long_text_is_read_to_its_end() -> None:
    body = short("\n".join([*noise(30_000), "the very last line"]), 80)
    assert body.endswith("the very last line")


# --- head and tail


@given(st.text(min_size=1, max_size=400), st.integers(1, 300))
def test_head_and_tail_hold_so_many_characters_around_the_mark(whole: str, chars: int) -> None:
    if chars >= len(whole):
        return
    head, mark, tail = head_and_tail(whole, chars=chars, mark="<cut>").rpartition("<cut>")
    assert mark == "<cut>"
    assert head == whole[: chars - chars // 2] + "\n"
    assert tail.rstrip("\n") == ("\n" + whole[len(whole) - chars // 2 :] if chars > 1 else "").rstrip("\n")


@pytest.mark.parametrize("whole", ["[" * 1_000 + "1" + "]" * 1_000, '{"a":' * 1_000 + "1" + "}" * 1_000])
def test_deeply_nested_json_is_shortened(whole: str) -> None:
    assert short(whole)


@pytest.mark.parametrize(
    "line",
    [
        "ERROR: " + "disk full on device sda7, cannot write the journal; " * 8,
        "错误：没有权限访问该文件，请检查用户和组的设置是否正确。" * 8,
    ],
)
def test_a_long_failure_line_is_kept_in_part(line: str) -> None:
    body = short("\n".join([*noise(200), line, *noise(200)]), 60)
    assert line[:12] in body


def test_a_gap_in_a_very_long_text_says_how_many_lines_it_hides() -> None:
    whole = noise(30_000)
    body = short("\n".join(whole), 80)
    hidden = sum(int(line.split()[1]) for line in body.splitlines() if line.startswith("… "))
    assert hidden + sum(1 for line in body.splitlines() if not line.startswith("… ")) == len(whole)


@pytest.mark.parametrize("budget", [20, 60])
def test_a_long_indented_line_is_not_cut_to_blanks(budget: int) -> None:
    assert short(" " * 300 + "x9Zk" * 100, budget).strip()


def test_nested_json_takes_memory_in_proportion_to_its_size() -> None:
    whole = "[" * 900 + ",".join(["{}"] * 2_000) + "]" * 900
    short("warm")
    tracemalloc.start()
    short(whole)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 200 * len(whole)


# --- what is known, and what several results share


def test_what_stands_in_kept_messages_is_not_shown_again() -> None:
    whole = "\n".join([*noise(50), "order INC-48213 of user mia_garcia_4516", *noise(50)])
    known = known_values(["cancel INC-48213, please"])
    body = extract(whole, budget=40, encode=encoder(O200K), wording=ENGLISH, known=known)
    assert "mia_garcia_4516" in body
    without = extract(whole, budget=40, encode=encoder(O200K), wording=ENGLISH, known=known_values([whole]))
    assert "mia_garcia_4516" not in without


def test_results_share_their_tokens_by_what_they_tell() -> None:
    rich = "\n".join(f"the token of host number_{n} is K{n * 7919:05}x" for n in range(60))
    poor = "\n".join(f"all went fine with this step {'indeed ' * (n % 5)}" for n in range(300))
    sources = [Source(text, 300, ENGLISH, least=12) for text in (poor, rich)]
    bodies = extracts(sources, total=320, encode=encoder(O200K))
    counts = [count_text(body, encoder(O200K)) for body in bodies]
    assert sum(counts) <= 320
    assert counts[1] > 4 * counts[0] > 0


def test_a_value_of_several_results_is_shown_once() -> None:
    texts = [f"{line}\nrun {n} of shop_9911x ended" for n, line in enumerate(["first", "second", "third"])]
    bodies = extracts([Source(text, 40, ENGLISH) for text in texts], total=22, encode=encoder(O200K))
    assert sum("shop_9911x" in body for body in bodies) == 1


@given(st.lists(texts, max_size=6), st.integers(20, 400), st.integers(0, 30))
def test_results_together_stay_within_their_tokens(wholes: list[str], total: int, least: int) -> None:
    sources = [Source(whole, 100, ENGLISH, least) for whole in wholes]
    bodies = extracts(sources, total=total, encode=encoder(O200K))
    assert bodies == extracts(sources, total=total, encode=encoder(O200K))
    assert sum(count_text(body, encoder(O200K)) for body in bodies) <= total
    assert all(count_text(body, encoder(O200K)) <= 100 for body in bodies)


# --- lines of a file, repeated beginnings


def test_a_file_that_is_shown_with_line_numbers_keeps_those_of_what_is_left() -> None:
    file = [f"{n}\t    value = compute(step)" for n in range(1, 200)]
    file[149] = "150\tdef get_candidate_relations(options):"
    assert "150 def get_candidate_relations" in short("\n".join(file), 60)


def test_a_beginning_that_all_results_share_takes_no_tokens() -> None:
    texts = [f"<returncode>0</returncode>\nmoved part_{n}x to /srv/store/{n}" for n in range(6)]
    bodies = extracts([Source(text, 60, ENGLISH) for text in texts], total=78, encode=encoder(O200K))
    assert all(f"/srv/store/{n}" in body for n, body in enumerate(bodies))
    assert not any("returncode" in body for body in bodies)


# --- what a summary lost


def lost(whole: str, summary: str, budget: int = 60, *, kept: str = "") -> str:
    encode = encoder(O200K)
    return missing(whole, summary, budget=budget, encode=encode, wording=ENGLISH, known=known_values([kept]))


def test_failures_codes_paths_addresses_days_and_amounts_are_missed() -> None:
    facts = ["ticket INC-48213", "see https://example.com/a/b", "mail ann@example.com", "due 2031-04-09",
             "paid $1,250.75", "log at /srv/a/b.log", "Error: permission denied"]  # fmt: skip
    body = lost("\n".join([*noise(100), *facts, *noise(100)]), "The steps ran.", 120)
    assert [fact for fact in facts if fact not in body] == []
    assert "fine" not in body


@pytest.mark.parametrize(("summary", "kept"), [("It was INC-48213.", ""), ("It ran.", "what of INC-48213?")])
def test_what_the_summary_or_a_kept_message_holds_is_not_missed(summary: str, kept: str) -> None:
    assert lost("\n".join([*noise(20), "ticket INC-48213"]), summary, kept=kept) == ""


def test_an_identity_of_digits_alone_is_missed_where_its_key_says_so() -> None:
    whole = json.dumps({"item_id": 4273929280, "views": 1384279411})
    assert lost(whole, "An item.") == "item_id=4273929280"
