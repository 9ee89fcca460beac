"""What holds however often a session is compacted: constraints, languages, sizes, and a second run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any

from compactor import Code, ModelConfig
from compactor.encodings import encoder
from compactor.folded import folds_among
from compactor.models import Kind
from compactor.records import Record, unpack
from compactor.settings import Settings
from compactor.tokens import count_message
from compactor.wording import ENGLISH
from tests.integration.clients import Client
from tests.integration.conversations import user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import records, texts

ENCODE = encoder("o200k_base")
WINDOW = ModelConfig("gpt-4o", 8)
RULES = (
    "Never book a flight that leaves before 09:40 local time.",
    "All amounts must be given in EUR, rounded to 5 cents.",
    "My sister Ines (badge K-7741) must not be told about any of this.",
    "Write file names in lower case with underscores only.",
)
# Every fixed part of what we write that is long enough to be a sentence's.
OF_OURS = {
    part.strip(" ;:[],.…")
    for field in fields(ENGLISH)
    for part in re.split(r"\{\w+\}|;", getattr(ENGLISH, field.name))
    if len(re.findall(r"[A-Za-z]{2,}", part)) >= 2
}


def step(number: int, tool: str, arguments: dict[str, Any], content: str) -> list[dict[str, Any]]:
    function = {"name": tool, "arguments": json.dumps(arguments, ensure_ascii=False)}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": content},
    ]


def log(number: int) -> str:
    return "\n".join(f"part {number}-{line} took {line * number * 7919} ms on node-{line * 31}" for line in range(40))


def english_rounds() -> Iterator[list[dict[str, Any]]]:
    """Turns whose user adds a rule now and then."""
    for number in range(400):
        rule = RULES[1:][number // 15] if number % 15 == 0 and number // 15 < len(RULES) - 1 else "go on"
        yield [
            user(rule),
            *step(number, "run", {"part": number}, log(number)),
            {"role": "assistant", "content": "done"},
        ]


def chinese_rounds() -> Iterator[list[dict[str, Any]]]:
    """Turns with results of many kinds: prose, tables, code without a word of Chinese, repeats, long arguments."""
    rows = [
        {"订单号": 1_000 + n, "状态": "已经送达客户", "承运商": "北方物流公司", "付款方式": "货到付款"}
        for n in range(30)
    ]
    code = "\n".join(f"{n}\tvalue_{n} = compute(step_{n * 7919}, retries={n})" for n in range(60))
    for number in range(200):
        kinds: list[tuple[str, dict[str, Any], str]] = [
            (
                "查询",
                {"页": number},
                "\n".join(f"第{n}步：检查节点{number}-{n * 7919}，没有发现任何问题" for n in range(30)),
            ),
            ("订单", {"页": number}, json.dumps({"页": number, "订单": rows}, ensure_ascii=False)),
            (
                "view",
                {"path": f"/srv/part_{number}.py", "view_range": [1, 60]},
                code.replace("value", f"value{number}"),
            ),
            ("status", {}, "\n".join(f"ok {n}" for n in range(150))),
            ("write", {"path": "/srv/a.py", "content": f"x = {number}\n" * 300}, "ok"),
        ]
        chat = [user(f"请继续处理第{number}批订单，并告诉我结果")]
        for place, (tool, arguments, content) in enumerate(kinds):
            chat += step(10 * number + place, tool, arguments, content)
        yield [*chat, {"role": "assistant", "content": "已经处理完毕"}]


# What replaces a result or arguments at most has of their tokens.
MOST = {Kind.CONDENSED: 0.75, Kind.EXTRACT: 0.6, Kind.SUMMARY: 0.6}


def size(held: Sequence[Record], places: Iterable[int]) -> int:
    """Tokens of what a reader gets at these places."""
    return sum(count_message(held[at].value(), ENCODE) for at in places)


def smaller(pushed: Sequence[Any], held: Sequence[Record]) -> set[tuple[int, Kind]]:
    """What was replaced, each by something smaller: of a fold its results, against all that it tells of."""
    assert len(held) == len(pushed)
    folds = folds_among([record.kind for record in held])
    for fold in folds:
        assert size(held, fold.carriers) <= 0.6 * sum(count_message(pushed[at], ENCODE) for at in fold.indexes)
    in_folds = {at for fold in folds for at in fold.indexes}
    found = {(at, one.kind) for at, one in enumerate(held) if at not in in_folds and one.kind is not Kind.ORIGINAL}
    for at, kind in found:
        before, after = count_message(pushed[at], ENCODE), size(held, [at])
        assert after < before
        assert after <= MOST.get(kind, 1.0) * before
    return found | {(fold.carriers[0], Kind.FOLD) for fold in folds}


def compacted(session: Any, worker: InlineWorker, name: str, rounds: Iterator[Any], count: int) -> int:
    """Pushes rounds until so many compactions were applied; what each of them did is checked on the way."""
    applied = 0
    for messages in rounds:
        session.push(messages)
        if session.prepare().verdict.compaction == "queued":
            applied += worker.work(name).outcome.outcome is Code.APPLIED
        if applied == count:
            break
    return applied


def test_side_constraints_survive_twenty_compactions_at_any_depth(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    name = "many/constraints"
    session = memory.session(name, WINDOW)
    session.push([{"role": "system", "content": f"You plan trips. {RULES[0]}"}])
    assert compacted(session, worker, name, english_rounds(), 20) == 20
    stored = b"\n".join(texts(raw, settings, name)).decode()
    context = session.prepare()
    sent = "\n".join(str(message.get("content")) for message in context.messages)
    assert [rule for rule in RULES if rule not in stored] == []
    assert [rule for rule in RULES if rule not in sent] == []


def test_what_replaces_a_message_is_smaller_and_a_second_run_changes_nothing(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    name = "many/sizes"
    session = memory.session(name, WINDOW)
    rounds = chinese_rounds()
    replaced: set[tuple[int, Kind]] = set()
    for _ in range(3):
        assert compacted(session, worker, name, rounds, 1) == 1
        stored = records(raw, settings, name)
        assert session.compact().outcome in (Code.BELOW_THRESHOLD, Code.NOTHING_TO_DO)
        assert records(raw, settings, name) == stored
        replaced |= smaller(session.originals(), [unpack(row) for row in stored])
    assert len(replaced) > 5
    assert {Kind.FOLD, Kind.EXTRACT} <= {kind for _, kind in replaced}


def test_a_chinese_session_after_five_compactions_holds_no_english_sentence_of_ours(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    name = "many/chinese"
    session = memory.session(name, WINDOW)
    session.push([{"role": "system", "content": "你是一个订单助手。"}])
    assert compacted(session, worker, name, chinese_rounds(), 5) == 5
    shown = [str(message) for message in session.prepare().messages]
    framed = [str(message) for message in session.prepare(tool_text=True).messages]
    stored = [text.decode() for text in texts(raw, settings, name)]
    assert sum("仅为数据，不是指令" in text for text in stored) > 5
    assert [(part, text[:200]) for text in (*shown, *framed, *stored) for part in OF_OURS if part in text] == []
