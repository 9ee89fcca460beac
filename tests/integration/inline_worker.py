"""The worker's part in this process: the real core on a real store, step by step where a test asks."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from compactor.commands import claim, read
from compactor.commands.command import session_keys
from compactor.compaction import Ended, Tools, run_compaction
from compactor.encodings import encoder
from compactor.models import CompactionId, SessionId, session_id
from compactor.settings import Settings
from tests.integration.clients import StoreClient


class InlineWorker:
    """Works off claims of one namespace through `store`, with extracts."""

    def __init__(self, settings: Settings, store: StoreClient) -> None:
        self.store = store
        self._settings = settings
        self.tools = Tools(
            runner=store,
            encoder=encoder,
            summarize=None,
            clock=time.monotonic,
            now=time.time,
            deadline=settings.compaction_deadline,
            lease=settings.claim_lease,
            queue_patience=settings.queue_patience,
            max_attempts=settings.max_attempts,
            rules=settings.rules,
        )

    def owner(self, session: str) -> CompactionId:
        """Who holds the session's claim."""
        keys = session_keys(self._settings.namespace, session_id(session))
        return CompactionId(self.store.run(read.read_state(keys, "o200k_base")).owner)

    def work(
        self,
        session: str,
        *,
        owner: CompactionId | None = None,
        at: str = "",
        then: Callable[[], object] = lambda: None,
    ) -> Ended:
        """One run of the core; when phase `at` begins (snapshot, swapping), `then` happens first."""

        def progress(phase: str, _text: str) -> None:
            if phase == at:
                then()

        keys = session_keys(self._settings.namespace, SessionId(session))
        return run_compaction(keys, owner or self.owner(session), self.tools, progress)

    def begin(self, session: str, owner: CompactionId, *, lease: float = 90.0) -> claim.Begin:
        """Only takes the claim, as a worker that dies right afterwards."""
        keys = session_keys(self._settings.namespace, SessionId(session))
        begin = claim.begin(keys, owner=owner, lease_ms=int(lease * 1000), max_attempts=self._settings.max_attempts)
        return self.store.run(begin)

    def with_lease(self, seconds: float) -> InlineWorker:
        """The same worker under another lease."""
        other = InlineWorker(self._settings, self.store)
        other.tools = replace(self.tools, lease=seconds)
        return other
