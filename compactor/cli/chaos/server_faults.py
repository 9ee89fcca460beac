"""Faults of Redis itself: killed, frozen, loading, full, read-only, without its scripts.

Each answers with the slots of the workers whose compactions it may have cut, or None when it hit nobody.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from random import Random
from typing import Final

import redis

from compactor.cli.chaos.stage import WORKERS, Stage

Slots = tuple[int, ...]
EVERYBODY: Final[Slots] = tuple(range(WORKERS))
NO_WORKER: Final[Slots] = ()
PATIENCE: Final = 2.0  # seconds in which a fault must be seen to hit somebody
_SLOW_LOAD: Final = 400  # microseconds for each key


def seen(effect: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Whether an effect shows within some seconds."""
    until = time.monotonic() + seconds
    while not effect():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def killed(stage: Stage, random: Random) -> Slots | None:
    """SIGKILL, and a restart on its append-only file."""
    stage.server.child.kill()
    time.sleep(random.uniform(0.0, 0.5))
    stage.server.restart()
    return EVERYBODY


def paused(stage: Stage, random: Random) -> Slots | None:
    """SIGSTOP for longer than the clients' read timeout, at times for longer than their retry."""
    before = stage.to_bots.turns
    stage.server.child.process.send_signal(signal.SIGSTOP)
    try:
        time.sleep(stage.settings.read_timeout * random.choice((1.2, 1.2, 2.4)))
    finally:
        stage.server.child.process.send_signal(signal.SIGCONT)
    return EVERYBODY if stage.to_bots.turns > before else None


def loading(stage: Stage, _random: Random) -> Slots | None:
    """The server reloads its data slowly and answers LOADING meanwhile."""
    if not seen(lambda: _is_up(stage), 10):  # a reload within the load of a restart would save half of the data
        return None
    before = stage.errors("LOADING")
    with stage.control() as control:
        control.config_set("key-load-delay", str(_SLOW_LOAD))
    reload = threading.Thread(target=_reload, args=(stage,), daemon=True)
    reload.start()
    reload.join(20)
    with stage.control() as control:
        control.config_set("key-load-delay", "0")
    return EVERYBODY if stage.errors("LOADING") > before else None


def _is_up(stage: Stage) -> bool:
    with stage.control() as control:
        return not control.info("persistence")["loading"]


def _reload(stage: Stage) -> None:
    try:
        with stage.control() as control:
            control.execute_command("DEBUG", "RELOAD")
    except redis.RedisError:
        return


def full(stage: Stage, random: Random) -> Slots | None:
    """No memory left: OOM to every write."""
    return _refusing(stage, random, "OOM", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0")


def read_only(stage: Stage, random: Random) -> Slots | None:
    """A failover that left this server a replica of nobody alive: READONLY to every write."""
    return _refusing(stage, random, "READONLY", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE")


def _refusing(stage: Stage, random: Random, code: str, begin: str, end: str) -> Slots | None:
    before = stage.errors(code)
    with stage.control() as control:
        control.execute_command(*begin.split())
        try:
            hit = seen(lambda: stage.errors(code) > before)
            time.sleep(random.uniform(0.0, 0.3))
        finally:
            control.execute_command(*end.split())
    return EVERYBODY if hit else None


def scripts_flushed(stage: Stage, _random: Random) -> Slots | None:
    """SCRIPT FLUSH, as after a failover: NOSCRIPT to the next calls."""
    before = stage.errors("NOSCRIPT")
    with stage.control() as control:
        control.script_flush()
    return NO_WORKER if seen(lambda: stage.errors("NOSCRIPT") > before) else None


def connections_killed(stage: Stage, _random: Random) -> Slots | None:
    """CLIENT KILL of every connection but one."""
    with stage.control() as control:
        killed = control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    return EVERYBODY if killed else None
