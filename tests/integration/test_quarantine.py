"""A record that cannot be read: it stays stored, is named, and its step leaves the list."""

from __future__ import annotations

from typing import Any

import pytest

from compactor import Code, SessionDamagedError
from compactor.settings import Settings
from compactor.validity import faults
from tests.integration.clients import Client, Connect
from tests.integration.conversations import ROOMY, SMALL, assistant, conversation, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import keys_of, records

HEAD = b"\x01\x00\x00" + b"\x00" * 48
GARBAGE = [b"", b"{}", b"\x01" * 10, b"\x09" * 80, HEAD + b'{"ro', HEAD, b"\x01\x00\xff" + b"\x00" * 48 + b"{}"]
TALK = conversation(3)


def damage(raw: Any, settings: Settings, session: str, position: int, garbage: bytes = GARBAGE[3]) -> None:
    raw.lset(keys_of(settings, session).messages, position, garbage)


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_record_that_cannot_be_read_is_named_and_the_rest_is_sent(
    connect: Connect, settings: Settings, raw: Any, garbage: bytes
) -> None:
    session = connect(settings).session("quarantine/any", ROOMY)
    session.push([user("a"), user("b")])
    damage(raw, settings, "quarantine/any", 0, garbage)
    context = session.prepare()
    assert context.messages == [user("b")]
    assert context.verdict.problems == ("corrupt_record@m0",)
    assert records(raw, settings, "quarantine/any")[0] == garbage


@pytest.mark.parametrize("position", [2, 3])
def test_a_call_and_its_result_leave_together(memory: Client, settings: Settings, raw: Any, position: int) -> None:
    session = memory.session(f"quarantine/step-{position}", ROOMY)
    session.push(TALK)
    damage(raw, settings, f"quarantine/step-{position}", position)
    context = session.prepare()
    assert context.messages == [*TALK[:2], *TALK[4:]]
    assert not faults(context.messages)
    assert context.verdict.problems == (f"corrupt_record@m{position}",)


def test_the_session_goes_on(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("quarantine/on", ROOMY)
    session.push(TALK)
    damage(raw, settings, "quarantine/on", 3)
    session.push([*step(7), user("And?")])
    assert session.prepare().messages == [*TALK[:2], *TALK[4:], *step(7), user("And?")]
    assert [session.recall(f"m{p}") for p in range(len(TALK)) if p != 3] == [m for p, m in enumerate(TALK) if p != 3]


def test_originals_never_pass_a_part_for_the_whole(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("quarantine/originals", ROOMY)
    session.push(TALK)
    damage(raw, settings, "quarantine/originals", 3)
    with pytest.raises(SessionDamagedError, match="m3"):
        session.originals()
    with pytest.raises(SessionDamagedError):
        session.recall("m3")


def test_a_process_that_held_the_message_still_sends_it(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("quarantine/held", ROOMY)
    session.push(TALK)
    session.prepare()
    damage(raw, settings, "quarantine/held", 3)
    session.push(user("And?"))
    assert session.prepare().messages == [*TALK, user("And?")]


def test_a_callers_own_list_stands_in_for_it(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("quarantine/list", ROOMY)
    session.prepare(TALK)
    damage(raw, settings, "quarantine/list", 2)
    other = memory.session("quarantine/list", SMALL)
    assert other.prepare([*TALK, user("And?")]).messages == [*TALK, user("And?")]
    assert session.status().archived == 0


def test_a_compaction_passes_it_over(memory: Client, settings: Settings, raw: Any, worker: InlineWorker) -> None:
    pushed = conversation(9)
    session = memory.session("quarantine/compacted", SMALL)
    session.push(pushed)
    damage(raw, settings, "quarantine/compacted", 3)
    session.prepare()
    outcome = worker.work("quarantine/compacted").outcome
    assert outcome.outcome is Code.APPLIED
    assert 3 not in outcome.positions
    assert records(raw, settings, "quarantine/compacted")[3] == GARBAGE[3]
    assert not faults(session.prepare().messages)
    assert session.undo().items == outcome.items


def test_what_ends_a_conversation_takes_it_along(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("quarantine/ends", ROOMY)
    session.push(TALK)
    damage(raw, settings, "quarantine/ends", 3)
    assert session.rewind("m1") == len(TALK) - 2
    assert session.prepare().messages == TALK[:2]
    assert session.push(assistant("In src.")).length == 3
    assert session.clear() == 3
    assert session.prepare().messages == []


def test_a_branch_before_it_leaves_it_behind(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("quarantine/branch", ROOMY)
    session.prepare(TALK)
    damage(raw, settings, "quarantine/branch", 5)
    context = session.prepare([*TALK[:2], assistant("Elsewhere.")])
    assert context.messages == [*TALK[:2], assistant("Elsewhere.")]
    assert session.originals() == [*TALK[1:2], assistant("Elsewhere.")]
