"""The Celery worker. `celery -A workers worker` finds the app here under the name `celery`."""

from workers.app import app as celery

__all__ = ["celery"]
