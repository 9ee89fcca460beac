"""The Celery app: JSON only, late acks, one task at a time per slot, events on."""

from __future__ import annotations

import logging
import os
import threading
from typing import Any

from celery import Celery
from celery.signals import worker_init
from pydantic import SecretStr

from compactor.dispatch import TASK, broker_conf, queue_name, task_queue
from compactor.encodings import encoder
from compactor.exceptions import ConfigurationError, StoreUnavailableError
from compactor.price_table import PriceTable
from compactor.server_check import Level, check_server, refuse_unsafe
from compactor.server_url import Kind, kind_of
from compactor.settings import Settings, read_settings
from compactor.store import Store
from compactor.summarizer import ModelSummarizer

_log = logging.getLogger("compactor")
# At INFO the HTTP library writes each request's address, with the password that may stand in it.
for name in ("httpx", "httpx2", "httpcore", "httpcore2", "openai"):
    logging.getLogger(name).setLevel(logging.WARNING)


def make_app(settings: Settings) -> Celery:
    """An app on these settings; the task itself is registered by `workers.tasks`."""
    queue = queue_name(settings.namespace)
    made = Celery(
        "compactor",
        include=["workers.tasks", "workers.heartbeat"],
        events="workers.events:UnbufferedEvents",
    )
    made.conf.update(broker_conf(settings))
    made.conf.update(
        task_default_queue=queue,
        task_queues=[task_queue(settings)],
        task_routes={TASK: {"queue": queue}},
        task_serializer="json",
        accept_content=["json"],
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        task_ignore_result=True,
        task_track_started=True,
        task_send_sent_event=True,
        worker_send_task_events=True,
        worker_prefetch_multiplier=1,
        # Threads ignore Celery's time limits; the deadlines are our own numbers (settings.py).
        worker_pool="threads",
        worker_concurrency=settings.worker_concurrency,
        worker_redirect_stdouts=False,
        worker_cancel_long_running_tasks_on_connection_loss=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_channel_error_retry=True,
        enable_utc=True,
        timezone="UTC",
    )
    return made


app = make_app(read_settings())


@worker_init.connect
def refuse_a_start_that_cannot_work(**_: Any) -> None:
    """Ends the start on a server that evicts, or on a model without its SDK.

    Celery swallows exceptions of signals, but not SystemExit.
    """
    settings = read_settings()
    try:
        price = PriceTable(settings)
        _refuse_uncounted(settings, price)
        if settings.has_model:
            ModelSummarizer(settings)
        sessions = settings.redis_url.get_secret_value()
        for url in dict.fromkeys((sessions, settings.broker)):
            if url == sessions or url.startswith(("redis://", "rediss://")) or kind_of(url) is not Kind.SERVER:
                _check(settings.model_copy(update={"redis_url": SecretStr(url)}))
    except ConfigurationError as error:
        _log.critical("%s", error)
        raise SystemExit(1) from None
    # The first compaction need not wait the second that the vocabulary of today's models and the table of prices take.
    loading = threading.Thread(target=lambda: (encoder("o200k_base"), price("gpt-4o")), daemon=True)
    loading.start()
    os.register_at_fork(before=loading.join)  # a pool of processes must not inherit the lock of a load


def _refuse_uncounted(settings: Settings, price: PriceTable) -> None:
    """Raises ConfigurationError when money is capped that cannot be counted."""
    capped = settings.tenant_daily_dollars is not None and settings.tenant_daily_tokens is None
    if capped and settings.has_model and price(settings.summarizer_model or "") is None:
        raise ConfigurationError(
            "tenant_daily_dollars: the price of COMPACTOR_SUMMARIZER_MODEL is not known, so nothing could be counted. "
            "Name it in COMPACTOR_PRICES_FILE, or set COMPACTOR_TENANT_DAILY_TOKENS."
        )


def _check(settings: Settings) -> None:
    try:
        with Store(settings) as store:
            findings = check_server(store, settings)
    except StoreUnavailableError as error:
        _log.warning("start check left out: %s", error)
        return
    for finding in findings:
        if finding.level is Level.WARNING:
            _log.warning("redis: %s. %s", finding.text, finding.advice)
    refuse_unsafe(findings)
