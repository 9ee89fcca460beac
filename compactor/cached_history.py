"""The history that a process holds of a session, and how one answer brings it up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Protocol

from compactor.commands.prepare import Prepared
from compactor.models import Kind, Message
from compactor.pins import read_phrases
from compactor.quarantine import readable
from compactor.repair import Repaired, repair, sound_until
from compactor.stored_messages import read_messages
from compactor.tokens import Encode
from compactor.view import NO_CUT, Cut


@dataclass(frozen=True, slots=True)
class CachedHistory:
    """A history as this process last read it, in one encoding, and the view's cut that was sent.

    `messages` are in stored order, tombstones included, `lead` of them leading system messages;
    `chain` is the fingerprint of the originals; `sent` are fingerprints of results that were handed
    out cut short; the first `sound` of the usable ones are known to be in order; `phrases` are pinned.
    """

    version: int
    offset: int
    messages: tuple[Message, ...]
    cut: Cut = NO_CUT
    size: int = 0
    chain: bytes = b""
    sound: int = 0
    lead: int = 0
    sent: frozenset[bytes] = frozenset()
    phrases: tuple[str, ...] = ()
    tokens: int = field(init=False)
    usable: tuple[Message, ...] = field(init=False)
    problems: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        whole = all(message.live for message in self.messages)
        kept, problems = (self.messages, ()) if whole else readable(self.messages)
        object.__setattr__(self, "usable", tuple(kept))
        object.__setattr__(self, "problems", problems)
        object.__setattr__(self, "tokens", sum(message.tokens for message in self.usable))
        object.__setattr__(self, "sound", sound_until(self.usable, self.sound if whole else 0))

    def in_order(self, encode: Encode, *, mend: bool) -> Repaired:
        """The usable messages with late answers behind their calls and open calls closed."""
        return repair(self.usable, encode, start=self.sound, mend=mend)


class Histories(Protocol):
    """Where a process keeps the histories it read; least recently used ones may go."""

    def get(self, key: tuple[str, str]) -> CachedHistory | None: ...
    def put(self, key: tuple[str, str], history: CachedHistory) -> None: ...
    def drop(self, key: tuple[str, str]) -> None: ...


class Unconfirmed(Protocol):
    """Names of writing calls that raised and may have been carried out all the same."""

    def put(self, session: str, content: bytes, name: bytes, caller: object = None) -> None: ...
    def take(self, session: str, content: bytes) -> bytes | None: ...
    def seen(self, session: str, own: Sequence[bytes], caller: object = None) -> None: ...
    def forget(self, session: str, content: bytes | None = None) -> None: ...


EMPTY: Final = CachedHistory(0, 0, ())
# In the place of an encoding: lists of a session that could not be stored.
UNSAVED: Final = tuple(f"unsaved list {slot}" for slot in range(8))


def updated(held: CachedHistory, answer: Prepared, encoding: str, encode: Encode) -> CachedHistory:
    """The held history with what changed since: replaced messages and the new tail."""
    if not answer.changed and not answer.tail and held.version == answer.version:
        return held
    messages = list(held.messages)
    size, sound = held.size, held.sound
    for position, record in answer.changed.items():
        new = read_messages([record], position, encoding, encode)[0]
        if Kind.TOMBSTONE in (new.kind, messages[position - answer.offset].kind):
            sound = 0
        messages[position - answer.offset] = new
    if answer.tail:
        messages += read_messages(answer.tail, answer.offset + len(messages), encoding, encode)
        size += sum(len(record.text) for record in answer.tail)
    return replace(
        held,
        version=answer.version,
        offset=answer.offset,
        messages=tuple(messages),
        size=size,
        chain=answer.chain,
        sound=sound,
        lead=answer.lead,
        phrases=held.phrases if held.version == answer.version else read_phrases(answer.pins),
    )
