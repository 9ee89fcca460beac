"""SecretBox: api_keys encrypted with a keyring, each for one place only."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any, Final

from pydantic import SecretStr

from compactor.exceptions import ApiKeyUnreadableError, ConfigKeysMissingError, ConfigurationError

_KEY: Final = re.compile(r"[A-Za-z0-9_-]{43}=")
_DIGEST: Final = 32  # bytes that stand before the secret


class SecretBox:
    """Encrypts with the first key of the ring, decrypts with any; an empty ring does neither.

    What was sealed for one place opens for no other: a token that somebody moves to another config in
    Redis is not a key any more.
    """

    def __init__(self, config_keys: SecretStr | None) -> None:
        """Raises ConfigurationError for a ring that is none, or when `cryptography` is missing."""
        keys = _keys(config_keys)
        self._ring: Any = None
        self._first: Any = None
        if keys:
            fernet = _cryptography()
            rings = [fernet.Fernet(key) for key in keys]
            self._ring, self._first = fernet.MultiFernet(rings), rings[0]

    def __repr__(self) -> str:
        return f"SecretBox({'ready' if self._ring is not None else 'no keys'})"

    def seal(self, secret: SecretStr, place: str) -> bytes:
        """The encrypted secret. Raises ConfigKeysMissingError."""
        self.check()
        token: bytes = self._ring.encrypt(_digest(place) + secret.get_secret_value().encode())
        return token

    def open(self, token: bytes, place: str) -> SecretStr:
        """The secret. Raises ApiKeyUnreadableError, ConfigKeysMissingError."""
        plain = self._plain(token, self._ring)
        if plain is None or plain[:_DIGEST] != _digest(place):
            raise ApiKeyUnreadableError(
                "api_key: no key of COMPACTOR_CONFIG_KEYS opens it for this config. Add the key it was stored with "
                "to the end of the list, or store the api_key again."
            )
        return SecretStr(plain[_DIGEST:].decode(errors="replace"))

    def rotated(self, token: bytes) -> bytes | None:
        """The same secret encrypted with the first key; None when it is already.

        Raises ApiKeyUnreadableError, ConfigKeysMissingError.
        """
        if self._plain(token, self._first) is not None:
            return None
        if self._plain(token, self._ring) is None:
            raise ApiKeyUnreadableError("api_key: no key of COMPACTOR_CONFIG_KEYS opens it.")
        again: bytes = self._ring.rotate(token)
        return again

    def check(self) -> None:
        """Raises ConfigKeysMissingError when there is no keyring."""
        if self._ring is None:
            raise ConfigKeysMissingError(
                "api_key: not stored, since COMPACTOR_CONFIG_KEYS is not set and keys are never kept in plain text. "
                "Make a key with `compactor configs new-key` and set it for every process of the service."
            )

    def _plain(self, token: bytes, ring: Any) -> bytes | None:
        self.check()
        try:
            plain: bytes = ring.decrypt(token)
        except (_cryptography().InvalidToken, ValueError, TypeError):
            return None
        return plain


def new_key() -> str:
    """A random key for COMPACTOR_CONFIG_KEYS. Raises ConfigurationError when `cryptography` is missing."""
    key: bytes = _cryptography().Fernet.generate_key()
    return key.decode()


def _keys(config_keys: SecretStr | None) -> list[str]:
    given = [part.strip() for part in config_keys.get_secret_value().split(",")] if config_keys is not None else []
    keys = [key for key in given if key]
    for place, key in enumerate(keys, 1):
        if not _KEY.fullmatch(key):
            raise ConfigurationError(
                f"config_keys: key {place} of {len(keys)} is none; expected 44 characters of URL-safe base64. "
                "Make one with `compactor configs new-key` and set COMPACTOR_CONFIG_KEYS."
            )
    return keys


def _digest(place: str) -> bytes:
    return sha256(place.encode()).digest()


def _cryptography() -> Any:
    try:
        from cryptography import fernet
    except ImportError:
        raise ConfigurationError(
            "config_keys: encryption needs the package cryptography. Install it with pip install 'compactor[http]'."
        ) from None
    return fernet
