"""Drives a session's flow by hand: each command is answered with what a test scripted for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from compactor.commands.command import Command
from compactor.commands.prepare import Prepared
from compactor.commands.push import Pushed
from compactor.commands.read import Load, State, Stored
from compactor.commands.turns import Turn, Turns
from compactor.effects import Compute, Effect, Flow, Pause, Publish, Run
from compactor.histories import LockedCache, LruHistories, UnconfirmedOperations
from compactor.json_values import is_array
from compactor.model_config import ModelConfig
from compactor.models import CompactionId, Message, Revision, session_id
from compactor.reader import Surroundings
from compactor.records import ENCODINGS, Record, encode_message
from compactor.session import SessionFlows
from compactor.settings import read_settings
from compactor.tokens import count_message
from tests.unit.chat import Chat, by_length, steps, user

T = TypeVar("T")
O200K = "o200k_base"
CONFIG = ModelConfig("gpt-4o", 4, encoding=O200K)  # threshold 3,000, ceiling 3,500
NAME = session_id("tenant/chat-1")
OWN_TURN, MISSING = object(), object()
USUAL = {
    "publish": None,
    "turns": OWN_TURN,
    "is_waiting": False,
}  # the answers to what goes well unless a test says otherwise
OVER: list[Chat] = [*steps(6, tokens=1_000), user("next")]  # over the ceiling of CONFIG


class Clock:
    """A time that only tests move, in seconds."""

    def __init__(self) -> None:
        self.time = 1_000.0

    def __call__(self) -> float:
        return self.time


@dataclass
class Script:
    """Answers by command (script name, or the first plain read); an exception as an answer is raised in the flow.

    A list gives one answer a time, anything else the same each time.
    """

    answers: dict[str, Any]
    clock: Clock
    ran: list[str] = field(default_factory=list[str])
    commands: list[Command[Any]] = field(default_factory=list[Command[Any]])
    published: list[str] = field(default_factory=list[str])
    pauses: list[float] = field(default_factory=list[float])
    heavy: list[bool] = field(default_factory=list[bool])

    def answer(self, effect: Effect) -> Any:
        match effect:
            case Run(command):
                self.commands.append(command)
                given = self._scripted(name_of(command))
                if given is OWN_TURN:
                    given = turns_at_once(command)
                if isinstance(given, Prepared) and given.claimed and not given.owner:
                    given = replace(given, owner=CompactionId(str(args_of(command)[0])))  # the caller's own claim
                if "prepare" not in (command.script, command.then and command.then[0]) or isinstance(given, Exception):
                    return given
                return self._scripted("sync") if command.then else None, given
            case Publish(session, owner):
                assert session == NAME
                self.published.append(owner)
                return self._scripted("publish")
            case Pause(seconds):
                self.clock.time += seconds
                self.pauses.append(seconds)
                return None
            case Compute(work, heavy):
                self.heavy.append(heavy)
                return work()

    def _scripted(self, name: str) -> Any:
        before = self.ran.count(name)
        self.ran.append(name)
        given = self.answers.get(name, USUAL.get(name, MISSING))
        assert given is not MISSING, f"no answer is scripted for {name}"
        return given[before] if is_array(given) else given


def name_of(command: Command[Any]) -> str:
    """The script's name, of two the last one's; plain reads go by what they are for."""
    if command.then is not None:
        return command.then[0]
    if command.script is not None:
        return command.script
    kinds = " ".join(str(read[0]) for read in command.reads)
    names = {
        "HGETALL LRANGE": "history",
        "HGETALL LRANGE HGETALL": "archived",
        "HMGET LRANGE HGETALL": "rows",
        "LRANGE": "audit",
        "ZSCORE": "is_waiting",
    }
    if kinds == "HMGET":
        return "state" if "owner" in command.reads[0] else "load"
    return names.get(kinds, "status")


def turns_at_once(command: Command[Any]) -> Turns:
    """A tenant alone: who lines up is published at once, and nobody waits."""
    verb, _, owner, _ = args_of(command)[-4:]
    return Turns(0, (Turn(NAME, CompactionId(str(owner))),) if verb == "join" else ())


def args_of(command: Command[Any]) -> tuple[Any, ...]:
    """The arguments of a command's last script."""
    return command.args if command.then is None else command.then[1]


def drive(flow: Flow[T], script: Script) -> T:
    """Runs a flow to its answer."""
    try:
        effect = next(flow)
        while True:
            answer = script.answer(effect)
            effect = flow.throw(answer) if isinstance(answer, Exception) else flow.send(answer)
    except StopIteration as stop:
        value: T = stop.value
        return value


def sent(flow: Flow[T], script: Script) -> Flow[T]:
    """Runs a flow until its first command was sent and not yet answered."""
    effect = next(flow)
    while True:
        answer = script.answer(effect)
        if script.commands:
            return flow
        effect = flow.send(answer)


class Bot:
    """One process with one session, and the time it lives in."""

    def __init__(self, config: ModelConfig = CONFIG, **settings: Any) -> None:
        self.clock = Clock()
        self.histories = LruHistories(10**7)
        self.surroundings = Surroundings(
            settings=read_settings(namespace="test", **settings),
            histories=self.histories,
            encoding_name=lambda _model, configured: configured or O200K,
            encoder=lambda _name: by_length,
            clock=self.clock,
            counted=LockedCache(8),
            unconfirmed=UnconfirmedOperations(self.clock),
            encodings=LockedCache(8),
            now=self.clock,
        )
        self.flows = SessionFlows(self.surroundings, NAME, config)

    def script(self, **answers: Any) -> Script:
        return Script(answers, self.clock)

    def run(self, flow: Callable[[SessionFlows], Flow[T]], script: Script) -> T:
        return drive(flow(self.flows), script)


def record(message: Chat, **changes: Any) -> Record:
    encoded = encode_message(message, max_bytes=10**7)
    tokens = count_message(message, by_length)
    values: dict[str, Any] = {
        "flags": encoded.flags, "kind": Message(0, {}, 0).kind, "tokens": (tokens,) * len(ENCODINGS), "pushed_ms": 1,
        "own": encoded.own, "shown": encoded.own, "chain": b"c" * 16, "text": encoded.text, **changes,
    }  # fmt: skip
    return Record(**values)


def records(chat: Sequence[Chat]) -> tuple[Record, ...]:
    return tuple(record(message) for message in chat)


def pushed(**changes: Any) -> Pushed:
    values: dict[str, Any] = {"total": 10, "length": 1, "first": 0, "over": False, "behind": False, **changes}
    return Pushed(**values)


def prepared(chat: Sequence[Chat], **changes: Any) -> Prepared:
    """The answer to a first prepare of this conversation."""
    rows = records(chat)
    values: dict[str, Any] = {
        "version": 1, "offset": 0, "length": len(rows), "lead": 0, "claim": "idle", "claimed": False,
        "total": sum(count_message(message, by_length) for message in chat), "held": "", "owner": "",
        "queued_seconds": 0.0, "whole": False, "changed": {}, "tail": rows, **changes,
    }  # fmt: skip
    return Prepared(**values)


def load(**changes: Any) -> Load:
    values: dict[str, Any] = {
        "length": 1, "total": 10, "lead_tokens": 0, "claim": "idle", "held": "", **changes,
    }  # fmt: skip
    return Load(**values)


def state(**changes: Any) -> State:
    values: dict[str, Any] = {
        "revision": Revision(1), "offset": 0, "length": 1, "lead": 0, "totals": {}, "claim": "idle", "owner": "",
        "until_ms": 0, "held": "", "last": {}, **changes,
    }  # fmt: skip
    return State(**values)


def stored(chat: Sequence[Chat], **changes: Any) -> Stored:
    rows = records(chat)
    return Stored(state(length=len(rows), **changes), rows)
