"""Sessions on a cluster, the queue on a server of its own: a worker compacts, and an operator sees all of it."""

from __future__ import annotations

import uuid
from functools import partial
from pathlib import Path

from compactor import Code, Compactor, Outcome, Session
from compactor.embedded import EmbeddedServer
from compactor.testing import ModelServer
from tests.acceptance.cli_process import run
from tests.acceptance.scripted_model import long_talk
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import environment, running_worker, short_settings
from tests.clusters import LocalCluster, slot_of
from tests.integration.conversations import SMALL


def last_outcome(session: Session) -> Outcome | None:
    return session.status().last


def test_a_worker_compacts_sessions_of_every_primary(
    cluster: LocalCluster, server: EmbeddedServer, model: ModelServer, tmp_path: Path
) -> None:
    settings = short_settings(cluster.url, f"c{uuid.uuid4().hex[:8]}", broker_url=server.url)
    names = [f"cluster/{order}" for order in range(4)]
    assert len({cluster.owner_of(slot_of(settings.namespace, name)) for name in names}) > 1
    with (
        running_worker(settings, tmp_path / "worker.log", model=model) as worker,
        Compactor(settings=settings) as memory,
    ):
        sessions = [memory.session(name, SMALL) for name in names]
        pushed = long_talk(9, "prompt", "mark-cluster")
        for session in sessions:
            session.push(pushed)
            session.prepare()
        for session in sessions:
            outcome = wait_until(partial(last_outcome, session), what="the outcome")
            assert (outcome.outcome, outcome.model) == (Code.APPLIED, "cheap")
            assert session.originals() == pushed

        env = environment(settings)
        listing = run("sessions", "--json", env=env)
        assert {row["session"] for row in listing.rows} == set(names)
        status = run("status", "--json", env=env).row
        assert status["server"].endswith("a cluster of 3 primaries")
        assert (status["broker"], status["queue_length"], len(status["workers"])) == (True, 0, 1)
        told = {check["check"]: check for check in run("doctor", "--json", env=env).row["checks"]}
        assert told["redis"]["text"].startswith("3 primaries of a cluster answer")
        assert {check["level"] for check in told.values()} == {"ok"}
        assert worker.stop(grace=20) == 0
