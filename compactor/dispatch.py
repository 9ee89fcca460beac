"""Publishing the task: the session id as the only argument, the claim's owner as the task id."""

from __future__ import annotations

import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from redis.backoff import NoBackoff
from redis.retry import Retry

from compactor.exceptions import DispatchError
from compactor.models import CompactionId, SessionId
from compactor.server_url import Kind, ServerUrl, kind_of, read_url
from compactor.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

TASK: Final = "compactor.compact_session"
DEFAULT_NAMESPACE: Final = "compactor"
_CONNECTIONS: Final = 10  # at the same time, per client


def queue_name(namespace: str) -> str:
    """`compaction`, with the namespace behind it when it is not the default one."""
    return "compaction" if namespace == DEFAULT_NAMESPACE else f"compaction.{namespace}"


def is_rabbitmq(settings: Settings) -> bool:
    """Whether the queue is on a RabbitMQ, or on what speaks AMQP as it does."""
    return settings.broker.startswith(("amqp://", "amqps://", "pyamqp://"))


def task_queue(settings: Settings) -> Any:
    """The queue as publisher and worker declare it; on RabbitMQ replicated, with an exchange that can delay."""
    from kombu import Exchange, Queue

    name = queue_name(settings.namespace)
    if not is_rabbitmq(settings):
        return Queue(name)
    return Queue(name, Exchange(name, type="topic"), name, queue_arguments={"x-queue-type": "quorum"})


def broker_conf(settings: Settings) -> dict[str, Any]:
    """What every app on this broker is configured with: address, options of the transport, encryption."""
    conf: dict[str, Any] = {"broker_url": settings.broker, "broker_transport_options": broker_options(settings)}
    if kind_of(settings.broker) is Kind.SENTINEL:
        url = read_url(settings.broker)
        # Under these names, since Celery prefers CELERY_BROKER_URL of the environment to broker_url.
        conf |= dict.fromkeys(("broker_read_url", "broker_write_url"), _kombu_sentinels(url))
        if url.is_encrypted:
            conf["broker_use_ssl"] = url.encryption
    return conf


def _kombu_sentinels(url: ServerUrl) -> str:
    """The addresses of Sentinels in kombu's own form, with the user of the primary."""
    plain = (url.of_node(sentinel).partition("?")[0] for sentinel in url.addresses)
    return ";".join(each.replace(f"{url.scheme}://", "sentinel://", 1) for each in plain)


def _sentinel_options(url: ServerUrl, times: Mapping[str, float]) -> dict[str, Any]:
    encryption = {"ssl": True, **url.encryption} if url.is_encrypted else {}
    once = {"retry": Retry(NoBackoff(), 0)}  # a Sentinel that is down must not hold up the question to the next
    return {"master_name": url.service, "sentinel_kwargs": {**times, **once, **url.sentinel_user, **encryption}}


def broker_options(settings: Settings) -> dict[str, Any]:
    """Transport options that publisher and worker must share."""
    if is_rabbitmq(settings):
        return {"confirm_publish": True}
    sentinel: dict[str, Any] = {}
    if kind_of(settings.broker) is Kind.SENTINEL:
        times = {"socket_connect_timeout": settings.connect_timeout, "socket_timeout": settings.read_timeout}
        sentinel = _sentinel_options(read_url(settings.broker), times)
    return {
        **sentinel,
        "global_keyprefix": f"{settings.namespace}:",
        "visibility_timeout": settings.visibility_timeout,
        "socket_connect_timeout": settings.connect_timeout,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }


@contextmanager
def _dropping(connection: Any) -> Generator[None]:
    """Ends an AMQP connection that failed without a word to the broker: its answer may be what did not come."""
    try:
        yield
    except BaseException:
        collect = getattr(connection._connection, "collect", None)  # noqa: SLF001 # why: kombu's own close asks the broker
        if collect is not None:
            collect()
        raise


def once(settings: Settings, patience: float) -> dict[str, Any]:
    """Transport options of who waits so many seconds for an answer, and asks once."""
    times = ("read_timeout", "write_timeout") if is_rabbitmq(settings) else ("socket_timeout",)
    return {"max_retries": 0, **dict.fromkeys(times, patience)}


class Dispatcher:
    """Publishes compactions; celery is imported at the first crossing, not at start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._app: Celery | None = None
        self._pool: Any = None  # of our own: kombu's is shared by all clients of a process, and never closed
        self._lock = threading.Lock()

    def publish(self, session: SessionId, owner: CompactionId) -> None:
        """One short attempt. Raises DispatchError."""
        try:
            app, pool = self._celery()
            with pool.acquire(block=True) as connection, _dropping(connection):
                app.send_task(
                    TASK,
                    args=[session],
                    task_id=owner,
                    queue=task_queue(self._settings),
                    connection=connection,
                    retry=False,
                    ignore_result=True,
                )
        except Exception as error:  # noqa: BLE001 # why: kombu raises whatever its transport raises
            raise DispatchError(
                f"broker: the task was not published ({type(error).__name__}). Check that the server of "
                "CELERY_BROKER_URL runs; a later prepare tries again."
            ) from None

    def _celery(self) -> tuple[Celery, Any]:
        with self._lock:
            if self._app is None:
                from celery import Celery

                app = Celery("compactor-publisher", set_as_current=False)
                app.conf.update(broker_conf(self._settings))
                app.conf.broker_transport_options |= once(self._settings, self._settings.read_timeout)
                app.conf.update(
                    broker_connection_timeout=self._settings.connect_timeout,
                    broker_connection_max_retries=0,
                    task_send_sent_event=True,
                    task_serializer="json",
                    accept_content=["json"],
                )
                self._app, self._pool = app, app.connection_for_write().Pool(_CONNECTIONS)
            return self._app, self._pool

    def close(self) -> None:
        """Closes the connections; a later publish opens new ones."""
        with self._lock:
            if self._app is not None:
                self._pool.force_close_all()
                self._app.close()
                self._app = self._pool = None
