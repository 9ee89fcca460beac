"""The log lines of one send of a session, on the logger `compactor.context`."""

from __future__ import annotations

import logging
from collections.abc import Sized

from compactor.context.log import (
    LOGGER,
    Figures,
    bill_expected,
    context_prepared,
    output_available,
    tools_estimated,
    trimmed,
)
from compactor.context.topology import TOPOLOGY
from compactor.judging import Request
from compactor.model_config import ModelConfig
from compactor.models import Context, Fit, Verdict


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
    context_prepared(_figures(verdict, config, names)).emit()
    billed = max(0, verdict.expected - (verdict.total - verdict.sent))  # limit and threshold are the provider's tokens
    if verdict.counted_by != "count":
        bill_expected(billed, verdict.limit, verdict.counted_by).emit()
    output_available(max(0, verdict.limit - max(verdict.threshold, billed))).emit()


def _figures(verdict: Verdict, config: ModelConfig, names: frozenset[str]) -> Figures:
    """What is sent, part by part; what stands behind the system text is history, messages of this one send included."""
    return Figures(
        model=config.model,
        limit=verdict.limit,
        strategy=config.context_strategy,
        system=verdict.system,
        variables=verdict.variables,
        history=max(0, verdict.sent - verdict.system - verdict.tools),
        tools=verdict.tools,
        names=names,
    )
