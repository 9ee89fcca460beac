"""limit_tool_result(value): a tool's result as text of a bounded length, with a notice where it was cut.

Characters are Python's (code points). A cut never parts a surrogate pair, and keeps emoji sequences,
combining marks, flags and line ends whole where that takes a short step back.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeGuard

from compactor.agent_loop.result_text import result_text
from compactor.exceptions import ConfigurationError
from compactor.formats.openai import RESULT_ROLES
from compactor.frozen import freeze
from compactor.json_values import is_array, is_object
from compactor.tokens import MEDIA_TYPES
from compactor.wording import wording_for

MAX_CHARS: Final = 8_000
_LONGEST_STEP: Final = 64  # characters; a longer run of marks is no letter
_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True)
class LimitPolicy:
    """How long a tool result may get: `max_chars` of it are kept, the last `tail` of them from its end.

    `notice` stands at the cut, to the letter; in it `{cut}`, `{whole}` (characters) and `{id}` (the
    recall id, or nothing) are filled. None: a sentence of ours in the language of the result. Raises
    ConfigurationError.
    """

    max_chars: int = MAX_CHARS
    tail: int = 0
    notice: str | None = None

    def __post_init__(self) -> None:
        if not _is_whole(self.max_chars) or self.max_chars < 1:
            raise ConfigurationError("max_chars: expected a positive whole number of characters, for example 8000.")
        if not _is_whole(self.tail) or not 0 <= self.tail < self.max_chars:
            raise ConfigurationError(
                "tail: expected how many of max_chars are kept from the end, at least 0 and fewer than max_chars."
            )
        if self.notice is not None and not isinstance(self.notice, str):
            raise ConfigurationError("notice: expected the text that stands at the cut, or None for ours.")


def limit_policy(given: object) -> LimitPolicy | None:
    """What `limit_result=` asks for: a policy, a number of characters, True for the default, None or False for none.

    Raises ConfigurationError.
    """
    if given is None or given is False:
        return None
    if given is True:
        return LimitPolicy()
    if isinstance(given, LimitPolicy):
        return given
    if _is_whole(given):
        return LimitPolicy(given)
    raise ConfigurationError(
        "limit_result: expected a number of characters such as 8000, True for the default, a LimitPolicy, or None."
    )


def limit_tool_result(
    value: Any,
    max_chars: int = MAX_CHARS,
    notice: str | None = None,
    recall_id: str | None = None,
    tail: int = 0,
) -> str:
    """The result as text of at most `max_chars` characters and, when it was cut, a notice.

    Text passes through; anything else is written as `json.dumps(value, ensure_ascii=False)` does, and
    what JSON does not know as its text, never raising for what a tool returned. The notice stands
    beside the characters kept; see LimitPolicy. Raises ConfigurationError for wrong settings.
    """
    if recall_id is not None and (not isinstance(recall_id, str) or not recall_id):
        raise ConfigurationError("recall_id: expected the name that the whole can be recalled by, such as 'm12'.")
    policy = LimitPolicy(max_chars, tail, notice)
    text = result_text(value)
    if len(text) <= policy.max_chars:
        return text
    head, rest = _cut(text, policy)
    return text[:head] + _notice(text, head, rest, policy, recall_id) + text[rest:]


def limit_message(message: Mapping[str, Any], policy: LimitPolicy, recall_id: str) -> Mapping[str, Any] | None:
    """A tool result cut by the policy, every other key as it was; None for what is short enough, or no tool result.

    Text parts are cut as if they were one text, what is neither text nor media as its JSON; media stays.
    """
    content = message.get("content")
    if message.get("role") not in RESULT_ROLES or content is None:
        return None
    if is_array(content):
        limited: Any = _limit_parts(content, policy, recall_id)
    else:
        text = result_text(content)
        short = limit_tool_result(text, policy.max_chars, policy.notice, recall_id, policy.tail)
        limited = None if len(text) <= policy.max_chars else short
    return None if limited is None else freeze({**message, "content": limited})


def _limit_parts(parts: Sequence[Any], policy: LimitPolicy, recall_id: str) -> list[Any] | None:
    texts = ["" if _is_media(part) else _text_of(part) for part in parts]
    text = "".join(texts)
    if len(text) <= policy.max_chars:
        return None
    head, rest = _cut(text, policy)
    notice = _notice(text, head, rest, policy, recall_id)
    ends = list(accumulate(map(len, texts)))
    holder = next(i for i, part in enumerate(parts) if not _is_media(part) and ends[i] >= head)
    limited: list[Any] = []
    for i, part in enumerate(parts):
        start = ends[i] - len(texts[i])
        kept = text[start : min(ends[i], head)] + (notice if i == holder else "") + text[max(start, rest) : ends[i]]
        if _is_media(part):
            limited.append(part)
        elif kept:  # providers refuse an empty part
            limited.append(_with_text(part, kept))
    return limited


def _is_media(part: Any) -> bool:
    kind = part.get("type") if is_object(part) else None
    return isinstance(kind, str) and kind in MEDIA_TYPES


def _text_of(part: Any) -> str:
    return part["text"] if is_object(part) and isinstance(part.get("text"), str) else result_text(part)


def _with_text(part: Any, text: str) -> Any:
    if isinstance(part, str):
        return text
    if is_object(part) and isinstance(part.get("text"), str):
        return {**part, "text": text}
    return {"type": "text", "text": text}


def _notice(text: str, head: int, rest: int, policy: LimitPolicy, recall_id: str | None) -> str:
    """What stands at the cut; ours stands on a line of its own."""
    fields = {"cut": str(rest - head), "whole": str(len(text)), "id": recall_id or ""}
    if policy.notice is not None:
        notice = policy.notice
        for name, value in fields.items():
            notice = notice.replace(f"{{{name}}}", value)
        return notice
    words = wording_for(text)
    sentence = (words.limited if recall_id is None else words.limited_recallable).format(**fields)
    return f"\n{sentence}\n" if rest < len(text) else f"\n{sentence}"


def _cut(text: str, policy: LimitPolicy) -> tuple[int, int]:
    """Where the head of a text ends and its tail begins."""
    head = policy.max_chars - policy.tail
    rest = len(text) - policy.tail
    return _boundary(text, head, -1), _boundary(text, rest, 1)


def _boundary(text: str, index: int, step: int) -> int:
    """The nearest place from `index` on, in the direction of `step`, where no letter is parted."""
    for moved in range(_LONGEST_STEP):
        place = index + step * moved
        if not 0 < place < len(text) or not _joined(text, place):
            return min(max(place, 0), len(text))
    return index + step if _is_pair(text, index) else index


def _joined(text: str, index: int) -> bool:
    """Whether the characters around a place are parts of one letter, sign or line end."""
    before, after = text[index - 1], text[index]
    if after < "\u0300" and before != _JOINER:
        return before == "\r" and after == "\n"
    if _JOINER in (before, after) or _is_pair(text, index):
        return True
    if "\U0001f1e6" <= after <= "\U0001f1ff":
        return _flags_before(text, index) % 2 == 1
    return (
        "\U0001f3fb" <= after <= "\U0001f3ff"  # skin tones
        or "\U000e0020" <= after <= "\U000e007f"  # tags, of the flags of regions
        or unicodedata.category(after) in ("Mn", "Mc", "Me")
    )


def _flags_before(text: str, index: int) -> int:
    """How many letters of flags stand right before a place: two make a flag."""
    count = 0
    while count < min(index, _LONGEST_STEP) and "\U0001f1e6" <= text[index - 1 - count] <= "\U0001f1ff":
        count += 1
    return count


def _is_pair(text: str, index: int) -> bool:
    return "\ud800" <= text[index - 1] <= "\udbff" and "\udc00" <= text[index] <= "\udfff"


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
