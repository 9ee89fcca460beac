"""A worker on a simulated clock: a compaction takes its time while the bot goes on, and nobody waits.

The worker's own code runs on a real store, in this process. Where it would wait for a model, the bot
plays on for as many simulated seconds; then the model refuses, and extracts take its place.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil

from compactor.commands.command import session_keys
from compactor.commands.read import read_state
from compactor.compaction import Tools, run_compaction
from compactor.drafts import unheard
from compactor.encodings import encoder
from compactor.exceptions import SummarizerError, SummarizerRefused
from compactor.models import CompactionId, Outcome, session_id
from compactor.prompts import Summary, SummaryRequest
from compactor.settings import Settings
from compactor.store import Store
from compactor.tokens import Encode

PARALLEL = 8  # model calls of one session at the same time, at least (section on the summarizer: 8 to 32)

Play = Callable[[float], bool]  # plays one message that comes before a time; False when there is none


@dataclass(slots=True)
class Pace:
    """A clock of one session: seconds that a step of the bot takes, and a summary of the model."""

    step_seconds: float
    model_seconds: float
    now: float = 0.0

    def anew(self) -> Pace:
        return replace(self, now=0.0)

    def take_step(self, before: float | None) -> bool:
        """Moves the clock on by a step, unless that would reach `before`."""
        if before is not None and self.now + self.step_seconds >= before:
            return False
        self.now += self.step_seconds
        return True


class SimulatedWorker:
    """Works off the claims of one session, one at a time."""

    def __init__(self, settings: Settings, store: Store, session: str, pace: Pace) -> None:
        self.pace = pace
        self._keys = session_keys(settings.namespace, session_id(session))
        self._store = store
        self._play: Play = lambda _before: False
        self._tools = Tools(
            runner=store,
            encoder=encoder,
            summarize=self._summarize if pace.model_seconds else None,
            clock=time.monotonic,
            now=time.time,
            lease=settings.claim_lease,
        )

    def work(self, play: Play) -> Outcome:
        """Runs the compaction that is queued, unless it runs already; `play` goes on with the talk meanwhile."""
        owner = CompactionId(self._store.run(read_state(self._keys, "o200k_base")).owner)
        self._play = play
        return run_compaction(self._keys, owner, self._tools, lambda _phase, _text: None).outcome

    def _summarize(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,  # noqa: ARG002 # why: the protocol's name
        deadline: float,  # noqa: ARG002 # why: real seconds, and this model's are simulated
        done: Callable[[int, Summary | SummarizerError], None],
        arrived: Callable[[int, Summary | SummarizerError], None] = unheard,
    ) -> list[Summary | SummarizerError]:
        """Refuses everything, after as many seconds as a model would take for it."""
        ends = self.pace.now + self.pace.model_seconds * ceil(len(requests) / PARALLEL)
        while self._play(ends):
            pass
        answers: list[Summary | SummarizerError] = [SummarizerRefused() for _ in requests]
        for index, answer in enumerate(answers):
            arrived(index, answer)
            done(index, answer)
        return answers
