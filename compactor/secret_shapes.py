"""Secrets that their makers gave a shape: tokens with a prefix, JWTs, private keys, passwords in addresses.

Each shape names literal text that must occur, so that a text without it is not searched for it.
What fails to match costs a bounded number of characters, or stops where another match may begin.
"""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_WORD: Final = "A-Za-z0-9"
_LOOKED_AT: Final = 200  # characters of a word
_ESCAPE: Final = r"\\[nrt]"  # a line's end inside a JSON string: its letter is no part of the word behind it


def _alone(prefix: str, kin: str = _WORD) -> str:
    """A prefix that begins a word; written behind it, so that the search goes for the literal prefix."""
    return rf"{prefix}(?:(?<![{kin}]{prefix})|(?<={_ESCAPE}{prefix}))"


class _Shape(NamedTuple):
    """`literals`: text of which one must occur; `pattern`: its first group, or all of it, is the secret."""

    literals: tuple[str, ...]
    pattern: re.Pattern[str]
    check: Callable[[str], bool] = lambda _found: True


def _shape(pattern: str, *literals: str, check: Callable[[str], bool] = lambda _found: True) -> _Shape:
    return _Shape(literals, re.compile(pattern, re.ASCII), check)


def is_random(word: str) -> bool:
    """Whether a word looks drawn by lot: digits and letters in one run, many different characters."""
    word = word[:_LOOKED_AT]
    if len(word) < 16 or len(set(word)) < 8:
        return False
    runs = re.split(r"[-_./:]", word)
    return any(len(run) >= 8 and any(map(str.isdigit, run)) and any(map(str.isalpha, run)) for run in runs)


def _is_login(text: str) -> bool:
    """Whether Base64 holds `name:password`."""
    try:
        decoded = b64decode(text + "=" * (-len(text) % 4), validate=True).decode("ascii")
    except (Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _is_no_example(text: str) -> bool:
    return text.lower() not in ("password", "pass", "pwd", "passwd", "secret") and not re.match(r"[$<{%*\[]", text)


_SHAPES: Final = (
    _shape(
        r"-----BEGIN[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]|-(?!----)){0,20000}-----END[A-Z0-9 ]{0,40}-----"
        r"|(?:(?:\s|\\[nr])*[A-Za-z0-9+/=]{20,80})*)",
        "PRIVATE KEY",
    ),
    _shape(r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}(?![A-Za-z0-9+/=])", "AKIA", "ASIA", "ABIA", "ACCA"),
    _shape(r"gh[opsur]_[A-Za-z0-9]{36,255}", "ghp_", "gho_", "ghs_", "ghu_", "ghr_"),
    _shape(r"github_pat_[A-Za-z0-9_]{36,255}", "github_pat_"),
    _shape(r"gl(?:pat|ptt|dt|rt|rtr|soat|cbt|ft|agent|imt|oas)-[\w.-]{20,255}", "glpat-", "glptt-", "gldt-", "glrt-",
           "glrtr-", "glsoat-", "glcbt-", "glft-", "glagent-", "glimt-", "gloas-"),
    _shape(r"xox[abceoprs](?:\.xox[a-z])?-[A-Za-z0-9-]{10,255}", "xox"),
    _shape(r"xapp-\d-[A-Za-z0-9-]{20,255}", "xapp-"),
    _shape(r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9+/_-]{20,255})", "hooks.slack.com/"),
    _shape(r"/api/webhooks/(\d{10,25}/[\w-]{40,255})", "/api/webhooks/"),
    _shape(rf"{_alone('[sr]k_')}(?:live|test|prod)_[A-Za-z0-9]{{16,255}}", "sk_live_", "sk_test_", "sk_prod_",
           "rk_live_", "rk_test_", "rk_prod_"),
    _shape(r"whsec_[A-Za-z0-9+/=]{24,255}", "whsec_"),
    _shape(rf"{_alone('sk-')}[\w-]{{20,300}}", "sk-", check=is_random),
    _shape(r"AIza[\w-]{35}", "AIza"),
    _shape(r"GOCSPX-[\w-]{20,64}", "GOCSPX-"),
    _shape(r"ya29\.[\w-]{20,2000}", "ya29."),
    _shape(rf"{_alone('eyJ', 'A-Za-z0-9_-')}[\w-]{{5,4000}}\.[\w-]{{6,8000}}(?:\.[\w-]{{0,4000}})?", "eyJ"),
    _shape(r"(?:npm_|pul-|hf_|gsk_|r8_|sbp_|lin_api_|figd_|dckr_pat_|ntn_|glsa_|sntrys_|tfp_|rpa_)[\w-]{30,255}",
           "npm_", "pul-", "hf_", "gsk_", "r8_", "sbp_", "lin_api_", "figd_", "dckr_pat_", "ntn_", "glsa_", "sntrys_",
           "tfp_", "rpa_", check=is_random),
    _shape(r"(?:xai|pplx|nvapi|tvly|PMAK|NRAK|pypi)-[\w-]{24,255}", "xai-", "pplx-", "nvapi-", "tvly-", "PMAK-",
           "NRAK-", "pypi-", check=is_random),
    _shape(rf"{_alone('SG', 'A-Za-z0-9_-')}\.[\w-]{{16,64}}\.[\w-]{{16,128}}", "SG."),
    _shape(rf"{_alone('SK')}[0-9a-f]{{32}}(?![{_WORD}])", "SK"),
    _shape(r"do[opr]_v1_[a-f0-9]{64}", "dop_v1_", "doo_v1_", "dor_v1_"),
    _shape(r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}", "shpat_", "shpca_", "shppa_", "shpss_"),
    _shape(r"sq0[a-z]{3}-[\w-]{22,64}", "sq0"),
    _shape(rf"{_alone('dapi')}[a-f0-9]{{32}}", "dapi"),
    _shape(rf"{_alone('key-')}[0-9a-f]{{32}}(?![{_WORD}])", "key-"),
    _shape(r"hv[sbr]\.[\w-]{24,255}", "hvs.", "hvb.", "hvr."),
    _shape(r"AGE-SECRET-KEY-1[0-9A-Z]{58}", "AGE-SECRET-KEY-1"),
    _shape(r"dp\.(?:pt|st|ct|sa)\.[\w.-]{30,128}", "dp.pt.", "dp.st.", "dp.ct.", "dp.sa."),
    _shape(r"ATATT3[\w=-]{60,255}", "ATATT3"),
    _shape(rf"{_alone('LTAI')}[A-Za-z0-9]{{12,24}}(?![{_WORD}])", "LTAI", check=is_random),
    _shape(rf"{_alone('AKID')}[A-Za-z0-9]{{13,40}}(?![{_WORD}])", "AKID", check=is_random),
    _shape(r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}", "Q~"),
    _shape(r"(?<!\d)\d{8,10}:AA[\w-]{33}", ":AA"),
    _shape(r"\$2[abxy]\$\d\d\$[./A-Za-z0-9]{53}", "$2"),
    _shape(r"\$(?:argon2(?:id?|d)|scrypt|pbkdf2[\w-]{0,12}|[156])\$[\w./,=+$-]{20,255}", "$"),
    _shape(r"://[^\s/:@\"'<>]{0,100}:([^\s/?\"'<>\[]{1,256})@(?=[\w.\[-])", "://", check=_is_no_example),
    _shape(r"://([\w.-]{20,255})@", "://", check=is_random),
    _shape(r"(?:Bearer|bearer|BEARER)[ \t]{1,4}([\w.~+/=-]{8,4000})", "earer ", "EARER ",
           check=lambda text: any(map(str.isdigit, text)) and any(map(str.isalpha, text)) and len(set(text)) > 5),
    _shape(r"[Bb](?:asic|ASIC)[ \t]{1,4}([A-Za-z0-9+/]{8,400}={0,2})", "asic ", "ASIC ", check=_is_login),
    _shape(r"(?:sshpass -p|login \S{1,100} password) {0,2}[\"']?([^\s\"'\[]{3,256})", "sshpass -p", "login "),
    _shape(r"(?:[Mm]nemonic|[Ss]eed [Pp]hrase|[Rr]ecovery [Pp]hrase)[\"':= ]{1,8}"
           r"((?:[a-z]{3,8}[ ,]{1,2}){11,23}[a-z]{3,8})",
           "nemonic", "eed phrase", "eed Phrase", "ecovery phrase", "ecovery Phrase"),
    _shape(r"pbkdf2_\w{3,12}\$\d{1,8}\$[\w./+=$]{20,255}", "pbkdf2_"),
    _shape(r"(?:\s-u|--user)[ =]{1,2}[\"']?[\w.@+-]{1,64}:([^\s\"'\[]{3,256})", "-u ", "--user", check=_is_no_example),
)  # fmt: skip


_BY_LITERAL: Final = tuple((literal, shape) for shape in _SHAPES for literal in shape.literals)


def shaped_secrets(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each secret with a shape; they may overlap."""
    for shape in dict.fromkeys([shape for literal, shape in _BY_LITERAL if literal in text]):
        group = 1 if shape.pattern.groups else 0
        for match in shape.pattern.finditer(text):
            if shape.check(match[group]):
                yield match.span(group)
