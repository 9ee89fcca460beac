"""The broker away while the store works: sends go on, and compactions begin again when it is back."""

from __future__ import annotations

import time
from pathlib import Path

from compactor import Code, Compactor
from compactor.embedded import EmbeddedServer
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.conversations import SMALL, conversation, user


def test_sends_go_on_without_the_broker_and_the_next_one_after_the_pause_queues(
    server: EmbeddedServer, own_server: EmbeddedServer, tmp_path: Path
) -> None:
    settings = short_settings(server.url, f"broker{own_server.port}", broker_url=own_server.url)
    with running_worker(settings, tmp_path / "worker.log") as worker, Compactor(settings=settings) as memory:
        session = memory.session("broker/down", SMALL)
        session.push(conversation(9))
        own_server.child.kill()
        began = time.monotonic()
        context = session.prepare()
        assert time.monotonic() - began < 2
        assert context.verdict.compaction == "held(broker_down)"
        assert context.verdict.sent <= context.verdict.ceiling
        session.push(user("Anything new?"))
        assert session.prepare().verdict.compaction == "held(broker_down)"
        own_server.restart()
        wait_until(lambda: session.prepare().verdict.compaction == "queued", what="the next claim")
        outcome = wait_until(lambda: session.status().last, what="the outcome")
        assert outcome.outcome is Code.APPLIED
        assert session.originals() == [*conversation(9), user("Anything new?")]
        assert worker.stop(grace=20) == 0
