"""Publishing the task: the session id as the only argument, the claim's owner as the task id."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

from compactor.exceptions import DispatchError
from compactor.models import CompactionId, SessionId
from compactor.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

TASK: Final = "compactor.compact_session"
DEFAULT_NAMESPACE: Final = "compactor"


def queue_name(namespace: str) -> str:
    """`compaction`, with the namespace behind it when it is not the default one."""
    return "compaction" if namespace == DEFAULT_NAMESPACE else f"compaction.{namespace}"


def broker_options(settings: Settings) -> dict[str, Any]:
    """Transport options that publisher and worker must share; unknown ones are ignored by other brokers."""
    return {
        "global_keyprefix": f"{settings.namespace}:",
        "visibility_timeout": settings.visibility_timeout,
        "socket_connect_timeout": settings.connect_timeout,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    }


class Dispatcher:
    """Publishes compactions; celery is imported at the first crossing, not at start."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._app: Celery | None = None
        self._lock = threading.Lock()

    def publish(self, session: SessionId, owner: CompactionId) -> None:
        """One short attempt. Raises DispatchError."""
        try:
            self._celery().send_task(
                TASK,
                args=[session],
                task_id=owner,
                queue=queue_name(self._settings.namespace),
                retry=False,
                ignore_result=True,
            )
        except Exception as error:  # noqa: BLE001 # why: kombu raises whatever its transport raises
            raise DispatchError(
                f"broker: the task was not published ({type(error).__name__}). Check that the server of "
                "CELERY_BROKER_URL runs; a later prepare tries again."
            ) from None

    def _celery(self) -> Celery:
        with self._lock:
            if self._app is None:
                from celery import Celery

                app = Celery("compactor-publisher", broker=self._settings.broker, set_as_current=False)
                app.conf.update(
                    broker_transport_options={
                        **broker_options(self._settings),
                        "socket_timeout": self._settings.read_timeout,
                        "max_retries": 0,
                    },
                    broker_connection_timeout=self._settings.connect_timeout,
                    broker_connection_max_retries=0,
                    task_send_sent_event=True,
                    task_serializer="json",
                    accept_content=["json"],
                )
                self._app = app
            return self._app

    def close(self) -> None:
        """Lets go of the app; its connections stay in kombu's pool, which all clients of a process share."""
        if self._app is not None:
            self._app.close()
