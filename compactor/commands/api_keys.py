"""API keys of the HTTP service: what is stored of each, never the key itself.

A key is `cptr_<id>_<secret>`: looked up by its id, compared by a hash. Two hashes per namespace hold
what was issued and what was revoked; neither expires.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from hmac import compare_digest
from typing import Any, Final

from compactor.commands.command import Command, text
from compactor.exceptions import ConfigurationError, SessionDamagedError
from compactor.json_values import is_object

_KEY: Final = re.compile(r"cptr_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_TENANT: Final = re.compile(r"[A-Za-z0-9._:@-]{1,49}")  # with a slash and a session's name, 200 in all
_USER: Final = re.compile(r"[A-Za-z0-9._:@-]{1,100}")
_NAME: Final = re.compile(r"[\x20-\x7e]{0,100}")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """What is stored of a key; times in seconds since the epoch, `expires` None: never, `digest` in hex."""

    id: str
    digest: str
    tenant: str
    user: str | None = None
    name: str = ""
    created: float = 0.0
    expires: float | None = None
    revoked: float | None = None

    def state(self, now: float) -> str:
        """`active`, `expired` or `revoked`."""
        if self.revoked is not None:
            return "revoked"
        return "active" if self.expires is None or now < self.expires else "expired"

    def opens(self, key: str, now: float) -> bool:
        """Whether this is the key, and still valid; takes the same time wherever the two differ."""
        return compare_digest(self.digest, digest_of(key)) and self.state(now) == "active"


def new_key(
    tenant: str, *, user: str | None = None, name: str = "", now: float, expires: float | None = None
) -> tuple[str, ApiKey]:
    """A random key, and what is stored of it. Raises ConfigurationError, which says what was expected."""
    if not _TENANT.fullmatch(tenant):
        raise ConfigurationError("tenant: expected 1-49 characters of A-Z a-z 0-9 . _ : @ - (no slash).")
    if user is not None and not _USER.fullmatch(user):
        raise ConfigurationError("user: expected 1-100 characters of A-Z a-z 0-9 . _ : @ -.")
    if not _NAME.fullmatch(name):
        raise ConfigurationError("name: expected up to 100 printable ASCII characters.")
    key_id = secrets.token_hex(8)
    key = f"cptr_{key_id}_{secrets.token_urlsafe(32)}"
    return key, ApiKey(key_id, digest_of(key), tenant, user, name, now, expires)


def digest_of(key: str) -> str:
    """The hash that is stored: 256 random bits cannot be guessed, so a fast one is right."""
    return blake2b(key.encode("utf-8", "replace"), digest_size=32, person=b"compactor-key").hexdigest()


def id_of(key: str) -> str | None:
    """The id inside a key; None for what is no key."""
    found = _KEY.fullmatch(key)
    return found[1] if found else None


def is_id(value: str) -> bool:
    """Whether this is a key's id."""
    return re.fullmatch(r"[0-9a-f]{16}", value) is not None


def _keys(namespace: str) -> tuple[str, str]:
    return f"{{{namespace}}}:api-keys", f"{{{namespace}}}:api-keys-revoked"


def issue(namespace: str, key: ApiKey) -> Command[bool]:
    """Stores a new key; False when another one has its id."""
    stored = json.dumps(
        {
            "digest": key.digest,
            "tenant": key.tenant,
            "user": key.user,
            "name": key.name,
            "created": key.created,
            "expires": key.expires,
        }
    )
    return Command(lambda replies: bool(replies[0]), "issue_key", _keys(namespace)[:1], (key.id, stored))


def revoke(namespace: str, key_id: str) -> Command[bool]:
    """Revokes a key for good; False when there is none of this id."""
    return Command(lambda replies: bool(replies[0]), "revoke_key", _keys(namespace), (key_id,))


def read_key(namespace: str, key_id: str) -> Command[ApiKey | None]:
    """One key by its id. Raises (on parsing) SessionDamagedError when its entry is garbled."""
    issued, revoked = _keys(namespace)

    def parse(replies: list[Any]) -> ApiKey | None:
        return None if replies[0] is None else _read(key_id, replies[0], replies[1])

    return Command(parse, reads=(("HGET", issued, key_id), ("HGET", revoked, key_id)))


def read_keys(namespace: str) -> Command[list[ApiKey]]:
    """Every key, the oldest first; entries that are garbled are left out."""
    issued, revoked = _keys(namespace)

    def parse(replies: list[Any]) -> list[ApiKey]:
        ended: Mapping[bytes, bytes] = replies[1]
        found: list[ApiKey] = []
        for name, entry in replies[0].items():
            try:
                found.append(_read(text(name), entry, ended.get(name)))
            except SessionDamagedError:
                continue
        return sorted(found, key=lambda key: (key.created, key.id))

    return Command(parse, reads=(("HGETALL", issued), ("HGETALL", revoked)))


def _read(key_id: str, entry: bytes, revoked: bytes | None) -> ApiKey:
    garbled = SessionDamagedError(
        f"api key {key_id}: its entry was damaged from outside. Revoke it and make a new one."
    )
    try:
        stored = json.loads(entry)
        if not is_object(stored) or not isinstance(stored["digest"], str) or not _TENANT.fullmatch(stored["tenant"]):
            raise garbled
        expires = stored["expires"]
        return ApiKey(
            key_id,
            stored["digest"],
            stored["tenant"],
            None if stored["user"] is None else str(stored["user"]),
            str(stored["name"]),
            float(stored["created"]),
            None if expires is None else float(expires),
            None if revoked is None else float(revoked),
        )
    except (ValueError, TypeError, KeyError, RecursionError):
        raise garbled from None
