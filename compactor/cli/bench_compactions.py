"""What a whole compaction costs the worker, what it leaves in the archive, and that totals equal a recount after it."""

from __future__ import annotations

import time
from typing import Any, Final

from compactor.cli.bench_ground import ENCODING, Ground, new_name
from compactor.cli.bench_ratio import Ratio, at_most, equal
from compactor.cli.load.conversations import just_over, with_results
from compactor.client import Session
from compactor.commands.read import read_state
from compactor.compaction import Tools, run_compaction
from compactor.encodings import encoder
from compactor.exceptions import EmbeddedServerError
from compactor.models import Code, CompactionId
from compactor.records import encode_message
from compactor.tokens import PER_REQUEST, count_messages

_RESULTS: Final = (10, 20, 40)
_LARGE: Final = 1_600  # bytes of an original from which on the archive's goal holds
_CHARACTERS: Final = 6_000  # of a result
_PER_TOKEN: Final = 1.5e-6  # seconds of CPU
_FIXED: Final = 5e-3


def compactions(ground: Ground) -> list[Ratio]:
    """All figures on compactions; extracts, so that no client of a model is in them."""
    cpu: list[tuple[float, float]] = []
    archived: list[tuple[float, float]] = []
    totals: list[tuple[float, float]] = []
    for _ in range(max(2, ground.rounds // 12)):
        for results in _RESULTS:
            messages = with_results(results, characters=_CHARACTERS)
            name = new_name()
            session = ground.session(messages, name=name, config=just_over(messages))
            totals.append(_total(session, ground))
            allowed = _PER_TOKEN * session.estimate().total + _FIXED
            cpu.append((_compact(ground, session, name), allowed))
            totals.append(_total(session, ground))
            archived.append(_archive(ground, session, name))
            session.undo()
            totals.append(_total(session, ground))
    return [
        at_most("CPU of a compaction with extracts / 1.5 µs a token + 5 ms", cpu[len(_RESULTS) :], 1.0),
        at_most("archive / JSON of originals above 1.6 KB", archived, 0.35, unit="bytes"),
        equal("total / recount after push, swap, undo", totals, unit="tokens"),
    ]


def _compact(ground: Ground, session: Session, name: str) -> float:
    """CPU seconds from the claim to the swap, in this process."""
    session.prepare()
    keys = ground.keys(name)
    owner = CompactionId(ground.store.run(read_state(keys, ENCODING)).owner)
    tools = Tools(ground.store, encoder, None, time.monotonic, time.time)
    began = time.process_time()
    ended = run_compaction(keys, owner, tools, lambda _phase, _text: None)
    took = time.process_time() - began
    if ended.outcome.outcome is not Code.APPLIED:
        raise EmbeddedServerError(f"bench: a compaction ended as {ended.outcome.outcome.value}.")
    return took


def _archive(ground: Ground, session: Session, name: str) -> tuple[float, float]:
    """Bytes of the archive in Redis, and of the JSON of the large originals in it."""
    held = int(ground.client.memory_usage(ground.keys(name).archive, samples=0) or 0)
    originals: list[Any] = session.originals()
    live: list[Any] = session.prepare().messages
    replaced = [one for one, now in zip(originals, live, strict=True) if one != now]
    sizes = [len(encode_message(message).text) for message in replaced]
    return held, sum(size for size in sizes if size > _LARGE)


def _total(session: Session, ground: Ground) -> tuple[float, float]:
    """The running total, and a recount of the history, in tokens."""
    total = session.estimate().total
    return total, PER_REQUEST + count_messages(session.prepare().messages, ground.encode)
