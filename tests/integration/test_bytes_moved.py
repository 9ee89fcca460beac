"""What a prepare moves over the network: nothing that this process holds already, counted by a proxy on the way."""

from __future__ import annotations

from typing import Any

from compactor import Code
from compactor.settings import Settings
from compactor.testing import LossyProxy
from tests.integration.clients import Connect, SessionClient, open_store
from tests.integration.conversations import ROOMY, SMALL, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import records

LENGTHS = (10, 100, 1_000)


def moved_by(session: SessionClient, proxy: LossyProxy) -> int:
    before = proxy.moved
    session.prepare()
    return proxy.moved - before


def test_a_prepare_of_an_unchanged_session_moves_the_same_few_bytes_at_any_length(
    connect: Connect, through_proxy: Settings, proxy: LossyProxy
) -> None:
    memory = connect(through_proxy)
    figures: list[int] = []
    for length in LENGTHS:
        session = memory.session("bytes/x", ROOMY)
        session.clear()
        session.push([user("so it goes " * 8) for _ in range(length)])
        session.prepare()
        figures += [moved_by(session, proxy) for _ in range(3)]
    assert max(figures) - min(figures) <= 16, "numbers have more digits, nothing else"
    assert max(figures) < 2_000


def test_what_another_process_pushed_is_all_that_is_read(
    connect: Connect, through_proxy: Settings, settings: Settings, proxy: LossyProxy
) -> None:
    reader = connect(through_proxy).session("bytes/pushed", ROOMY)
    writer = connect(settings).session("bytes/pushed", ROOMY)
    writer.push([user("so it goes " * 8) for _ in range(1_000)])
    assert moved_by(reader, proxy) > 100_000
    idle = moved_by(reader, proxy)
    for count in (1, 5, 20):
        writer.push([user("x" * 1_000) for _ in range(count)])
        more = moved_by(reader, proxy) - idle
        assert 1_000 * count < more < 1_150 * count + 32
        assert abs(moved_by(reader, proxy) - idle) <= 16


def test_of_a_swap_the_replacements_alone_are_read(
    kind: str, connect: Connect, through_proxy: Settings, settings: Settings, proxy: LossyProxy, raw: Any
) -> None:
    reader = connect(through_proxy).session("bytes/swap", SMALL)
    writer = connect(settings).session("bytes/swap", SMALL)
    writer.push(conversation(8))
    assert reader.prepare().verdict.compaction == "queued"
    idle = moved_by(reader, proxy)
    store = open_store(kind, settings)
    outcome = InlineWorker(settings, store).work("bytes/swap").outcome
    store.close()
    assert outcome.outcome is Code.APPLIED
    rows = records(raw, settings, "bytes/swap")
    replacements = sum(len(rows[position]) for position in outcome.positions)
    assert abs(moved_by(reader, proxy) - idle - replacements) <= 64 * outcome.items
    assert moved_by(reader, proxy) <= idle + 16
