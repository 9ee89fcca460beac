"""Workers on several hosts: they share the sessions, and when one loses its network the others do its work, once."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path

import pytest

from compactor import Code, Compactor, Outcome, Session
from compactor.cli.broker import Broker
from compactor.embedded import Child, EmbeddedServer
from compactor.settings import Settings
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import environment, short_settings
from tests.hosts import Host
from tests.integration.conversations import SMALL, conversation


@pytest.fixture
def hosts() -> Iterator[tuple[Host, Host]]:
    with Host(1) as one, Host(2) as two:
        yield one, two


@pytest.fixture
def shared(hosts: tuple[Host, Host]) -> Iterator[EmbeddedServer]:
    """A server that this process and both hosts reach, each at another address."""
    addresses = "127.0.0.1 " + " ".join(host.here for host in hosts)
    with EmbeddedServer(extra=("--bind", addresses, "--protected-mode", "no")) as running:
        yield running


@contextlib.contextmanager
def worker_on(host: Host, name: str, server: EmbeddedServer, settings: Settings, folder: Path) -> Generator[Child]:
    """A worker process on a host, which knows the server by the host's address of it."""
    there = settings.model_copy(update={"redis_url": type(settings.redis_url)(f"redis://{host.here}:{server.port}/0")})
    celery = (sys.executable, "-m", "celery", "-A", "workers", "worker", "-n", name, "-l", "INFO")
    quick = ("--without-mingle", "--without-gossip", "--concurrency", "4")
    env = environment(there)
    child = Child([*host.prefix, *celery, *quick], log=folder / f"{name}.log", env=env, cwd=folder)
    child.wait_until(lambda: " ready." in child.tail(20_000), "worker")
    try:
        yield child
    finally:
        child.stop(grace=20)


def last_outcome(session: Session) -> Outcome | None:
    return session.status().last


def sent_on(session: Session) -> Outcome | None:
    session.prepare()
    return session.status().last


def test_two_hosts_share_the_work_and_one_alone_goes_on(
    hosts: tuple[Host, Host], shared: EmbeddedServer, tmp_path: Path
) -> None:
    settings = short_settings(shared.url, "hosts").model_copy(update={"queue_patience": 3.0})
    one, two = hosts
    with (
        worker_on(one, "one@first", shared, settings, tmp_path) as first,
        worker_on(two, "two@second", shared, settings, tmp_path) as second,
        Compactor(settings=settings) as memory,
        contextlib.closing(Broker(settings)) as broker,
    ):
        assert broker.workers() == {"one@first": True, "two@second": True}
        sessions = [memory.session(f"t/{order}", SMALL) for order in range(24)]
        for session in sessions:
            session.push(conversation(9))
            session.prepare()
        for session in sessions:
            assert wait_until(partial(last_outcome, session), what="the outcome").outcome is Code.APPLIED
        assert all("applied" in worker.tail(100_000) for worker in (first, second)), "both took their part"

        one.cut()
        try:
            more = [memory.session(f"u/{order}", SMALL) for order in range(8)]
            for session in more:
                session.push(conversation(9))
                session.prepare()
            # Redis may have given a task to the lost host; the first send after the patience queues it anew.
            for session in more:
                assert wait_until(partial(sent_on, session), what="the outcome").outcome is Code.APPLIED
        finally:
            one.join()
        for session in sessions + more:
            assert len(session.compactions()) == 1
            assert session.originals() == conversation(9)
