"""How originals are kept: the stored record, compressed with zlib or as it was."""

from __future__ import annotations

import zlib
from typing import Final

from compactor.exceptions import SessionDamagedError
from compactor.records import VERSION

_AS_IT_WAS: Final = bytes([VERSION])  # zlib's first byte is another one


def compress(record: bytes) -> bytes:
    """A packed record as it goes into the archive."""
    return zlib.compress(record, 6)


def decompress(blob: bytes) -> bytes:
    """The packed record of an archived original. Raises SessionDamagedError.

    What a branch left behind was moved here by a script, as it was: a record begins with its version.
    """
    if blob[:1] == _AS_IT_WAS:
        return blob
    try:
        return zlib.decompress(blob)
    except zlib.error:
        raise SessionDamagedError(
            "archived original: cannot be decompressed; it was damaged outside of Compactor."
        ) from None
