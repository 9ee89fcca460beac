"""What the broker knows: whether it answers, how long the queue is, which workers take from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from compactor.dispatch import broker_conf, once, queue_name
from compactor.exceptions import DispatchError
from compactor.settings import Settings

PATIENCE: Final = 1.0  # seconds in which workers answer; all that come in time are heard
_NO_QUEUE: Final = 404  # AMQP's code


class Broker:
    """The broker of these settings, asked from outside; publishes nothing."""

    def __init__(self, settings: Settings) -> None:
        from celery import Celery

        self.queue = queue_name(settings.namespace)
        self._app = Celery("compactor-cli", set_as_current=False)
        self._app.conf.update(broker_conf(settings))
        self._app.conf.broker_transport_options |= once(settings, PATIENCE + settings.read_timeout)
        self._app.conf.update(
            broker_connection_timeout=settings.connect_timeout,
            broker_connection_max_retries=0,
            accept_content=["json"],
        )

    def queue_length(self) -> int:
        """Tasks that wait in our queue; 0 when it does not exist yet. Raises DispatchError."""
        try:
            with self._app.connection_for_read() as connection:
                connection.ensure_connection(max_retries=1, interval_start=0)
                return _length(connection.default_channel, self.queue)
        except Exception as error:  # noqa: BLE001 # why: kombu raises whatever its transport raises
            if getattr(error, "reply_code", None) == _NO_QUEUE:
                return 0
            raise _unreachable(error) from None

    def workers(self) -> dict[str, bool]:
        """Every worker that answers, and whether it takes from our queue. Raises DispatchError."""
        try:
            answers: Mapping[str, Any] | None = self._app.control.inspect(timeout=PATIENCE).active_queues()
        except Exception as error:  # noqa: BLE001 # why: kombu raises whatever its transport raises
            raise _unreachable(error) from None
        return {
            name: any(queue.get("name") == self.queue for queue in queues)
            for name, queues in sorted((answers or {}).items())
        }

    def close(self) -> None:
        self._app.close()


def _length(channel: Any, queue: str) -> int:
    from kombu.transport import virtual

    if isinstance(channel, virtual.Channel):  # Redis; a passive declare there misses queues under a key prefix
        return int(channel._size(queue))  # noqa: SLF001 # why: kombu's own hook for it has no public name
    return int(channel.queue_declare(queue, passive=True).message_count)


def _unreachable(error: Exception) -> DispatchError:
    return DispatchError(
        f"broker: no answer ({type(error).__name__}). Check that the server of CELERY_BROKER_URL (or REDIS_URL) "
        "runs, and its user and password."
    )
