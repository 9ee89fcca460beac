"""What the context functions say on their logger while a test runs."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

from compactor.context.log import LOGGER


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def logged() -> Generator[list[logging.LogRecord]]:
    """The records from INFO on; the logger is as it was afterwards."""
    kept, before = _Kept(), LOGGER.level
    LOGGER.addHandler(kept)
    LOGGER.setLevel(logging.INFO)
    try:
        yield kept.records
    finally:
        LOGGER.removeHandler(kept)
        LOGGER.setLevel(before)


def texts(records: list[logging.LogRecord], level: int = logging.INFO) -> list[str]:
    """The lines of one level."""
    return [record.getMessage() for record in records if record.levelno == level]
