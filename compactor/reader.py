"""Reading a session: its encoder, its fixed part, and its history brought up to date by what changed."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Final

from compactor.budget import Budget
from compactor.cached_history import EMPTY, CachedHistory, Histories, Unconfirmed, updated
from compactor.commands import prepare, read
from compactor.commands.command import Command, session_keys
from compactor.commands.prepare import Judgement, Known, Load, Mode, Prepared
from compactor.commands.sync import Synced
from compactor.correction import PLAIN, Correction, first_correction, model_key, read_anchor
from compactor.effects import Flow, compute, run
from compactor.exceptions import ConfigurationError
from compactor.judging import Fixed, Request, count_fixed, judge, request_key
from compactor.kept_drafts import swap_kept
from compactor.model_config import ModelConfig
from compactor.models import CompactionId, SessionId
from compactor.protection import Protection
from compactor.rules import rules_of
from compactor.settings import Settings
from compactor.stored_messages import read_messages
from compactor.tenant_ledger import TenantBook, TenantLedger
from compactor.tokens import Encode

HEAVY: Final = 16_000  # characters to encode; more goes to a thread under asyncio
MANY: Final = 200  # messages to read or to write; more goes there too


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all sessions of one client share."""

    settings: Settings
    histories: Histories
    encoding_name: Callable[[str, str | None], str]
    encoder: Callable[[str], Encode]
    clock: Callable[[], float]
    counted: MutableMapping[tuple[str, ...], Fixed]
    unconfirmed: Unconfirmed
    encodings: MutableMapping[str, frozenset[str]]
    now: Callable[[], float]
    prior: Callable[[str], float] = lambda _model: 1.0
    anchors: MutableMapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    tenants: TenantBook = field(default_factory=TenantBook)


@dataclass(frozen=True, slots=True)
class Look:
    """What a judged read found; `answer` is None for an unknown session."""

    answer: Prepared | None
    history: CachedHistory
    recounted: bool = False
    synced: Synced | None = None
    correction: Correction = PLAIN


class SessionReader:
    """Reads one session as one model config judges it; each method yields effects."""

    def __init__(self, surroundings: Surroundings, session: SessionId, config: ModelConfig) -> None:
        if not isinstance(config, ModelConfig):
            raise ConfigurationError(
                "config: expected a ModelConfig, for example ModelConfig('gpt-4o', context_limit=128)."
            )
        self.around = surroundings
        self.settings = surroundings.settings
        self.session = session
        self.config = config
        self.keys = session_keys(self.settings.namespace, session)
        self.encoding = surroundings.encoding_name(config.model, config.encoding)
        self.ttl_ms = int(self.settings.session_ttl * 1000)
        self.ledger = self.ledger_of(session)
        self._encode: Encode | None = None
        self._judged: tuple[tuple[int, int | None, bool], Judgement] | None = None
        self._levels: tuple[Budget, Correction, Budget] | None = None
        self.model = model_key(config.model)
        self._rules = rules_of((*self.settings.rules, *config.tool_rules))
        self._first = first_correction(surroundings.prior(config.model))

    @property
    def cache_key(self) -> tuple[str, str]:
        return self.session, self.encoding

    def ledger_of(self, session: SessionId) -> TenantLedger:
        """A session's part in the total of its tenant."""
        return TenantLedger(self.settings, session, self.around.tenants, self.around.clock)

    def encoder(self) -> Flow[Encode]:
        if self._encode is None:
            self._encode = yield from compute(lambda: self.around.encoder(self.encoding), heavy=True)
        return self._encode

    def encodings(self) -> frozenset[str]:
        """The encodings this session is counted in, as far as this process knows: a router uses two."""
        known = self.around.encodings.get(self.session, frozenset())
        if self.encoding not in known:
            known |= {self.encoding}
            self.around.encodings[self.session] = known
        return known

    def fixed(self, request: Request) -> Flow[Fixed]:
        """Counts what stands beside the history; bots send the same every turn, so it is counted once."""
        key = request_key(request, self.encoding)
        known = self.around.counted.get(key)
        if known is None:
            encode = yield from self.encoder()
            known = yield from compute(lambda: count_fixed(request, encode), heavy=sum(map(len, key)) > HEAVY)
            self.around.counted[key] = known
        return known

    @property
    def correction(self) -> Correction:
        """From our count to the provider's, as far as this process knows."""
        anchor = read_anchor(self.around.anchors.get((self.session, self.model), ""))
        return self._first if anchor is None else anchor.correction

    def learn(self, anchor: str) -> None:
        """Remembers what the session knows of the model."""
        key = self.session, self.model
        if self.around.anchors.get(key, "") != anchor:
            self.around.anchors[key] = anchor

    def protection(self, history: CachedHistory) -> Protection:
        """What a view leaves in place: by the rules of operator and bot, and by pinned phrases."""
        return Protection(self._rules, history.phrases)

    def levels(self, budget: Budget, correction: Correction) -> Budget:
        """The budget's levels as counts; of the last budget and correction they are known."""
        kept = self._levels
        if kept is None or kept[0] is not budget or kept[1] != correction:
            kept = self._levels = budget, correction, correction.levels(budget)
        return kept[2]

    def judge(self, request: Request, fixed: Fixed) -> Judgement:
        """The same object for sends that are judged alike, as nearly all of a bot's are."""
        key = fixed.total, request.max_output_tokens, request.keep_rows
        judged = self._judged
        if judged is None or judged[0] != key:
            found = judge(self.config, request, fixed, self.encoding, self._first.slope, self.settings.shadow)
            judged = self._judged = key, found
        return judged[1]

    def recounted(self) -> Flow[tuple[int, int]]:
        """Counts a history whose running total in this encoding is not complete, and stores the total."""
        self.encodings()
        encode = yield from self.encoder()
        stored = yield from run(read.read_history(self.keys))
        messages = yield from compute(
            lambda: read_messages(stored.records, stored.state.offset, self.encoding, encode), heavy=True
        )
        history = CachedHistory(stored.state.version, stored.state.offset, tuple(messages))
        return (yield from self._store_recount(history, stored.state.lead))

    def _store_recount(self, history: CachedHistory, lead: int) -> Flow[tuple[int, int]]:
        total = sum(message.tokens for message in history.messages)
        lead_tokens = sum(message.tokens for message in history.messages[:lead])
        yield from run(
            prepare.recount(
                self.keys,
                encoding=self.encoding,
                version=history.version,
                length=len(history.messages),
                total=total,
                lead_tokens=lead_tokens,
            )
        )
        return total, lead_tokens

    def look(
        self,
        judgement: Judgement,
        owner: CompactionId,
        encode: Encode,
        *,
        kept: str = "",
        mode: Mode = "send",
        load: Load | None = None,
        first: Command[Synced] | None = None,
    ) -> Flow[Look]:
        """One judged read; the history this process holds is brought up to date by what changed.

        `first` is a change to the history that is carried out right before, in the same round trip.
        """
        recounted, swapped, synced = False, False, None
        if mode == "send" and self.settings.shadow != "off":
            mode = "shadow"
        self.encodings()
        held = self.around.histories.get(self.cache_key) or EMPTY
        while True:
            command = prepare.prepare(
                self.keys,
                judgement,
                owner=owner,
                ttl_ms=self.ttl_ms,
                known=Known(held.version, len(held.messages)),
                queue_ms=int(self.settings.queue_patience * 1000),
                lease_ms=int(self.settings.claim_lease * 1000),
                max_attempts=self.settings.max_attempts,
                kept=kept,
                mode=mode,
                load=load,
                first=first,
            )
            done, answer = yield from run(command)
            synced, first = synced or done, None
            if answer is None:
                self.around.histories.drop(self.cache_key)
                return Look(None, EMPTY, synced=synced, correction=self._first)
            if judgement.model == self.model:
                self.learn(answer.anchor)
            if answer.whole:
                held = EMPTY
                continue
            held = yield from self._updated(held, answer, encode)
            self.around.unconfirmed.seen(self.session, [record.own for record in answer.tail], self)
            self.around.histories.put(self.cache_key, held)
            if answer.draft and not swapped:
                swapped = True
                rules = [rule.as_json() for rule in self.config.tool_rules]
                yield from swap_kept(self.keys, is_cold=answer.draft == "cold", rules=rules)
                continue
            if answer.total is not None:
                return Look(answer, held, recounted, synced, self.correction)
            recounted = True
            yield from self._store_recount(held, answer.lead)

    def _updated(self, held: CachedHistory, answer: Prepared, encode: Encode) -> Flow[CachedHistory]:
        heavy = (
            sum(len(r.text) for r in answer.tail if r.counted(self.encoding) is None) > HEAVY or len(answer.tail) > MANY
        )
        return (yield from compute(lambda: updated(held, answer, self.encoding, encode), heavy=heavy))

    def current(self) -> Flow[Look]:
        """The history as it is now, judged by nothing."""
        encode = yield from self.encoder()
        judgement = self.judge(Request(), (yield from self.fixed(Request())))
        return (yield from self.look(judgement, CompactionId(""), encode, mode="look"))
