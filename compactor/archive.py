"""How originals are kept: the stored record, compressed with zlib."""

from __future__ import annotations

import zlib

from compactor.exceptions import SessionDamagedError


def compress(record: bytes) -> bytes:
    """A packed record as it goes into the archive."""
    return zlib.compress(record, 6)


def decompress(blob: bytes) -> bytes:
    """The packed record of an archived original. Raises SessionDamagedError."""
    try:
        return zlib.decompress(blob)
    except zlib.error:
        raise SessionDamagedError(
            "archived original: cannot be decompressed; it was damaged outside of Compactor."
        ) from None
