"""prepare: the list for one model call, of the stored history or of a caller's own list."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from compactor.budget import Budget
from compactor.cached_history import CachedHistory
from compactor.claims import Claim
from compactor.commands.counters import EVICTED
from compactor.commands.prepare import Judgement
from compactor.compacting import check_wait
from compactor.copied_marks import copied_problem
from compactor.correction import Correction
from compactor.effects import Flow, compute
from compactor.exceptions import ConfigurationError, SessionEvictedError, StoreUnavailableError
from compactor.frozen import freeze
from compactor.judging import Fixed, Request, compaction_word, verdict
from compactor.models import Context, Fit, Message, Verdict
from compactor.pushing import Pushing
from compactor.queueing import Queueing
from compactor.reader import MANY, SessionReader
from compactor.records import fingerprint
from compactor.repair import Repaired, repair, sound_until
from compactor.syncing import Listed, Placed, Syncing
from compactor.tally import NOTHING, Tally
from compactor.tokens import Encode, count_messages
from compactor.tool_text import as_text
from compactor.view import View, compose

WaitFor = Literal["fit", "swap"]
_UNAVAILABLE = "held(store_unavailable)"
_NO_CEILING = 10**15  # tokens
_MOST_SENT = 64  # results cut short that a process knows again after a swap has replaced them


@dataclass(frozen=True, slots=True)
class Send:
    """One send: what stands beside the history, what it is judged by, and whether calls are mended."""

    request: Request
    fixed: Fixed
    judgement: Judgement
    encode: Encode
    mend: bool
    tool_text: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What a send shows of the session: the messages in order, and how it stands."""

    history: CachedHistory
    messages: Sequence[Message]
    tally: Tally
    compaction: str
    problems: tuple[str, ...]
    correction: Correction
    levels: Budget
    recounted: bool = False


class Sending:
    """Sends of one session; each method yields effects."""

    def __init__(self, reader: SessionReader, pushing: Pushing, queueing: Queueing, syncing: Syncing) -> None:
        self._reader, self._pushing, self._queueing, self._syncing = reader, pushing, queueing, syncing

    def prepare(
        self,
        request: Request,
        *,
        messages: object = None,
        wait: float = 0.0,
        wait_for: WaitFor = "fit",
        repair: bool | None = None,
        extra: object = None,
        tool_text: bool = False,
    ) -> Flow[Context]:
        """The list for one send; queues a compaction when the threshold is crossed."""
        check_wait(wait)
        if wait_for not in ("fit", "swap"):
            raise ConfigurationError("wait_for: expected 'fit' or 'swap'.")
        if repair not in (None, True, False):
            raise ConfigurationError("repair: expected True, False or None (mends sessions fed by push alone).")
        if tool_text not in (True, False):
            raise ConfigurationError("tool_text: expected True or False.")
        if tool_text and request.tools is not None:
            raise ConfigurationError("tool_text: shows calls and results as text, for a send without tools.")
        if extra is not None:
            following = yield from self._pushing.encoded(extra)
            request = replace(request, extra=tuple(message.value for message in following))
        listed = None if messages is None else (yield from self._syncing.read(messages))
        if listed is not None:
            request = replace(request, lead=listed.lead)
        encode = yield from self._reader.encoder()
        fixed = yield from self._reader.fixed(request)
        mend = listed is None if repair is None else repair
        send = Send(request, fixed, self._reader.judge(request, fixed), encode, mend, tool_text)
        try:
            context = yield from self._send(send, listed)
            if wait > 0 and not self._shadowed and _is_worth_waiting(context.verdict, wait_for):
                yield from self._queueing.await_swap(wait)
                context = yield from self._send(send, listed)
        except StoreUnavailableError as error:
            return (yield from self._degraded(send, listed, error))
        return context

    @property
    def _shadowed(self) -> bool:
        """Whether sends stay as they are, however long: shadow mode leaves a bot what it had without us."""
        return self._reader.settings.shadow != "off"

    def _send(self, send: Send, listed: Listed | None) -> Flow[Context]:
        if listed is not None:
            return (yield from self._send_list(send, listed))
        seen = yield from self._queueing.look(send.judgement, send.encode)
        state, held = yield from self._queueing.publish(seen)
        history = seen.history
        whole = history.in_order(send.encode, mend=send.mend)
        levels = self._reader.levels(send.judgement.budget, seen.correction)
        over = send.fixed.total + history.tokens >= levels.threshold
        word = "not_needed" if seen.answer is None else compaction_word(state, held, over=over)
        problems = (*history.problems, *whole.problems)
        tally = history.tally if whole.messages is history.usable else NOTHING.after(whole.messages)
        found = Found(history, whole.messages, tally, word, problems, seen.correction, levels, seen.recounted)
        return (yield from self._composed(send, found))

    def _send_list(self, send: Send, listed: Listed) -> Flow[Context]:
        placed = yield from self._syncing.place(listed, send.judgement, send.encode)
        state, held = yield from self._queueing.publish(placed.seen)
        whole = _in_order(send, listed, placed)
        correction = placed.seen.correction
        levels = self._reader.levels(send.judgement.budget, correction)
        tally = NOTHING.after(placed.messages)
        over = send.fixed.total + tally.tokens >= levels.threshold
        word = f"held({placed.unsaved})" if placed.unsaved else compaction_word(state, held, over=over)
        problems = (*placed.problems, *placed.seen.history.problems, *whole.problems)
        if whole.messages is not placed.messages:
            tally = NOTHING.after(whole.messages)
        history = placed.seen.history
        found = Found(history, whole.messages, tally, word, problems, correction, levels, placed.seen.recounted)
        return (yield from self._composed(send, found))

    def _degraded(self, send: Send, listed: Listed | None, error: StoreUnavailableError) -> Flow[Context]:
        """The caller's own list, else the newest context this process holds, shortened by pure code."""
        held = self._reader.around.histories.get(self._reader.cache_key)
        problems = (EVICTED,) if isinstance(error, SessionEvictedError) else ()
        if listed is not None:
            placed = yield from self._syncing.unplaced(listed, send.encode)
            whole = _in_order(send, listed, placed)
        elif held is None:
            raise error
        else:
            whole = repair(held.usable, send.encode, mend=send.mend)
        correction = self._reader.correction
        found = Found(
            held or CachedHistory(0, 0, ()),
            whole.messages,
            NOTHING.after(whole.messages),
            _UNAVAILABLE,
            (*problems, *whole.problems),
            correction,
            self._reader.levels(send.judgement.budget, correction),
        )
        composed = partial(self._compose, send, found)
        context = yield from compute(composed, heavy=len(whole.messages) > MANY)
        return replace(context, verdict=replace(context.verdict, fit=Fit.DEGRADED))

    def _composed(self, send: Send, found: Found) -> Flow[Context]:
        shortened = send.fixed.total + found.tally.tokens > found.levels.ceiling
        composed = partial(self._compose, send, found)
        return (yield from compute(composed, heavy=len(found.messages) > MANY and (shortened or send.tool_text)))

    def _compose(self, send: Send, found: Found) -> Context:
        messages, history, tally, levels = found.messages, found.history, found.tally, found.levels
        whole = replace(levels, fixed=levels.fixed + tally.lead_tokens)
        if self._shadowed:
            whole = replace(whole, ceiling=_NO_CEILING, threshold=_NO_CEILING)
        composed = partial(
            compose,
            messages,
            encode=send.encode,
            beside=send.fixed.total,
            protection=self._reader.protection(history),
            keep_rows=send.request.keep_rows,
            tally=tally,
        )
        view = composed(whole, cut=history.cut)
        if send.tool_text:
            view = _as_text(view, composed, whole, send)
        else:
            self._remember(view, history)
        opening = [freeze(dict(message)) for message in send.request.opening]
        figures = verdict(
            send.judgement.budget,
            send.fixed,
            history=tally.tokens,
            lead_tokens=tally.lead_tokens,
            length=len(messages),
            compaction=found.compaction,
            correction=found.correction,
            fit=Fit.SHADOW if self._shadowed and send.fixed.total + view.tokens > levels.ceiling else view.fit,
            sent=send.fixed.total + view.tokens,
            stable_until=view.stable_until + len(opening),
            recounted=found.recounted,
            problems=(*found.problems, *copied_problem(messages, tally.reply)),
        )
        shown = [*opening, *view.messages, *(freeze(dict(message)) for message in send.request.extra)]
        return Context(shown, figures, send.request.filled, tally.replaced, view.left_out)

    def _remember(self, view: View, history: CachedHistory) -> None:
        """Keeps the cut, and the results that were cut short, for the sends after this one."""
        sent = history.sent | {fingerprint(value) for value in view.shortened}
        if history.version and (view.cut != history.cut or sent != history.sent):
            remembered = replace(history, cut=view.cut, sent=sent if len(sent) <= _MOST_SENT else frozenset())
            self._reader.around.histories.put(self._reader.cache_key, remembered)


def _in_order(send: Send, listed: Listed, placed: Placed) -> Repaired:
    """The answer to a list: one that came in order stays so, whatever open calls a view had hidden."""
    whole = repair(placed.messages, send.encode, mend=send.mend or placed.closed)
    if whole.problems and sound_until(listed.rows) == len(listed.rows):
        return repair(placed.messages, send.encode)
    return whole


def _as_text(view: View, composed: Callable[[Budget], View], budget: Budget, send: Send) -> View:
    """The view without tool roles; what the frames cost over the ceiling is cut from the history."""
    ceiling = budget.ceiling
    while True:
        shown = tuple(as_text(view.messages))
        tokens = count_messages(shown, send.encode)
        total = send.fixed.total + tokens
        if total <= ceiling or view.fit is Fit.IMPOSSIBLE:
            fit = Fit.SHORTENED if total <= ceiling and view.fit is Fit.IMPOSSIBLE else view.fit
            return replace(view, messages=shown, tokens=tokens, fit=fit, stable_until=0)
        lower = max(1, (send.fixed.total + view.tokens) * ceiling // total)
        budget = replace(budget, ceiling=lower, threshold=min(budget.threshold, lower))
        view = composed(budget)


def _is_worth_waiting(seen: Verdict, wait_for: WaitFor) -> bool:
    if seen.compaction not in (Claim.QUEUED, Claim.RUNNING):
        return False
    return wait_for == "swap" or seen.fit in (Fit.SHORTENED, Fit.IMPOSSIBLE)
