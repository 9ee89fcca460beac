"""The kinds of faults, how often each comes, and the schedule that a seed draws from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Final

from compactor.cli.chaos import network_faults as network
from compactor.cli.chaos import process_faults as process
from compactor.cli.chaos import server_faults as server
from compactor.cli.chaos.server_faults import Slots
from compactor.cli.chaos.stage import Stage

FROZEN: Final = "worker_paused"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault, `share` in a hundred of a run.

    `inflict` answers with the slots of the workers whose compactions it may have cut, or None when
    it hit nobody at all.
    """

    name: str
    title: str
    share: float
    inflict: Callable[[Stage, Random], Slots | None]


def _model(manner: str, title: str) -> Kind:
    return Kind(manner, title, 3.5, partial(process.misbehaves, manner=manner))


KINDS: Final = (
    Kind("worker_killed", "worker: SIGKILL", 3, process.worker_killed),
    Kind("worker_killed_in_call", "worker: SIGKILL during a model call", 3.5, process.worker_killed_in_call),
    Kind("worker_stopped", "worker: SIGTERM, started again", 2, process.worker_stopped),
    Kind(FROZEN, "worker: frozen past its lease", 1.5, process.worker_paused),
    Kind("worker_cut", "worker: request cut", 6, network.worker_cut),
    Kind("worker_reply_lost", "worker: reply lost", 7, network.worker_reply_lost),
    Kind("bots_killed", "bots: SIGKILL between call and result", 3, process.bots_killed),
    Kind("bots_cut", "bots: request cut", 7, network.bots_cut),
    Kind("bots_reply_lost", "bots: reply lost", 9, network.bots_reply_lost),
    Kind("redis_killed", "Redis: SIGKILL, restarted on its AOF", 3, server.killed),
    Kind("redis_paused", "Redis: frozen past the read timeout", 3, server.paused),
    Kind("redis_loading", "Redis: LOADING", 2, server.loading),
    Kind("redis_oom", "Redis: OOM", 5, server.full),
    Kind("redis_readonly", "Redis: READONLY", 5, server.read_only),
    Kind("scripts_flushed", "Redis: SCRIPT FLUSH", 5, server.scripts_flushed),
    Kind("connections_killed", "Redis: all connections killed", 5, server.connections_killed),
    Kind("broker_away", "broker: away", 3, network.broker_away),
    Kind("broker_reply_lost", "broker: reply lost", 3, network.broker_reply_lost),
    Kind("task_twice", "task: delivered twice", 4, network.delivered_twice),
    Kind("task_unclaimed", "task: for a session nobody claimed", 3, network.unclaimed),
    _model("model_500", "model: 500"),
    _model("model_429", "model: 429 with Retry-After"),
    _model("model_empty", "model: empty answer"),
    _model("model_html", "model: HTML with 200"),
    _model("model_cut_off", "model: cut off"),
    _model("model_stalls", "model: stalls past the call timeout"),
)

OUTAGES: Final = frozenset(
    {
        "worker_cut", "worker_reply_lost", "connections_killed",
        "redis_killed", "redis_paused", "redis_loading", "redis_oom", "redis_readonly",
    }
)  # fmt: skip


def schedule(faults: int, random: Random) -> Iterator[Kind]:
    """Kinds in random order, each at least once while there is room; then more, for those that hit nobody."""
    first = random.sample(KINDS, len(KINDS))[:faults]
    shares = [kind.share for kind in KINDS]
    rest = random.choices(KINDS, shares, k=faults - len(first))
    yield from random.sample([*first, *rest], faults)
    while True:
        yield random.choices(KINDS, shares)[0]
