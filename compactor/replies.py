"""A model's reply read into the text of a summary, or into the reason why it is none.

The reply may be the JSON asked for or plain text. It must be finished, not empty, clearly smaller
than its source, in the source's language, about the source, and free of tool protocol, refusals and
reasoning. What names an identifier that the source lacks is left out; two such names reject it all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from compactor.exceptions import SummarizerRefused, SummarizerReplyRejected
from compactor.identifiers import Identifier, Kind, Known
from compactor.json_values import is_array, is_object
from compactor.languages import is_about, is_another_language
from compactor.personal_data import PersonalValues
from compactor.prompts import LARGEST_SHARE, SummaryRequest, safe
from compactor.tokens import Encode, count_text, json_text

_MOST_INVENTED: Final = 1
_FINISHED: Final = frozenset({"stop", "eos", "eos_token", "end_turn", "stop_sequence"})  # compatible servers differ
_THINK: Final = re.compile(r"(?i)<(think|thinking|reasoning|analysis)>")
_OPEN_THINK: Final = re.compile(r"(?i)</?(?:think|thinking|reasoning|analysis)>")
_FENCE: Final = re.compile(r"(?s)^```[\w-]*[^\S\n]*\n(.*?)\n?```$")
_TOOL_PROTOCOL: Final = re.compile(
    r"(?i)</?(?:tool_call|tool_calls|function_calls?|invoke|parameter|tool_response)\b|<function=|\[TOOL_CALLS\]"
    r"|<[|\uff5c](?:tool|python_tag|channel|im_start)|[\"'](?:tool_calls|function_call)[\"']\s*:"
    r"|\{\s*[\"']name[\"']\s*:\s*[\"'][^\"']*[\"']\s*,\s*[\"'](?:arguments|parameters)[\"']\s*:"
)
_REFUSAL: Final = re.compile(
    r"(?i)^\W*(?:unfortunately,? )?(?:i(?:'|\u2019)?m sorry|i am sorry|sorry,|as an ai\b"
    r"|i (?:can(?:'|\u2019)?t|cannot|won(?:'|\u2019)?t|will not|am unable to|am not able to) (?:help|assist|process)"
    r"|i(?:'|\u2019)?m (?:unable|not able) to (?:help|assist)|很?抱歉|对不起|我(?:无法|不能)(?:协助|帮助|处理))"
)
_NO_SUMMARY: Final = re.compile(
    r"(?i)^\W*(?:please (?:provide|share|paste|send)\b|error generating\b"
    r"|(?:error: )?you(?:'|\u2019)?(?:ve| have) (?:hit|reached|exceeded) your\b|error: (?:rate|quota|context)\b"
    r"|(?:sure|certainly|of course)\b[!,. ]+i(?:'|\u2019)?(?: can|ll| will|d| would)\b|how can i (?:help|assist)"
    r"|i(?:'|\u2019)?(?:d| would) be (?:happy|glad) to|请(?:提供|粘贴|发送))"
)
_OUR_KEYS: Final = frozenset({"facts", "note", "outcome", "omitted"})
_NO_JSON: Final = object()
_LONGEST: Final = 32_000  # characters; more than any request leaves room for
_SENTENCE_END: Final = re.compile(r"(?<=[.!?])(?=\s)|(?<=[。！？])|(?<=\n)")


@dataclass(frozen=True, slots=True)
class Reply:
    """The parts of a model's answer that the checks look at."""

    content: str | None
    finish_reason: str | None
    refusal: str | None = None
    has_tool_calls: bool = False


@dataclass(frozen=True, slots=True)
class _Said:
    """What a reply says: the fields of its JSON, or its plain text as the note."""

    note: str = ""
    outcome: str = ""
    facts: tuple[tuple[str, str], ...] = ()
    omitted: str = ""
    is_plain: bool = False

    @property
    def text(self) -> str:
        lines = [*(f"{label} = {value}" if label else value for label, value in self.facts), self.note]
        if not any(lines) and self.outcome.lower() in ("", "ok"):
            return ""
        return "\n".join(line for line in [self.outcome, *lines, f"({self.omitted})" if self.omitted else ""] if line)

    def put_back(self, personal: PersonalValues) -> _Said:
        """The same with the values of its placeholders."""
        facts = tuple((personal.put_back(label), personal.put_back(value)) for label, value in self.facts)
        note, outcome, omitted = map(personal.put_back, (self.note, self.outcome, self.omitted))
        return replace(self, note=note, outcome=outcome, facts=facts, omitted=omitted)


def read_reply(reply: Reply, request: SummaryRequest, encode: Encode) -> str:
    """The summary's text. Raises SummarizerRefused or SummarizerReplyRejected(reason)."""
    personal, source = request.personal, request.personal.put_back(request.text)
    said = _said(_finished(reply)).put_back(personal)
    for text in (said.outcome, said.note):
        if _REFUSAL.search(text):
            raise SummarizerRefused
        if _NO_SUMMARY.search(text) and not (said.facts and text is said.outcome):
            raise SummarizerReplyRejected("no_summary")
    body = said.text
    if not says_something(body):
        raise SummarizerReplyRejected("empty")
    if count_text(body, encode) > LARGEST_SHARE * request.tokens:
        raise SummarizerReplyRejected("not_smaller")
    if is_another_language(body, source):
        raise SummarizerReplyRejected("language")
    if said.is_plain and not is_about(body, source):
        raise SummarizerReplyRejected("unrelated")
    arguments = personal.put_back(request.arguments)
    strange = partial(personal.strange, source=f"{source}\n{arguments}")
    return _without_inventions(said, _Check(Known(source, arguments, request.tool), strange))


def says_something(text: str) -> bool:
    """Whether a text holds a single letter or digit."""
    return any(char.isalnum() for char in text)


def _finished(reply: Reply) -> str:
    """The text of a reply that came to its end, without wrapping."""
    if reply.refusal or reply.finish_reason == "content_filter":
        raise SummarizerRefused
    if reply.has_tool_calls or reply.finish_reason in ("tool_calls", "function_call"):
        raise SummarizerReplyRejected("tool_protocol")
    text = _without_wrapping(reply.content or "")
    if not text:
        raise SummarizerReplyRejected("cut_off" if reply.finish_reason == "length" else "empty")
    if len(text) > _LONGEST:
        raise SummarizerReplyRejected("too_long")
    if (reply.finish_reason or "").lower() not in _FINISHED:
        raise SummarizerReplyRejected("cut_off" if reply.finish_reason == "length" else "not_finished")
    if _TOOL_PROTOCOL.search(text):
        raise SummarizerReplyRejected("tool_protocol")
    return text


def _without_inventions(said: _Said, check: _Check) -> str:
    """The text without facts and sentences that name what the source lacks.

    A small integer may be a count: in a sentence it is free, as a fact it must occur, but does not
    make the model a liar; nor does any integer in the remark on what was left out.
    """
    facts = [
        (label, value)
        for label, value in said.facts
        if check.passes(label, free=_is_small) and check.passes(value, free=_nothing)
    ]
    outcome, note = (_sentences(text, check) for text in (said.outcome, said.note))
    omitted = _sentences(said.omitted, replace(check, pardoned=_is_count))
    body = replace(said, outcome=outcome, note=note, facts=tuple(facts), omitted=omitted).text
    if not says_something(body):
        raise SummarizerReplyRejected("invented" if check.invented else "empty")
    return safe(body)


def _sentences(text: str, check: _Check) -> str:
    """The sentences that name nothing unknown."""
    return "".join(part for part in _SENTENCE_END.split(text) if check.passes(part, free=_is_small)).strip()


def _is_small(found: Identifier) -> bool:
    return found.is_small


def _is_count(found: Identifier) -> bool:
    return found.is_count


def _nothing(_found: Identifier) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class _Check:
    """Holds names against the source; `pardoned` ones are left out, but do not count as invented.

    `strange`: finds placeholders of personal data that are none of the request's.
    """

    known: Known
    strange: Callable[[str], Iterator[str]]
    invented: set[Identifier] = field(default_factory=set[Identifier])
    pardoned: Callable[[Identifier], bool] = _is_small

    def passes(self, text: str, *, free: Callable[[Identifier], bool]) -> bool:
        """Whether a text names nothing unknown but what is free. Raises SummarizerReplyRejected at one too many."""
        unknown = [Identifier(mark, Kind.CODE) for mark in self.strange(text)]
        for mark in unknown:
            text = text.replace(mark.text, " ")
        unknown += [found for found in self.known.missing(text) if not free(found)]
        for found in unknown:
            if not self.pardoned(found):
                self.invented.add(found)
            if len(self.invented) > _MOST_INVENTED:
                raise SummarizerReplyRejected("invented")
        return not unknown


def _without_wrapping(text: str) -> str:
    """The text without closed thoughts and one outer fence. Raises on an unclosed thought."""
    text = _without_thoughts(text).strip()
    if _OPEN_THINK.search(text):
        raise SummarizerReplyRejected("reasoning_only")
    match = _FENCE.match(text)
    return (match[1] if match else text).strip()


def _without_thoughts(text: str) -> str:
    """The text without closed thoughts, in one pass: a reply may hold thousands of open ones."""
    kept: list[str] = []
    lower = text.lower()
    start = 0
    while opened := _THINK.search(text, start):
        closed = lower.find(f"</{opened[1].lower()}>", opened.end())
        if closed < 0:
            break
        kept.append(text[start : opened.start()])
        start = closed + len(opened[1]) + 3
    return "".join([*kept, text[start:]])


def _said(text: str) -> _Said:
    """The JSON asked for, also behind or before a sentence; anything else is the plain text it is."""
    value = _json(text)
    if isinstance(value, str):
        return _Said(value.strip(), is_plain=True)
    if value is _NO_JSON:
        return _Said(text, is_plain=True)
    if not is_object(value):
        return _Said()
    return _Said(
        _field(value, "note"), _field(value, "outcome"), tuple(_facts(value.get("facts"))), _field(value, "omitted")
    )


def _json(text: str) -> Any:
    """The JSON value of a text, or of the one object in it; _NO_JSON when there is none of ours."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    first, last = text.find("{"), text.rfind("}")
    try:
        value = json.loads(text[first : last + 1]) if 0 <= first < last else _NO_JSON
    except (ValueError, RecursionError):
        return _NO_JSON
    return value if is_object(value) and _OUR_KEYS & value.keys() else _NO_JSON


def _field(value: Mapping[str, Any], name: str) -> str:
    found = value.get(name)
    return " ".join(found.split()) if isinstance(found, str) else ""


def _facts(facts: Any) -> Iterator[tuple[str, str]]:
    """Label and value of each fact, in whatever shape a model lists them."""
    listed: Sequence[Any] = facts if is_array(facts) else ()
    if is_object(facts):
        listed = [{"label": key, "value": item} for key, item in facts.items()]
    for fact in listed:
        if is_object(fact) and fact.get("value") not in (None, ""):
            shown = fact["value"] if isinstance(fact["value"], str) else json_text(fact["value"])
            yield " ".join(str(fact.get("label") or "").split()), shown
        elif isinstance(fact, str) and fact.strip():
            yield "", fact.strip()
