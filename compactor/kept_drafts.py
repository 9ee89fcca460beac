"""Drafts that a worker kept: swapped in by the send before which it costs least, or that cannot put it off."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from compactor.commands import claim, spending
from compactor.commands.command import SessionKeys
from compactor.commands.tenants import tenant_of
from compactor.effects import Flow, run
from compactor.exceptions import StoreUnavailableError
from compactor.ledger import line
from compactor.metering import figures_of

_log = logging.getLogger("compactor")


def swap_kept(keys: SessionKeys, *, is_cold: bool, rules: Sequence[Any]) -> Flow[None]:
    """Swaps the kept draft in, unless the history or the rules are others now; the next compaction drafts anew then."""
    outcome = yield from run(claim.swap_kept(keys, is_cold=is_cold, rules=rules))
    if outcome is None:
        return
    _log.info("session %s: %s", keys.session, line(outcome))
    entered = spending.enter(keys.namespace, tenant_of(keys.session), f"{outcome.id}:ended", figures_of(outcome))
    try:
        yield from run(entered)
    except StoreUnavailableError:  # the swap stands
        return
