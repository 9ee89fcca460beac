"""Unit costs of sessions, turns and compactions, measured on servers of this process's own."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from compactor.cli.fleet_sizes import Costs
from compactor.client import Compactor, Session
from compactor.commands.command import session_keys
from compactor.compaction import Tools, run_compaction
from compactor.drafts import unheard
from compactor.embedded import EmbeddedServer
from compactor.encodings import encoder
from compactor.exceptions import SummarizerError
from compactor.model_config import ModelConfig
from compactor.models import Code, CompactionId, Outcome, SessionId
from compactor.prompts import Summary, SummaryRequest
from compactor.settings import Settings, read_settings
from compactor.store import Store
from compactor.tokens import Encode

CONFIG: Final = ModelConfig("gpt-4o", 16)  # threshold 12,000, ceiling 14,000 tokens
_NAMESPACE: Final = "fleet"
_SAVED: Final = "The tool returned source code; nothing in it failed. " * 6
Text = Callable[[int], str]


@dataclass
class _Spent:
    """What one kind of work took: CPU of server and client in seconds, commands, bytes, how often."""

    server: float = 0.0
    client: float = 0.0
    commands: int = 0
    network: int = 0
    times: int = 0


@dataclass
class _Stage:
    store: Store
    memory: Compactor
    settings: Settings
    turns: _Spent = field(default_factory=_Spent)
    compactions: _Spent = field(default_factory=_Spent)
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    calls: int = 0

    @contextmanager
    def measured(self, spent: _Spent, times: int) -> Generator[None]:
        before, began = _server(self.store), time.process_time()
        yield
        spent.client += time.process_time() - began
        after = _server(self.store)
        spent.server += after[0] - before[0]
        spent.commands += int(after[1] - before[1]) - 2  # its own two questions
        spent.network += int(after[2] - before[2])
        spent.times += times

    def summarize(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,
        deadline: float,
        done: Callable[[int, Summary | SummarizerError], None],
        arrived: Callable[[int, Summary | SummarizerError], None] = unheard,
    ) -> list[Summary | SummarizerError]:
        """Stands in for the model: answers at once, so that what is measured is ours."""
        del encode, deadline
        self.calls += len(requests)
        answers: list[Summary | SummarizerError] = [Summary(_SAVED, "model") for _ in requests]
        for index, answer in enumerate(answers):
            arrived(index, answer)
            done(index, answer)
        return answers


def measure(sessions: int, turns: int, text: Text) -> Costs:
    """Lets so many sessions take so many turns, a user's word, a tool call with its result and an answer each.

    `text(size)` gives text of that many characters. The queue is on a server of its own.
    """
    with EmbeddedServer() as server, EmbeddedServer() as broker:
        settings = read_settings(redis_url=server.url, broker_url=broker.url, namespace=_NAMESPACE)
        with Store(settings) as store, Compactor(settings=settings) as memory:
            stage = _Stage(store, memory, settings)
            opened = [memory.session(f"t{order % 7}/{order}", CONFIG) for order in range(sessions)]
            for turn in range(turns):
                _take_turns(stage, opened, turn, text)
                _compact(stage, len(opened))
            live, archive = _stored(store, len(opened))
            tokens = sum(session.estimate().total for session in opened)
        return _costs(stage, sessions, sessions * turns, live=live, archive=archive, tokens=tokens)


def _take_turns(stage: _Stage, sessions: Sequence[Session], turn: int, text: Text) -> None:
    spoken = [_turn(turn, order, text) for order in range(len(sessions))]
    with stage.measured(stage.turns, len(sessions)):
        for session, (question, call, result, answer) in zip(sessions, spoken, strict=True):
            session.push(question)
            session.prepare()
            session.push([call, result])
            session.prepare()
            session.push(answer)


def _turn(turn: int, order: int, text: Text) -> tuple[dict[str, Any], ...]:
    name = f"call_{turn}"
    function = {"name": "read_file", "arguments": json.dumps({"path": f"src/module_{order}_{turn}.py"})}
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": name, "type": "function", "function": function}],
    }
    source = text(5_000 + 997 * ((order + turn) % 3))
    return (
        {"role": "user", "content": f"What does module {turn} of part {order} do, and who calls it?"},
        call,
        {"role": "tool", "tool_call_id": name, "content": f"# {order} {turn}\n{source}"},
        {"role": "assistant", "content": text(400)},
    )


def _compact(stage: _Stage, sessions: int) -> None:
    tools = Tools(stage.store, encoder, stage.summarize, time.monotonic, time.time, model="model")
    for order in range(sessions):
        name = SessionId(f"t{order % 7}/{order}")
        keys = session_keys(_NAMESPACE, name)
        owner = stage.store.client.hmget(keys.state, "claim", "owner")
        if owner[0] != b"queued":
            continue
        with stage.measured(stage.compactions, 1):
            ended = run_compaction(keys, CompactionId(owner[1].decode()), tools, lambda _phase, _text: None)
        if ended.outcome.outcome is Code.APPLIED:
            stage.outcomes.append(ended.outcome)


def _stored(store: Store, sessions: int) -> tuple[float, float]:
    """Bytes of a session without its archive, and of its archive; answers kept for an hour are in neither."""
    live = archive = 0
    for order in range(sessions):
        keys = session_keys(_NAMESPACE, SessionId(f"t{order % 7}/{order}"))
        for key in keys.all:
            size = store.client.memory_usage(key, samples=0) or 0
            live, archive = (live, archive + size) if key == keys.archive else (live + size, archive)
    return live / sessions, archive / sessions


def _server(store: Store) -> tuple[float, float, float]:
    """CPU seconds of the server, commands it processed, bytes that came and went."""
    stats, cpu = store.client.info("stats"), store.client.info("cpu")
    used = cpu["used_cpu_user"] + cpu["used_cpu_sys"]
    return used, stats["total_commands_processed"], stats["total_net_input_bytes"] + stats["total_net_output_bytes"]


def _costs(stage: _Stage, sessions: int, turns: int, *, live: float, archive: float, tokens: int) -> Costs:
    freed = sum(outcome.saved for outcome in stage.outcomes)
    compactions = max(1, stage.compactions.times)
    return Costs(
        redis_turn=stage.turns.server / turns,
        redis_compaction=stage.compactions.server / compactions,
        bot_turn=stage.turns.client / turns,
        worker_compaction=stage.compactions.client / compactions,
        commands_turn=stage.turns.commands / turns,
        network_turn=stage.turns.network / turns,
        session_bytes=live,
        archive_turn=archive * sessions / turns,
        turn_tokens=(tokens + freed) / turns,
        freed_tokens=freed / max(1, len(stage.outcomes)),
        calls_compaction=stage.calls / compactions,
    )
