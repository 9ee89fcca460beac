"""Section B: whatever a message holds is counted, by one definition, without an error and without a network."""

from __future__ import annotations

import base64
import json
import random
import socket
import warnings
from pathlib import Path
from typing import Any, Final, NoReturn

import pytest
from hypothesis import given, settings

from compactor import Code, Compactor, ConfigurationError, ModelConfig, VocabularyError, compact_messages, encodings
from compactor.budget import budget_for
from compactor.encodings import encoder, encoding_name
from compactor.models import Fit
from compactor.testing import ModelServer, summary
from compactor.tokens import PER_MEDIA, PER_MESSAGE, count_json, count_message
from tests.acceptance.conftest import Service
from tests.faults.windows import assert_sound, every_window
from tests.integration.conversations import SMALL, conversation, recount
from tests.integration.inline_worker import InlineWorker
from tests.unit.chat import Chat, assistant, call, calling, long_text, result, steps, system, user
from tests.unit.conversations import odd_messages, short_text
from tests.unit.summarizers import saying

ENCODINGS: Final = ("cl100k_base", "o200k_base")
SPECIAL: Final = (
    "what does <|endoftext|> do?", "<|fim_prefix|>a<|fim_suffix|>", "<|im_start|>system\nobey<|im_end|>",
    "<|endofprompt|>", "<|start|>assistant<|channel|>final", "[INST] <<SYS>>", "<s></s>", "<|endoftext|>" * 500,
)  # fmt: skip
ROOMY: Final = ModelConfig("gpt-4o", 128)


@pytest.mark.parametrize("text", SPECIAL)
@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4"])
def test_b01_special_tokens_are_counted_as_the_text_they_are(text: str, model: str, memory: Compactor) -> None:
    session = memory.session("b01", ModelConfig(model, 128))
    encode = encoder(encoding_name(model))
    places = [user(text), calling(call("a", text, text)), result("a", text), assistant("ok", reasoning_content=text)]
    receipt = session.push([system(text), *places])
    context = session.prepare(tools=[{"type": "function", "function": {"name": text}}], system=text)
    assert receipt.total == sum(count_message(message, encode) for message in context.messages[1:])
    assert receipt.total > 6 * encode(text)
    assert context.verdict.tools > encode(text)
    assert context.messages[1:] == [system(text), *places]
    assert encode(text) >= len(text) // 12, "never the one token that the text names"


@pytest.mark.parametrize("text", SPECIAL[:4])
def test_b02_special_tokens_in_a_summary_are_counted_the_same_way(text: str) -> None:
    chat = steps(5, tokens=900)
    saying_it = saying(f"It said {text}")
    done = compact_messages(chat, ROOMY, summarizer=saying_it, target_tokens=1_500, keep_recent_results=0)
    assert done.outcome.by_model == 5
    assert done.after == recount(done.messages) + 3
    assert done.before == recount(chat) + 3


def test_b02_a_session_goes_on_after_such_a_summary(modelled: Service, model: ModelServer) -> None:
    session = modelled.session("b02", SMALL)
    session.push(conversation(9))
    model.script.extend([summary("It printed <|endoftext|> and ended.")] * 32)
    outcome = session.compact(wait=20)
    model.script.clear()
    assert (outcome.outcome, outcome.by_model) == (Code.APPLIED, outcome.items)
    context = session.prepare()
    assert "<|endoftext|>" in context.messages[outcome.positions[0]]["content"]
    assert context.verdict.total == recount(context.messages) + 3 == outcome.after


ODD: Final[list[Chat]] = [
    calling(call("a", "f", None)),
    calling(call("a", "f", {"q": 1})),
    calling(call("a", "f", [1, None, {"x": []}])),
    calling({"id": 7, "function": {"name": None, "arguments": 3}}),
    assistant(None, tool_calls=None),
    assistant(None, tool_calls={"id": "a"}),
    assistant(None, tool_calls=[None, "call", {"function": None}, {"custom": {"input": "x"}}]),
    assistant(None, function_call="f"),
    result("a", None),
    result("a", {"rows": [{"id": 1}]}),
    result("a", ["text", 1, None, {"type": "text"}, {"type": None}, {"type": ["x"]}]),
    {"role": "tool"},
    {"role": "tool", "tool_call_id": {"id": 1}, "name": 5, "content": 1.5},
    user([{"type": "input_audio", "input_audio": {"data": "UklGR" * 99, "format": "wav"}}]),
    user([{"type": "never_seen", "payload": {"deep": [[[{}]]]}}]),
    user(False),
]


@pytest.mark.parametrize("message", ODD, ids=range(len(ODD)))
def test_b03_no_shape_of_a_message_stops_the_count(message: Chat, memory: Compactor) -> None:
    session = memory.session("b03", ROOMY)
    receipt = session.push(message)
    assert receipt.total == count_message(message, encoder("o200k_base")) >= PER_MESSAGE
    context = session.prepare(repair=False)
    assert context.messages == [message]
    assert context.verdict.total == receipt.total + 3
    assert session.push(user("go on")).length == 2


IDS: Final[list[Chat]] = [
    {"role": "tool", "tool_call_id": given, "content": "x"} for given in ([], ["a"], {"id": 1}, 7, True)
]


@pytest.mark.parametrize("message", [*ODD, *IDS], ids=lambda each: each.get("role", "none"))
def test_b03_no_shape_of_a_message_stops_a_send(message: Chat, memory: Compactor) -> None:
    pushed, listed = memory.session("b03/pushed", SMALL), memory.session("b03/listed", SMALL)
    chat = [user("go"), calling("a"), message, user("go on")]
    pushed.push(chat)
    for context in (pushed.prepare(), pushed.prepare(repair=True), listed.prepare(chat), listed.prepare(chat[:3])):
        assert context.verdict.sent == recount(context.messages) + 3
    pushed.close_open_calls()
    assert pushed.prepare().messages[-1]["role"] == "user"
    assert listed.originals() == chat


def test_b03_null_costs_nothing_and_structures_their_json() -> None:
    encode = encoder("o200k_base")
    assert count_message(result("a", None), encode) == count_message({"role": "tool", "tool_call_id": "a"}, encode)
    rows = {"rows": [{"id": 1}]}
    assert count_message(result("a", rows), encode) == count_message(result("a", '{"rows":[{"id":1}]}'), encode)
    as_object, as_text = calling(call("a", "f", {"q": 1})), calling(call("a", "f", '{"q":1}'))
    assert count_message(as_object, encode) == count_message(as_text, encode)
    assert count_message(calling(call("a", "f", None)), encode) < count_message(as_text, encode)


LARGE: Final[dict[str, Chat]] = {
    "arguments": calling(call("a", "write", long_text(4_000))),
    "arguments as an object": calling(call("a", "write", {"text": long_text(4_000)})),
    "legacy arguments": assistant(None, function_call={"name": "f", "arguments": long_text(4_000)}),
    "custom input": assistant(None, tool_calls=[{"id": "a", "type": "custom", "custom": {"input": long_text(4_000)}}]),
    "structured result": result("a", {"rows": [long_text(4_000)]}),
    "parts": result("a", [{"type": "text", "text": long_text(4_000)}]),
    "an unknown part": user([{"type": "search_result", "body": long_text(4_000)}]),
    "an Anthropic result": user([{"type": "tool_result", "tool_use_id": "a", "content": long_text(4_000)}]),
    "thoughts": assistant("ok", reasoning_content=long_text(4_000)),
    "a name": user("x") | {"name": long_text(4_000)},
}


@pytest.mark.parametrize("message", LARGE.values(), ids=LARGE.keys())
def test_b04_what_a_call_or_a_structure_holds_is_counted(message: Chat, memory: Compactor) -> None:
    assert memory.session("b04", ROOMY).push(message).total > 3_500


@settings(max_examples=100)
@given(odd_messages, short_text.filter(bool))
def test_b05_more_text_is_never_fewer_tokens(message: Chat, text: str) -> None:
    encode = encoder("o200k_base")
    plain, parts = user(text), user([{"type": "text", "text": text}])
    assert count_message(plain, encode) == count_message(parts, encode) > PER_MESSAGE
    more = {**message, "refusal": None, "name": f"{text} and more"}
    assert count_message(more, encode) > count_message({**message, "refusal": None, "name": None}, encode)


def test_b06_system_tools_and_response_format_are_part_of_the_estimate(memory: Compactor) -> None:
    encode = encoder("o200k_base")
    tools = [{"type": "function", "function": {"name": f"t{n}", "description": long_text(1_000)}} for n in range(8)]
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"description": long_text(500)}}}
    session = memory.session("b06", ModelConfig("gpt-4o", 16))
    session.push(user("hi"))
    alone = session.estimate()
    assert alone.total < 20
    full = session.estimate(tools=tools, system=long_text(5_000), response_format=form)
    assert full.tools == count_json(tools, encode) + count_json(form, encode) > 8_000
    assert full.system == 3 + count_message(system(long_text(5_000)), encode)
    assert full.total == full.system + full.history + full.tools
    assert full.over_threshold
    context = session.prepare(tools=tools, system=long_text(5_000), response_format=form)
    assert (context.verdict.total, context.verdict.compaction) == (full.total, "queued")


def test_b06_a_request_that_its_fixed_part_fills_is_called_impossible(memory: Compactor) -> None:
    session = memory.session("b06/full", ModelConfig("gpt-4o", 16))
    session.push(user("hi"))
    context = session.prepare(system=long_text(16_000))
    assert (context.verdict.fit, context.messages[1:]) == (Fit.IMPOSSIBLE, [user("hi")])


def test_b07_results_not_sent_yet_are_in_the_estimate(memory: Compactor) -> None:
    session = memory.session("b07", SMALL)
    session.push([user("go"), calling("a", "b")])
    session.prepare()
    before = session.estimate().total
    pending = [result("a", long_text(3_000)), result("b", long_text(4_000))]
    assert session.push(pending).over_threshold
    assert session.estimate().total == before + recount(pending)
    assert session.prepare().verdict.compaction == "queued"


def test_b08_a_compaction_that_worked_is_not_followed_by_another(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("b08", SMALL)
    session.push(conversation(9))
    assert session.prepare().verdict.compaction == "queued"
    after = worker.work("b08").outcome.after
    for verdict in (session.estimate(), session.prepare().verdict, session.prepare().verdict):
        assert (verdict.total, verdict.compaction) == (after, "not_needed")
    assert session.compact().outcome is Code.BELOW_THRESHOLD
    assert len(session.compactions()) == 1


SCRIPTS: Final = {
    "Chinese": "错误：没有权限访问该文件夹，请联系管理员。" * 2,
    "Korean": "안녕하세요 " * 20,
    "Japanese": "こんにちは世界" * 9,
    "Hindi": "मौसम अच्छा है " * 9,
    "emoji": "🙂" * 40,
}


@pytest.mark.parametrize("text", SCRIPTS.values(), ids=SCRIPTS.keys())
def test_b09_every_script_is_counted_in_the_encoding_of_its_model(text: str, memory: Compactor) -> None:
    counts = {name: memory.session(f"b09/{name}", ModelConfig(name, 128)).push(user(text)).total for name in MODELS}
    assert counts == {name: recount([user(text)], encoding) for name, encoding in MODELS.items()}
    assert counts["gpt-4"] >= counts["gpt-4o"] > len(text) // 4


MODELS: Final = {"gpt-4": "cl100k_base", "gpt-4o": "o200k_base"}
URL: Final = "data:image/png;base64,"
PICTURES: Final[dict[str, Chat]] = {
    "image_url": {"type": "image_url", "image_url": {"url": URL + "x" * 400_000}},
    "image_url as text": {"type": "image_url", "image_url": URL + "x" * 400_000},
    "input_image": {"type": "input_image", "image_url": URL + "x" * 400_000},
    "image": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "x" * 400_000}},
    "malformed": {"type": "image_url", "image_url": {"url": "data:;base64,%%%" + "x" * 400_000}},
    "audio": {"type": "input_audio", "input_audio": {"data": "x" * 400_000, "format": "wav"}},
    "file": {"type": "file", "file": {"file_data": "x" * 400_000}},
}


@pytest.mark.parametrize("picture", PICTURES.values(), ids=PICTURES.keys())
def test_b10_a_picture_has_a_price_and_is_never_read_as_text(picture: Chat, memory: Compactor) -> None:
    question = user([{"type": "text", "text": "what is this?"}, picture])
    session = memory.session("b10", SMALL)
    assert session.push(question).total == recount([user("what is this?")]) + PER_MEDIA
    context = session.prepare()
    assert (context.verdict.compaction, context.verdict.fit) == ("not_needed", Fit.FITS)
    assert context.messages == [question]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_b11_base64_in_plain_text_is_counted_as_the_text_it_is(encoding: str) -> None:
    noise = base64.b64encode(random.Random(11).randbytes(150_000)).decode()
    count = count_message(result("a", f"dump: {noise}"), encoder(encoding))
    assert 0.5 < count / len(noise) < 1.0
    assert count_message(result("a", "data:image/png;base64," + noise), encoder(encoding)) > count * 0.99


@pytest.mark.parametrize("char", [" ", "a", "\n", "数", "\x00"])
def test_b11_a_million_of_one_character_is_counted(char: str, memory: Compactor) -> None:
    session = memory.session("b11", SMALL)
    receipt = session.push([user("go"), calling("a"), result("a", char * 1_000_000)])
    assert receipt.total > 1_000_000 / 256
    assert session.prepare().verdict.sent <= 7_000


STRUCTURED: Final[list[Any]] = [
    {"rows": [{"id": n, "text": f"row {n}"} for n in range(2_000)]},
    [{"type": "text", "text": "x" * 9_000}, {"type": "json", "rows": list(range(2_000))}],
    [{"type": "image_url", "image_url": {"url": "data:no base64,;;"}}, {"type": "text", "text": long_text(3_000)}],
]


@pytest.mark.parametrize("content", STRUCTURED, ids=["object", "parts", "malformed data URL"])
def test_b12_structures_are_replaced_as_a_whole_never_cut_as_json(content: Any) -> None:
    arguments = '{"text": "' + "x" * 9_000 + '"}'
    chat = [user("go"), calling(call("a", "f", arguments)), result("a", content), assistant("ok"), user("on")]
    chat += [calling(call("b", "f", arguments)), result("b", content)]
    for sent in every_window(chat):
        assert_sound(chat, sent)
        for message in sent.messages:
            if message.get("tool_calls"):
                sent_with = message["tool_calls"][0]["function"]["arguments"]
                assert sent_with == arguments or set(json.loads(sent_with)) == {"text"}, sent.how
            if message["role"] == "tool" and message["content"] != content:
                parts = message["content"] if isinstance(message["content"], list) else [message["content"]]
                assert isinstance(content, list) is isinstance(message["content"], list), sent.how
                assert all(isinstance(part, str) or set(part) == {"type", "text"} for part in parts), sent.how


NAMES: Final = {
    "deepseek-chat": "o200k_base", "qwen3.8:27b": "o200k_base", "my-azure-deployment": "o200k_base",
    "openai/gpt-4o": "o200k_base", "GPT-4o": "o200k_base", "gpt-35-turbo": "cl100k_base", "o3-mini": "o200k_base",
    "claude-sonnet-4-5": "o200k_base", "模型": "o200k_base", "a/b/c/gpt-4": "cl100k_base",
}  # fmt: skip


@pytest.mark.parametrize(("name", "encoding"), NAMES.items())
def test_b13_any_model_name_is_counted(name: str, encoding: str, memory: Compactor) -> None:
    encoding_name.cache_clear()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        totals = [memory.session("b13", ModelConfig(name, 128)).push(user("hello")).total for _ in range(2)]
    assert totals[0] == recount([user("hello")], encoding)
    assert len(told) <= 1
    configured = memory.session("b13/set", ModelConfig(name, 128, encoding="cl100k_base")).push(user("数据"))
    assert configured.total == recount([user("数据")], "cl100k_base")


@pytest.mark.parametrize("name", ["", "  ", None, 4])
def test_b13_a_model_without_a_name_is_refused_at_once(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="model: expected"):
        ModelConfig(name, 128)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_b14_the_first_count_needs_no_network(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> NoReturn:
        raise AssertionError("the network was asked")

    for name in ("getaddrinfo", "create_connection"):
        monkeypatch.setattr(socket, name, refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "/nowhere")
    monkeypatch.setattr(encodings, "_loaded", {})
    assert encoder(encoding)("hello world") == 2


def test_b15_before_and_after_are_counts_of_what_is_really_sent(modelless: Service) -> None:
    session = modelless.session("b15", SMALL)
    session.push(conversation(9))
    before = session.estimate()
    assert before.total == recount(conversation(9)) + 3
    outcome = session.compact(wait=20)
    context = session.prepare()
    assert (outcome.before, outcome.after) == (before.total, recount(context.messages) + 3)
    assert outcome.saved == before.total - context.verdict.total > 0
    assert session.status().totals["o200k_base"] + 3 == context.verdict.sent == outcome.after
    assert session.compactions() == [outcome]


@pytest.mark.parametrize("limit", [0, -8, 128_000, 1.5, True, "128000", "128 tokens", "", None, float("nan")])
def test_b16_a_window_in_the_wrong_unit_is_refused(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"context_limit: .*K tokens"):
        ModelConfig("gpt-4o", limit)


def test_b16_the_ceiling_leaves_a_margin_below_the_window() -> None:
    for strategy in ("conservative", "balanced", "aggressive"):
        budget = budget_for(ModelConfig("gpt-4o", 16, strategy), fixed=0)
        assert budget.threshold < budget.ceiling <= 0.925 * budget.limit
    exact = budget_for(ModelConfig("gpt-3.5-turbo", context_limit_tokens=16_385), fixed=0)
    assert exact.limit == 16_385


def test_b17_the_room_for_the_answer_is_kept_free(memory: Compactor) -> None:
    budget = budget_for(ModelConfig("gpt-4o", context_limit_tokens=1_048_576, max_output_tokens=64_000), fixed=0)
    assert budget.threshold <= budget.ceiling == 1_048_576 - 64_000 < 993_726
    session = memory.session("b17", SMALL)
    session.push(conversation(7))
    plain, reserved = session.prepare(), session.prepare(max_output_tokens=3_000)
    assert plain.verdict.fit is Fit.FITS
    assert (reserved.verdict.fit, reserved.verdict.ceiling) == (Fit.SHORTENED, 5_000)
    assert reserved.verdict.sent == recount(reserved.messages) + 3 <= 5_000


def test_b18_a_count_that_fails_is_an_error_and_never_an_uncounted_list(
    memory: Compactor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = memory.session("b18", SMALL)

    def nowhere(_package: str) -> Path:
        return tmp_path

    monkeypatch.setattr(encodings, "files", nowhere)
    monkeypatch.setattr(encodings, "_loaded", {})
    for attempt in (
        lambda: session.push(conversation(9)),
        session.prepare,
        lambda: compact_messages(conversation(9), SMALL),
    ):
        with pytest.raises(VocabularyError, match="missing or damaged"):
            attempt()
    monkeypatch.undo()
    assert not session.status().exists
    assert session.push(conversation(9)).over_threshold
