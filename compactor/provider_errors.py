"""What a model server's error means: our class for it, read from status and wording alike.

Servers and gateways word the same fault differently, and wrap one status in another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from compactor.exceptions import (
    SummarizerError,
    SummarizerNotFound,
    SummarizerRateLimited,
    SummarizerRefused,
    SummarizerRequestRejected,
    SummarizerServerError,
    SummarizerTimeout,
    SummarizerTooLong,
    SummarizerUnauthorized,
)
from compactor.json_values import is_object
from compactor.tokens import json_text

LONGEST_WAIT: Final = 600.0  # seconds that a server may ask for
_READ: Final = 4_000  # characters of an error body
_TOO_LONG: Final = re.compile(
    r"(?i)context[_ ]?(?:length|window|size)|exceed_context|reduce the length|request entity too large"
    r"|(?:prompt|input|request|messages?)\b.{0,20} too (?:large|long)"
    r"|maximum (?:context|prompt|model|input) length|token count .{0,40}exceeds"
    r"|too many (?:input )?tokens|input length|model token limit|input tokens? exceed|tokens?`? (?:\+|must be <=)"
    r"|tokens?(?: of image and text| length)? exceeds? (?:the )?(?:max|model)"
    r"|prompt.{0,12} exceeds?\b|(?:prompt|输入|内容|上下文).{0,12}(?:超长|过长|超出|超过)"
)
_WINDOWS: Final = re.compile(
    r"(?i)maximum (?:context|prompt|model|input) length(?: is| of|:)? ?(\d{3,9})|> ?(\d{3,9}) maximum"
    r"|maximum number of tokens allowed ?\(?(\d{3,9})|with (\d{3,9}) maximum context|must be <= ?(\d{3,9})"
    r"|\[\d+, ?(\d{3,9})\]|context (?:length|size|window)(?: of| is|:)?(?: only)? ?\(?(\d{3,9})"
    r"|context limit: \d+ \+ \d+ > (\d{3,9})|token limit:? ?(\d{3,9})|cannot exceed (\d{3,9})|limit of (\d{3,9}) tokens"
    r"|n_ctx\\?\"?: ?(\d{3,9})"
)
_SIZES: Final = re.compile(
    r"(?i)(\d{3,9}) in the messages|resulted in (\d{3,9})|too long: (\d{3,9})\b|token count ?\(?(\d{3,9})"
    r"|contains (\d{3,9}) tokens|\(length (\d{3,9})\)|given: (\d{3,9})|n_prompt_tokens\\?\"?: ?(\d{3,9})"
    r"|input tokens \((\d{3,9})|total of (\d{3,9}) tokens|requested (\d{3,9}) tokens"
    r"|(?:request|prompt) \((\d{3,9}) tokens\)"
)
_FILTERED: Final = re.compile(r"(?i)content[_ ]?filter|content management policy|responsible ?ai ?policy")
_OF_THE_OUTPUT: Final = re.compile(r"(?i)max_(?:completion_)?tokens.{0,20}too large|completion tokens, whereas")


def is_too_long(text: str) -> bool:
    """Whether an error says, in one of many wordings, that the prompt is over the model's window."""
    return _TOO_LONG.search(text[:_READ]) is not None and not is_about_output(text)


def is_about_output(text: str) -> bool:
    """Whether an error says that more output was asked for than the model can write."""
    return _OF_THE_OUTPUT.search(text[:_READ]) is not None


@dataclass(frozen=True, slots=True)
class Overflow:
    """A refusal of a prompt as too long: the window and the prompt's size in tokens; 0 where it names none."""

    window: int = 0
    size: int = 0


def read_overflow(error: object) -> Overflow | None:
    """What an error of a model call says of a prompt that was too long; None for any other error.

    Takes the exception of an SDK, a JSON body, or text. The code is looked at first, then the words.
    """
    status = _status(error)
    text = _error_text(error)
    if status in (401, 403, 404) or not (status == 413 or "context_length_exceeded" in text or is_too_long(text)):
        return None
    return Overflow(_figure(_WINDOWS, text), _figure(_SIZES, text))


def _status(error: object) -> int | None:
    found = getattr(error, "status_code", None)
    return found if isinstance(found, int) else None


def _error_text(error: object) -> str:
    """Message, code and body of an error as one text; an SDK keeps the body apart."""
    parts = [error if isinstance(error, str) else json_text(error) if is_object(error) else str(error)]
    for name in ("code", "body", "message"):
        value = getattr(error, name, None)
        if value is not None:
            parts.append(value if isinstance(value, str) else json_text(value))
    return "\n".join(parts)[:_READ]


def _figure(patterns: re.Pattern[str], text: str) -> int:
    found = patterns.search(re.sub(r"(?<=\d)[,_](?=\d{3})", "", text))
    return int(next(filter(None, found.groups()))) if found else 0


def provider_error(status: int, text: str, *, retry_after: float | None = None) -> SummarizerError:
    """Our error for an HTTP status (or a code in its place) and the body that came with it."""
    if status == 413 or (status not in (401, 403, 404) and is_too_long(text)):
        return SummarizerTooLong(str(status))
    if status >= 500:
        return SummarizerServerError(str(status), retry_after=retry_after)
    if status == 429:
        return SummarizerRateLimited(retry_after=retry_after)
    if status == 400 and _FILTERED.search(text[:_READ]):
        return SummarizerRefused("content_filter")
    kinds: dict[int, type[SummarizerError]] = {
        401: SummarizerUnauthorized,
        403: SummarizerUnauthorized,
        404: SummarizerNotFound,
        408: SummarizerTimeout,
    }
    return kinds.get(status, SummarizerRequestRejected)(str(status))


def retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds that a server asked to wait, at most 10 minutes; `now` is Unix time, for servers that name a date."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * unit
        except ValueError:
            seconds = _until(value, now)
        if 0 < seconds < float("inf"):
            return min(seconds, LONGEST_WAIT)
    return None


def _until(date: str, now: float) -> float:
    """Seconds until an HTTP date; 0 when it is none."""
    try:
        when = parsedate_to_datetime(date)
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        return (when - datetime.fromtimestamp(now, UTC)).total_seconds()
    except (ValueError, OverflowError):
        return 0.0
