"""What is wrong with the calls and results of a list, and the same list as providers accept it.

Late results go behind their call, calls that something else follows are closed with a sentence of
ours, and second answers to a call leave the list. The stored history keeps its order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.formats.openai import RESULT_ROLES, Call, calls, text_of
from compactor.frozen import freeze
from compactor.history import History, Step, read_history
from compactor.models import Message, recall_id
from compactor.records import Encoded
from compactor.tokens import Encode, count_message
from compactor.wording import CHINESE, ENGLISH, wording_for


@dataclass(frozen=True, slots=True)
class Repaired:
    """A list as it may be sent, and what was wrong with the one given: `open_call@m3`, `late_answer@m7`, ..."""

    messages: Sequence[Message]
    problems: tuple[str, ...] = ()


def sound_until(messages: Sequence[Message] | Sequence[Encoded], start: int = 0) -> int:
    """How many messages from the first on are in order, whatever comes behind them.

    `start` is where an earlier look at the same list ended.
    """
    index = start
    while index < len(messages):
        end = _after_step(messages, index)
        if end is None:
            return index
        index = end
    return index


def _after_step(messages: Sequence[Message] | Sequence[Encoded], index: int) -> int | None:
    """Where the message at `index`, with the results it calls for, ends; None when they are not all behind it."""
    value = messages[index].value
    role = value.get("role")
    if role in RESULT_ROLES:
        return None
    found = calls(value) if role == "assistant" else ()
    end = index + 1 + len(found)
    if end > len(messages):
        return None
    if not found:
        return end
    step = [message.value for message in messages[index:end]]
    if any(message.get("role") not in RESULT_ROLES for message in step[1:]):
        return None
    names = [call.id for call in found]
    if [message.get("tool_call_id") for message in step[1:]] == names and len({None, *names}) > len(names):
        return end  # the common case, told without reading the step
    return None if read_history(step).steps[0].open else end


def repair(messages: Sequence[Message], encode: Encode, *, start: int = 0, mend: bool = True) -> Repaired:
    """The list in order, or as it is when `mend` is False; `start` messages are known to be in order."""
    sound = sound_until(messages, start)
    if sound == len(messages):
        return Repaired(messages)
    mender = _Mender(messages, sound, encode)
    problems = tuple(mender.problems())
    if not mend or not problems:
        return Repaired(messages, problems)
    return Repaired([*messages[:sound], *mender.mended()], problems)


class _Mender:
    """What stands behind the messages that are in order, read once."""

    def __init__(self, messages: Sequence[Message], sound: int, encode: Encode) -> None:
        self.messages, self.tail, self.encode = messages, messages[sound:], encode
        self.history = read_history([message.value for message in self.tail])
        self.late = {
            answer: step
            for step in self.history.steps
            for answer in step.answered
            if answer >= _end_of_run(self.history, step)
        }
        self.orphans = [index for index in range(len(self.tail)) if self.history.is_orphan(index)]
        self.last = self._step_to_end()

    def problems(self) -> list[str]:
        """One word and position for each fault, in order."""
        found: list[str] = []
        for index, message in enumerate(self.tail):
            step = self.history.step_of.get(index)
            name = recall_id(message.position)
            if index in self.late:
                found.append(f"late_answer@{name}")
            elif self.history.is_orphan(index):
                found.append(f"orphan_result@{name}")
            elif step is not None and index == step.start:
                found += [f"open_call@{name}"] * len(open_calls(step))
        return found

    def mended(self) -> list[Message]:
        """Late answers behind their calls, calls that something follows closed, second answers left out."""
        leaving = self._second_answers()
        behind = {_anchor(step, self.late): step for step in self.history.steps}
        last = self.last
        mended: list[Message] = []
        for index, message in enumerate(self.tail):
            step = self.history.step_of.get(index)
            if index in self.late or index in leaving or (last is not None and step is last):
                continue
            mended.append(message)
            if index in behind:
                mended += self._added(behind[index])
        if last is not None:
            mended += [self.tail[index] for index in [last.start, *last.answered]] + self._closings(last)
        return mended

    def _added(self, step: Step) -> list[Message]:
        return [self.tail[answer] for answer in step.answered if answer in self.late] + self._closings(step)

    def _closings(self, step: Step) -> list[Message]:
        if not step.open:
            return []
        if not (_is_followed(self.history, step) if self.last is None else step is not self.last):
            return []
        words = wording_for(next((text_of(m.value) for m in self.messages if m.role == "user"), ""))
        closings: list[Message] = []
        for call in open_calls(step):
            value: Mapping[str, Any] = freeze(closing_result(call, words.interrupted))
            position = self.tail[step.start].position
            closings.append(Message(position, value, count_message(value, self.encode)))
        return closings

    def _second_answers(self) -> set[int]:
        """Results of calls that have their answer already; a result of no call at all stays where it is."""
        if not self.orphans:
            return set()
        known = {call.id for message in self.messages if message.role == "assistant" for call in calls(message.value)}
        given = {index: self.tail[index].value.get("tool_call_id") for index in self.orphans}
        return {index for index, name in given.items() if isinstance(name, str) and name in known}

    def _step_to_end(self) -> Step | None:
        """The step of an answer that came last, when the list would end on an assistant message without it.

        The answer is what the model is asked to go on from, and many providers refuse such an end.
        """
        step = self.late.get(len(self.tail) - 1)
        if step is None:
            return None
        others = [index for index in range(len(self.tail)) if index not in self.late]
        return step if self.history.roles[others[-1]] == "assistant" and others[-1] != step.start else None


def _anchor(step: Step, late: Mapping[int, Step]) -> int:
    """The message of a step that its late answers are put behind."""
    return max((answer for answer in step.answered if answer not in late), default=step.start)


def open_calls(step: Step) -> list[Call]:
    """The calls of a step that nothing answered."""
    return [call for call, answer in zip(step.calls, step.results, strict=True) if answer is None]


def closing_result(call: Call, text: str) -> dict[str, Any]:
    """A result that says `text`, in the layout that the call asks for."""
    if call.id is None:
        return {"role": "function", "name": call.name, "content": text}
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def is_closing(value: Mapping[str, Any]) -> bool:
    """Whether a message is a result that closes a call, in our words."""
    return value.get("role") in RESULT_ROLES and text_of(value) in (ENGLISH.interrupted, CHINESE.interrupted)


def _end_of_run(history: History, step: Step) -> int:
    """Where the unbroken run of results behind a call ends."""
    end = step.start + 1
    while end < len(history.roles) and history.roles[end] in RESULT_ROLES:
        end += 1
    return end


def _is_followed(history: History, step: Step) -> bool:
    """Whether the conversation went on past the calls, so that a provider refuses them open."""
    return any(role not in RESULT_ROLES for role in history.roles[step.start + 1 :])
