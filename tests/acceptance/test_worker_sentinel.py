"""Sessions and queue on the primary that a Sentinel names: worker and bots go on after a failover."""

from __future__ import annotations

from pathlib import Path

from compactor import Code, Compactor
from tests.acceptance.cli_process import run
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import environment, running_worker, short_settings
from tests.integration.conversations import SMALL, conversation
from tests.sentinels import WatchedPair


def test_compactions_go_on_after_a_failover(tmp_path: Path) -> None:
    with WatchedPair() as pair:
        settings = short_settings(pair.url, "watched")
        with running_worker(settings, tmp_path / "worker.log") as worker, Compactor(settings=settings) as memory:
            first, second = (memory.session(f"t/{name}", SMALL) for name in ("first", "second"))
            first.push(conversation(9))
            assert first.compact(wait=20).outcome is Code.APPLIED
            status = run("status", "--json", env=environment(settings)).row
            assert (status["redis"], status["broker"], status["queue_length"]) == (True, True, 0)
            assert len(status["workers"]) == 1
            pair.wait_for_replica()
            pair.fail_over()
            second.push(conversation(9))
            wait_until(lambda: second.prepare().verdict.compaction == "queued", what="the claim")
            outcome = wait_until(lambda: second.status().last, what="the outcome")
            assert outcome.outcome is Code.APPLIED
            assert first.originals() == second.originals() == conversation(9)
            assert worker.stop(grace=20) == 0
