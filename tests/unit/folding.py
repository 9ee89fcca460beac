"""Histories of agents, and what folds make of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from compactor.drafting import Draft, Limits, Summarize, draft
from compactor.encodings import encoder
from compactor.models import Kind, Message, Replacement
from compactor.planning import Nothing, Plan, Snapshot, plan
from compactor.records import fingerprint
from compactor.tokens import Encode, count_message
from tests.unit.chat import Chat, assistant, by_length, call, calling, levels, result, total, user
from tests.unit.conversations import busy_conversations, conversations, sound_conversations
from tests.unit.lists import held

SMALL = "z" * 600  # 150 tokens: too small for a summary


def o200k() -> Encode:
    return encoder("o200k_base")


def planned(messages: Sequence[Message], *, target: int = 1, **given: Any) -> Plan | Nothing:
    snapshot = Snapshot(messages, total(messages), **given)
    return plan(snapshot, levels(ceiling=10**6), target_tokens=target, keep_results=0)


def task(count: int, text: str = SMALL) -> list[Chat]:
    chat = [user("go")]
    for number in range(count):
        chat += [calling(call(f"c{number}", arguments=f'{{"n":{number}}}')), result(f"c{number}", f"{number}{text}")]
    return [*chat, assistant("done")]


def folded_indexes(found: Plan | Nothing) -> list[list[int]]:
    items = found.items if isinstance(found, Plan) else ()
    return [sorted(item.indexes) for item in items if item.fold is not None]


def drafted(messages: Sequence[Message], summarize: Summarize | None, *, over: bool = False, **given: Any) -> Draft:
    found = planned(messages, **given)
    assert isinstance(found, Plan)
    snapshot = Snapshot(messages, total(messages), **given)
    return draft(found, snapshot, encode=by_length, summarize=summarize, limits=Limits(99.0, over=over))


@st.composite
def tasks(draw: st.DrawFn) -> list[Chat]:
    """Turns of an agent: steps with one or more calls, sometimes with words, and results of every size."""
    chat: list[Chat] = []
    for turn in range(draw(st.integers(1, 2))):
        chat.append(user(f"task {turn}"))
        for order in range(draw(st.integers(2, 9))):
            names = [f"c{turn}{order}{n}" if draw(st.booleans()) else "same" for n in range(draw(st.integers(1, 2)))]
            said = draw(st.sampled_from([None, "Now the next one."]))
            chat.append({**calling(*names), "content": said})
            sizes = [draw(st.sampled_from([3, 40, 90, 300])) for _ in names]
            chat += [result(name, f"row {order} " * size) for name, size in zip(names, sizes, strict=True)]
            if draw(st.integers(0, 5)) == 0:
                chat.append(assistant("Let me think."))
        chat.append(assistant(f"answer {turn}"))
    return chat


chats = st.one_of(tasks(), tasks(), tasks(), busy_conversations(), sound_conversations(max_turns=3), conversations())


def folded(messages: Sequence[Message], found: Draft) -> list[Message]:
    """The history after the swap of a draft, as a reader sees it."""
    new = {item.position: item for item in found.replacements}
    return [_replaced(message, new[message.position]) if message.position in new else message for message in messages]


def _replaced(message: Message, item: Replacement) -> Message:
    """As `Record.showing` does."""
    shown = message.shown if item.kind is Kind.FOLDED else fingerprint(item.value)
    earlier = message.earlier if message.shown in (message.own, message.cut, shown) else message.shown
    return replace(message, value=item.value, tokens=item.after, kind=item.kind, shown=shown, earlier=earlier)


def history_of(chat: Sequence[Chat]) -> list[Message]:
    return [replace(m, tokens=count_message(m.value, o200k())) for m in held(chat)]


def shown(messages: Sequence[Message]) -> list[Any]:
    return [message.value for message in messages if not message.folded]


def undone(chat: Sequence[Chat], messages: Sequence[Message]) -> list[Message]:
    """The history when all that was replaced was brought back."""
    originals = history_of(chat)
    return [
        replace(original, shown=message.shown, earlier=message.earlier)
        for original, message in zip(originals, messages, strict=True)
    ]
