"""What a session holds, by the promises alone: the reference that the real store is compared with.

Every message of a test is different from every other, so equality of values is identity. The rules
are those of the contract: only a push or a list's new messages append, positions never come again,
a list is matched with what was pushed and never with what stands there now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

Value = Mapping[str, Any]
RESULTS = ("tool", "function")
SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class Entry:
    """One live message: as it was pushed, and as it is shown once a compaction replaced it.

    `fold` names the fold that it is a part of; one that is `hidden` is told by the others.
    """

    position: int
    pushed: Value
    replacement: Value | None = None
    compaction: str = ""
    soft: bool = False
    kept: bool = False
    fold: str = ""
    hidden: bool = False

    @property
    def shown(self) -> Value:
        return self.pushed if self.replacement is None else self.replacement


@dataclass(slots=True)
class Truth:
    """One session. `past` are messages that left the live list and can be recalled, by position."""

    live: list[Entry] = field(default_factory=list[Entry])
    past: dict[int, Value] = field(default_factory=dict[int, Value])
    cleared: dict[int, Value] = field(default_factory=dict[int, Value])
    gone: set[int] = field(default_factory=set[int])
    left: list[Entry] = field(default_factory=list[Entry])
    following: int = 0
    opening: int = 0
    lead: int = 0
    exists: bool = False

    @property
    def originals(self) -> list[Value]:
        return [entry.pushed for entry in self.live]

    @property
    def shown(self) -> list[Value]:
        return [entry.shown for entry in self.live if not entry.hidden]

    def answer(self, meant: Sequence[Value]) -> list[Value]:
        """What a send of these messages shows: a fold, where they are all of it; their end is what is to be read."""
        found = [next((entry for entry in self.live if entry.pushed == message), None) for message in meant]
        there = [entry.fold for entry in found if entry is not None]
        whole = {name for name in there if there.count(name) == sum(entry.fold == name for entry in self.live)}
        whole -= {entry.fold for entry in found[-1:] if entry is not None}
        return [
            message if entry is None or (entry.fold and entry.fold not in whole) else entry.shown
            for message, entry in zip(meant, found, strict=True)
            if entry is None or not entry.hidden or entry.fold not in whole
        ]

    @property
    def conversation(self) -> list[Entry]:
        """The live messages that a caller's list is compared with: not the leading system text."""
        return self.live[self.lead :]

    def recallable(self) -> dict[int, Value]:
        """Every message that its position names, as it was pushed."""
        return self.cleared | self.past | {entry.position: entry.pushed for entry in self.live}

    def push(self, messages: Sequence[Value]) -> tuple[int, ...]:
        """Appends; system messages that open a conversation are its leading system text."""
        if self.following == self.opening + self.lead:
            self.lead += _leading(messages)
        first = self.following
        self._append(messages, latest_user=-1)
        return tuple(range(first, self.following))

    def sync(self, rows: Sequence[Value]) -> None:
        """What a caller's own list changes, by the order of matching of the contract."""
        rows = rows[_leading(rows) :]
        latest_user = max((i for i, row in enumerate(rows) if row["role"] == "user"), default=-1)
        places = self._beginning(rows) or self._with_gaps(rows)
        branch = None
        if places is None:
            places, branch = self._fork_of(rows)
        self._reword(rows, places)
        if branch is not None:
            self.leave(self.lead + branch)
        new = [i for i in range(len(rows)) if i not in places]
        if new:
            self._append([rows[i] for i in new], latest_user=latest_user - new[0])

    def _append(self, messages: Sequence[Value], *, latest_user: int) -> None:
        folds = self._folds_back(messages)
        alone = [entry for entry in reversed(self.left) if not entry.fold]
        for index, message in enumerate(messages):
            came_back = folds.get(index) or next((entry for entry in alone if entry.pushed == message), None)
            entry = Entry(self.following, message, soft=index == latest_user)
            if came_back is not None and (came_back.replacement is not None or came_back.kept):
                entry = replace(came_back, position=self.following)
            self.live.append(entry)
            self.following += 1
            self.exists = True

    def _folds_back(self, messages: Sequence[Value]) -> dict[int, Entry]:
        """A fold that left comes back where all of it does, under a name of its own, unless a part was undone since."""
        found: dict[int, Entry] = {}
        for name in dict.fromkeys(entry.fold for entry in self.left if entry.fold):
            members = [entry for entry in self.left if entry.fold == name]
            pushed = [entry.pushed for entry in members]
            if any(self._kept_since(entry) for entry in members):
                continue
            for first in range(len(messages) - len(members) + 1):
                if list(messages[first : first + len(members)]) == pushed:
                    again = [replace(entry, fold=f"{name} again at {self.following}") for entry in members]
                    found |= {first + order: entry for order, entry in enumerate(again)}
                    break
        return found

    def _kept_since(self, entry: Entry) -> bool:
        later = (other for other in (*self.left, *self.live) if other.position > entry.position)
        return any(other.kept and other.pushed == entry.pushed for other in later)

    def _same(self, rows: Sequence[Value], i: int, k: int) -> bool:
        return rows[i] == self.conversation[k].pushed or self._rewords(rows, i, k)

    def _rewords(self, rows: Sequence[Value], i: int, k: int) -> bool:
        """Row i is the latest user message, which came with a list, in other words of its caller."""
        stored = self.conversation
        users = [n for n, entry in enumerate(stored) if entry.pushed["role"] == "user"]
        if not users or users[-1] != k or not stored[k].soft or rows[i]["role"] != "user":
            return False
        if rows[i] in self.originals[self.lead :] or not alike(rows[i], stored[k].pushed):
            return False
        if i == 0 and any(row["role"] == "user" and row in self.originals[self.lead :] for row in rows[1:]):
            return False  # an older list: behind the latest question none of before can stand
        if i > 0 and not (k > 0 and rows[i - 1] == stored[k - 1].pushed):
            return False
        return i + 1 == len(rows) or k + 1 == len(stored) or rows[i + 1] == stored[k + 1].pushed

    def _beginning(self, rows: Sequence[Value]) -> dict[int, int] | None:
        both = min(len(rows), len(self.conversation))
        return {i: i for i in range(both)} if all(self._same(rows, i, i) for i in range(both)) else None

    def _with_gaps(self, rows: Sequence[Value]) -> dict[int, int] | None:
        """The history's last message with new ones behind it, or nothing new; before it messages may be missing."""
        last = len(self.conversation) - 1
        for end in range(len(rows), 0, -1):
            if last >= 0 and self._same(rows, end - 1, last) and (places := self._within(rows, end)) is not None:
                return places
        return self._within(rows, len(rows))

    def _within(self, rows: Sequence[Value], end: int) -> dict[int, int] | None:
        places: dict[int, int] = {}
        k = len(self.conversation) - 1
        for i in range(end - 1, -1, -1):
            while k >= 0 and not self._same(rows, i, k):
                k -= 1
            if k < 0:
                return None
            places[i] = k
            k -= 1
        return places

    def _fork_of(self, rows: Sequence[Value]) -> tuple[dict[int, int], int | None]:
        """The longest common beginning, or the run that begins with the list's first row."""
        stored, start = self.conversation, 0
        if rows and stored and not self._same(rows, 0, 0):
            start = next((k for k, entry in enumerate(stored) if entry.pushed == rows[0]), -1)
            if start < 0:
                return {}, 0
        length = 0
        while length < len(rows) and start + length < len(stored) and self._same(rows, length, start + length):
            length += 1
        return {i: start + i for i in range(length)}, start + length if start + length < len(stored) else None

    def _reword(self, rows: Sequence[Value], places: Mapping[int, int]) -> None:
        """New words are stored, unless the list is older than what followed the message."""
        for i, k in places.items():
            entry = self.conversation[k]
            settled = k == len(self.conversation) - 1 or places.get(i + 1) == k + 1
            if rows[i] != entry.pushed and settled:
                self.live[self.lead + k] = replace(entry, pushed=rows[i])

    def leave(self, index: int) -> int:
        """The live messages from `index` on leave the history; they stay recallable. Answers how many."""
        self.live = _unfolded(self.live, index)
        leaving = self.live[index:]
        self.past |= {entry.position: entry.pushed for entry in leaving}
        self.left += leaving
        del self.live[index:]
        return len(leaving)

    def swap(self, compaction: str, shown: Mapping[int, Value], folds: Sequence[tuple[list[int], list[int]]]) -> None:
        """A compaction replaced the messages at these positions; `folds`: what carries each, and what is hidden."""
        part = {p: f"{compaction} {carriers[0]}" for carriers, hidden in folds for p in (*carriers, *hidden)}
        out = {position for _, hidden in folds for position in hidden}
        for index, entry in enumerate(self.live):
            at = entry.position
            if at in shown:
                self.live[index] = replace(
                    entry, replacement=shown[at], compaction=compaction, fold=part.get(at, ""), hidden=at in out
                )

    def replaced_by(self, compaction: str) -> tuple[int, ...]:
        """Live positions that this compaction replaced, and nothing brought back."""
        return tuple(e.position for e in self.live if e.replacement is not None and e.compaction == compaction)

    def undo(self, compaction: str) -> None:
        for index, entry in enumerate(self.live):
            if entry.replacement is not None and entry.compaction == compaction:
                self.live[index] = replace(entry, replacement=None, kept=True, fold="", hidden=False)

    def release(self, positions: Sequence[int]) -> int:
        """Undone messages may be replaced again. Answers how many live ones were kept."""
        kept = [index for index, entry in enumerate(self.live) if entry.kept and entry.position in positions]
        for index in kept:
            self.live[index] = replace(self.live[index], kept=False)
        return len(kept)

    def clear(self) -> int:
        """The conversation ends; it stays recallable until the next one does. Answers its live messages."""
        count = len(self.live)
        if self.following == self.opening:
            return count
        self.gone |= self.cleared.keys()
        self.cleared = {p: value for p, value in self.recallable().items() if p >= self.opening}
        self._begin_anew()
        return count

    def erase(self) -> int:
        """Nothing of the content stays. Answers the live messages that went."""
        count = len(self.live)
        self.gone |= self.recallable().keys()
        self.cleared = {}
        self._begin_anew()
        return count

    def _begin_anew(self) -> None:
        self.live, self.past, self.left = [], {}, []
        self.opening, self.lead = self.following, 0

    def fork(self, position: int) -> Truth:
        """The copy that ends with the live message at `position`."""
        copy = deepcopy(self)
        end = sum(entry.position <= position for entry in self.live)
        copy.live = _unfolded(self.live, end)[:end]
        copy.past = {p: value for p, value in self.past.items() if p <= position}
        copy.left = [entry for entry in self.left if entry.position <= position]
        copy.cleared, copy.following = {}, position + 1
        copy.lead = min(self.lead, position + 1 - self.opening)
        return copy


def _unfolded(live: Sequence[Entry], end: int) -> list[Entry]:
    """The messages with what they were in the place of a fold that goes on behind `end`."""
    cut = {entry.fold for entry in live[:end]} & {entry.fold for entry in live[end:]} - {""}
    return [
        replace(entry, replacement=None, compaction="", fold="", hidden=False) if entry.fold in cut else entry
        for entry in live
    ]


def mended(messages: Sequence[Value], closing: str) -> list[Value]:
    """The list as providers accept it, when ids never repeat.

    Late answers stand behind their call, or with it at the end when the list would end on an
    assistant message; calls that were passed over are closed; second answers are left out.
    """
    answers, unanswered = _paired(messages)
    late = {i: caller for caller, found in answers.items() for i in found if i >= _run_end(messages, caller)}
    known = {name for message in messages for name in _ids(message)}
    second = {
        i
        for i, message in enumerate(messages)
        if message["role"] in RESULTS
        and not any(i in found for found in answers.values())
        and message["tool_call_id"] in known
    }
    last = late.get(len(messages) - 1, -1)
    staying = [i for i in range(len(messages)) if i not in late]
    moves = last >= 0 and messages[staying[-1]]["role"] == "assistant" and staying[-1] != last
    # A call that moves to the end with its late answer stands behind every other one.
    followed = len(messages) if moves else max((i for i in staying if messages[i]["role"] not in RESULTS), default=-1)
    mended: list[Value] = []

    def behind(caller: int) -> list[Value]:
        closings = [{"role": "tool", "tool_call_id": name, "content": closing} for name in unanswered.get(caller, {})]
        return [messages[i] for i in answers.get(caller, []) if i in late] + (closings if caller < followed else [])

    anchors = {
        max((i for i in answers.get(caller, []) if i not in late), default=caller): caller for caller in unanswered
    }
    for i in staying:
        if i in second or (moves and (i == last or i in answers[last])):
            continue
        mended.append(messages[i])
        mended += behind(anchors[i]) if i in anchors else []
    if moves:
        mended += [messages[last], *(messages[i] for i in answers[last] if i not in late), *behind(last)]
    return mended


def _run_end(messages: Sequence[Value], caller: int) -> int:
    """Where the unbroken run of results behind a call ends."""
    end = caller + 1
    while end < len(messages) and messages[end]["role"] in RESULTS:
        end += 1
    return end


def _ids(message: Value) -> list[str]:
    return [call["id"] for call in message.get("tool_calls") or ()]


def open_calls(messages: Sequence[Value]) -> list[str]:
    """The ids of the calls that nothing answered, in order."""
    return [name for names in _paired(messages)[1].values() for name in names]


def _paired(messages: Sequence[Value]) -> tuple[dict[int, list[int]], dict[int, dict[str, None]]]:
    """Which results answer each message with calls, and which ids of it wait; ids never repeat here."""
    answers: dict[int, list[int]] = {}
    waiting: dict[int, dict[str, None]] = {}
    for i, message in enumerate(messages):
        if message["role"] == "assistant" and message.get("tool_calls"):
            waiting[i] = dict.fromkeys(_ids(message))
        elif message["role"] in RESULTS:
            caller = next((c for c, names in waiting.items() if message["tool_call_id"] in names), None)
            if caller is not None:
                del waiting[caller][message["tool_call_id"]]
                answers.setdefault(caller, []).append(i)
    return answers, waiting


def alike(one: Value, other: Value) -> bool:
    """Whether two user messages of a test are one in other words: the question, their last line, is the same."""
    return str(one["content"]).splitlines()[-1] == str(other["content"]).splitlines()[-1]


def _leading(messages: Sequence[Value]) -> int:
    return next((i for i, message in enumerate(messages) if message["role"] not in SYSTEM), len(messages))
