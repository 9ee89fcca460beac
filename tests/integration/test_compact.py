"""compact: a compaction on demand, which comes back whatever stands in its way."""

from __future__ import annotations

from typing import Any

from compactor import Code, Fit
from compactor.settings import Settings
from tests.integration.bot_process import failure_of
from tests.integration.clients import Client, Connect
from tests.integration.conversations import OTHER_ENCODING, SMALL, SYSTEM, call, conversation, result, rows, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import published


def test_compact_ignores_back_off_and_re_arm(memory: Client, worker: InlineWorker) -> None:
    session = memory.session("claim/forced", SMALL)
    session.push([user("word " * 1_000) for _ in range(6)])
    session.prepare()
    worker.work("claim/forced")
    assert session.prepare().verdict.compaction == "held(exhausted)"
    assert session.compact().outcome is Code.QUEUED


def test_a_result_larger_than_the_window_is_replaced_as_soon_as_it_is_read(
    memory: Client, worker: InlineWorker
) -> None:
    session = memory.session("claim/giant", SMALL)
    session.push([SYSTEM, user("Where are the values?"), call(0), result(0, rows(0, 420))])
    assert session.prepare().verdict.fit is Fit.SHORTENED
    assert worker.work("claim/giant").outcome.outcome is Code.EXHAUSTED
    assert session.prepare().verdict.compaction == "held(exhausted)"
    session.push([call(1), result(1, "one line")])
    context = session.prepare()
    assert (context.verdict.fit, context.verdict.compaction) == (Fit.SHORTENED, "queued")
    assert worker.work("claim/giant").outcome.outcome is Code.APPLIED
    assert session.prepare().verdict.fit is Fit.FITS


def test_compact_below_the_threshold_queues_nothing(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("claim/below", SMALL)
    session.push(conversation(2))
    assert session.compact(wait=1).outcome is Code.BELOW_THRESHOLD
    assert published(raw, settings) == 0


COMPACT = {
    "blocking": """
with Compactor.from_env() as memory:
    outcome = memory.session("claim/encodings", SMALL).compact()
""",
    "asyncio": """
async def compacting():
    async with AsyncCompactor.from_env() as memory:
        return await memory.session("claim/encodings", SMALL).compact()
outcome = asyncio.run(compacting())
""",
}


def test_compact_comes_back_though_another_encoding_judged_the_last_send(
    kind: str, connect: Connect, settings: Settings
) -> None:
    here, there = (connect(settings).session("claim/encodings", config) for config in (SMALL, OTHER_ENCODING))
    here.push(conversation(9))
    there.prepare()
    connect(settings).session("claim/encodings", SMALL).push(user("more"))
    assert failure_of(f"{COMPACT[kind]}assert outcome.outcome is Code.QUEUED", settings, seconds=6) == ""


def test_compact_waits_no_longer_than_asked(memory: Client) -> None:
    session = memory.session("claim/wait", SMALL)
    session.push(conversation(9))
    assert session.compact(wait=0.2).outcome is Code.QUEUED
    assert session.compact().outcome is Code.QUEUED
