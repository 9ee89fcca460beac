"""A quota of requests per minute before a real worker: sessions come again later, nothing is paid for twice."""

from __future__ import annotations

import uuid
from pathlib import Path

from compactor import Code, Compactor
from compactor.embedded import EmbeddedServer
from compactor.testing import ModelServer
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.conversations import SMALL, conversation

RPM = 300  # 30 at once, then 4.5 a second
SESSIONS = 12


def test_sessions_over_the_quota_come_again_without_an_attempt_lost_or_a_call_made_twice(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    settings = short_settings(server.url, f"t{uuid.uuid4().hex[:12]}")
    log, more = tmp_path / "worker.log", {"COMPACTOR_SUMMARIZER_RPM": str(RPM)}
    with ModelServer() as model, Compactor(settings=settings) as memory:
        sessions = [memory.session(f"quota/{number}", SMALL) for number in range(SESSIONS)]
        for session in sessions:
            session.push(conversation(7))
            assert session.prepare().verdict.compaction == "queued"
        with running_worker(settings, log, model=model, more=more):
            wait_until(lambda: all(session.compactions() for session in sessions), seconds=60, what="all compactions")
        runs = [session.compactions() for session in sessions]
    assert [[run.outcome for run in each] for each in runs] == [[Code.APPLIED]] * SESSIONS
    assert sum(each[0].by_extract for each in runs) == 0
    assert len(model.requests) == sum(each[0].by_model for each in runs) > 30
    assert "SummarizerThrottled('throttled')" in log.read_text(encoding="utf-8")
