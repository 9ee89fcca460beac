"""Secrets that stand behind their name: `password: …`, `"api_key": "…"`, `DB_PASSWORD=…`, headers, cookies.

Names of things that are secret by what they are called (passwords, keys, client secrets) give away
any value that is no word of code or prose; names that say less (token, session, signature) only one
that looks drawn by lot. Page tokens are none: a bot needs them for its next call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import Final

from compactor.secret_shapes import is_random

_STEMS: Final = (
    "passw", "passp", "pwd", "secret", "token", "key", "auth", "credential", "sess", "cookie", "sig", "_pass", "dbpass",
    "密码", "口令", "密钥", "密碼", "金鑰", "パスワード", "비밀번호",
)  # fmt: skip
_BEHIND: Final = 40  # characters of a name before its stem
_NAME: Final = re.compile(r"[\w.-]{0,80}", re.ASCII)
_NAME_BEFORE: Final = re.compile(r"[\w.-]*\Z", re.ASCII)
_STRONG: Final = re.compile(
    r"passw(?:or)?d|passphrase|pwd|secret|(?:api|access|private|account|master|encryption|signing|auth|storage|shared"
    r"|subscription|fernet|hmac|service)key|keydata$"
    r"|(?:auth|access|refresh|api|bot|bearer|session|security|id|private|personal|deploy)token|credentials?$|authkey$"
    r"|^(?:db|user|my|root|admin|smtp|ftp|mail)?pass$|_pass$|密码|口令|密钥|密碼|金鑰|パスワード|비밀번호"
)
_PASSWORD: Final = re.compile(r"passw|passphrase|pwd|secret")
_SESSION_COOKIE: Final = re.compile(r"^(?:jsessionid|phpsessid|aspnetsessionid|connectsid)$")
_WEAK: Final = re.compile(r"token$|session(?:id)?$|sess(?:id)?$|sid$|cookie$|auth$|signature$|sig$|credential$|key$")
# What a name's end says that its value is about the secret, and not the secret.
_ABOUT: Final = re.compile(
    r"(?:length|policy|hint|field|reset|url|uri|file|path|name|id|type|min|max|count|expir\w*|strength|manager|input"
    r"|required|changed|at|error|errors|label|placeholder|exists|valid|enabled|rotation|arn|version|ref|list|limit|usage"
    r"|algorithm|size|format|regex|pattern|help|text|title|message|prompt|status|date|time|ttl|age|used|count|provider"
    r"|class|method|func|function|handler|view|form|page|column|index|types?|ids|names|keys|validators?|hashers?|s3|env)$"
)
_PAGE: Final = re.compile(r"next|page|continu|cursor|sync|prev|public|primary|foreign|partition|cache|idempot|sort")
_BETWEEN: Final = frozenset("\\\"'`] \t\r\n,=:：>|是为為")  # what stands right behind a name that announces a value
_SEPARATOR: Final = re.compile(
    r"\\{0,3}[\"'`]?\]?(?:,?(?:\s|\\n){0,20}\\{0,3}[\"']?[Vv]alue\\{0,3}[\"']?)?[ \t]{0,8}"
    r"(?P<mark>=>|:=|==?|:|：|>|\||is\b|was\b|是|为|為)?[ \t]{0,8}"
    r"(?P<open>\\{0,3}[\"'`])?",
)
_CLOSED: Final = {
    quote: re.compile(rf"(?:\\.|[^\\{quote}\r\n]){{0,512}}?(?=\\{{0,3}}{quote})") for quote in ('"', "'", "`")
}
_BARE: Final = re.compile(r"(?:[^\s\"'`,;&<>(){}\[\]|，。；、\\]|\\(?![nrt\"'])){1,512}")
_MARK: Final = re.compile(r"(?<=\[)SECRET_\d+\]")
_COOKIES: Final = re.compile(
    r"(?:[Ss]et-)?[Cc]ookie\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?"
    r"(?P<value>[\w!#$%&*+.^|~-]{1,80}=[^\s;\"'\\\[]{6,4000}(?:; ?[\w!#$%&*+.^|~-]{1,80}=[^\s;\"'\\\[]{1,4000}){0,50})"
)
_HEADER: Final = re.compile(
    r"[Aa]uthorization\\{0,3}[\"']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,3}[\"']?"
    r"(?:(?:Bearer|bearer|Basic|basic|Token|token|Digest|ApiKey|apikey|Negotiate)[ \t]{1,4})?"
    r"(?P<value>[^\s\"'\\,;\[<>{}$]{8,4000})"
)
_NO_VALUE: Final = frozenset({
    "none", "null", "nil", "true", "false", "undefined", "string", "str", "bytes", "int", "integer", "number", "bool",
    "boolean", "object", "array", "any", "text", "optional", "required", "password", "passwd", "pwd", "pass",
    "secret", "token", "key", "hidden", "redacted", "masked", "empty", "missing", "invalid", "incorrect", "wrong",
    "changeme", "example", "your", "self", "hash", "hashed", "unset", "default", "value", "string?", "yes", "no",
    "varchar", "char", "field", "charfield", "encrypted", "plaintext", "prompt", "ask", "env", "vault", "file",
})  # fmt: skip
_CODE: Final = re.compile(
    r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+|[a-z]+(?:_[a-z]+)+|_\w*"
)
_EXAMPLE: Final = re.compile(r"(?i)(?:your|my|enter|insert|example)(?:[-_ ]|(?:own|new|secret|pass|token|api|key)|\Z)")
_FILLER: Final = re.compile(r"(?:[*xX.•_#?-]|…|\.\.\.)+")
_WORDS: Final = re.compile(r"[^\W\d_]+(?:[-_][^\W\d_]+)*")
_LINE_END: Final = re.compile(r"[ \t]*(?:\\[rn]|[\r\n]|\Z|#|//)")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_HEX: Final = re.compile(r"[0-9a-fA-F]{32,128}")
_TOKENISH: Final = re.compile(r"(?:token|session(?:id)?|sid|sig|signature|auth)$")


class _Telling(Enum):
    """What a name says of its value: nothing, that it may be a secret, that it is one."""

    NOTHING = 0
    LITTLE = 1
    ALL = 2


def named_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each value that stands behind the name of a secret; they may overlap."""
    lower = text.replace("İ", "i").lower()  # the one letter whose small form is two
    if len(lower) != len(text):
        lower = text
    if "ookie" in text:
        yield from (match.span("value") for match in _COOKIES.finditer(text))
    if "uthorization" in text:
        yield from (match.span("value") for match in _HEADER.finditer(text))
    for stem in _STEMS:
        at = lower.find(stem)
        while at >= 0:
            name, end = _name(lower, at, stem)
            is_mark = stem == "secret" and _MARK.match(text, at) is not None
            if not is_mark and text[end : end + 1] in _BETWEEN and (span := _value(text, end, name)) is not None:
                yield span
            at = lower.find(stem, max(at + len(stem), end))


def _name(lower: str, at: int, stem: str) -> tuple[str, int]:
    """The whole name around a stem, and where it ends."""
    before = _NAME_BEFORE.search(lower[max(0, at - _BEHIND) : at])
    behind = _NAME.match(lower, at + len(stem))
    assert before is not None
    assert behind is not None
    rest = behind[0].rstrip(".-")
    return f"{before[0]}{stem}{rest}", at + len(stem) + len(rest)


@lru_cache(maxsize=4_096)
def _read_name(name: str) -> tuple[str, _Telling]:
    """A name without its separators, and how much it gives away."""
    plain = re.sub(r"[-_.]", "", name)
    if _SESSION_COOKIE.search(plain):
        return plain, _Telling.ALL
    if _ABOUT.search(plain) or (_PAGE.search(plain) and not _PASSWORD.search(plain)):
        return plain, _Telling.NOTHING
    if _STRONG.search(plain) or name.endswith("_pass"):
        return plain, _Telling.ALL
    return plain, _Telling.LITTLE if _WEAK.search(plain) else _Telling.NOTHING


def _value(text: str, end: int, name: str) -> tuple[int, int] | None:
    """Where the secret stands that a name announces; None when it announces none."""
    plain, telling = _read_name(name)
    if telling is _Telling.NOTHING:
        return None
    separator = _SEPARATOR.match(text, end)
    if separator is None:
        return None
    mark, opened = separator["mark"], separator["open"]
    is_option = mark is None and text[max(0, end - len(name) - 2) : end - len(name)].endswith("-")
    if mark is None and not is_option and not name.startswith("--"):
        return None
    start = separator.end()
    match = _CLOSED[opened[-1]].match(text, start) if opened else _BARE.match(text, start)
    if match is None or not match[0]:
        return None
    value = match[0] if opened else match[0].rstrip(":." if mark in ("=", ":") else ".:!?。")
    span = start, start + len(value)
    if telling is _Telling.LITTLE:
        is_variable = text[end - len(name) : end].isupper() and "_" in name
        return span if _is_drawn(value, plain, is_variable=is_variable) else None
    if opened:
        return span if _is_quoted_secret(value, plain) else None
    return span if _is_bare_secret(value, text, span[1], mark or "") else None


def _is_drawn(value: str, name: str, *, is_variable: bool) -> bool:
    """Whether a value looks drawn by lot, and not like an id that a bot works with."""
    if _UUID.fullmatch(value) or "://" in value or "[SECRET_" in value or not value.isascii() or " " in value:
        return False
    if _HEX.fullmatch(value):
        return is_variable or _TOKENISH.search(name) is not None
    return (is_variable or not name.endswith("key")) and len(value) >= 20 and "/" not in value[:1] and is_random(value)


def _is_no_secret(value: str) -> bool:
    """Words that stand where a secret would: types, placeholders, templates, marks."""
    return (
        len(value) < 4
        or value.lower() in _NO_VALUE
        or _FILLER.fullmatch(value) is not None
        or "[SECRET_" in value
        or value.startswith(("{", "<", "(", "%(", "%s", "os.environ", "process.env", "!", "[", "http://", "https://"))
        or "${" in value
        or "$(" in value
        or "{{" in value
        or (value.startswith("$") and value[1:].replace("_", "").isalpha())
        or not any(char.isascii() and char.isalnum() for char in value)
        or _EXAMPLE.match(value) is not None
    )


def _is_quoted_secret(value: str, name: str) -> bool:
    if _is_no_secret(value) or (value.count(" ") > 1 and "passphrase" not in name):
        return False
    return not (_CODE.fullmatch(value) or value.lower().replace("_", "").replace(" ", "") in name)


def _is_bare_secret(value: str, text: str, end: int, mark: str) -> bool:
    """Whether unquoted text is a secret: mixed characters anywhere, letters alone only as the rest of a line."""
    if _is_no_secret(value) or _CODE.fullmatch(value) or text[end : end + 1] in ("(", "[", "{"):
        return False
    if mark == "|":
        return any(map(str.isdigit, value)) and any(map(str.isalpha, value))
    if mark == ">":
        return text.startswith("</", end)
    if _WORDS.fullmatch(value):
        return mark in ("=", ":", "") and len(value) >= 6 and _LINE_END.match(text, end) is not None
    if value.isdigit() or _is_number(value):
        return mark in ("=", ":") and len(value) >= 6 and _LINE_END.match(text, end) is not None
    return any(map(str.isdigit, value)) or mark in ("=", ":")


def _is_number(value: str) -> bool:
    return re.fullmatch(r"[\d.,+-]+%?", value) is not None
