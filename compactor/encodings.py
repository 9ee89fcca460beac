"""Token encoders from the vocabularies that ship with the package; the network is never touched."""

from __future__ import annotations

import base64
import gzip
import hashlib
import threading
import warnings
import zlib
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from compactor.correction import UNKNOWN_PRIOR
from compactor.exceptions import TokenizerMissingError, VocabularyError
from compactor.records import ENCODINGS
from compactor.tokens import Encode

if TYPE_CHECKING:
    import tiktoken

SHA256: Final = {  # of the plain rank files, as published by OpenAI and checked by tiktoken itself
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
}
PATTERNS: Final = {  # how each encoding splits text, as tiktoken defines it; a test compares
    "cl100k_base": (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    "o200k_base": (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
_DEFAULT: Final = "o200k_base"
_SAME_VOCABULARY: Final = {"o200k_harmony": "o200k_base"}
_lock = threading.Lock()
_loaded: dict[str, tiktoken.Encoding] = {}


def vocabulary(name: str) -> bytes:
    """The plain rank file of an encoding, checked. Raises VocabularyError."""
    try:
        plain = gzip.decompress(files("compactor.vocabularies").joinpath(f"{name}.tiktoken.gz").read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise _broken(name, type(error).__name__) from None
    if hashlib.sha256(plain).hexdigest() != SHA256[name]:
        raise _broken(name, "checksum")
    return plain


def _broken(name: str, what: str) -> VocabularyError:
    return VocabularyError(
        f"vocabulary {name}: missing or damaged ({what}). Install the package again; it ships with the file "
        f"compactor/vocabularies/{name}.tiktoken.gz."
    )


def encoder(name: str) -> Encode:
    """A function from text (at most 100,000 characters) to its number of tokens; special tokens are plain text.

    Loads once per process (0.4-0.8 s, 40-70 MB). Raises VocabularyError, TokenizerMissingError.
    """
    encoding = _loaded.get(name) or _load(name)
    ordinary = encoding.encode_ordinary
    return lambda text: len(ordinary(text))


def _load(name: str) -> tiktoken.Encoding:
    try:
        import tiktoken
    except ImportError:
        raise TokenizerMissingError from None
    with _lock:
        if name not in _loaded:
            ranks = {
                base64.b64decode(token): int(rank)
                for token, rank in (line.split() for line in vocabulary(name).splitlines() if line)
            }
            _loaded[name] = tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks, special_tokens={})
        return _loaded[name]


@lru_cache(maxsize=1024)
def encoding_name(model: str, configured: str | None = None) -> str:
    """The encoding a model is counted in.

    A configured one wins, else tiktoken's map after stripping a provider prefix and case, else
    o200k_base with one warning per model. Raises TokenizerMissingError.
    """
    if configured is not None:
        return configured
    found = _mapped(model)
    if found is not None:
        return found
    warnings.warn(
        f"model {_plain(model)!r}: tiktoken does not know its encoding; counting with {_DEFAULT}. "
        "Set ModelConfig(encoding=...) to choose, which also ends this warning.",
        stacklevel=3,
    )
    return _DEFAULT


def prior_of(model: str) -> float:
    """How many times our count a provider is taken to bill before it has reported anything."""
    return UNKNOWN_PRIOR if _mapped(model) is None else 1.0


def _mapped(model: str) -> str | None:
    try:
        from tiktoken.model import MODEL_PREFIX_TO_ENCODING, MODEL_TO_ENCODING
    except ImportError:
        raise TokenizerMissingError from None
    plain = _plain(model)
    found = MODEL_TO_ENCODING.get(plain) or next(
        (name for prefix, name in MODEL_PREFIX_TO_ENCODING.items() if plain.startswith(prefix)), None
    )
    found = _SAME_VOCABULARY.get(found or "", found)
    return found if found in ENCODINGS else None


def _plain(model: str) -> str:
    return model.rsplit("/", 1)[-1].strip().lower()
