"""A session that is driven at random, beside the reference that it is compared with after every step."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant

from compactor import Code, Context, Fit, RecallExpiredError, SessionNotFoundError
from compactor.commands import read
from compactor.models import Kind
from compactor.records import ENCODINGS
from compactor.settings import Settings
from compactor.validity import added_faults
from tests.integration.clients import Client, SessionClient, StoreClient
from tests.integration.conversations import OTHER_ENCODING, SMALL, assistant, recount, result, rows, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import keys_of
from tests.integration.truth import RESULTS, SYSTEM, Truth, Value

BOTS = (SMALL, OTHER_ENCODING)
HEAD = 51  # bytes of a record before its JSON


@dataclass
class Bench:
    """What all examples share: two bots (the second one's replies can be lost), a worker, a bare client."""

    clients: Sequence[Client]
    store: StoreClient
    worker: InlineWorker
    proxy: LossyProxy
    raw: Any
    settings: Settings
    names: Iterator[int] = field(default_factory=itertools.count)


@dataclass
class Chat:
    """A bot that owns its list: the conversation as it means it, and the messages it holds for it."""

    meant: list[Value] = field(default_factory=list[Value])
    held: list[Value] = field(default_factory=list[Value])
    is_view: bool = False
    is_folded: bool = False


@lru_cache(maxsize=100_000)
def _tokens(text: str, encoding: str) -> int:
    return recount([json.loads(text)], encoding)


def tokens(messages: Sequence[Value], encoding: str) -> int:
    return sum(_tokens(json.dumps(message), encoding) for message in messages)


class Driven(RuleBasedStateMachine):
    """One session, its reference, and what must hold between the rules that a test adds."""

    bench: Bench

    def __init__(self) -> None:
        super().__init__()
        self.name = f"truth/{next(self.bench.names)}"
        self.sessions: list[SessionClient] = [
            client.session(self.name, config) for client, config in zip(self.bench.clients, BOTS, strict=True)
        ]
        self.truth = Truth()
        self.chats = [Chat(), Chat()]
        self.earlier: list[Chat] = []
        self.keys: dict[str, tuple[list[Value], tuple[int, ...]]] = {}
        self.compactions: list[str] = []
        self.numbers = itertools.count()
        self.revision = 0
        self.stays: tuple[int, int] | None = None  # revision and archive, when the last step may not move them
        self.age = 0  # steps since the conversation began

    # What is said.

    def word(self) -> str:
        """A text that shares neither beginning nor end with another one."""
        number = next(self.numbers)
        return f"{(number * 7919 + 13) % 99991:05d} of {number} is {(number * 104729) % 99989:05d}"

    def messages(self, kind: str) -> list[Value]:
        number = next(self.numbers)
        calls: list[Value] = [self.call(number)]
        match kind:
            case "user":
                return [user(self.word())]
            case "reply":
                return [assistant(self.word())]
            case "system":
                return [{"role": "system", "content": self.word()}]
            case "call":
                return calls
            case "two":
                double = {**calls[0], "tool_calls": [*calls[0]["tool_calls"], *self.call(number + 10**6)["tool_calls"]]}
                return [double, result(number, self.word()), result(number + 10**6, self.word())]
            case "small":
                return [*calls, result(number, self.word())]
            case "repeat":
                return [self.call(number, args=0), result(number, rows(1, 45))]
            case _:
                return [*calls, result(number, rows(number, 60))]

    @staticmethod
    def call(number: int, args: int | None = None) -> dict[str, Any]:
        function = {"name": "grep", "arguments": json.dumps({"query": number if args is None else args})}
        called = {"id": f"call_{number}", "type": "function", "function": function}
        return {"role": "assistant", "content": None, "tool_calls": [called]}

    # What bots do.

    def stored(self, bot: int, messages: list[Value]) -> None:
        receipt = self.sessions[bot].push(messages)
        assert receipt.positions == self.truth.push(messages)
        assert receipt.length == len(self.truth.live)
        assert receipt.total == tokens(self.truth.shown, ENCODINGS[1 - bot])

    def meant(self) -> list[Value]:
        """The whole conversation as a bot with its own list has it."""
        return [entry.pushed for entry in self.truth.conversation]

    def send(
        self, bot: int, meant: list[Value], given: list[Value], *, quiet: bool = False, lead: bool = False
    ) -> None:
        """Sends a list; `quiet`: revision and archive may not move."""
        before = self.marks()
        opening = self.messages("system") if lead else []
        context = self.sessions[bot].prepare([*opening, *given])
        self.truth.sync(meant)
        expected = [*opening, *self.truth.answer(meant)]
        # What a view had left out comes back with the faults that the bot's own list has there.
        assert not added_faults([*opening, *meant], context.messages)
        if given == meant or not self.chats[bot].is_view:
            self.check(context, expected, bot)
        held = context.messages[len(opening) :]
        # Of a view, a step without any result left without a word, and so it does when the list fits again.
        is_view = context.verdict.fit is not Fit.FITS or (given != meant and self.chats[bot].is_view)
        self.chats[bot] = Chat(meant, held, is_view=is_view, is_folded=len(expected) < len(opening) + len(meant))
        self.earlier = [*self.earlier[-3:], self.chats[bot]]
        self.stays = before if quiet else None

    def check(self, context: Context, expected: Sequence[Value], bot: int) -> None:
        """The answer is the expected list, or a shorter one that fits and takes nothing from elsewhere."""
        verdict = context.verdict
        total = tokens(expected, ENCODINGS[1 - bot]) + 3
        assert verdict.total == total
        if total <= verdict.ceiling:
            assert verdict.fit is Fit.FITS
            assert context.messages == list(expected)
            return
        assert not added_faults(expected, context.messages)
        assert verdict.sent == tokens(context.messages, ENCODINGS[1 - bot]) + 3
        assert verdict.fit is Fit.IMPOSSIBLE or verdict.sent <= verdict.ceiling
        assert [m for m in context.messages if m["role"] in SYSTEM] == [m for m in expected if m["role"] in SYSTEM]
        questions = [message for message in expected if message["role"] == "user"]
        kept = [message for message in context.messages if message["role"] == "user"]
        assert kept == questions[len(questions) - len(kept) :] or questions[0] in kept
        assert questions[-1:] == kept[-1:]
        left = iter(expected)
        for message in context.messages:
            if message["role"] not in RESULTS:
                assert any(message == other for other in left), "in order, and of this list"
        ids = {message["tool_call_id"] for message in expected if message["role"] in RESULTS}
        assert all(m["tool_call_id"] in ids for m in context.messages if m["role"] in RESULTS)

    # What the worker does.

    def claimed(self) -> bool:
        return bool(self.bench.raw.hget(keys_of(self.bench.settings, self.name).state, "claim") == b"queued")

    def worked(self, at: str = "", then: Callable[[], object] = lambda: None) -> Code:
        """One run of the worker; what it says it replaced is replaced, by something smaller of the same call."""
        before = {entry.position: entry for entry in self.truth.live}
        ended = self.bench.worker.work(self.name, at=at, then=then).outcome
        if ended.outcome is not Code.APPLIED:
            return ended.outcome
        shown = {position: (value, record.kind) for position, value, record in self.read(folded=True)}
        folds = self.folds(ended.positions)
        for position in ended.positions:
            entry, (value, kind) = before[position], shown[position]
            assert not entry.fold or self.folded_whole(entry.fold, ended.positions), "only a fold takes older folds"
            assert entry.replacement is None or kind in (Kind.FOLD, Kind.FOLDED), "summaries are final"
            assert not entry.kept, "undone, and not released"
            assert position in {live.position for live in self.truth.live}
            if kind is not Kind.FOLDED:
                assert entry.pushed["role"] in RESULTS
                assert {**value, "content": 0} == {**entry.pushed, "content": 0}
            if kind not in (Kind.FOLD, Kind.FOLDED):
                assert tokens([value], "o200k_base") < tokens([entry.pushed], "o200k_base")
        for carriers, hidden in folds:
            told = [before[position].pushed for position in (*carriers, *hidden)]
            assert tokens([shown[position][0] for position in carriers], "o200k_base") < tokens(told, "o200k_base")
        self.truth.swap(ended.id, {position: shown[position][0] for position in ended.positions}, folds)
        self.compactions.append(ended.id)
        return ended.outcome

    def folded_whole(self, fold: str, positions: Sequence[int]) -> bool:
        """Whether a compaction of these positions took all of an older fold."""
        return {entry.position for entry in self.truth.live if entry.fold == fold} <= set(positions)

    def folds(self, positions: Sequence[int]) -> list[tuple[list[int], list[int]]]:
        """Of the folds at these positions: those of the results that carry one, and of what it tells of."""
        found: list[tuple[list[int], list[int]]] = []
        for position, _, record in self.read(folded=True):
            if position not in positions or record.kind not in (Kind.FOLD, Kind.FOLDED):
                continue
            if record.kind is Kind.FOLDED:
                found[-1][1].append(position)
            elif found and not found[-1][1] and found[-1][0][-1] == position - 1:
                found[-1][0].append(position)
            else:
                found.append(([position], []))
        return found

    def start_anew(self) -> None:
        """Nothing is known any more of what stood in other words in a list, so bots send the originals."""
        self.age = 0
        self.chats = [Chat(chat.meant, chat.meant) for chat in self.chats]
        self.earlier = [Chat(chat.meant, chat.meant) for chat in self.earlier]

    # What holds after every step.

    def marks(self) -> tuple[int, int] | None:
        """Revision and archive; None for a session that a list is about to create."""
        revision, archived, _, _ = self.status()
        return (revision, archived) if revision else None

    def status(self) -> tuple[int, int, int, Mapping[str, int]]:
        raw = self.bench.raw
        keys = keys_of(self.bench.settings, self.name)
        state, archived = raw.hget(keys.state, "revision"), raw.hlen(keys.archive)
        found = self.bench.store.run(read.read_status(keys))
        return int(state or 0), archived, found.length, found.totals

    def read(self, *, folded: bool = False) -> list[tuple[int, Value, Any]]:
        """Position, message and record of what is live, read from the store as it stands; `folded`: also skeletons."""
        keys = keys_of(self.bench.settings, self.name)
        stored = self.bench.store.run(read.read_history(keys))
        rows = enumerate(stored.records, start=stored.state.offset)
        hidden = {Kind.TOMBSTONE} if folded else {Kind.TOMBSTONE, Kind.FOLDED}
        return [(position, record.value(), record) for position, record in rows if record.kind not in hidden]

    @invariant()
    def the_store_holds_the_truth(self) -> None:
        self.age += 1
        session = self.sessions[0]
        assert session.originals() == self.truth.originals
        found = [(position, value) for position, value, _ in self.read()]
        assert found == [(entry.position, entry.shown) for entry in self.truth.live if not entry.hidden]
        assert not added_faults(self.truth.originals, [value for _, value in found])

    @invariant()
    def totals_are_a_recount_and_the_revision_never_falls(self) -> None:
        revision, archived, length, totals = self.status()
        assert length == len(self.truth.live)
        assert dict(totals) == {name: tokens(self.truth.shown, name) for name in totals}
        assert revision >= self.revision or not self.truth.exists
        self.revision = revision
        if self.stays is not None:
            assert revision == self.stays[0]
            assert archived <= self.stays[1], "a claim takes away what no swap took"
        self.stays = None

    @invariant()
    def the_size_is_what_is_stored(self) -> None:
        keys = keys_of(self.bench.settings, self.name)
        pipeline = self.bench.raw.pipeline().hget(keys.state, "bytes").lrange(keys.messages, 0, -1).hvals(keys.archive)
        counted, live, archived = pipeline.execute()
        assert int(counted or 0) == sum(len(row) - HEAD for row in live) + sum(map(len, archived))

    @invariant()
    def every_message_can_be_recalled(self) -> None:
        known = self.truth.recallable()
        newest = sorted(known)[-2:]
        turn = next(self.numbers)
        for position in {*newest, *(sorted(known)[turn % len(known) : turn % len(known) + 1] if known else ())}:
            found = self.sessions[0].recall(f"m{position}")
            assert found == known[position], (position, found, known[position])

    def teardown(self) -> None:
        self.bench.proxy.heal()
        for position, value in self.truth.recallable().items():
            found = self.sessions[0].recall(f"m{position}")
            assert found == value, (position, found, value)
        for position in [*self.truth.gone][:5]:
            with pytest.raises((RecallExpiredError, SessionNotFoundError)):
                self.sessions[0].recall(f"m{position}")
