"""What all sessions of one client share: caches, clocks, encoders."""

from __future__ import annotations

import time

from compactor.encodings import encoder, encoding_name, prior_of
from compactor.histories import LockedCache, LruHistories, UnconfirmedOperations
from compactor.reader import Surroundings
from compactor.settings import Settings
from compactor.tenant_ledger import TenantBook


def surroundings(settings: Settings) -> Surroundings:
    """Empty caches, and the clocks of this machine."""
    return Surroundings(
        settings=settings,
        histories=LruHistories(settings.cache_bytes),
        encoding_name=encoding_name,
        encoder=encoder,
        prior=prior_of,
        anchors=LockedCache(65_536),
        clock=time.monotonic,
        counted=LockedCache(256),
        unconfirmed=UnconfirmedOperations(time.monotonic),
        encodings=LockedCache(65_536),
        now=time.time,
        tenants=TenantBook(LockedCache(4_096), LockedCache(65_536)),
    )
