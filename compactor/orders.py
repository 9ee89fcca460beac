"""Sentences of a tool's output that speak to whoever reads it: they are no data, and an extract leaves them out.

Such sentences are rare, so a text is searched for literal words first, of which one stands in whatever
the patterns find: that is many times faster than the patterns, which see the lines with such a word alone.
"""

from __future__ import annotations

import re
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
# Words in lower case, and the longer ones that are meant: one is part of whatever ORDER or DUTY finds in a line
# with single spaces.
STEMS: Final = {
    **dict.fromkeys((
        "ignore", "disregard", "forget", "override", "you are now", "from now on", "do not ", "don't ", "never ",
        "please", " must", " should", "you have to", "you need to", "inst]", "<|im_", "忽略", "无视", "忘记",
        "从现在起", "你", "您", "请",
    )),
    "系统": ("系统提示", "系统消息", "系统指令"),
    "instruction": ("<instruction", "</instruction", "new instruction"),
    "admin": ("<admin", "</admin"),
    "system": ("<system", "</system", "system:", "system :", "system prompt", "system message"),
    "developer": ("developer:", "developer :"),
    "user": ("user:", "user :"),
    "assistant": ("the assistant", "assistant:", "assistant :", "assistants:", "assistants :"),
    "ai": ("the ai", "ai:", "ai :", "ais:", "ais :"),
    "agent": ("agent:", "agent :", "agents:", "agents :"),
    "model": ("model:", "model :", "models:", "models :"),
    "llm": ("llm:", "llm :", "llms:", "llms :"),
}  # fmt: skip


def is_order(line: str, *, excused: re.Pattern[str] | None = None) -> bool:
    """Whether a line with single spaces speaks to its reader; one in which `excused` finds anything may name duties."""
    if ORDER.search(line) is not None:
        return True
    return DUTY.search(line) is not None and (excused is None or excused.search(line) is None)
