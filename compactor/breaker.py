"""The circuit breaker around the calls to a model server, shared by every worker on the same Redis.

Failures of the server count: 5xx, no answer in time, no connection, no JSON. A rate limit, a wrong
key or a bad summary is an answer; after a rate limit every worker pauses for as long as the server
asked one of them. Without Redis the circuit counts as closed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from random import uniform
from typing import Final, TypeVar

from compactor.commands.breaker import Admission, Circuit, admit, breaker_key, pause, settle
from compactor.commands.command import Command
from compactor.exceptions import (
    OUT_OF_TIME,
    StoreUnavailableError,
    SummarizerBreakerOpen,
    SummarizerError,
    SummarizerRateLimited,
    SummarizerServerError,
    SummarizerThrottled,
    SummarizerTimeout,
    SummarizerUnreachable,
)
from compactor.quota import PATIENCE
from compactor.reuse import Runner
from compactor.settings import Settings

T = TypeVar("T")
LOOK: Final = 0.1  # seconds until the first look at another call's trial; each later one waits longer
_LONGEST_LOOK: Final = 1.0  # seconds; a thousand calls may wait
_LONGER: Final = 2.0  # times the call timeout: a call is given up by then
_SERVERS: Final = (SummarizerServerError, SummarizerTimeout, SummarizerUnreachable)
_log = logging.getLogger("compactor")


class Breaker:
    """Lets calls through, refuses them while the server is down, and lets one try after a pause. Thread-safe."""

    def __init__(self, settings: Settings, runner: Runner) -> None:
        self._runner = runner
        self._key = breaker_key(settings.namespace, settings.openai_base_url or "", settings.summarizer_model or "")
        self._failures = settings.breaker_failures
        self._pause = settings.breaker_pause
        self._trial_ms = int(settings.call_timeout * _LONGER * 1000)

    def call(self, function: Callable[[], T], *, until: float) -> T:
        """What `function` returns or raises. Raises SummarizerBreakerOpen instead of calling a server that is down,
        and SummarizerThrottled while one that answered 429 has every worker wait as long as it asked.

        While another call tries a server after its pause, this one waits for the answer, at most until
        `until` (monotonic seconds).
        """
        admission = self._admitted(until)
        try:
            answer = function()
        except SummarizerError as error:
            self._tell(admission, answered=not isinstance(error, _SERVERS) or error.detail == OUT_OF_TIME)
            if isinstance(error, SummarizerRateLimited) and error.retry_after:
                self._run(pause(self._key, pause_ms=int(error.retry_after * 1000)), default=False)
            raise
        self._tell(admission, answered=True)
        return answer

    def _admitted(self, until: float) -> Admission:
        look = LOOK
        while True:
            admission = self._run(admit(self._key, trial_ms=self._trial_ms), Admission(Circuit.CLOSED))
            if admission.circuit in (Circuit.CLOSED, Circuit.TRIAL):
                return admission
            if admission.circuit is Circuit.PAUSED:
                self._sit_out(admission.wait_ms / 1000, until)
                continue
            if admission.circuit is Circuit.OPEN or time.monotonic() + look > until:
                raise SummarizerBreakerOpen(retry_after=min(admission.wait_ms / 1000, self._pause))
            time.sleep(look)
            look = min(_LONGEST_LOOK, 1.5 * look)

    @staticmethod
    def _sit_out(wait: float, until: float) -> None:
        """Waits for the end of a short pause; after a longer one the session comes again."""
        spread = wait + uniform(0.0, LOOK)  # noqa: S311 # why: not all at once, guards nothing
        if wait > PATIENCE or time.monotonic() + spread > until:
            raise SummarizerThrottled(retry_after=wait)
        time.sleep(spread)

    def _tell(self, admission: Admission, *, answered: bool) -> None:
        """Reports how a call ended; a good call on a closed circuit without failures has nothing to report."""
        if answered and admission.circuit is Circuit.CLOSED and not admission.failures:
            return
        told = settle(self._key, answered=answered, failures=self._failures, pause_ms=int(self._pause * 1000))
        if self._run(told, default=False):
            _log.warning("summarizer: the model server fails; its calls pause for %g s", self._pause)

    def _run(self, command: Command[T], default: T) -> T:
        try:
            return self._runner.run(command)
        except StoreUnavailableError:
            return default
