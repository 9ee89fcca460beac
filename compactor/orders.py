"""Sentences of a tool's output that speak to whoever reads it: they are no data, and an extract leaves them out.

Such sentences are rare, so a text is searched for literal words first, of which one stands in whatever
the patterns find: that is thirty times faster than the patterns, which see the lines with such a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import product
from typing import Final

ORDER: Final = re.compile(
    r"(?i)\b(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules?|guidelines|directions)\b"
    r"|\b(?:you are now|from now on|new instructions?)\b"
    r"|\bsystem (?:prompt|message|override)\b"
    r"|\b(?:do not|don't|never) (?:tell|inform|mention|reveal)\b"
    r"|\b(?:assistant|ai|agent|llm|model)s?\s*(?::|,? (?:must|should|please))"
    r"|\bplease (?:call|run|send|transfer|delete|execute|reply|respond)\b|\b(?:as|to) the (?:assistant|ai)\b"
    r"|</?(?:system|instructions?|admin)\b|\[/?INST\]|<\|im_(?:start|end)\|>|^\W*(?:system|developer|user)\s*:"
    r"|(?:忽略|无视|忘记).{0,12}(?:指令|指示|提示|规则)|从现在起|系统(?:提示|消息|指令)"
)
# What a message of failure may say as well.
DUTY: Final = re.compile(
    r"(?i)\byou (?:must|should|have to|need to)\b|(?:你|您)(?:现在|必须|应该|需要)"
    r"|请(?:立即|马上|调用|执行|发送|删除|转账)"
)
# Each stands in lower case; one of them is part of whatever ORDER or DUTY finds in a line with single spaces.
STEMS: Final = (
    "ignore", "disregard", "forget", "override", "you are now", "from now on", "new instruction", "system prompt",
    "system message", "do not tell", "do not inform", "do not mention", "do not reveal", "don't tell", "don't inform",
    "don't mention", "don't reveal", "never tell", "never inform", "never mention", "never reveal", "please call",
    "please run", "please send", "please transfer", "please delete", "please execute", "please reply",
    "please respond", "assistant", "agent", "llm", "model", "the ai", "<system", "</system", "<instruction",
    "</instruction", "<admin", "</admin", "inst]", "<|im_", "忽略", "无视", "忘记", "从现在起", "系统提示", "系统消息",
    "系统指令", "you must", "you should", "you have to", "you need to", "你", "您", "请",
    *(f"{name}{behind}" for name, behind in product(
        ("ai", "ais"), (":", " :", " must", " should", " please", ", must", ", should", ", please")
    )),
    *(f"{name}{behind}" for name, behind in product(("system", "developer", "user"), (":", " :"))),
)  # fmt: skip


def order_stems(text: str) -> tuple[str, ...]:
    """Words of a text that may belong to an order; when there are none, no line of it is one."""
    low = " ".join(text.lower().split())
    return tuple(stem for stem in STEMS if stem in low)


def is_order(line: str, stems: Iterable[str] = STEMS, *, excused: re.Pattern[str] | None = None) -> bool:
    """Whether a line with single spaces speaks to its reader; `stems` are those of its text.

    A line in which `excused` finds anything may say what must be done.
    """
    low = line.lower()
    if not any(stem in low for stem in stems):
        return False
    if ORDER.search(line) is not None:
        return True
    return DUTY.search(line) is not None and (excused is None or excused.search(line) is None)
