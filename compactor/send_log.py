"""The log lines of one send of a session, on the logger `compactor.context`."""

from __future__ import annotations

import logging
from collections.abc import Sized

from compactor.context_log import LOGGER, context_prepared, figures_of, output_available, tools_estimated, trimmed
from compactor.judging import Request
from compactor.model_config import ModelConfig
from compactor.models import Context, Fit
from compactor.topology import TOPOLOGY


def log_send(config: ModelConfig, request: Request, context: Context) -> None:
    """Says what the send consists of, if anybody listens: figures and the model's name, never content."""
    if not LOGGER.isEnabledFor(logging.INFO):
        return
    verdict = context.verdict
    if verdict.tools:
        tools_estimated(verdict.tools, len(request.tools) if isinstance(request.tools, Sized) else 1).emit()
    if verdict.fit is not Fit.FITS and context.left_out:
        trimmed(verdict.length, verdict.length - context.left_out).emit()
    names = frozenset(request.variables or {TOPOLOGY})
    context_prepared(figures_of(verdict, model=config.model, strategy=config.context_strategy, names=names)).emit()
    output_available(max(0, verdict.limit - max(verdict.threshold, verdict.sent))).emit()
