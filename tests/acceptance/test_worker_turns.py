"""A tenant with many sessions due at once, and its neighbour, before a real worker."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from compactor import Code, Compactor
from compactor.commands import turns
from compactor.commands.turns import Crowd
from compactor.embedded import EmbeddedServer
from compactor.store import Store
from compactor.testing import ModelServer
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.conversations import SMALL, conversation

MOST = 2
SESSIONS = 7
# No call of a slow machine fails, and a killed worker's sessions come back within seconds.
PATIENT = {
    "call_timeout": 5.0,
    "compaction_deadline": 6.0,
    "claim_lease": 7.0,
    "visibility_timeout": 8.0,
    "stop_grace": 9.0,
}


@pytest.mark.parametrize("killed", [False, True], ids=["works", "is killed"])
def test_a_crowd_is_worked_off_in_its_turn_and_a_neighbour_is_not_held_up(
    server: EmbeddedServer, tmp_path: Path, killed: bool
) -> None:
    settings = short_settings(server.url, f"t{uuid.uuid4().hex[:12]}")
    settings = settings.model_copy(update={"tenant_published": MOST, **PATIENT})
    with ModelServer(delay=0.3) as model, Compactor(settings=settings) as memory, Store(settings) as store:
        crowd = [memory.session(f"crowd/{number}", SMALL) for number in range(SESSIONS)]
        neighbour = memory.session("neighbour/1", SMALL)
        for session in (*crowd, neighbour):
            session.push(conversation(8))
            assert session.prepare().verdict.compaction == "queued"

        def counted(tenant: str) -> Crowd:
            return store.run(turns.read_crowds(settings.namespace, [tenant]))[tenant]

        def are_done() -> bool:
            if killed:  # whoever sends brings back what a dead worker held
                for session in (*crowd, neighbour):
                    session.prepare()
            return all(session.compactions() for session in (*crowd, neighbour))

        assert counted("crowd") == Crowd(MOST, SESSIONS - MOST)
        if killed:
            with running_worker(settings, tmp_path / "first.log", model=model) as worker:
                wait_until(lambda: model.in_flight >= MOST, what="calls of the crowd")
                worker.kill()
        with running_worker(settings, tmp_path / "worker.log", model=model):
            wait_until(are_done, seconds=40, what="all compactions")
            runs: list[Any] = [session.compactions() for session in (*crowd, neighbour)]
            wait_until(lambda: counted("crowd") == Crowd(0, 0), what="the places given back")
    assert [[run.outcome for run in each] for each in runs] == [[Code.APPLIED]] * (SESSIONS + 1)
    assert runs[-1][0].at < max(each[0].at for each in runs[:-1])
    tasks = sum("received" in line for line in (tmp_path / "worker.log").read_text().splitlines())
    assert killed or tasks == SESSIONS + 1, "each claim is published once"
