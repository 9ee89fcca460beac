"""Row A7 on recorded conversations: what the document's own call loses, and that ours loses nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
from langchain_core.messages import (
    BaseMessage,
    convert_to_messages,
    trim_messages,  # pyright: ignore[reportUnknownVariableType] # why: LangChain leaves one argument untyped
)

from compactor.context import calculate_max_tokens, trim_messages_for_context
from compactor.encodings import encoder
from compactor.tokens import count_message
from compactor.validity import faults
from tests.conftest import SHARED, recorded

FILES = sorted(path.name.removesuffix(".jsonl.gz") for path in SHARED.glob("*.jsonl.gz"))
LIMIT, STRATEGY = 16, "conservative"  # the document's walk: 9,600 tokens
BUDGET = calculate_max_tokens(LIMIT * 1_000, STRATEGY)


@dataclass(frozen=True)
class Session:
    """A recorded conversation over the budget, valid as it is."""

    chats: Sequence[dict[str, Any]]
    tokens: Sequence[int]

    @property
    def latest(self) -> dict[str, Any]:
        return next(chat for chat in reversed(self.chats) if chat["role"] == "user")


@cache
def over_budget() -> list[Session]:
    encode = encoder("o200k_base")
    found: list[Session] = []
    for name in FILES:
        for record in recorded(name) if "stitched" not in name else []:
            chats = record["messages"]
            if faults(chats) or not any(chat["role"] == "user" for chat in chats):
                continue
            tokens = [count_message(chat, encode) for chat in chats]
            if sum(tokens) > BUDGET:
                found.append(Session(chats, tokens))
    return found


def documents_call(session: Session) -> list[dict[str, Any]]:
    """What `trim_messages` of LangChain keeps, asked as the document asks it."""
    given = convert_to_messages([{"content": None, **chat} for chat in session.chats])
    for number, message in enumerate(given):
        message.id = str(number)

    def counted(messages: list[BaseMessage]) -> int:
        return sum(session.tokens[int(message.id or 0)] for message in messages)

    kept = trim_messages(given, max_tokens=BUDGET, strategy="last", include_system=True, token_counter=counted)
    return [session.chats[int(message.id or 0)] for message in kept]


@pytest.mark.skipif(not FILES, reason="shared recorded conversations are absent")
def test_a7_on_recorded_conversations_nothing_is_orphaned_and_no_question_is_lost() -> None:
    theirs = {"invalid": 0, "question lost": 0}
    for session in over_budget():
        kept = documents_call(session)
        theirs["invalid"] += bool(faults(kept))
        theirs["question lost"] += not any(chat is session.latest for chat in kept)
        ours = trim_messages_for_context(session.chats, "gpt-4o", STRATEGY, 0, {"context_limit": LIMIT})
        assert not faults(ours)
        assert any(chat is session.latest for chat in ours)
    print(f"\n{len(over_budget())} conversations over {BUDGET} tokens; LangChain's trim_messages: {theirs}")
    assert all(theirs.values()), "LangChain's trimming has become better: say so in docs/parity.md"
