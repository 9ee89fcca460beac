"""Where the parts of a cluster are, and the way of a command to them; sends nothing itself.

Redis Cluster spreads keys over 16,384 slots. All keys of a session are in one, so a command on a
session is one call to the node that has its slot. `Cluster.replies` yields what is to be sent where,
gets each answer or error, and returns the replies: the blocking store and the one for asyncio drive it.

redis-py's own cluster clients were no base for this: they connect when they are made, their
transactions do not follow an ASK, and the asyncio one starts a thread for each command of a transaction.
"""

from __future__ import annotations

import random
import time
from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from redis import exceptions as errors
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, ClusterError, MovedError, RedisError, TryAgainError

from compactor.commands.command import Argument, Command, text
from compactor.effects import Pause
from compactor.server_url import Address

T = TypeVar("T")
MOST_NODES: Final = 4_096  # with primaries; the remainder of a listing's cursor by this names one
# Seconds before each new attempt while slots move or an election is on; a call stays short, its caller can repeat it.
PAUSES: Final = (0.0, 0.02, 0.05, 0.1, 0.2, 0.3)
_FRESH: Final = 10.0  # seconds
_ASKED: Final = 3  # nodes asked for the slots in one call: dead ones cost a timeout each
_SILENT: Final = (errors.ConnectionError, errors.TimeoutError, OSError)
_REDIRECTS: Final = (AskError, TryAgainError, ClusterDownError)  # a MovedError is an AskError


class NotACluster(ClusterError):
    """The server is one on its own."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Which primary has which slots: ranges by their first slot, None for a gap."""

    starts: tuple[int, ...]
    owners: tuple[Address | None, ...]

    @property
    def primaries(self) -> tuple[Address, ...]:
        """Each primary once, in an order that every process sees alike."""
        return tuple(sorted({owner for owner in self.owners if owner is not None}))

    def owner(self, slot: int) -> Address:
        """The primary of a slot. Raises ClusterDownError when none has it."""
        at = bisect_right(self.starts, slot) - 1
        owner = self.owners[at] if at >= 0 else None
        if owner is None:
            raise ClusterDownError("CLUSTERDOWN no node has this slot")
        return owner


@dataclass(frozen=True, slots=True)
class AskSlots:
    """Asks a node for CLUSTER SLOTS."""

    node: Address


@dataclass(frozen=True, slots=True)
class Attempt:
    """Sends a command to a node; `asking`: to one that is taking the slot over.

    Without `whole` the reads are of several slots, which no transaction can span.
    """

    node: Address
    command: Command[Any]
    asking: bool = False
    whole: bool = True


Step = AskSlots | Attempt | Pause
Way = Generator[Step, Any, T]


def read_slots(reply: Sequence[Any], asked: Address) -> Slots:
    """Reads CLUSTER SLOTS; a node that does not know its own host is where it was asked. Raises ClusterError."""
    starts: list[int] = []
    owners: list[Address | None] = []
    try:
        for first, last, primary, *_ in sorted(reply, key=lambda row: int(row[0])):
            if starts and starts[-1] == int(first):  # ends the gap that was assumed
                owners[-1] = _place(primary, asked)
            else:
                starts.append(int(first))
                owners.append(_place(primary, asked))
            starts.append(int(last) + 1)
            owners.append(None)
    except (TypeError, ValueError, IndexError):
        raise ClusterError("CLUSTER SLOTS was not understood") from None
    return Slots(tuple(starts), tuple(owners))


def _place(node: Sequence[Any], asked: Address) -> Address:
    host = text(node[0])
    return (asked[0] if host in ("", "?") else host), int(node[1])


def key_of(read: tuple[Argument, ...]) -> str | None:
    """The one key that a read names; None for TIME and the like."""
    return str(read[1]) if len(read) > 1 else None


class Cluster:
    """The slots as this process knows them; thread-safe, since they are replaced as a whole."""

    def __init__(self, seeds: Sequence[Address], clock: Callable[[], float] = time.monotonic) -> None:
        self._seeds, self._clock = tuple(seeds), clock
        self._slots: Slots = Slots((), ())
        self._is_known, self._learnt = False, 0.0

    def replies(self, command: Command[Any]) -> Way[list[Any]]:
        """The replies of a command in order; what goes wrong for good is raised as redis-py names it."""
        keys = command.keys or tuple(key for read in command.reads if (key := key_of(read)) is not None)
        if command.reads and command.reads[0][0] == "SCAN":
            return (yield from self._scanned(command))
        slots = {key_slot(key.encode()) for key in keys}
        if len(slots) > 1:
            return (yield from self._gathered(command))
        return (yield from self._on_slot(slots.pop() if slots else random.randrange(16_384), command))  # noqa: S311 # why: any node will do

    def primary_of(self, key: str) -> Way[Address]:
        """The node that has a key. Who asks for it sends on its own and is not followed, so this is never old."""
        is_old = self._clock() - self._learnt >= _FRESH
        slots = (yield from self._learn()) if is_old else (yield from self._known())
        return slots.owner(key_slot(key.encode()))

    def primaries(self) -> Way[tuple[Address, ...]]:
        """Every primary, as the cluster tells now."""
        return (yield from self._learn()).primaries

    def _on_slot(self, slot: int, command: Command[Any]) -> Way[list[Any]]:
        """One call; repeated where the slot went, and once elsewhere when its node does not answer."""
        pauses, has_failed = iter(PAUSES), False
        node, asking = None, False
        while True:
            slots = yield from self._known()
            try:
                node = node or slots.owner(slot)
                replies: list[Any] = yield Attempt(node, command, asking)
            except _REDIRECTS as error:
                pause = next(pauses, None)
                if pause is None:
                    raise
                yield Pause(pause)
                node, asking = yield from self._redirected(error, node, asking=asking)
            except _SILENT:
                if has_failed:
                    raise
                has_failed = True
                yield from self._learn(last=node)
                node, asking = None, False
            else:
                return replies

    def _redirected(self, error: Exception, node: Address | None, *, asking: bool) -> Way[tuple[Address | None, bool]]:
        """Where to go now, None for the slot's owner, and whether to ask there."""
        if isinstance(error, AskError) and not isinstance(error, MovedError):
            asked: Any = error  # redis-py's own types leave its address unknown
            return (asked.host or (node[0] if node else ""), asked.port), True  # no host: the one that answered
        if isinstance(error, TryAgainError) and not asking:
            return node, False  # half of the session is on its way; its slot's owner has not changed
        yield from self._learn(first=node)
        return None, False

    def _known(self) -> Way[Slots]:
        return self._slots if self._is_known else (yield from self._learn())

    def _once(self, attempt: Attempt) -> Way[list[Any]]:
        """One attempt; when its node is gone, the next call asks anew where everything is."""
        try:
            replies: list[Any] = yield attempt
        except _SILENT:
            self._is_known = False
            raise
        return replies

    def _learn(self, *, first: Address | None = None, last: Address | None = None) -> Way[Slots]:
        """Asks for the slots: `first` knows best, `last` has just failed. Raises what the last one asked raised."""
        known = list(self._slots.primaries)
        random.shuffle(known)  # a thousand processes must not all ask the same node
        nodes = dict.fromkeys(([first] if first else []) + known + list(self._seeds))
        order = sorted(nodes, key=lambda node: node == last)[:_ASKED]
        failure: Exception | None = None
        found: Slots | None = None
        for node in order:
            try:
                reply = yield AskSlots(node)
                found = read_slots(reply, node)
            except (RedisError, OSError) as error:
                failure = NotACluster() if "cluster support disabled" in str(error) else error
            if found is not None and found.starts:  # else a node that was reset: another may know more
                break
        if found is None:
            assert failure is not None
            raise failure
        self._slots, self._is_known, self._learnt = found, True, self._clock()
        return found

    def _gathered(self, command: Command[Any]) -> Way[list[Any]]:
        """Reads of several slots: one call to each node that has some of them."""
        assert command.script is None
        slots = yield from self._known()
        groups: dict[Address, list[int]] = {}
        for at, read in enumerate(command.reads):
            key = key_of(read)
            node = next(iter(groups), None) if key is None else slots.owner(key_slot(key.encode()))
            groups.setdefault(node or slots.owner(0), []).append(at)
        replies: dict[int, Any] = {}
        for node, places in groups.items():
            part = replace(command, reads=tuple(command.reads[at] for at in places))
            try:
                answers: Iterable[Any] = yield from self._once(Attempt(node, part, whole=False))
            except _REDIRECTS:
                answers = yield from self._one_by_one(part)
            replies |= zip(places, answers, strict=True)
        return [replies[at] for at in range(len(command.reads))]

    def _one_by_one(self, command: Command[Any]) -> Way[list[Any]]:
        answers: list[Any] = []
        for read in command.reads:
            answers += yield from self.replies(replace(command, reads=(read,)))
        return answers

    def _scanned(self, command: Command[Any]) -> Way[list[Any]]:
        """A SCAN over one primary after the other; the cursor says which one, and where in it."""
        _, cursor, *options = command.reads[0]
        primaries = (yield from self._known()).primaries
        inner, at = divmod(int(cursor), MOST_NODES)
        if at >= len(primaries):  # a node left meanwhile
            return [(0, [])]
        scan = replace(command, reads=(("SCAN", inner, *options),))
        replies = yield from self._once(Attempt(primaries[at], scan))
        after, keys = int(replies[0][0]), replies[0][1]
        if after:
            return [(after * MOST_NODES + at, keys)]
        return [(at + 1 if at + 1 < len(primaries) else 0, keys)]
