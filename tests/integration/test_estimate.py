"""estimate: reads one hash, whatever the length of the history, and never queues."""

from __future__ import annotations

from typing import Any

import pytest

from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from tests.integration.clients import Client, Connect
from tests.integration.conversations import ROOMY, SMALL, SYSTEM, conversation, recount, user
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import bare, published

TOOLS = [{"type": "function", "function": {"name": "grep", "parameters": {"type": "object"}}}]


def commands(server: EmbeddedServer) -> dict[str, int]:
    """How often the server ran each command since the last reset; connecting is left out."""
    with bare(server) as client:
        stats: Any = client.info("commandstats")
    beside = ("client", "hello", "config", "info", "ping", "select")
    found = {name.removeprefix("cmdstat_").split("|")[0]: row["calls"] for name, row in stats.items()}
    return {name: calls for name, calls in found.items() if name not in beside}


def test_it_is_one_hmget_and_nothing_else(connect: Connect, own_server: EmbeddedServer, own_settings: Settings) -> None:
    session = connect(own_settings).session("estimate/one", SMALL)
    session.push(conversation(9))
    assert session.estimate().over_threshold
    with bare(own_server) as client:
        client.config_resetstat()
    for _ in range(3):
        session.estimate(tools=TOOLS, system="You are kind.")
    assert commands(own_server) == {"hmget": 3}


def test_it_is_one_round_trip(connect: Connect, through_proxy: Settings, proxy: LossyProxy) -> None:
    session = connect(through_proxy).session("estimate/trip", SMALL)
    session.push(conversation(3))
    before = proxy.turns
    session.estimate()
    assert proxy.turns - before == 1


def test_it_never_queues(memory: Client, settings: Settings, raw: Any) -> None:
    session = memory.session("estimate/due", SMALL)
    session.push(conversation(9))
    assert session.estimate().compaction == "due"
    assert session.estimate().compaction == "due"
    assert session.status().claim == "idle"
    assert published(raw, settings) == 0


def test_the_breakdown_adds_up_to_a_recount(memory: Client) -> None:
    session = memory.session("estimate/parts", ROOMY)
    session.push(conversation(2))
    verdict = session.estimate(tools=TOOLS, system="You are kind.")
    assert verdict.total == verdict.system + verdict.history + verdict.tools
    assert verdict.history == recount(conversation(2)[1:])
    assert verdict.system == recount([SYSTEM, {"role": "system", "content": "You are kind."}]) + 3
    assert verdict.length == 7
    assert verdict.limit == 128_000
    assert verdict.threshold == 96_000
    assert verdict.percent == pytest.approx(100 * verdict.total / 128_000, abs=0.05)


def test_prepare_says_the_same(memory: Client) -> None:
    session = memory.session("estimate/prepare", ROOMY)
    session.push(conversation(4))
    seen, sent = session.estimate(tools=TOOLS), session.prepare(tools=TOOLS).verdict
    assert (seen.total, seen.system, seen.history, seen.tools) == (sent.total, sent.system, sent.history, sent.tools)
    assert seen.compaction == sent.compaction == "not_needed"


def test_an_unknown_session_is_an_empty_one(memory: Client, settings: Settings, raw: Any) -> None:
    verdict = memory.session("estimate/unknown", ROOMY).estimate()
    assert (verdict.total, verdict.length, verdict.compaction) == (3, 0, "not_needed")
    assert not verdict.recounted
    assert list(raw.scan_iter(f"*{settings.namespace}*")) == []


def test_a_claim_that_ran_out_is_due_again(memory: Client, settings: Settings, connect: Connect) -> None:
    impatient = connect(settings.model_copy(update={"queue_patience": 0.001}))
    session = impatient.session("estimate/ran-out", SMALL)
    session.push([*conversation(9), user("and now?")])
    assert session.prepare().verdict.compaction == "queued"
    assert session.estimate().compaction == "due"
