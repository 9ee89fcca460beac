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
from compactor.tally import NOTHING, Tally
from compactor.tokens import Encode
from compactor.view import NO_CUT, Cut


@dataclass(frozen=True, slots=True)
class CachedHistory:
    """A history as this process last read it, in one encoding, and the view's cut that was sent.

    `messages` are in stored order, tombstones included, `lead` of them leading system messages;
    `chain` is the fingerprint of the originals; `sent` are fingerprints of results that were handed
    out cut short; the first `sound` of the usable ones are known to be in order; `phrases` are pinned.
    `before` is the tally of the first messages, all of them live, so that only what follows is added up.
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
    before: Tally = field(default=NOTHING, compare=False, repr=False)
    usable: tuple[Message, ...] = field(init=False)
    problems: tuple[str, ...] = field(init=False)
    tally: Tally = field(init=False, repr=False)

    def __post_init__(self) -> None:
        new = self.messages[self.before.length :]
        whole = all(message.live for message in new)
        kept, problems = (self.messages, ()) if whole else readable(self.messages)
        object.__setattr__(self, "usable", tuple(kept))
        object.__setattr__(self, "problems", problems)
        object.__setattr__(self, "tally", self.before.after(new) if whole else NOTHING.after(kept))
        object.__setattr__(self, "sound", sound_until(self.usable, self.sound if whole else 0))

    @property
    def tokens(self) -> int:
        return self.tally.tokens

    @property
    def known(self) -> Tally:
        """The `before` of a history that grows out of this one; nothing when a message of it is not live."""
        return self.tally if len(self.usable) == len(self.messages) else NOTHING

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
    stood, sound = held.messages, held.sound
    if answer.changed:
        stood, sound = _with_changes(held, answer, encoding, encode)
    tail = read_messages(answer.tail, answer.offset + len(stood), encoding, encode)
    return replace(
        held,
        version=answer.version,
        offset=answer.offset,
        messages=(*stood, *tail),
        before=NOTHING if answer.changed else held.known,
        size=held.size + sum(len(record.text) for record in answer.tail),
        chain=answer.chain,
        sound=sound,
        lead=answer.lead,
        phrases=held.phrases if held.version == answer.version else read_phrases(answer.pins),
    )


def _with_changes(
    held: CachedHistory, answer: Prepared, encoding: str, encode: Encode
) -> tuple[tuple[Message, ...], int]:
    """The held messages with those that were replaced, and how many are still known to be in order."""
    messages, sound = list(held.messages), held.sound
    for position, record in answer.changed.items():
        new = read_messages([record], position, encoding, encode)[0]
        if Kind.TOMBSTONE in (new.kind, messages[position - answer.offset].kind):
            sound = 0
        messages[position - answer.offset] = new
    return tuple(messages), sound
