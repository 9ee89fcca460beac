"""The one task: parse the id, call the core, map errors to outcomes."""

from __future__ import annotations

import logging
import time
import traceback
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from random import uniform
from typing import Any

from celery import Task
from celery.backends.base import DisabledBackend

from compactor import exceptions
from compactor.breaker import Breaker
from compactor.commands import dead
from compactor.commands.command import session_keys
from compactor.commands.spending import caps_of
from compactor.compaction import Ended, Tools, run_compaction
from compactor.dispatch import TASK
from compactor.encodings import encoder
from compactor.exceptions import CompactorError, SessionDamagedError, StoreUnavailableError, SummarizerError
from compactor.ledger import figures, line
from compactor.models import SPEND_CAP, Code, CompactionId, Outcome, SessionId, session_id
from compactor.price_table import PriceTable
from compactor.quota import Quota
from compactor.settings import Settings, read_settings
from compactor.store import Store
from compactor.summarizer import ModelSummarizer
from workers.app import app
from workers.places import place_of
from workers.progress import Progress
from workers.saving import Saver

_log = logging.getLogger("compactor")
MOST_JITTER = 1.3  # an outage of the model must not make every session come back at once
_STORE_RETRY = 5  # seconds until a task tries again after Redis did not answer; doubles, up to a minute
_MOST_RETRIES = 10  # a refusal may be for good; after these the claim runs out and the next send queues anew


class CompactionBusy(CompactorError):
    """The same task runs elsewhere; this delivery comes again when the lease is over."""


class CompactionCrashed(CompactorError):
    """A bug of ours; the text names the exception's type and place, since its message may quote a conversation."""


@lru_cache(maxsize=1)
def settings() -> Settings:
    """The worker's settings, read once per process."""
    return read_settings()


@lru_cache(maxsize=1)
def tools() -> Tools:
    """What the core needs, made once per process at the first task, after any fork."""
    read = settings()
    store = Store(read)
    return Tools(
        runner=store,
        encoder=encoder,
        summarize=ModelSummarizer(read, Breaker(read, store), Quota(read, store)) if read.has_model else None,
        clock=time.monotonic,
        now=time.time,
        deadline=read.compaction_deadline,
        lease=read.claim_lease,
        queue_patience=read.queue_patience,
        max_attempts=read.max_attempts,
        model=read.summarizer_model or "",
        shadow=read.shadow,
        price=PriceTable(read),
        caps=caps_of(read),
        answers=Saver(store).answers,
        rules=read.rules,
    )


@app.task(
    name=TASK,
    bind=True,
    max_retries=None,
    Request="workers.events:PlainRequest",
    backend=DisabledBackend(app),  # else each thread of the pool looks through all installed packages for one
)
def compact_session(self: Task[Any, Any], session: str) -> dict[str, Any]:
    """Compacts one session under the claim whose owner is this task's id."""
    name, owner = session_id(session), CompactionId(str(self.request.id))
    with place_of(name, owner, settings()):
        return _compacted(self, name, owner)


def _compacted(self: Task[Any, Any], name: SessionId, owner: CompactionId) -> dict[str, Any]:
    progress = Progress(self)
    try:
        ended = run_compaction(session_keys(settings().namespace, name), owner, tools(), progress)
    except SessionDamagedError as error:  # trying again changes nothing
        _give_back(name, owner, dead.SESSION_DAMAGED)
        raise type(error)("session_damaged") from None
    except StoreUnavailableError as error:
        wait = min(60.0, _STORE_RETRY * 2.0**self.request.retries)
        raise self.retry(exc=type(error)("store_unavailable"), countdown=wait, max_retries=_MOST_RETRIES) from None
    except CompactorError:
        raise
    except Exception as error:  # noqa: BLE001 # why: its text may hold content, so type and place alone leave
        reason = f"{type(error).__name__} at {_place(error)}"
        _give_back(name, owner, reason)
        raise CompactionCrashed(reason) from None
    finally:
        progress.flush()
    if ended.retry_in is not None:
        # What delays tasks on RabbitMQ counts whole seconds from 1.
        raise self.retry(exc=_error(ended), countdown=max(1.0, ended.retry_in * _jitter())) from None
    if ended.outcome.outcome is Code.DEAD:
        _list_as_dead(name, dead.ATTEMPTS_USED_UP)
    if ended.outcome.bill is not None:
        _log.info("session %s: %s", name, line(ended.outcome))
    if ended.outcome.reason == SPEND_CAP:
        _log.warning("session %s: its tenant's model calls are at their cap of the day: extracts until 00:00 UTC", name)
    return flat(ended.outcome)


def _give_back(session: SessionId, owner: CompactionId, reason: str) -> None:
    """Returns the claim of a failed task; the pause is what a killed worker would cost, so no bug runs in circles."""
    read = settings()
    given = dead.crash(
        session_keys(read.namespace, session),
        owner=owner,
        pause_ms=int(read.claim_lease * 1000),
        error=reason,
        max_attempts=read.max_attempts,
    )
    with suppress(Exception):  # the failure itself is what must be told; without this the lease gives it back
        answer = tools().runner.run(given)
        # The start of a damaged session has ended its claim already.
        if answer == "dead" or (answer == "lost" and reason == dead.SESSION_DAMAGED):
            _list_as_dead(session, reason)


def _list_as_dead(session: SessionId, reason: str) -> None:
    entry = dead.add(settings().namespace, session, reason, attempts=settings().max_attempts, anew=True)
    with suppress(StoreUnavailableError):  # the session's next send enters it
        tools().runner.run(entry)


def flat(outcome: Outcome) -> dict[str, Any]:
    """What Flower shows of an outcome: codes and numbers, the telling ones first, since its table cuts the rest."""
    return {
        "outcome": outcome.outcome.value,
        **({"reason": outcome.reason} if outcome.reason else {}),
        "saved": outcome.saved,
        "before": outcome.before,
        "after": outcome.after,
        "items": outcome.items,
        "by_model": outcome.by_model,
        "by_extract": outcome.by_extract,
        "by_condensed": outcome.by_condensed,
        "by_arguments": outcome.by_arguments,
        "by_pointer": outcome.by_pointer,
        "by_fold": outcome.by_fold,
        "left": outcome.left,
        "model": outcome.model,
        "ms": outcome.ms,
        **figures(outcome),
    }


def _place(error: BaseException) -> str:
    """File and line of the innermost frame: where to look, without a word of content."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def _jitter() -> float:
    return uniform(1.0, MOST_JITTER)  # noqa: S311 # why: spreads retries, guards nothing


def _error(ended: Ended) -> CompactorError:
    """The error class of a reason's code, so that dashboards group by class."""
    if ended.code == "busy":
        return CompactionBusy("busy")
    classes = {
        kind.code: kind
        for kind in vars(exceptions).values()
        if isinstance(kind, type)
        and issubclass(kind, SummarizerError)
        and kind is not exceptions.SummarizerReplyRejected
    }
    return classes.get(ended.code, SummarizerError)()
