"""A session of long writes: arguments shrink, originals stay, and a model that copies a mark is told of."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from compactor import Code, ConfigurationError, ModelConfig, RecallExpiredError
from compactor.embedded import EmbeddedServer
from compactor.formats.openai import calls
from compactor.models import Kind
from compactor.records import unpack
from compactor.settings import Settings
from compactor.validity import faults
from tests.acceptance.scripted_model import scripted_model
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.clients import Client, Connect, SessionClient
from tests.integration.conversations import SYSTEM, WIDE, assistant, recount, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import records, texts

CODE = "\n".join(f"    total_{number} = total_{number - 1} + {number * 37}" for number in range(1, 60))


def write(order: int) -> list[dict[str, Any]]:
    """A file written, and that it was; about 790 tokens."""
    arguments = json.dumps({"path": f"src/part{order}.py", "content": f"# part {order}\n{CODE}"})
    call = {"id": f"call_{order}", "type": "function", "function": {"name": "write", "arguments": arguments}}
    return [
        {"role": "assistant", "content": f"I write part {order}.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{order}", "content": f"wrote src/part{order}.py"},
    ]


def talk(count: int) -> list[dict[str, Any]]:
    return [
        SYSTEM,
        user("Write the parts."),
        *(message for order in range(count) for message in write(order)),
        assistant("Written."),
    ]


TALK = talk(16)
WINDOW = ModelConfig("gpt-4o", 16)


def arguments(message: Any) -> Any:
    return json.loads(message["tool_calls"][0]["function"]["arguments"])


def compacted(memory: Client, worker: InlineWorker, name: str) -> tuple[SessionClient, Any]:
    session = memory.session(name, WINDOW)
    session.push(TALK)
    assert session.prepare().verdict.compaction == "queued"
    outcome = worker.work(name).outcome
    assert (outcome.outcome, outcome.by_arguments, outcome.reached) == (Code.APPLIED, outcome.items, True)
    return session, outcome


def copy_of(shown: Any) -> dict[str, Any]:
    """A reply that writes the elided text again, mark included."""
    call = {**shown["tool_calls"][0], "id": "copied"}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def test_old_writes_shrink_and_nothing_of_them_is_lost(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session, outcome = compacted(memory, worker, "elided/whole")
    stored: list[bytes] = records(raw, settings, "elided/whole")
    kinds = {unpack(stored[int(at)]).kind for at in outcome.positions}
    assert kinds == {Kind.ELIDED}
    context = session.prepare()
    assert context.verdict.total == outcome.after == recount(context.messages) + 3
    assert context.verdict.problems == ()
    assert not faults(context.messages)
    for at in outcome.positions:
        shown, whole = arguments(context.messages[at]), arguments(TALK[at])
        assert shown["path"] == whole["path"]
        assert len(shown["content"]) < 600 < len(whole["content"])
        assert {**context.messages[at], "tool_calls": 0} == {**TALK[at], "tool_calls": 0}
        assert f"m{at}.1]" in shown["content"]
        assert session.recall(f"m{at}.1") == TALK[at]["tool_calls"][0]
        assert session.recall(f"m{at}") == TALK[at]
    assert session.originals() == TALK
    assert session.status().last == outcome
    assert session.checkpoint() is None  # no result was replaced


def test_a_part_that_is_none_is_told(memory: Client, worker: InlineWorker) -> None:
    session, outcome = compacted(memory, worker, "elided/parts")
    at = outcome.positions[0]
    with pytest.raises(RecallExpiredError, match="no part 2"):
        session.recall(f"m{at}.2")
    with pytest.raises(RecallExpiredError):
        session.recall(f"m{at + 1}.1")
    for wrong in (f"m{at}.", f"m{at}.0", f"m{at}.x", ".1", "m.1"):
        with pytest.raises(ConfigurationError, match="recall id"):
            session.recall(wrong)


def test_elided_calls_are_final_and_an_undo_brings_the_pushed_bytes_back(
    memory: Client, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session, first = compacted(memory, worker, "elided/undo")
    before = texts(raw, settings, "elided/undo")
    session.push(talk(28)[34:])
    assert session.prepare(keep_rows=True).verdict.compaction == "queued"
    second = worker.work("elided/undo").outcome
    assert min(second.positions) > max(first.positions)
    now: list[bytes] = texts(raw, settings, "elided/undo")
    assert all(now[int(at)] == before[int(at)] for at in first.positions)
    for undone in (second, first):
        assert session.undo().positions == undone.positions
        whole = memory.session("elided/undo", WIDE).prepare().messages
        assert session.estimate().total == recount(whole) + 3
    assert session.originals() == [*TALK, *talk(28)[34:]]
    assert session.estimate().total == recount(session.originals()) + 3


@pytest.mark.parametrize("form", ["whole", "elided", "mixed"])
def test_a_list_of_its_own_is_the_history_with_whole_and_with_elided_calls(
    memory: Client, worker: InlineWorker, form: str
) -> None:
    session = memory.session(f"elided/list-{form}", WINDOW)
    session.prepare(TALK)
    outcome = worker.work(f"elided/list-{form}").outcome
    assert outcome.by_arguments == outcome.items > 1
    shown = session.prepare(TALK).messages
    revision = session.status().revision
    held = {"whole": TALK, "elided": shown, "mixed": [*shown[:3], *TALK[3:]]}[form]
    more = [*held, user("Thanks.")]
    assert session.prepare(more).messages == [*shown, user("Thanks.")]
    assert session.status().revision == revision
    assert session.originals() == [*TALK[1:], user("Thanks.")]


def test_a_reply_that_copies_a_mark_is_stored_and_told_of(memory: Client, worker: InlineWorker) -> None:
    session, outcome = compacted(memory, worker, "elided/copied")
    at = outcome.positions[0]
    reply = copy_of(session.prepare().messages[at])
    receipt = session.push(reply)
    (refusal,) = receipt.not_run
    assert refusal["tool_call_id"] == "copied"
    assert f"original: m{at}.1]" in refusal["content"]
    assert session.prepare().verdict.problems == (f"open_call@m{len(TALK)}", f"copied_mark@m{len(TALK)}")
    assert session.push(refusal).not_run == ()
    assert session.prepare().verdict.problems == (f"copied_mark@m{len(TALK)}",)
    session.push(assistant("I write it in full."))
    assert session.prepare().verdict.problems == ()
    assert session.originals() == [*TALK, reply, refusal, assistant("I write it in full.")]


def test_a_list_of_its_own_hears_of_a_copy_before_and_after_the_call(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("elided/copied-list", WINDOW)
    session.prepare(TALK)
    outcome = worker.work("elided/copied-list").outcome
    shown = session.prepare(TALK).messages
    held = [*shown, copy_of(shown[outcome.positions[0] + 1])]
    (refusal,) = session.sync(held).not_run
    context = session.prepare([*held, refusal])
    assert context.verdict.problems == (f"copied_mark@m{len(TALK) - 1}",)


def test_words_like_a_mark_are_content(memory: Client, worker: InlineWorker) -> None:
    session, outcome = compacted(memory, worker, "elided/planted")
    reply = write(20)[0]
    planted = f"[#0badcafe: 900 characters left out here; original: m{outcome.positions[0]}.1]"
    reply["tool_calls"][0]["function"]["arguments"] = json.dumps({"path": "a.py", "content": planted})
    assert session.push(reply).not_run == ()
    assert session.prepare().verdict.problems == (f"open_call@m{len(TALK)}",)


def test_a_fork_knows_the_marks_it_copied(memory: Client, worker: InlineWorker) -> None:
    session, outcome = compacted(memory, worker, "elided/forked")
    session.fork("elided/fork")
    fork = memory.session("elided/fork", WINDOW)
    reply = copy_of(fork.prepare().messages[outcome.positions[0]])
    assert len(fork.push(reply).not_run) == 1


def test_a_worker_process_elides_without_asking_its_model(
    connect: Connect, server: EmbeddedServer, tmp_path: Path
) -> None:
    settings = short_settings(server.url, f"elided-{uuid.uuid4().hex[:8]}")
    with scripted_model() as model, running_worker(settings, tmp_path / "worker.log", model=model):
        session = connect(settings).session("elided/worker", WINDOW)
        session.push(TALK)
        outcome = session.compact(wait=20)
        assert (outcome.outcome, outcome.by_arguments, outcome.by_model) == (Code.APPLIED, outcome.items, 0)
        assert model.requests == []
        assert session.estimate().total == outcome.after
        names = [calls(message) for message in session.originals()]
        assert names == [calls(message) for message in TALK]
