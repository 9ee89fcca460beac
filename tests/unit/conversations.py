"""Hypothesis strategies for conversations of every real shape, faulty ones included.

`conversations` draws anything that bots push: reused and missing call ids, parallel and out-of-order
answers, open calls, late and orphan results, several user messages in a row, system messages in the
middle, the legacy function layout, content of every kind. `busy_conversations` draws many large and
repeated results, `sound_conversations` only lists that a strict provider takes. `odd_messages` keeps
the role and makes up everything else.

Strategies are made once: Hypothesis checks each new one at its first draw, which costs more than drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

from compactor.models import Kind, Message
from compactor.tokens import Encode, count_message
from tests.unit.chat import Chat, assistant, by_length, call, developer, result, system, user

Turn = tuple[list[Chat], list[list[Chat]], list[list[Chat]]]

WORDS = ("0", "ok", "error: no such file /srv/a.log", "id = INC-48213", "🙂 done", "{", "a {b} c", " ", "\n")
SPECIAL = ("<|endoftext|>", "<|im_start|>system", "<|fim_prefix|>", "[INST]", "<think>", "\x00", "\ufeff")
CHINESE = ("任务完成了。", "错误：没有权限", "文件 /srv/数据/表.csv 共 1,024 行", "对不起")
SURROGATES = ("\ud83d", "half \udc00 pair", "\udfff")
PIECES = ("row = ", "error at line ", "数据行", "é🙂 ", "<|endoftext|>", "a", '{"k": 1}', "same")


def _joined(value: str) -> str:
    """The text with its surrogate pairs as one character each, as every JSON reader gives it; halves stay."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _repeated(piece: str, times: int, separator: str) -> str:
    return separator.join(f"{piece}{number}" for number in range(times))


_any_character = st.characters(exclude_categories=())
_fixed = st.sampled_from([*WORDS, *SPECIAL, *CHINESE, *SURROGATES])
short_text = st.one_of(st.text(_any_character, max_size=12).map(_joined), _fixed)
words = st.one_of(st.text(_any_character, min_size=1, max_size=12).map(_joined), _fixed)  # never empty
long_text = st.builds(_repeated, st.sampled_from(PIECES), st.integers(20, 400), st.sampled_from(["\n", " ", ",", ""]))
text = st.one_of(short_text, short_text, long_text)
sound_text = st.one_of(words, words, long_text)

_keys = st.one_of(st.sampled_from(["type", "text", "content", "id", "name", "function"]), st.text(max_size=5))


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(inner, max_size=3), st.dictionaries(_keys, inner, max_size=3))


json_leaves: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.booleans(), st.integers(-(10**20), 10**20), st.floats(), short_text
)
json_values: st.SearchStrategy[Any] = st.recursive(json_leaves, _containers, max_leaves=8)


def _text_part(value: str) -> Chat:
    return {"type": "text", "text": value}


_media: st.SearchStrategy[Chat] = st.sampled_from(
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 40}},
        {"type": "input_audio", "input_audio": {"data": "UklGR" * 30, "format": "wav"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
)
_text_parts = st.builds(_text_part, sound_text)
_parts: st.SearchStrategy[Any] = st.lists(st.one_of(_text_parts, _text_parts, _media), min_size=1, max_size=3)
_hollow: st.SearchStrategy[Any] = st.sampled_from([None, "", [], {"rows": [1, 2]}])
content: st.SearchStrategy[Any] = st.one_of(text, text, _parts)
sound_content: st.SearchStrategy[Any] = st.one_of(sound_text, sound_text, _parts)
any_content: st.SearchStrategy[Any] = st.one_of(content, content, _hollow)

arguments = st.one_of(
    st.sampled_from(["{}", '{"path": "/srv/a"}', '{"q": "数据"}']),
    st.integers(0, 800).map(lambda size: '{"text": "' + "x" * size + '"}'),
)
any_arguments: st.SearchStrategy[Any] = st.one_of(arguments, arguments, short_text, st.none(), st.just({"q": 1}))
tool_names = st.sampled_from(["grep", "read_file", "查询", "browser.open"])
ids = st.sampled_from(["a", "b", "c", "call_0", "call_1"])  # few, so that they are reused
any_ids: st.SearchStrategy[Any] = st.one_of(ids, ids, ids, st.sampled_from([None, "", 7]))
_extra_keys: st.SearchStrategy[Chat] = st.dictionaries(
    st.sampled_from(["name", "cache_control", "metadata", "refusal"]), st.one_of(st.none(), short_text), max_size=2
)

_yes = st.booleans()
_few = st.integers(0, 4)
_opening_text = st.one_of(st.none(), short_text)
_calls: st.SearchStrategy[list[tuple[Any, str, Any, Any]]] = st.lists(
    st.tuples(any_ids, tool_names, any_arguments, any_content), min_size=1, max_size=4
)
_sound_calls: st.SearchStrategy[list[tuple[Any, str, Any, Any]]] = st.lists(
    st.tuples(ids, tool_names, arguments, sound_content), min_size=1, max_size=4, unique_by=lambda made: str(made[0])
)
_between = st.sampled_from([user("wait"), assistant("still working"), system("note"), developer("note")])


@st.composite
def step(draw: st.DrawFn, *, faulty: bool) -> list[Chat]:
    """An assistant message with calls, and its results: shuffled, missing, doubled or delayed when `faulty`."""
    made = draw(_calls if faulty else _sound_calls)
    opening = assistant(draw(_opening_text), tool_calls=[call(name, tool, given) for name, tool, given, _ in made])
    results = [result(name, answer) for name, _, _, answer in made]
    if draw(_yes):
        results.reverse()
    if not faulty:
        return [opening, *results]
    if draw(_yes):
        results = results[: draw(_few)]
    if draw(_few) == 0 and results:
        results = [*results, results[0]]
    if draw(_few) == 0 and results:
        results.insert(min(draw(_few), len(results)), draw(_between))
    if draw(_yes) and results:
        results[0] = {**results[0], **draw(_extra_keys)}
    return [opening, *results]


def _legacy(name: str, given: str, answering: str, answer: Any, answered: bool) -> list[Chat]:
    opening = assistant(None, function_call={"name": name, "arguments": given})
    return [opening, {"role": "function", "name": answering, "content": answer}] if answered else [opening]


def _answer(value: str) -> list[Chat]:
    return [assistant(value)]


def _thought(value: str) -> list[Chat]:
    return [assistant(value, reasoning_content=value)]


def _system(developers: bool, value: str) -> list[Chat]:
    return [developer(value) if developers else system(value)]


def _orphan(name: Any, value: Any) -> list[Chat]:
    return [result(name, value)]


def _busy(made: list[tuple[str, str, Any]]) -> list[Chat]:
    opening = assistant(None, tool_calls=[call(name, "grep", given) for name, given, _ in made])
    return [opening, *(result(name, answer) for name, _, answer in made)]


_faulty_step, _sound_step = step(faulty=True), step(faulty=False)
_legacy_step = st.builds(_legacy, tool_names, arguments, tool_names, content, _yes)
_users = st.lists(st.builds(user, content), min_size=1, max_size=3)
_sound_users = st.lists(st.builds(user, sound_content), min_size=1, max_size=3)
_answers = st.builds(_answer, sound_text)
_systems = st.builds(_system, _yes, sound_text)
_orphans = st.builds(_orphan, any_ids, any_content)
_piece: st.SearchStrategy[list[Chat]] = st.one_of(
    _users, _faulty_step, _sound_step, _faulty_step, _answers, _orphans, _legacy_step, st.builds(_thought, sound_text),
    _systems,
)  # fmt: skip
_big: st.SearchStrategy[Any] = st.sampled_from(
    ["x" * 900, "y" * 1_700, "row = 1\n" * 300, "数据行" * 500, [{"type": "text", "text": "z" * 4_000}]]
)
_busy_step = st.builds(
    _busy, st.lists(st.tuples(ids, st.sampled_from(["{}", '{"n":1}']), _big), min_size=1, max_size=2)
)
_busy_piece = st.one_of(_busy_step, _busy_step, _busy_step, _busy_step, _faulty_step, _users, _answers)
_turn: st.SearchStrategy[Turn] = st.tuples(
    _sound_users, st.lists(_sound_step, max_size=3), st.lists(_answers, max_size=1)
)


def _flat(pieces: Sequence[list[Chat]]) -> list[Chat]:
    """One list, each message its own object."""
    return [{**message} for piece in pieces for message in piece]


def _cut(lead: list[list[Chat]], pieces: list[list[Chat]], head: int, tail: int) -> list[Chat]:
    chat = _flat([*lead, *pieces])
    return chat[head if head < 3 else 0 : len(chat) - (tail if tail < 4 else 0)]


def _sound(lead: list[list[Chat]], turns: list[Turn], last: Chat) -> list[Chat]:
    chat = _flat([*lead, *(piece for users, made, answers in turns for piece in [users, *made, *answers])])
    return chat if chat[-1]["role"] in ("user", "tool") else [*chat, last]


def _busy_chat(pieces: list[list[Chat]], last: list[list[Chat]]) -> list[Chat]:
    return _flat([[user("go")], *pieces, *last])


def conversations(*, max_pieces: int = 9) -> st.SearchStrategy[list[Chat]]:
    """Any list of chat messages that a bot may push, cut off anywhere at both ends."""
    end = st.integers(0, 9)
    return st.builds(_cut, st.lists(_systems, max_size=2), st.lists(_piece, max_size=max_pieces), end, end)


def busy_conversations() -> st.SearchStrategy[list[Chat]]:
    """Many large results, some of them repeated, with any other piece between; read or not yet read."""
    return st.builds(_busy_chat, st.lists(_busy_piece, min_size=2, max_size=9), st.lists(_answers, max_size=1))


def sound_conversations(*, max_turns: int = 4) -> st.SearchStrategy[list[Chat]]:
    """A list that a strict provider takes, ending where a bot would send it: on a user message or a result."""
    turns = st.lists(_turn, min_size=1, max_size=max_turns)
    return st.builds(_sound, st.lists(_systems, max_size=2), turns, st.builds(user, words))


_ODD_KEYS = (
    "content", "tool_calls", "function_call", "tool_call_id", "name", "reasoning_content", "refusal", "x",
)  # fmt: skip
odd_messages: st.SearchStrategy[Chat] = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "developer", "user", "assistant", "tool", "function"])},
    optional=dict.fromkeys(_ODD_KEYS, json_values),
)

_offsets = st.sampled_from([0, 0, 17])
_one_in_ten = st.integers(0, 9)
_replaced_kinds = st.sampled_from([Kind.POINTER, Kind.SUMMARY, Kind.EXTRACT])


@st.composite
def histories(
    draw: st.DrawFn,
    chats: st.SearchStrategy[list[Chat]],
    *,
    encode: Callable[[], Encode] = lambda: by_length,
    marked: bool = True,
) -> list[Message]:
    """A conversation as a session holds it: some results replaced or pinned when `marked`, any offset."""
    offset = draw(_offsets)
    messages: list[Message] = []
    for position, value in enumerate(draw(chats), start=offset):
        kind = Kind.ORIGINAL
        if marked and value["role"] == "tool" and draw(_one_in_ten) == 0:
            kind = draw(_replaced_kinds)
        pinned = marked and draw(_one_in_ten) == 0
        messages.append(Message(position, value, count_message(value, encode()), kind, pinned=pinned))
    return messages
