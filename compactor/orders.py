"""Sentences of a tool's output that speak to whoever reads it: they are no data, and an extract leaves them out.

Such sentences are rare, so a text is searched for literal words first, of which one stands in whatever
the patterns find: that is many times faster than the patterns, which see the lines with such a word alone,
in lower case.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

# What begins at a word's edge stands in one group: everywhere else it is one look that fails.
ORDER: Final = re.compile(
    r"\b(?:(?:ignore|disregard|forget|override)\b.{0,40}\b(?:instructions?|prompts?|rules?|guidelines|directions)\b"
    r"|(?:you are now|from now on|new instructions?)\b"
    r"|system (?:prompt|message|override)\b"
    r"|(?:do not|don't|never) (?:tell|inform|mention|reveal)\b"
    r"|(?:assistant|ai|agent|llm|model)s?\s*(?::|,? (?:must|should|please))"
    r"|(?:hey|dear|hello|attention) (?:claude|gemini|copilot|(?:chat)?gpt|(?:chat)?bot|assistant|agent|model|ai)\b"
    r"|(?:ai|language) (?:agent|assistant|model)s?\b"
    r"|please (?:call|run|send|transfer|delete|execute|reply|respond)\b|(?:as|to) the (?:assistant|ai)\b"
    r"|your (?:\w+ )?(?:task|job|goal|mission|role) (?:is|are)\b|next steps?:|pretend (?:that|to)\b"
    r"|(?:agent|assistant|bot|reader) (?:\S+ ){0,4}(?:has|needs|have|is|are) to\b"
    r"|(?:authori[sz]|want|need|requir|expect|ask|order|instruct|command|urg)(?:e|s|es|ed|ing)? you to\b"
    r"|(?:ensure|essential|important|imperative|crucial|necessary|required|sure) (?:that )?you\b"
    r"|(?:before|when|whenever|once|after) you (?:can|have|answer|reply|respond|go|do|read|continue|finish)\b"
    r"|if you are (?:an?|the) |(?:do|complete|perform) the following\b|following (?:instruction|command)s?\b)"
    r"|^\W*(?:claude|gemini|copilot|chatgpt|chatbot|assistant|agent)\s*,"
    r"|</?(?:system|instructions?|admin|information|tool_(?:result|response|call))\b|\[/?inst\]|<\|im_(?:start|end)\|>"
    r"|^\W*(?:system|developer|user|instructions?)\s*:|(?:^|\W)human\s*:"
    r"|(?:忽略|无视|忘记).{0,12}(?:指令|指示|提示|规则)|从现在(?:起|开始)|系统(?:提示|消息|指令)"
    r"|(?:助手|智能体|机器人|模型)\s*(?:注意|请|必须|应当?)|作为.{0,6}助手|用户(?:已|已经)?(?:同意|授权|要求|希望|想要)"
    r"|所有(?:的)?(?:回答|回复|输出)|看到(?:这|此|本).{0,8}[后时]"
)
_VERBS: Final = (
    "send", "forward", "email", "transfer", "pay", "refund", "delete", "overwrite", "remove", "run", "execute",
    "invoke", "call", "open", "visit", "click", "download", "upload", "post", "share", "export", "reveal", "respond",
    "reply", "install", "grant", "cancel", "submit", "enter", "book", "switch", "mark",
    "print", "charge", "drop", "rotate", "retry",
)  # fmt: skip
_OBJECT: Final = (
    r"(?:the|an?|all|any|every|each|this|that|these|those|your|my|his|her|their|our|its?|them|him|me|us|to|with|only"
    r"|back|curl|wget|sudo|bash|rm|order|account|\w+ (?:to|at|with|into))\b"
    r"|[`$€/~]|\d[\d,.]* ?(?:eur|usd|dollars?)\b|https?:|\w+_\w"
)
# A sentence that begins with what to do, and to what.
COMMAND: Final = re.compile(
    rf"(?:^\W{{0,4}}|[.!?;:|,\"'>)\]] ?|\b(?:please|kindly|then|and|now|first|instead|immediately|must|should|to) )"
    rf"(?:{'|'.join(_VERBS)}) (?:{_OBJECT})"
    r"|(?:请|务必|立即|马上|立刻|直接|先).{0,6}"
    r"(?:执行|运行|调用|打开|访问|点击|删除|发送|发给|转账|转发|上传|导出|输入|回复|安装)"
    r"|(?:把|将).{1,30}(?:发送|发给|发到|转发|上传|导出|泄露|转给|发至|提现|[到至给] ?(?:https?:|[\w.]+@))"
    r"|给.{1,24}(?:转账|汇款|付款)"
    r"|执行(?:以下|下列|下面)|必须(?:执行|运行|调用|删除|发送|转账|上传|导出)|新任务是|不要告诉|一律用"
)
# What a message of failure may say as well.
DUTY: Final = re.compile(
    r"\byou (?:must|should|have to|need to)\b|(?:你|您)(?:现在|必须|应该|需要)"
    r"|请(?:立即|马上|调用|执行|发送|删除|转账)"
)
_CHINESE: Final = (
    "忽略", "无视", "忘记", "从现在", "助手", "智能体", "机器人", "模型", "用户", "所有", "看到", "系统提示",
    "系统消息", "系统指令", "你", "您", "请",
)  # fmt: skip
_CHINESE_COMMANDS: Final = (
    "请", "务必", "立即", "马上", "立刻", "直接", "先", "把", "将", "给", "执行", "必须", "新任务是", "不要告诉",
    "一律用",
)  # fmt: skip
_GREETINGS: Final = ("hey", "dear", "hello", "attention")
# Words in lower case, and the longer texts that are meant: in a line with single spaces one of these is part of
# whatever ORDER or DUTY finds, and its word stands alone among letters.
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    **{word: (word,) for word in ("ignore", "disregard", "forget", "override", "please", "pretend", "claude", "gemini",
                                  "copilot", "gpt", "chatgpt", "chatbot")},
    **{word: (f"do not {word}", f"don't {word}", f"never {word}") for word in ("tell", "inform", "mention", "reveal")},
    **{word: (f"{word} ai",) for word in _GREETINGS},
    "now": ("from now on", "you are now"),
    "must": (" must",), "should": (" should",),
    "inst": ("inst]",), "im": ("<|im_",),
    "step": ("next step:",), "steps": ("next steps:",),
    "instruction": ("<instruction", "</instruction", "new instruction", "instruction:", "instruction :",
                    "following instruction"),
    "instructions": ("<instructions", "</instructions", "new instructions", "instructions:", "instructions :",
                     "following instructions"),
    "tool": ("<tool_", "</tool_"),
    "human": ("human:", "human :"),
    "command": ("following command",), "commands": ("following commands",),
    "following": ("do the following", "complete the following", "perform the following"),
    "information": ("<information", "</information"),
    "admin": ("<admin", "</admin"),
    "system": ("<system", "</system", "system:", "system :", "system prompt", "system message", "system override"),
    "developer": ("developer:", "developer :"),
    "user": ("user:", "user :"),
    "your": ("your ",),
    "you": (
        " you to", " you are", "you are ", "you have", "you need", "you can", "you answer", "you reply", "you respond",
        "you go", "you do", "you read", "you continue", "you finish", "ensure you", "sure you", "that you",
        "essential you", "important you", "imperative you", "crucial you", "necessary you", "required you",
    ),
    "assistant": (
        "the assistant", "assistant:", "assistant :", "assistant,", "assistant ", "ai assistant", "language assistant",
        *(f"{word} assistant" for word in _GREETINGS),
    ),
    "assistants": ("assistants:", "assistants :", "ai assistants", "language assistants"),
    "ai": ("ai:",), "ais": ("ais:", "ais :"),
    "agent": (
        "agent:", "agent :", "agent,", "agent ", "ai agent", "language agent", *(f"{word} agent" for word in _GREETINGS)
    ),
    "agents": ("agents:", "agents :", "ai agents", "language agents"),
    "bot": ("bot ", *(f"{word} bot" for word in _GREETINGS)),
    "reader": ("reader ",),
    "model": ("model:", "model :", "language model", "ai model", *(f"{word} model" for word in _GREETINGS)),
    "models": ("models:", "models :", "language models", "ai models"),
    "llm": ("llm:", "llm :"), "llms": ("llms:", "llms :"),
}  # fmt: skip
_SHORT: Final = ("the ai", "ai :")  # their word is too short to be one of a text's words
_COMMANDS: Final = {verb: (f"{verb} ",) for verb in _VERBS}
# Runs of letters in lower case, and the texts of which a line holds one where its run makes it an order.
ORDER_STEMS: Final = {
    word: (*_WORDS.get(word, ()), *_COMMANDS.get(word, ())) for word in _WORDS.keys() | _COMMANDS.keys()
}
_SPOKEN: Final = (*(stem for stems in _WORDS.values() for stem in stems), *_SHORT, *_CHINESE)
_ASKED: Final = (*(stem for stems in _COMMANDS.values() for stem in stems), *_CHINESE_COMMANDS)
_CHINESE_STEMS: Final = tuple({*_CHINESE, *_CHINESE_COMMANDS})
_WORD: Final = re.compile(r"[\"'(*<>/\w]{0,3}[^\W\d_]+(?:['’-][^\W\d_]+)*[\"'),.:;!?*>]{0,3}")
# Two patterns, each of them linear: in one, every letter of a long run would look for the end.
_CJK_END: Final = re.compile(r"[\u3400-\u9fff].{0,3}[。！；]\W*$")
_CJK_TWO: Final = re.compile(r"[\u3400-\u9fff].*?[\u3400-\u9fff]")
_SENTENCE_WORDS: Final = 6
_WORDS_SHARE: Final = 0.6  # of what stands between its spaces


def is_sentence(line: str) -> bool:
    """Whether a line is a sentence that somebody wrote: the form that orders in no known words take."""
    if _CJK_END.search(line) is not None and _CJK_TWO.search(line) is not None:
        return True
    parts = line.split()
    if len(parts) < _SENTENCE_WORDS or line.rstrip("\"')*> ")[-1:] not in (".", "!", "?"):
        return False
    return sum(1 for part in parts if _WORD.fullmatch(part)) >= _WORDS_SHARE * len(parts)


def may_be_order(low: str, stems: Iterable[str]) -> bool:
    """Whether a line in lower case can be an order at all; `stems` are those of all its words of ASCII letters."""
    if any(map(low.__contains__, stems)) or any(map(low.__contains__, _SHORT)):
        return True
    return not low.isascii() and any(map(low.__contains__, _CHINESE_STEMS))


def is_order(line: str, *, excused: re.Pattern[str] | None = None) -> bool:
    """Whether a line with single spaces speaks to its reader; one in which `excused` finds anything may name duties."""
    low = line.lower()
    spoken = any(map(low.__contains__, _SPOKEN))
    if spoken and ORDER.search(low) is not None:
        return True
    commands = any(map(low.__contains__, _ASKED)) and COMMAND.search(low) is not None
    if not commands and not (spoken and DUTY.search(low) is not None):
        return False
    return excused is None or excused.search(line) is None or (commands and is_sentence(line))
