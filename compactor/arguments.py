"""Call arguments with their long strings elided: the same JSON, and a mark where text was left out.

The cut is made in the JSON text itself, so keys, numbers, short strings, order and white space stay
to the letter. A mark holds a tag drawn by lot for each compaction: no text from outside can know it,
so that a new call which holds the mark was copied from ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, Final

from compactor.formats.openai import calls, raw_arguments, with_arguments
from compactor.json_values import is_array, is_object
from compactor.models import Kind, Message, Replacement, recall_id
from compactor.tokens import Encode, count_message, count_text
from compactor.wording import CHINESE, wording_for

LONG: Final = 600  # characters; a string up to it stays as it is
HEAD: Final = 240  # characters at most
TAIL: Final = 120
LARGE: Final = 400  # tokens; shorter arguments stay as they are
LEAST_FREED: Final = 100  # tokens
LIST_TAG: Final = "list"  # of a plain list, which belongs to no session

_STRING: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?', re.DOTALL)

Mark = Callable[[str, int], str]  # the string, and how many of its characters are left out -> the mark


def tag_of(compaction: str) -> str:
    """The tag of a compaction's marks, 8 hex digits; its id is drawn by lot."""
    return blake2b(compaction.encode(), digest_size=4).hexdigest()


def elided(message: Message, *, tag: str, goal: str, encode: Encode) -> Replacement | None:
    """The message with the large arguments of its calls elided; None where that frees too little.

    `goal` tells the language of the marks where the text has none, as code.
    """
    called = calls(message.value)

    def marks(order: int) -> Mark:
        name = f"{recall_id(message.position)}.{order + 1}"

        def mark(text: str, cut: int) -> str:
            words = CHINESE if wording_for(text) is CHINESE else wording_for(goal)
            return words.elided.format(tag=tag, cut=cut, id=name)

        return mark

    shorter = {
        order: elide(arguments, marks(order))
        for order, arguments in raw_arguments(message.value).items()
        if count_text(called[order].arguments, encode) > LARGE
    }
    value = with_arguments(message.value, {order: new for order, new in shorter.items() if new is not None})
    after = count_message(value, encode)
    if message.tokens - after < LEAST_FREED:
        return None
    return Replacement(message.position, value, Kind.ELIDED, message.tokens, after)


def elide(arguments: Any, mark: Mark) -> Any:
    """The arguments with their long strings cut to head and tail; None when nothing in them is long.

    `arguments` are JSON text, as most servers send them, or the value itself. Text that is no JSON
    gives None: what a parser refuses is not ours to cut.
    """
    if isinstance(arguments, str):
        return _elide_text(arguments, mark) if len(arguments) > LONG and _parses(arguments) else None
    shorter = _elide_value(arguments, mark)
    return None if shorter == arguments else shorter


def left_out(arguments: Any) -> int:
    """How many characters eliding leaves out; 0 when nothing is long."""
    lost = 0

    def note(_text: str, cut: int) -> str:
        nonlocal lost
        lost += cut
        return ""

    elide(arguments, note)
    return lost


def _parses(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _elide_text(text: str, mark: Mark) -> str | None:
    """JSON text with its long string values cut; its quotes can only be those of strings, since it parses."""
    parts: list[str] = []
    end = 0
    for found in _STRING.finditer(text):
        if found[1] is not None or found.end() - found.start() <= LONG:  # a key, or short however it is written
            continue
        whole = json.loads(found[0])
        if len(whole) > LONG:
            parts += (text[end : found.start()], _literal(_shortened(whole, mark), like=found[0]))
            end = found.end()
    return "".join([*parts, text[end:]]) if parts else None


def _literal(text: str, *, like: str) -> str:
    """A JSON string in the spelling of another: escapes where that one had only escapes."""
    written = json.dumps(text, ensure_ascii=like.isascii())
    try:
        written.encode()
    except UnicodeEncodeError:  # half of a pair, which no client can send as it is
        return json.dumps(text)
    return written


def _elide_value(value: Any, mark: Mark) -> Any:
    if isinstance(value, str):
        return _shortened(value, mark) if len(value) > LONG else value
    if is_object(value):
        return {key: _elide_value(inner, mark) for key, inner in value.items()}
    if is_array(value):
        return [_elide_value(inner, mark) for inner in value]
    return value


def _shortened(text: str, mark: Mark) -> str:
    """Head and tail around a mark, at line ends where one is near."""
    head = _up_to_line(text[:HEAD])
    tail = text[-TAIL:]
    start = tail.find("\n") + 1
    tail = tail[start:] if start <= TAIL // 2 else tail
    between = "\n" if head.endswith("\n") else " "
    note = mark(text, len(text) - len(head) - len(tail))
    return f"{head}{'' if head.endswith(between) else between}{note}{between}{tail}"


def _up_to_line(head: str) -> str:
    end = head.rfind("\n") + 1
    return head[:end] if end >= HEAD // 2 else head
