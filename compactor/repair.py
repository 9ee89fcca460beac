"""What is wrong with the calls and results of a list, and the same list as providers accept it.

Results go directly behind their call, calls that something else follows are closed with a sentence
of ours, and results without a call leave the list. The stored history keeps its order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compactor.formats.openai import RESULT_ROLES, Call, calls, text_of
from compactor.frozen import freeze
from compactor.history import History, Step, read_history
from compactor.models import Message, recall_id
from compactor.tokens import Encode, count_message
from compactor.wording import wording_for


@dataclass(frozen=True, slots=True)
class Repaired:
    """A list as it may be sent, and what was wrong with the one given: `open_call@m3`, `late_answer@m7`, ..."""

    messages: Sequence[Message]
    problems: tuple[str, ...] = ()


def sound_until(messages: Sequence[Message], start: int = 0) -> int:
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


def _after_step(messages: Sequence[Message], index: int) -> int | None:
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
    return None if read_history(step).steps[0].open else end


def repair(messages: Sequence[Message], encode: Encode, *, start: int = 0, mend: bool = True) -> Repaired:
    """The list in order, or as it is when `mend` is False; `start` messages are known to be in order."""
    sound = sound_until(messages, start)
    if sound == len(messages):
        return Repaired(messages)
    tail = messages[sound:]
    history = read_history([message.value for message in tail])
    problems = tuple(_problems(tail, history))
    if not mend or not problems:
        return Repaired(messages, problems)
    words = wording_for(next((text_of(m.value) for m in messages if m.role == "user"), ""))
    mended: list[Message] = []
    for index, message in enumerate(tail):
        if history.roles[index] in RESULT_ROLES:
            continue
        mended.append(message)
        step = history.step_of.get(index)
        if step is not None:
            mended += [tail[answer] for answer in step.answered]
            if _is_followed(history, step):
                mended += [_closing(message, call, words.interrupted, encode) for call in open_calls(step)]
    return Repaired([*messages[:sound], *mended], problems)


def open_calls(step: Step) -> list[Call]:
    """The calls of a step that nothing answered."""
    return [call for call, answer in zip(step.calls, step.results, strict=True) if answer is None]


def closing_result(call: Call, text: str) -> dict[str, Any]:
    """A result that says `text`, in the layout that the call asks for."""
    if call.id is None:
        return {"role": "function", "name": call.name, "content": text}
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def _closing(assistant: Message, call: Call, text: str, encode: Encode) -> Message:
    value: Mapping[str, Any] = freeze(closing_result(call, text))
    return Message(assistant.position, value, count_message(value, encode))


def _problems(tail: Sequence[Message], history: History) -> list[str]:
    found: list[str] = []
    for index, message in enumerate(tail):
        step = history.step_of.get(index)
        if history.is_orphan(index):
            found.append(f"orphan_result@{recall_id(message.position)}")
        elif step is not None and history.roles[index] in RESULT_ROLES:
            if index >= _end_of_run(history, step):
                found.append(f"late_answer@{recall_id(message.position)}")
        elif step is not None:
            found += [f"open_call@{recall_id(message.position)}"] * len(open_calls(step))
    return found


def _end_of_run(history: History, step: Step) -> int:
    """Where the unbroken run of results behind a call ends."""
    end = step.start + 1
    while end < len(history.roles) and history.roles[end] in RESULT_ROLES:
        end += 1
    return end


def _is_followed(history: History, step: Step) -> bool:
    """Whether the conversation went on past the calls, so that a provider refuses them open."""
    return any(role not in RESULT_ROLES for role in history.roles[step.start + 1 :])
