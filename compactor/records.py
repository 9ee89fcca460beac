"""Message JSON and the stored record: a fixed-width head, then the JSON bytes.

Head, 51 bytes, big endian: version u8 | flags u8 | kind u8 | tokens cl100k u32 | tokens o200k u32 |
pushed ms u64 | own 8 bytes | shown 8 bytes | chain 16 hex bytes. `own` is the fingerprint of the
original, `shown` that of what last stood here in its place, `chain` hashes the originals up to here
as they were pushed. A token count of 0xFFFFFFFF means "not counted in this encoding". A tombstone
is a head alone. Between head and JSON stand 8 bytes more with the flag LIMITED, the fingerprint of the
cut text that a push stored in place of the original, and 8 bytes with the flag EARLIER, that of the
replacement that stood here before the last one. Of a message that is part of a fold, the JSON is a
skeleton that costs no tokens, and `shown` is what was shown before the fold.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b, sha1
from typing import Any, Final, cast

import orjson

from compactor.exceptions import InvalidMessageError, MessageTooLargeError, SessionDamagedError
from compactor.frozen import freeze
from compactor.json_values import is_array, is_object
from compactor.models import Kind

VERSION: Final = 1
ENCODINGS: Final = ("cl100k_base", "o200k_base")
NOT_COUNTED: Final = 0xFFFFFFFF
ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_OTHER_ROLES: Final = {
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "bot": "assistant",
    "observation": "tool",
}
MAX_DEPTH: Final = 250  # orjson stops at 254 levels; every reader must cope with what we accept

STANDARD_JSON: Final = 1  # flag: written by the standard json module, which must read it too
PROVISIONAL: Final = 2
PINNED: Final = 4
SOFT: Final = 8  # came with a caller's list as its latest user message: that caller may still reword it
KEPT: Final = 16  # undone: not replaced again until it is released
LIMITED: Final = 32  # cut when it was pushed
REOPENED: Final = 64  # brought back for a pinned phrase: to be replaced again wherever it stands
EARLIER: Final = 128  # replaced more than once

_KINDS: Final[dict[int, Kind]] = {kind.value: kind for kind in Kind}
_HEAD: Final = struct.Struct(">BBBIIQ8s8s16s")
_PUSHED: Final = struct.Struct(">BBBII")
_ORIGINAL: Final = bytes((VERSION, 0, Kind.ORIGINAL))  # how the head of nearly every record begins
_NO_CHAIN: Final = b"0" * 16
_VISIBLE: Final = (
    "role",
    "name",
    "content",
    "tool_calls",
    "function_call",
    "tool_call_id",
    "refusal",
    "reasoning_content",
)
_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME


@dataclass(frozen=True, slots=True)
class Encoded:
    """A message ready to be stored: its JSON bytes, the flags that name the reader, its fingerprint."""

    value: Mapping[str, Any]
    text: bytes
    flags: int
    own: bytes

    def stored_value(self) -> Mapping[str, Any]:
        """The message as it will be read back; the standard writer joins halves of surrogate pairs."""
        return read_json(self.text, self.flags) if self.flags & STANDARD_JSON else self.value

    def pushed(self, tokens: Mapping[str, int], *, soft: bool = False, limited: bool = False) -> bytes:
        """The part of the head that the pusher knows; the script adds time and fingerprints."""
        flags = self.flags | (SOFT if soft else 0) | (LIMITED if limited else 0)
        return _PUSHED.pack(VERSION, flags, Kind.LIMITED if limited else Kind.ORIGINAL, *_slots(tokens))

    def whole(self) -> Record:
        """The record of an original that a push cuts: it goes into the archive, and nobody counts it."""
        return Record(self.flags, Kind.ORIGINAL, _slots({}), 0, self.own, self.own, _NO_CHAIN, self.text)

    def limited(self, own: bytes, tokens: Mapping[str, int]) -> Record:
        """The record of a cut message in place of the original of that fingerprint."""
        flags = self.flags | LIMITED
        return Record(flags, Kind.LIMITED, _slots(tokens), 0, own, self.own, _NO_CHAIN, self.text, self.own)


@dataclass(frozen=True, slots=True)
class Record:
    """A stored message with its head, as read from Redis."""

    flags: int
    kind: Kind
    tokens: tuple[int, int]
    pushed_ms: int
    own: bytes
    shown: bytes
    chain: bytes
    text: bytes
    cut: bytes = b""
    earlier: bytes = b""

    @property
    def left(self) -> Kind:
        """Of a tombstone: the kind of the replacement that waits in it, ORIGINAL when none does."""
        waits = self.text[0] if self.kind is Kind.TOMBSTONE and self.text else Kind.ORIGINAL
        return _KINDS.get(waits, Kind.ORIGINAL)

    @property
    def size(self) -> int:
        """Bytes that the session is charged for: all behind the head."""
        return len(self.cut) + len(self.earlier) + len(self.text)

    def value(self) -> Any:
        """The message, read-only. Raises SessionDamagedError when it cannot be read, or is no message."""
        value = read_json(self.text, self.flags)
        if not isinstance(value, dict):
            raise SessionDamagedError("stored record: holds no message; it was damaged outside of Compactor.")
        return freeze(cast("Any", value))

    def counted(self, encoding: str) -> int | None:
        """Tokens of the message in this encoding, or None when nobody counted it yet."""
        tokens = self.tokens[ENCODINGS.index(encoding)]
        return None if tokens == NOT_COUNTED else tokens

    def pack(self) -> bytes:
        head = _HEAD.pack(
            VERSION, self.flags, self.kind, *self.tokens, self.pushed_ms, self.own, self.shown, self.chain
        )
        return head + self.cut + self.earlier + self.text

    def showing(self, message: Encoded, kind: Kind, *, provisional: bool, tokens: Mapping[str, int]) -> Record:
        """The same place in the history showing another message; `own` and `chain` stay the original's."""
        shown = self.shown if kind is Kind.FOLDED else message.own
        earlier = self.earlier if self.shown in (self.own, self.cut, shown) else self.shown
        kept = (self.flags & (PINNED | SOFT | LIMITED)) | (EARLIER if earlier else 0)
        return replace(
            self,
            flags=message.flags | (PROVISIONAL if provisional else 0) | kept,
            kind=kind,
            tokens=_slots(tokens),
            shown=shown,
            text=message.text,
            earlier=earlier,
        )

    def brought_back(self, original: Record) -> Record:
        """The original in this place again; a list that still holds what was shown here is recognised."""
        return replace(
            original,
            flags=original.flags | (EARLIER if self.earlier else 0),
            pushed_ms=self.pushed_ms,
            shown=self.shown,
            chain=self.chain,
            earlier=self.earlier,
        )


def read_record(data: bytes) -> Record:
    """Reads a stored record; a foreign, cut or newer one is quarantined: of kind CORRUPT, its bytes as text."""
    try:
        return unpack(data)
    except SessionDamagedError:
        return Record(0, Kind.CORRUPT, (0, 0), 0, b"", b"", b"", data)


def unpack(data: bytes) -> Record:
    """Reads a stored record. Raises SessionDamagedError for a foreign or cut one."""
    if len(data) < _HEAD.size or data[0] != VERSION:
        raise SessionDamagedError(
            f"stored record: expected version {VERSION} with a head of {_HEAD.size} bytes, found "
            f"{len(data)} bytes of version {data[0] if data else 'none'}. A newer release wrote it, or it was damaged."
        )
    _, flags, kind, cl100k, o200k, pushed_ms, own, shown, chain = _HEAD.unpack_from(data)
    known = _KINDS.get(kind, Kind.CORRUPT)
    if known is Kind.CORRUPT:
        raise SessionDamagedError(f"stored record: unknown kind {kind}; a newer release wrote it.")
    # What a tombstone keeps of its message is read by the scripts alone.
    named = 0 if known is Kind.TOMBSTONE else flags
    middle = _HEAD.size + (8 if named & LIMITED else 0)
    start = middle + (8 if named & EARLIER else 0)
    if len(data) < start:
        raise SessionDamagedError("stored record: was cut off; it was damaged outside of Compactor.")
    cut, earlier = data[_HEAD.size : middle], data[middle:start]
    return Record(flags, known, (cl100k, o200k), pushed_ms, own, shown, chain, data[start:], cut, earlier)


def original_values(rows: Sequence[bytes]) -> list[Any]:
    """The messages of stored records that are originals without flags, as nearly all are; None for any other.

    Fresh values of the caller's own, so nothing needs to be read-only. What is no message comes as it is, and
    of a list with JSON that cannot be read nothing comes but None.
    """
    start = _HEAD.size
    try:
        return [orjson.loads(row[start:]) if row.startswith(_ORIGINAL) and len(row) > start else None for row in rows]
    except ValueError:
        return [None] * len(rows)


def encode_message(message: object, *, max_bytes: int | None = None) -> Encoded:
    """Reads a message (mapping or SDK object) into JSON bytes, at most `max_bytes` of them; None: any number.

    Raises InvalidMessageError (not a message, or not JSON) and MessageTooLargeError.
    """
    value = _as_mapping(message)
    role = value.get("role")
    if not isinstance(role, str) or role not in ROLES:
        given = "none" if role is None else f"a {type(role).__name__}" if not isinstance(role, str) else "another word"
        if isinstance(role, str) and role in _OTHER_ROLES:
            given = f"{role!r}, which is {_OTHER_ROLES[role]!r} here"
        raise InvalidMessageError(
            f"message role: expected one of {', '.join(sorted(ROLES))}, found {given}. "
            "Push chat messages such as {'role': 'user', 'content': 'hi'}; of an API response push "
            "response.choices[0].message."
        )
    text, flags = write_json(value)
    if max_bytes is not None and len(text) > max_bytes:
        raise MessageTooLargeError(
            f"message: {len(text)} bytes of JSON, over the limit of {max_bytes}. Shorten it before the push, "
            "or raise COMPACTOR_MAX_MESSAGE_BYTES."
        )
    return Encoded(value, text, flags, fingerprint(value))


def _as_mapping(message: Any) -> dict[str, Any]:
    value = _dumped(message)
    if is_object(value):
        return value if isinstance(value, dict) else dict(value)
    raise InvalidMessageError(
        f"message: expected a dict or an SDK message object, found {type(message).__name__}. "
        "Push one message or a list of them."
    )


def _dumped(message: Any) -> Any:
    """An SDK object as plain data, without fields nobody set. Its own errors may quote it, so ours replace them."""
    try:
        dump = getattr(message, "model_dump", None)
        if not callable(dump) or isinstance(message, type):
            return message
        try:
            return dump(mode="json", exclude_unset=True, warnings=False)  # pydantic's warnings quote the message
        except TypeError:  # an object of another library
            return dump(mode="json", exclude_unset=True)
    except Exception as error:  # noqa: BLE001 # why: whatever the object raises
        raise InvalidMessageError(
            f"message: its {type(message).__name__} could not be read as data ({type(error).__name__}). Push a dict."
        ) from None


def write_json(value: Any) -> tuple[bytes, int]:
    """JSON bytes of a value and the flags that name its reader. Raises InvalidMessageError."""
    if _is_finite(value, 0):
        try:
            return orjson.dumps(value, option=_OPTIONS), 0
        except TypeError:  # an integer over 64 bits, a lone surrogate: JSON all the same
            pass
    return _write_standard(value), STANDARD_JSON


def read_json(text: bytes, flags: int) -> Any:
    """Reads what `write_json` wrote. Raises SessionDamagedError."""
    try:
        return json.loads(text) if flags & STANDARD_JSON else orjson.loads(text)
    except (ValueError, RecursionError):
        raise SessionDamagedError(
            "stored record: its JSON cannot be read; it was damaged outside of Compactor."
        ) from None


def _write_standard(value: Any) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode("ascii")
    except ValueError:
        raise InvalidMessageError(
            "message: an integer has more digits than Python converts (4,300). Send such numbers as text."
        ) from None


def _is_finite(value: Any, depth: int) -> bool:
    """Whether all numbers are finite. Raises InvalidMessageError for what JSON does not know."""
    if value is None or isinstance(value, (str, int)):
        return True
    if isinstance(value, float):
        return math.isfinite(value)
    if depth > MAX_DEPTH:
        raise InvalidMessageError(f"message: nested deeper than {MAX_DEPTH} levels. Send the inner part as JSON text.")
    if isinstance(value, dict):
        items = cast("dict[object, Any]", value)
        if not all(isinstance(key, str) for key in items):
            raise InvalidMessageError("message: every key must be a string. Convert keys with str() first.")
        return _all_finite(items.values(), depth + 1)
    if is_array(value):
        return _all_finite(value, depth + 1)
    raise InvalidMessageError(
        f"message: holds a {type(value).__name__}, which JSON does not know. "
        "Expected text, numbers, true/false, null, lists and dicts; convert it first, for example with str()."
    )


def _all_finite(values: Iterable[Any], depth: int) -> bool:
    """Looks at every value, also behind one that is not finite: it may be no JSON at all."""
    finite = True
    for value in values:
        finite = _is_finite(value, depth) and finite
    return finite


def fingerprint(value: Mapping[str, Any]) -> bytes:
    """8 bytes that name what a model sees of a message: null and absent keys are the same."""
    visible = {key: value[key] for key in _VISIBLE if value.get(key) is not None}
    try:
        seen = orjson.dumps(visible, option=_OPTIONS | orjson.OPT_SORT_KEYS)
    except TypeError:  # what only the standard writer takes; halves of a surrogate pair come back joined
        joined = json.loads(json.dumps(visible))
        try:
            seen = orjson.dumps(joined, option=_OPTIONS | orjson.OPT_SORT_KEYS)
        except TypeError:
            seen = json.dumps(joined, sort_keys=True).encode()
    return blake2b(seen, digest_size=8).digest()


def chain_of(owns: Iterable[bytes], chain: bytes = b"") -> list[bytes]:
    """The chained fingerprint behind each original, 16 hex bytes; `chain` is what stands before the first.

    The scripts compute the same: the first 16 hex digits of sha1(chain + own).
    """
    chains: list[bytes] = []
    for own in owns:
        chain = sha1(chain + own, usedforsecurity=False).hexdigest()[:16].encode()
        chains.append(chain)
    return chains


def _slots(tokens: Mapping[str, int]) -> tuple[int, int]:
    return tokens.get(ENCODINGS[0], NOT_COUNTED), tokens.get(ENCODINGS[1], NOT_COUNTED)
