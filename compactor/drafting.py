"""draft(plan): the replacements of a plan, written and verified; nothing is stored here.

A summary that fails a check never replaces anything: the extract takes its place. A failure that
may pass leaves the result as it is below the ceiling; above it, a provisional extract stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from compactor.arguments import LIST_TAG, elided
from compactor.condense import Form
from compactor.drafts import Draft, Failure, Limits, Summarize
from compactor.exceptions import (
    SummarizerError,
    SummarizerMisconfigured,
    SummarizerPermanent,
    SummarizerReplyRejected,
    SummarizerThrottled,
    SummarizerTransient,
)
from compactor.extract import Source, extract, extracts, missing
from compactor.failures import failure_line, failure_lines
from compactor.file_reads import file_read
from compactor.fold_text import FoldText
from compactor.formats.openai import calls, media_of, text_of, with_text
from compactor.models import Kind, Replacement, recall_id
from compactor.pins import carried, lost
from compactor.planning import LARGEST_CONDENSED, Item, Plan, Snapshot
from compactor.prompts import LARGEST_SHARE, PROMPT_VERSION, Summary, SummaryRequest, safe
from compactor.redaction import redact
from compactor.replies import says_something
from compactor.rules import How
from compactor.tokens import Encode, count_message, count_text
from compactor.wording import Wording, tool_name, wording_beside, wording_for
from compactor.words import known_values

__all__ = ["LARGEST", "Draft", "Failure", "Limits", "Summarize", "draft"]

LARGEST: Final = 400  # tokens of a replacement, header, name and ids included
_SMALLEST_BODY: Final = 20  # tokens
_MISSING_SHARE: Final = 3  # at most one part of so many of a summary's room is for what the model left out
_GOAL_END: Final = 8_000  # characters of the beginning and the end of a goal


def draft(
    plan: Plan,
    snapshot: Snapshot,
    *,
    encode: Encode,
    summarize: Summarize | None,
    limits: Limits,
    progress: Callable[[str, str], None] = lambda _phase, _text: None,
    tag: str = LIST_TAG,
) -> Draft:
    """Writes every replacement of the plan; `progress` hears "5 of 12 results, 3200 tokens saved".

    `tag` stands in the marks of elided arguments.
    """
    writer = _Writer(snapshot, encode, _goal(plan, snapshot), _chat(snapshot))
    items: list[Item] = []
    for item in plan.items:
        if item.is_pointer:
            writer.add(writer.pointer(item))
        elif item.elided:
            writer.add(elided(item.message, tag=tag, goal=writer.goal, encode=encode))
        elif (condensed := writer.condensed(item)) is not None:
            writer.add(condensed)
        else:
            items.append(item)
    writer.known = _known(snapshot, [*items, *plan.renewed], writer.draft.replacements)
    writer.extract_together([item for item in items if summarize is None or item.treatment.how is How.EXTRACT])
    told = [*(item for item in items if item.treatment.how is not How.EXTRACT), *plan.renewed]
    if summarize is not None and told:
        _by_model(told, writer, summarize, limits, progress)
    writer.finish()
    return writer.draft


def _by_model(
    items: Sequence[Item],
    writer: _Writer,
    summarize: Summarize,
    limits: Limits,
    progress: Callable[[str, str], None],
) -> None:
    readable = [item for item in items if writer.request(item).text.strip()]
    for item in items:
        if item not in readable and not item.renews:
            writer.add(writer.extracted(item), item)
    if not readable:
        return
    requests = [writer.request(item) for item in readable]
    ended = 0

    settled: set[int] = set()

    def done(index: int, answer: Summary | SummarizerError) -> None:
        nonlocal ended
        if index in settled:
            return
        settled.add(index)
        ended += 1
        writer.settle(readable[index], answer, limits)
        progress("summarizing", f"{ended} of {len(requests)} results, {writer.draft.saved} tokens saved")

    progress("summarizing", f"0 of {len(requests)} results, {writer.draft.saved} tokens saved")
    summarize(requests, encode=writer.encode, deadline=limits.deadline, done=done)


def _goal(plan: Plan, snapshot: Snapshot) -> str:
    """The latest user message; of a long one far more of its ends than a prompt shows."""
    last = plan.history.last_user
    text = text_of(snapshot.messages[last].value) if last >= 0 else ""
    return text if len(text) <= 2 * _GOAL_END else f"{text[:_GOAL_END]} … {text[-_GOAL_END:]}"


def _chat(snapshot: Snapshot) -> Wording:
    """The language of the session: that of its first user message."""
    return wording_for(next((text_of(m.value) for m in snapshot.messages if m.role == "user"), ""))


def _known(snapshot: Snapshot, items: Sequence[Item], written: Sequence[Replacement]) -> frozenset[str]:
    """The values that stand in what stays: an extract need not show them again."""
    if not items:
        return frozenset()
    leaving = {snapshot.messages[index].position for item in items for index in item.indexes}
    shown = {item.position: item.value for item in written if item.kind is Kind.ELIDED}
    values = [shown.get(m.position, m.value) for m in snapshot.messages if m.position not in leaving]
    return known_values(
        text for value in values for text in (text_of(value), *(call.arguments for call in calls(value)))
    )


@dataclass(slots=True)
class _Writer:
    """Writes single replacements and keeps the account."""

    snapshot: Snapshot
    encode: Encode
    goal: str
    chat: Wording
    known: frozenset[str] = frozenset()
    draft: Draft = field(default_factory=Draft)
    waiting: list[Item] = field(default_factory=list[Item])
    requests: dict[int, SummaryRequest] = field(default_factory=dict[int, SummaryRequest])
    folds: dict[int, FoldText] = field(default_factory=dict[int, FoldText])
    summaries: int = 0

    def request(self, item: Item) -> SummaryRequest:
        """What a model may know of a result, or of a fold's steps: text, call and goal without secrets."""
        known = self.requests.get(item.index)
        if known is None:
            tool, asked, shown = tool_name(item.call.name), item.call.arguments, text_of(item.message.value)
            if (fold := self.fold(item)) is not None:
                tool, asked, shown = fold.tools(), "", fold.whole()
            text, arguments, goal = redact(shown, asked, self.goal)
            known = SummaryRequest(tool, arguments, text, goal, item.told, item.body_tokens)
            self.requests[item.index] = known
        return known

    def fold(self, item: Item) -> FoldText | None:
        """What a fold is made from; None for any other item."""
        if item.fold is not None and item.index not in self.folds:
            self.folds[item.index] = FoldText(item.fold, self.snapshot)
        return self.folds.get(item.index)

    def source(self, item: Item) -> str:
        """The text that an extract is taken from, without secrets; the calls of a fold stand in its head."""
        fold = self.fold(item)
        return self.request(item).text if fold is None else redact(fold.results())[0]

    def add(self, replacement: Replacement | None, item: Item | None = None) -> None:
        """Takes a replacement, with what changes beside it when it carries a fold."""
        if replacement is None:
            self.draft.left += 1
            return
        self.draft.replacements.append(replacement)
        fold = None if item is None else self.fold(item)
        self.draft.replacements += [] if fold is None else fold.rest(self.encode)

    def settle(self, item: Item, answer: Summary | SummarizerError, limits: Limits) -> None:
        """Takes the model's answer for one item, whatever it is."""
        if isinstance(answer, Summary) and not says_something(answer.text):
            spent_in, spent_out = answer.spent_in, answer.spent_out
            answer = SummarizerReplyRejected("empty")
            answer.spent_in, answer.spent_out = spent_in, spent_out
        self.draft.spent_in += answer.spent_in
        self.draft.spent_out += answer.spent_out
        if item.renews:
            self._renew(item, answer)
        elif isinstance(answer, Summary):
            self.draft.model, self.draft.prompt_version = answer.model, PROMPT_VERSION
            summary = self.summarised(item, answer)
            self.summaries += summary is not None
            self.add(summary or self.extracted(item), item)
        elif isinstance(answer, SummarizerPermanent):
            self.add(self.extracted(item), item)
        else:
            self.draft.failure = _worse(self.draft.failure, answer)
            if limits.over:
                self.add(self.extracted(item, provisional=item.fold is None), item)
            else:
                self.waiting.append(item)

    def _renew(self, item: Item, answer: Summary | SummarizerError) -> None:
        """A summary in the place of a provisional extract; without one that stays as it is."""
        summary = self.summarised(item, answer) if isinstance(answer, Summary) else None
        if isinstance(answer, Summary) and summary is not None:
            self.draft.model, self.draft.prompt_version = answer.model, PROMPT_VERSION
            self.add(summary)

    def finish(self) -> None:
        """Decides on the results that the model failed for below the ceiling."""
        draft = self.draft
        if draft.failure is not None and self.waiting and not self.summaries:
            draft.left += len(draft.replacements)
            draft.replacements.clear()
        newest = max((item.position for item in draft.replacements), default=-1)
        for item in self.waiting:
            reachable = item.message.position > newest or item.fold is not None
            self.add(None if reachable else self.extracted(item, provisional=True))
        draft.replacements.sort(key=lambda replacement: replacement.position)

    def pointer(self, item: Item) -> Replacement | None:
        words = wording_beside(text_of(item.message.value), self.chat)
        sentence, other = (
            (words.recalled, item.recall_of)
            if item.recall_of is not None
            else (words.repeat, item.repeat_of)
            if item.repeat_of is not None
            else (words.superseded, item.superseded_by)
        )
        assert other is not None
        text = sentence.format(
            tool=tool_name(item.call.name),
            before=item.message.tokens,
            other=recall_id(other),
            id=recall_id(item.message.position),
        )
        told = self.carried(item, failures=item.superseded_by is not None)
        failure = failure_line(self.request(item).text) if item.superseded_by is not None else ""
        lines = [text, *told, *([failure] if failure and failure not in told else [])]
        return self._checked(item, "\n".join(lines), Kind.POINTER)

    def condensed(self, item: Item) -> Replacement | None:
        """The condensed text under our header; None where it frees too little, or would hold a secret."""
        message, short = item.message, item.condensed
        if short is None or redact(text_of(message.value)) != (text_of(message.value),):
            return None
        words = wording_beside(text_of(message.value), self.chat)
        head = [_header(item, words.condensed)]
        if short.form is not Form.JSON:
            head.append(words.tables if short.form is Form.TABLES else words.line_marks)
        head[1:1] = [line for line in self.carried(item) if line not in short.text]
        value = with_text(message.value, "\n".join([*head, short.text]))
        after = count_message(value, self.encode)
        if after > LARGEST_CONDENSED * message.tokens:
            return None
        return Replacement(message.position, value, Kind.CONDENSED, message.tokens, after)

    def summarised(self, item: Item, summary: Summary) -> Replacement | None:
        """The model's text under our header; too long a text is cut to its most telling lines."""
        words = wording_beside(self.request(item).text if item.fold else text_of(item.message.value), self.chat)
        head = self._head(item, words, listing=False)
        room = self._room(item, head)
        body = summary.text
        told = "\n".join([*self.carried(item), body])
        left_out = self._left_out(item, told, room // _MISSING_SHARE)
        room -= count_text(f"\n{left_out}", self.encode) if left_out else 0
        if count_text(body, self.encode) > room:
            body = extract(body, budget=room, encode=self.encode, wording=words)
        whole = _under(head, body)
        with_all = self._checked(item, f"{whole}\n{left_out}", Kind.SUMMARY) if left_out else None
        return with_all or self._checked(item, whole, Kind.SUMMARY)

    def _left_out(self, item: Item, body: str, budget: int) -> str:
        """What a model's text lost though nobody could find it again: failures, codes, paths, amounts."""
        text = self.request(item).text
        return missing(
            text, body, budget=budget, encode=self.encode, wording=wording_beside(text, self.chat), known=self.known
        )

    def extract_together(self, items: Sequence[Item]) -> None:
        """Extracts of results that share their tokens: one with more to tell gets more of them."""
        texts = [self.source(item) for item in items]
        words = [wording_beside(text, self.chat) for text in texts]
        heads = [self._head(item, said) for item, said in zip(items, words, strict=True)]
        rooms = [self._smaller(item, head) for item, head in zip(items, heads, strict=True)]
        bodies = extracts(
            [Source(*source, _SMALLEST_BODY) for source in zip(texts, rooms, words, strict=True)],
            total=sum(min(item.body_tokens, room) for item, room in zip(items, rooms, strict=True)),
            encode=self.encode,
            known=self.known,
        )
        for item, head, body in zip(items, heads, bodies, strict=True):
            self.add(self._checked(item, _under(head, body), Kind.EXTRACT), item)

    def extracted(self, item: Item, *, provisional: bool = False) -> Replacement | None:
        """Lines of the result itself under our header."""
        text = self.source(item)
        words = wording_beside(text, self.chat)
        head = self._head(item, words)
        budget = min(item.body_tokens, self._smaller(item, head))
        body = extract(text, budget=budget, encode=self.encode, wording=words, known=self.known)
        return self._checked(item, _under(head, body), Kind.EXTRACT, provisional=provisional)

    def carried(self, item: Item, *, failures: bool = True) -> list[str]:
        """Lines that a replacement must hold word for word: those with pinned phrases, and failures a rule keeps."""
        fold = self.fold(item)
        text = text_of(item.message.value) if fold is None else fold.results()
        lines = carried(text, self.snapshot.phrases)
        errors = failure_lines(text) if failures and item.treatment.keep_errors else []
        return [*lines, *(line for line in errors if line not in lines)]

    def _head(self, item: Item, words: Wording, *, listing: bool = True) -> str:
        """What a replacement opens with: header, file, media left out, what it must hold; of a fold also the calls."""
        fold = self.fold(item)
        media = media_of(item.message.value) if fold is None else fold.media
        read = file_read(self.request(item).arguments) if fold is None else ""
        notes = [words.file.format(read=read)] if read else []
        notes += [words.media.format(count=media)] if media else []
        header = _header(item, words.header) if fold is None else fold.header(words)
        head = "\n".join([header, *notes, *self.carried(item)])
        if fold is None or not listing:
            return head
        called = fold.calls(lambda text: redact(text)[0], room=self._smaller(item, head), encode=self.encode)
        return f"{head}\n{called}" if called else head

    def _room(self, item: Item, head: str, most: int = LARGEST) -> int:
        """Tokens left for a body beside header, name and ids, of `most` in all."""
        return max(_SMALLEST_BODY, most - 2 - count_message(with_text(item.message.value, head), self.encode))

    def _smaller(self, item: Item, head: str) -> int:
        """Tokens of a body with which a replacement is clearly smaller than its source; a merged fold as planned."""
        room = self._room(item, head, min(LARGEST, int(LARGEST_SHARE * item.tokens)))
        return min(room, item.body_tokens) if item.fold is not None and item.fold.merges else room

    def _checked(self, item: Item, text: str, kind: Kind, *, provisional: bool = False) -> Replacement | None:
        """The replacement, or None when it is not clearly smaller than its source."""
        message = item.message
        (text,) = redact(text) if kind is not Kind.POINTER else (text,)  # whatever wrote it
        text = safe(text)  # a client must be able to send what we wrote
        if lost(text_of(message.value), text, self.snapshot.phrases):
            return None
        value = with_text(message.value, text)
        after = count_message(value, self.encode)
        fold, beside = self.fold(item), 0
        if fold is not None:
            kind, beside = Kind.FOLD, sum(other.after for other in fold.rest(self.encode))
        if after + beside > LARGEST_SHARE * item.tokens and not (kind is Kind.POINTER and after < item.tokens):
            return None
        return Replacement(message.position, value, kind, item.renews or message.tokens, after, provisional)


def _worse(known: Failure | None, error: SummarizerError) -> Failure:
    """The failure to tell of, with the longest pause asked for: wrong settings before what may pass, else the first.

    Calls that were not made tell least.
    """
    mine = Failure(error.code, isinstance(error, SummarizerTransient), error.retry_after)
    if known is None or isinstance(error, SummarizerMisconfigured):
        return mine
    told = mine if known.code == SummarizerThrottled.code else known
    waits = [wait for wait in (known.retry_after, error.retry_after) if wait is not None]
    return replace(told, retry_after=max(waits, default=None))


def _under(head: str, body: str) -> str:
    """The body under its head, without the lines that stand in it already."""
    told = set(head.splitlines())
    return "\n".join([head, *(row for row in body.splitlines() if row.strip() not in told)])


def _header(item: Item, sentence: str) -> str:
    return sentence.format(
        tool=tool_name(item.call.name), before=item.message.tokens, id=recall_id(item.message.position)
    )
