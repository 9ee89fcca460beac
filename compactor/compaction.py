"""The story of one compaction: snapshot -> plan -> summarize -> verify -> archive ahead -> swap.

This module decides; what it needs from outside comes as arguments: a runner of commands, a
summarizer, an encoder per encoding, a clock, the operator's rules.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from compactor.archive import compress, cut_record, decompress
from compactor.arguments import tag_of
from compactor.bills import Bill
from compactor.budget import MIN_RECLAIM_SHARE, Budget
from compactor.claims import Begun, Held
from compactor.commands import claim, read, summaries
from compactor.commands.command import Command, SessionKeys, number
from compactor.commands.read import Stored
from compactor.commands.spending import NO_CAPS, Caps
from compactor.correction import known_correction
from compactor.drafting import Draft, Limits, Summarize, draft
from compactor.drafts import describe
from compactor.exceptions import SessionDamagedError, SpendCapReached
from compactor.formats.openai import leading_system
from compactor.ledger import PriceOf, bill, rates_of, steps_until
from compactor.metering import MeteredSummarizer, Purse
from compactor.models import SPEND_CAP, Code, CompactionId, Kind, Message, Outcome, Replacement
from compactor.outcomes import held_after, to_json, unapplied
from compactor.pins import read_phrases
from compactor.planning import Nothing, Plan, Snapshot, plan, unread_tokens
from compactor.quarantine import readable
from compactor.records import ENCODINGS, Record, encode_message, read_record
from compactor.renewals import provisional, renewing
from compactor.reuse import Answers, ReusingSummarizer, Runner
from compactor.rules import Rule, rules_of, stored_rules
from compactor.shadow import Mode, Shadow, read_shadow
from compactor.stored_messages import read_message, read_messages
from compactor.tokens import Encode, count_message

T = TypeVar("T")
FREE: Final[Mapping[str, int]] = dict.fromkeys(ENCODINGS, 0)  # what a send does not show costs nothing
PAUSE: Final = 60.0  # seconds without a compaction after the model failed for good
THROTTLED_PAUSE: Final = 5.0  # seconds at least until a session comes again that the model was not asked for


@dataclass(frozen=True, slots=True)
class Tools:
    """What a compaction needs from outside; `clock` and `deadline` are monotonic seconds."""

    runner: Runner
    encoder: Callable[[str], Encode]
    summarize: Summarize | None
    clock: Callable[[], float]
    now: Callable[[], float]
    deadline: float = 60.0
    lease: float = 90.0
    queue_patience: float = 900.0
    max_attempts: int = 3
    model: str = ""
    shadow: Mode = "off"
    price: PriceOf = lambda _model, _tokens: None
    caps: Caps = NO_CAPS
    answers: Answers = field(default_factory=Answers)
    rules: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended: an outcome, and for a retry the seconds to wait and the reason's code."""

    outcome: Outcome
    retry_in: float | None = None
    code: str = ""


Progress = Callable[[str, str], None]


def run_compaction(keys: SessionKeys, owner: CompactionId, tools: Tools, progress: Progress) -> Ended:
    """Works off one claim. `progress(phase, text)` hears numbers and fixed words only.

    Raises StoreUnavailableError; then the claim stays and its lease runs out.
    """
    started = tools.clock()
    begun = tools.runner.run(
        claim.begin(keys, owner=owner, lease_ms=int(tools.lease * 1000), max_attempts=tools.max_attempts)
    )
    if begun.stored is None:
        return _not_begun(begun, owner)
    run = _Run(keys, owner, tools, progress, begun.stored, started)
    progress("snapshot", f"{len(run.snapshot.messages)} messages, {run.snapshot.total} tokens")
    planned = run.plan()
    if isinstance(planned, Nothing):
        return run.end(Outcome(planned.code, reason=planned.reason))
    return run.carry_out(planned)


def _not_begun(begun: claim.Begin, owner: CompactionId) -> Ended:
    if begun.begun is Begun.BUSY:
        return Ended(Outcome(Code.BUSY, id=owner), retry_in=begun.busy_ms / 1000 + 1, code="busy")
    codes = {Begun.GONE: Code.GONE, Begun.DEAD: Code.DEAD}
    return Ended(Outcome(codes.get(begun.begun, Code.STALE), id=owner, reason=begun.begun.value))


class _Run:
    """One run on one snapshot."""

    def __init__(
        self, keys: SessionKeys, owner: CompactionId, tools: Tools, progress: Progress, stored: Stored, started: float
    ) -> None:
        self.keys, self.owner, self.tools, self.progress = keys, owner, tools, progress
        self.stored, self.started = stored, started
        judged: dict[str, Any] = json.loads(stored.raw["claimed"])
        self.encoding: str = judged["encoding"]
        self.keep_rows = bool(judged.get("keep_rows"))
        self.encode = tools.encoder(self.encoding)
        self.mode: Mode = tools.shadow if tools.shadow != "off" else judged.get("shadow", "off")
        self.shadow = Shadow() if self.mode == "off" else read_shadow(stored.raw.get("shadow", b""))
        self._head: int = judged.get("head", 0)
        messages = self.originals = self._messages(stored.records)
        if self.shadow.records:
            messages = self._messages(self.shadow.over(stored.records, stored.state.offset))
        self.snapshot = Snapshot(
            messages,
            judged["fixed"] + sum(message.tokens for message in messages),
            rules_of((*tools.rules, *stored_rules(judged.get("rules")))),
            read_phrases(stored.raw.get("pins")),
        )
        self._stored_total = judged["fixed"] + sum(message.tokens for message in self.originals)
        leading = leading_system(message.value for message in messages)
        lead = sum(message.tokens for message in messages[:leading])
        self._earlier = number(stored.raw.get("spent_in")), number(stored.raw.get("spent_out"))
        reclaim = judged.get("min_reclaim", MIN_RECLAIM_SHARE)
        budget = Budget(judged["limit"], judged["threshold"], judged["ceiling"], judged["fixed"] + lead, reclaim)
        self._bot_model = str(judged.get("model", ""))
        self._correction = known_correction(judged, stored.raw)
        self._levels = self._correction.levels(budget)
        self._prefers_idle = judged.get("prefer_idle") is True
        self._bot_rules: list[Any] = judged.get("rules", [])
        self._claimed_for = stored.raw.get("claimed_for", b"")
        self.budget = self._levels.cold(self.snapshot.total) if self._claimed_for == b"cold" else self._levels

    def _messages(self, records: Sequence[Record]) -> list[Message]:
        """The readable messages of the judged list."""
        read = read_messages(records, self.stored.state.offset, self.encoding, self.encode)
        return readable([message for message in read if message.position >= self._head])[0]

    def plan(self) -> Plan | Nothing:
        """The plan; where it falls short, another one that may fold what was replaced before, from its originals."""
        planned = plan(self.snapshot, self.budget, keep_rows=self.keep_rows)
        replaced = [message for message in self.snapshot.messages if message.replaced]
        if self.keep_rows or not replaced or not _falls_short(planned):
            return planned
        again = [message.position for message in replaced if message.kind not in (Kind.FOLD, Kind.FOLDED)]
        self.snapshot = replace(self.snapshot, originals=self._originals(again) if again else {})
        return plan(self.snapshot, self.budget)

    def _originals(self, positions: Sequence[int]) -> dict[int, Message]:
        """What compactions replaced at these positions, as far as the archive has it."""
        # A shadow left the history as it is.
        found = {m.position: m for m in self.originals if m.position in positions and not m.replaced}
        archived = [position for position in positions if position not in found]
        blobs = self.tools.runner.run(read.read_archive(self.keys, archived)) if archived else {}
        for position, blob in blobs.items():
            try:
                record = read_record(cut_record(blob) or decompress(blob))
            except SessionDamagedError:
                continue
            message = read_message(record, position, self.encoding, self.encode)
            if message.live:
                found[position] = message
        return found

    def _renewing(self, planned: Plan) -> Plan:
        """The plan, with what a model that works now can tell better than the extracts it left provisional."""
        positions = provisional(self.snapshot, planned) if self._summarizer() is not None else []
        return renewing(planned, self.snapshot, self._originals(positions)) if positions else planned

    def carry_out(self, planned: Plan) -> Ended:
        planned = self._renewing(planned)
        try:
            drafted, reason = self._draft(planned, self._summarizer()), ""
        except SpendCapReached:
            drafted, reason = self._draft(planned, None), SPEND_CAP
        outcome = describe(drafted, self.snapshot, planned)
        outcome = replace(outcome, reason=reason or outcome.reason)
        waits = drafted.is_throttled and self.snapshot.total <= self.budget.ceiling
        if waits or not drafted.replacements or self._too_little(drafted):
            return self._without_gain(drafted, outcome)
        return self._swap(planned, drafted, outcome) if self.mode == "off" else self._shadow(drafted, outcome)

    def _draft(self, planned: Plan, summarize: Summarize | None) -> Draft:
        return draft(
            planned,
            self.snapshot,
            encode=self.encode,
            summarize=summarize,
            limits=Limits(deadline=self.started + self.tools.deadline, over=self.snapshot.total > self.budget.ceiling),
            progress=self.progress,
            tag=tag_of(self.owner),
        )

    def _summarizer(self) -> Summarize | None:
        """The model, asked only for what no earlier attempt of this session has an answer to."""
        tools = self.tools
        if tools.summarize is None or self.mode not in ("off", "model"):
            return None
        return ReusingSummarizer(
            MeteredSummarizer(tools.summarize, self._purse()),
            tools.runner,
            self.keys,
            conversation=summaries.conversation_of(self.stored.raw),
            model=tools.model,
            answers=tools.answers,
        )

    def _purse(self) -> Purse:
        """Where what this run spends is entered with the tenant's day."""
        run = number(self.stored.raw.get("runs"), 1)
        price = self.tools.price(self.tools.model, 0)
        return Purse(self.tools.runner, self.keys, self.owner, run, self.tools.caps, price)

    def _too_little(self, drafted: Draft) -> bool:
        return drafted.saved < self.budget.min_reclaim and self.snapshot.total <= self.budget.ceiling

    def _without_gain(self, drafted: Draft, outcome: Outcome) -> Ended:
        nothing = unapplied(outcome)
        if drafted.failure is None:
            return self.end(replace(nothing, outcome=Code.NO_GAIN, reason=f"would free {drafted.saved} tokens"))
        attempts = int(self.stored.raw.get("attempts", b"1"))
        failed = replace(nothing, outcome=Code.SUMMARIZER_FAILED, reason=drafted.failure.code)
        throttled = drafted.is_throttled
        wait = drafted.failure.retry_after or min(30.0, 2.0**attempts)
        wait = max(wait, THROTTLED_PAUSE) if throttled else wait
        if drafted.failure.may_pass and (throttled or attempts < self.tools.max_attempts) and wait <= PAUSE:
            retry = claim.retry(
                self.keys,
                owner=self.owner,
                wait_ms=int(wait * 1000),
                patience_ms=int(self.tools.queue_patience * 1000),
                counted=not throttled,
            )
            if self.tools.runner.run(retry):
                return Ended(failed, retry_in=wait, code=drafted.failure.code)
        return self.end(failed, pause=max(PAUSE, wait))

    def end(self, outcome: Outcome, *, pause: float = 0.0) -> Ended:
        """Releases the claim without a swap; `pause` in seconds until the next one may start."""
        unchanged = replace(outcome, before=self.snapshot.total, after=self.snapshot.total)
        return self._release(self._stamped(unchanged), pause=pause)

    def _release(self, outcome: Outcome, *, pause: float = 0.0, shadow: bytes = b"") -> Ended:
        failed = outcome.outcome in (Code.SUMMARIZER_FAILED, Code.STALE)
        over = outcome.after >= self.budget.threshold
        rearm = self._rearm(outcome.after) if over and not failed else 0
        if self.mode != "off":  # what would have left is in the stored total still
            rearm = max(rearm, self.budget.threshold) + self._stored_total - outcome.after
        released = claim.release(
            self.keys,
            owner=self.owner,
            outcome=to_json(outcome),
            pause_ms=int(pause * 1000),
            rearm=rearm,
            held=Held.THROTTLED if outcome.reason == Held.THROTTLED else held_after(outcome.outcome),
            audit=outcome.outcome not in (Code.BELOW_THRESHOLD, Code.NOTHING_TO_DO),
            shadow=shadow,
        )
        if not self.tools.runner.run(released):
            return Ended(replace(outcome, outcome=Code.STALE, reason="lost"))
        return Ended(outcome)

    def _shadow(self, drafted: Draft, outcome: Outcome) -> Ended:
        """Records what a swap would have done, and nothing else."""
        offset, records = self.stored.state.offset, self.stored.records
        old = {item.position: records[item.position - offset] for item in drafted.replacements}
        behind = self.shadow.with_drafts(dict(self._records(old, drafted.replacements)[0]), offset + len(records))
        used, kept = self.shadow.retention(self.originals)
        outcome = replace(outcome, outcome=Code.SHADOW, values_used=used, values_kept=kept)
        return self._release(self._stamped(outcome), shadow=behind.pack())

    def _rearm(self, total: int) -> int:
        """The level at which to try again: when what is unread is read, new tokens came, or the ceiling is crossed."""
        if unread_tokens(self.snapshot) >= self.budget.min_reclaim:
            return total + 1
        level = total + self.budget.rearm
        return min(level, self.budget.ceiling + 1) if total <= self.budget.ceiling else level

    def _swap(self, planned: Plan, drafted: Draft, outcome: Outcome) -> Ended:
        self.progress("swapping", f"{len(drafted.replacements)} results, {drafted.saved} tokens saved")
        offset = self.stored.state.offset
        old = {item.position: self.stored.records[item.position - offset] for item in drafted.replacements}
        # Of what was replaced before, the archive has the original already.
        originals = {p: compress(r.pack()) for p, r in old.items() if r.kind in (Kind.ORIGINAL, Kind.LIMITED)}
        kept = self.tools.runner.run(claim.archive(self.keys, owner=self.owner, originals=originals))
        if kept != "ok":
            code = Code.GONE if kept == "gone" else Code.STALE
            return Ended(self._stamped(replace(unapplied(outcome), outcome=code, reason=kept)))
        new, saved = self._records(old, drafted.replacements)
        outcome = self._stamped(outcome)
        stays_over = outcome.after >= self.budget.threshold
        swap = claim.swap(
            self.keys,
            owner=self.owner,
            last_position=planned.last_position,
            replacements=new,
            saved=saved,
            bytes_saved=sum(old[position].size - record.size for position, record in new),
            rearm=self._rearm(outcome.after) if stays_over else 0,
            held=Held.TARGET_NOT_REACHED if stays_over else "",
            outcome=to_json(outcome),
        )
        if self._may_wait:
            return self._keep(swap, outcome)
        answer = self.tools.runner.run(swap)
        if answer == "applied":
            self._purse().ended(outcome)
            return Ended(outcome)
        return self._unswapped(outcome, answer)

    @property
    def _may_wait(self) -> bool:
        """Whether the swap is put off until it costs less: not when somebody asked, nor half way to the ceiling."""
        return self._prefers_idle and not self._claimed_for and self.snapshot.total < self.budget.late

    def _keep(self, swap: Command[str], outcome: Outcome) -> Ended:
        unswapped = replace(unapplied(outcome), outcome=Code.DRAFTED)
        drafted = replace(unswapped, bill=self._bill(unswapped))
        kept = claim.keep(
            self.keys,
            swap,
            owner=self.owner,
            outcome=to_json(drafted),
            cold=to_json(replace(outcome, bill=self._bill(outcome, cold=True))),
            rules=self._bot_rules,
            level=self.budget.late,
        )
        answer = self.tools.runner.run(kept)
        return Ended(drafted) if answer == "kept" else self._unswapped(outcome, answer)

    def _unswapped(self, outcome: Outcome, answer: str) -> Ended:
        ended = unapplied(outcome)
        return (
            Ended(replace(ended, outcome=Code.GONE))
            if answer == "gone"
            else self.end(replace(ended, outcome=Code.STALE))
        )

    def _records(
        self, old: Mapping[int, Record], replacements: Sequence[Replacement]
    ) -> tuple[list[tuple[int, Record]], dict[str, int]]:
        """The new records, and the tokens they save in every encoding the session is counted in."""
        encodings = {self.encoding: self.encode} | {
            name: self.tools.encoder(name) for name in self.stored.state.totals if name != self.encoding
        }
        saved = dict.fromkeys(self.stored.state.totals, 0)
        new: list[tuple[int, Record]] = []
        for item in replacements:
            record = old[item.position]
            counts: Mapping[str, int] = {name: count_message(item.value, encode) for name, encode in encodings.items()}
            counts = FREE if item.kind is Kind.FOLDED else counts
            for name in saved:
                before = record.counted(name)
                before = count_message(record.value(), encodings[name]) if before is None else before
                saved[name] += before - counts[name]
            shown = record.showing(encode_message(item.value), item.kind, provisional=item.provisional, tokens=counts)
            if shown != record:  # what an older fold told of stays as it is when a newer one tells of it
                new.append((item.position, shown))
        return new, saved

    def _stamped(self, outcome: Outcome) -> Outcome:
        ms = int((self.tools.clock() - self.started) * 1000)
        spent_in, spent_out = (outcome.spent_in + self._earlier[0], outcome.spent_out + self._earlier[1])
        outcome = replace(outcome, id=self.owner, ms=ms, at=self.tools.now(), spent_in=spent_in, spent_out=spent_out)
        return replace(outcome, bill=self._bill(outcome))

    def _bill(self, outcome: Outcome, *, cold: bool = False) -> Bill:
        """In money, of the tokens that the provider is expected to count."""
        expected, price = self._correction.expected, self.tools.price
        before, after = expected(outcome.before), expected(outcome.after)
        rates = rates_of(price, self._bot_model, self.tools.model, before=before, after=after)
        return bill(
            outcome,
            rates,
            before=before,
            after=after,
            rewritten=int(self._correction.slope * outcome.rewrite),
            steps=steps_until(self._levels.threshold, outcome.after, self.snapshot.messages),
            cold=cold,
        )


def _falls_short(planned: Plan | Nothing) -> bool:
    """Whether more would be worth having: a target not reached, or nothing found above the threshold."""
    if isinstance(planned, Plan):
        return not planned.reaches
    return planned.code in (Code.EXHAUSTED, Code.NO_GAIN) and planned.reason != "system_and_tools"
