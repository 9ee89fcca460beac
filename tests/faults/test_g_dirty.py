"""Section G, 7-10 and 12: values that JSON, UTF-8 or a full server are strict about."""

from __future__ import annotations

import json
import math
from typing import Any, Final

import pytest

from compactor import Code, Compactor, InvalidMessageError, ModelConfig, StoreUnavailableError
from compactor.embedded import EmbeddedServer
from compactor.encodings import encoder
from compactor.exceptions import ConfigurationError
from compactor.server_check import check_server, refuse_unsafe
from compactor.settings import Settings, read_settings
from compactor.store import Store
from compactor.testing import ModelServer, summary
from compactor.tokens import count_message
from tests.acceptance.conftest import Service
from tests.acceptance.scripted_model import requests_with
from tests.faults.windows import every_window
from tests.integration.conversations import SMALL, call, conversation, result, rows, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import bare, texts
from tests.unit.chat import Chat, assistant, calling, long_text
from tests.unit.chat import result as answering

WIDE: Final = ModelConfig("gpt-4o", 2_000)


def test_g07_an_object_of_the_sdk_is_stored_as_its_data(memory: Compactor, settings: Settings, raw: Any) -> None:
    pytest.importorskip("openai", reason="the OpenAI SDK is not installed: pip install 'compactor[worker]'")
    from openai.types.chat import ChatCompletionMessage

    value = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": FUNCTION}]}
    session = memory.session("g07", WIDE)
    session.push(ChatCompletionMessage.model_validate(value))
    assert [json.loads(row) for row in texts(raw, settings, "g07")] == [value]
    assert session.prepare().messages == [value]


FUNCTION: Final = {"name": "f", "arguments": "{}"}


@pytest.mark.parametrize("thing", [None, True, 1, "text", b"bytes", object(), [None], [[]], {1: 2}, iter(()), {"a"}])
def test_g07_what_is_no_message_is_refused_and_nothing_is_stored(thing: Any, memory: Compactor) -> None:
    session = memory.session("g07/not", WIDE)
    with pytest.raises(InvalidMessageError):
        session.push(thing)
    with pytest.raises(InvalidMessageError):
        session.push([user("fine"), {"role": "tool", "content": object()}])
    assert not session.status().exists


HALVES: Final = ("ok \ud83d", "\ude00 ok", "a\ud83d b\ud83d", "\ud83d\ude00 joined", "数据\ud83d", "\ud83d" * 3_000)


@pytest.mark.parametrize("text", HALVES, ids=range(len(HALVES)))
def test_g08_a_lone_surrogate_stops_nothing(text: str, memory: Compactor, worker: InlineWorker) -> None:
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    chat = [user(text), *(m for n in range(9) for m in (call(n), result(n, f"{text}\n{rows(n)}\n{text}")))]
    chat.append(assistant(text, name=text))
    session = memory.session("g08", SMALL)
    total = session.push(chat).total
    expected = json.loads(json.dumps(chat).replace(json.dumps(text)[1:-1], json.dumps(joined)[1:-1]))
    assert session.originals() == expected
    assert total == sum(count_message(message, encoder("o200k_base")) for message in expected)
    session.prepare()
    assert worker.work("g08").outcome.outcome is Code.APPLIED
    context = session.prepare()
    assert context.messages[0] == expected[0]
    assert session.originals() == expected
    for sent in every_window(chat, (0.1, 0.6)):
        assert sent.messages


@pytest.mark.parametrize("text", [pytest.param(text, id=str(n)) for n, text in enumerate(HALVES)])
def test_g08_a_list_with_a_lone_surrogate_is_known_again(text: str, memory: Compactor) -> None:
    chat: list[Chat] = [user(text), calling("a"), answering("a", {f"key{text}": text}), assistant(text), user("on")]
    session = memory.session("g08/list", WIDE)
    returned = session.prepare(chat).messages
    before = session.status()
    for sent in (chat, returned, chat[:3], returned[:3], chat[1:], returned[1:]):
        assert session.prepare(sent).messages == json.loads(json.dumps(sent)), "halves of a pair come back joined"
    after = session.status()
    assert (after.length, after.revision, after.archived) == (5, before.revision, 0)


def test_g08_the_summarizer_gets_a_replacement_character(modelled: Service, model: ModelServer) -> None:
    session = modelled.session("g08/model", SMALL)
    session.push([user("half \ud83d of the goal")])
    session.push([m for n in range(9) for m in (call(n), result(n, f"mark-g08 half \ud83d of \x00 it\n{rows(n)}"))])
    session.push(assistant("seen"))
    outcome = session.compact(wait=20)
    assert (outcome.outcome, outcome.by_model) == (Code.APPLIED, outcome.items)
    asked = [body["messages"][1]["content"] for body in requests_with(model, "mark-g08")]
    assert len(asked) == outcome.items
    assert all("half \ufffd of  it" in text and "half \ufffd of the goal" in text for text in asked)


def test_g08_no_half_character_gets_into_a_summary(modelled: Service, model: ModelServer) -> None:
    session = modelled.session("g08/reply", SMALL)
    session.push([*conversation(9)])
    model.script.extend([summary("It returned rows \ud83d.")] * 32)
    outcome = session.compact(wait=20)
    model.script.clear()
    assert outcome.outcome is Code.APPLIED
    for position in outcome.positions:
        session.prepare().messages[position]["content"].encode()


def test_g08_no_half_character_is_copied_into_an_extract(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("g08/extract", SMALL)
    chat = [m for n in range(9) for m in (call(n), result(n, f"error = half \ud83d of it\n{rows(n)}"))]
    session.push([user("go"), *chat, assistant("seen")])
    session.prepare()
    outcome = worker.work("g08/extract").outcome
    assert outcome.by_extract == outcome.items > 0
    for position in outcome.positions:
        session.prepare().messages[position]["content"].encode()


@pytest.mark.parametrize("text", ["a\x00b", "\x00", "\x00" * 3_000, "数据\x00"])
def test_g09_nul_is_kept_where_it_was_pushed(text: str, memory: Compactor, worker: InlineWorker) -> None:
    chat = [user(text), *(m for n in range(9) for m in (call(n), result(n, f"{text}\n{rows(n)}"))), assistant(text)]
    chat.append({"role": "user", "content": "x", f"key{text}": text})
    session = memory.session("g09", SMALL)
    session.push(chat)
    session.prepare()
    assert worker.work("g09").outcome.outcome is Code.APPLIED
    assert session.originals() == chat
    assert session.prepare().messages[0] == chat[0]


def structured(number: Any, mark: str) -> list[Chat]:
    """Nine steps whose results are objects that hold a number."""
    answers = [answering(f"call_{n}", {"n": number, "rows": f"{mark}\n{rows(n)}"}) for n in range(9)]
    return [message for n, answer in enumerate(answers) for message in (call(n), answer)]


NUMBERS: Final[dict[str, Any]] = {
    "NaN": math.nan,
    "Infinity": -math.inf,
    "10^400": 10**400,
    "a 64-bit border": [2**63, 2**64, -(2**63) - 1],
    "a tiny one": 5e-324,
    "deep nesting": {"a": [[[[[[{"b": [1, None, True, []]}]]]]]]},
}


@pytest.mark.parametrize("number", NUMBERS.values(), ids=NUMBERS.keys())
def test_g10_numbers_that_json_does_not_know_come_back_as_they_were(
    number: Any, memory: Compactor, worker: InlineWorker
) -> None:
    chat = [user("go"), *structured(number, ""), assistant("seen", metadata={"score": number})]
    session = memory.session("g10", SMALL)
    session.push(chat)
    session.prepare()
    assert worker.work("g10").outcome.outcome is Code.APPLIED
    assert json.dumps(session.originals()) == json.dumps(chat)
    assert json.dumps(session.prepare().messages[-1]) == json.dumps(chat[-1])


@pytest.mark.parametrize(("mark", "number"), [("nan", math.nan), ("inf", math.inf), ("large", 10**400)])
def test_g10_the_summarizer_gets_json_that_everybody_reads(
    mark: str, number: Any, modelled: Service, model: ModelServer
) -> None:
    mark = f"mark-g10-{mark}"
    session = modelled.session("g10", SMALL)
    session.push([*structured(number, mark), assistant("seen")])
    outcome = session.compact(wait=20)
    assert (outcome.outcome, outcome.by_model) == (Code.APPLIED, outcome.items)
    assert len(requests_with(model, mark)) == outcome.items


@pytest.mark.parametrize("depth", [100, 245])
def test_g10_what_is_taken_at_all_is_read_and_compacted(depth: int, memory: Compactor, worker: InlineWorker) -> None:
    nested: Any = {"rows": rows(1, 60)}
    for _ in range(depth):
        nested = [nested]
    chat: list[Chat] = [user("go")]
    for n in range(9):
        chat += [calling(f"c{n}"), answering(f"c{n}", {"n": n, "deep": nested})]
    chat.append(assistant("seen"))
    session = memory.session("g10/deep", SMALL)
    session.push(chat)
    session.prepare()
    assert worker.work("g10/deep").outcome.outcome is Code.APPLIED
    assert session.originals() == chat
    assert session.prepare(chat).replaced > 0


@pytest.mark.parametrize("depth", [260, 5_000])
def test_g10_what_no_reader_can_read_is_refused(depth: int, memory: Compactor) -> None:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    session = memory.session("g10/deep", WIDE)
    with pytest.raises(InvalidMessageError, match="nested deeper than 250"):
        session.push([user("fine"), answering("a", nested)])
    with pytest.raises(InvalidMessageError, match="more digits"):
        session.push({"role": "user", "content": 10**5_000})
    assert not session.status().exists


def test_g10_a_result_that_is_text_with_duplicate_keys_stays_text(memory: Compactor, worker: InlineWorker) -> None:
    twice = '{"id": 1, "id": 2, "rows": "' + long_text(900).replace("\n", " ") + '"}'
    chat: list[Chat] = [user("go")]
    for n in range(9):
        chat += [calling(f"c{n}"), answering(f"c{n}", f"{twice} {n}")]
    session = memory.session("g10/twice", SMALL)
    session.push([*chat, assistant("seen")])
    session.prepare()
    assert worker.work("g10/twice").outcome.outcome is Code.APPLIED
    assert session.originals() == [*chat, assistant("seen")]


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random", "volatile-lru", "volatile-lfu"])
def test_g12_a_server_that_evicts_is_refused_at_the_start(policy: str) -> None:
    with EmbeddedServer(extra=("--maxmemory-policy", policy)) as server:
        settings = read_settings(redis_url=server.url)
        with Store(settings) as store, pytest.raises(ConfigurationError, match=f"maxmemory-policy is {policy}"):
            refuse_unsafe(check_server(store, settings))


def test_g12_on_a_full_server_nothing_is_half_stored_and_the_old_history_stays(
    own_server: EmbeddedServer, own_settings: Settings
) -> None:
    with Compactor(settings=own_settings) as memory, bare(own_server) as server, Store(own_settings) as store:
        session = memory.session("g12", SMALL)
        session.push(conversation(9))
        session.prepare()
        worker = InlineWorker(own_settings, store)
        with pytest.raises(StoreUnavailableError, match="refused"):
            worker.work("g12", at="swapping", then=lambda: server.config_set("maxmemory", "1"))
        with pytest.raises(StoreUnavailableError, match="refused"):
            session.push([user("a"), user("b")])
        server.config_set("maxmemory", "0")
        assert session.originals() == conversation(9)
        assert session.push(user("a")).length == 22
        assert memory.session("g12", WIDE).prepare().messages == [*conversation(9), user("a")]
