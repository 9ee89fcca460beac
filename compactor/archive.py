"""How originals are kept: the stored record, compressed with zlib or as it was.

Of a result that was cut when it was pushed there are two: the whole, and what an undo brings back.
"""

from __future__ import annotations

import zlib
from typing import Final

from compactor.exceptions import SessionDamagedError
from compactor.records import VERSION

_AS_IT_WAS: Final = bytes([VERSION])  # zlib's first byte is another one


def compress(record: bytes) -> bytes:
    """A packed record as it goes into the archive."""
    return zlib.compress(record, 6)


def with_cut(original: bytes, cut: bytes) -> bytes:
    """A compressed original and, behind it, the packed record that a push stored in its place."""
    return original + compress(cut)


def cut_record(blob: bytes) -> bytes | None:
    """The packed record of what a push stored instead of this original; None when it stored the original.

    Raises SessionDamagedError.
    """
    if blob[:1] == _AS_IT_WAS:
        return None
    whole = zlib.decompressobj()
    try:
        whole.decompress(blob)
    except zlib.error:
        raise _damaged() from None
    return decompress(whole.unused_data) if whole.unused_data else None


def decompress(blob: bytes) -> bytes:
    """The packed record of an archived original. Raises SessionDamagedError.

    What a branch left behind was moved here by a script, as it was: a record begins with its version.
    """
    if blob[:1] == _AS_IT_WAS:
        return blob
    try:
        return zlib.decompress(blob)
    except zlib.error:
        raise _damaged() from None


def _damaged() -> SessionDamagedError:
    return SessionDamagedError("archived original: cannot be decompressed; it was damaged outside of Compactor.")
