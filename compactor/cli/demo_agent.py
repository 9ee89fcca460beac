"""The demo's agent: one long session, driven as any bot drives it: push, prepare, push."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from compactor.claims import Claim
from compactor.cli.demo_script import SYSTEM, Script, Step, look_back, turns
from compactor.cli.demo_tools import TOOLS, schemas
from compactor.client import Session
from compactor.formats.openai import text_of
from compactor.models import Code, Context, Fit, Outcome
from compactor.records import write_json
from compactor.tokens import PER_REQUEST, Encode, count_message
from compactor.validity import added_faults

KEPT_ROLES: Final = ("system", "developer", "user")
SETTLE: Final = 15.0  # seconds for a compaction that still runs at the end
_IN_FLIGHT: Final = (Claim.QUEUED, Claim.RUNNING)
_HOPELESS: Final = ("unauthorized", "not_found", "misconfigured")


@dataclass(frozen=True, slots=True)
class Send:
    """What one model call would have got, in tokens.

    `stored`: the whole history as it stands with what is sent beside it; `sent`: the list prepared
    from it; `raw`: the same conversation without Compactor.
    """

    number: int
    doing: str
    sent: int
    stored: int
    raw: int
    limit: int
    compaction: str
    fit: Fit
    replaced: int

    @property
    def percent(self) -> float:
        """The list sent, in percent of the window."""
        return round(100 * self.sent / self.limit, 1)


class Watcher(Protocol):
    """Hears what happens, as it happens."""

    def sent(self, send: Send) -> None:
        """A send was prepared."""
        ...

    def queued(self, send: Send) -> None:
        """The send crossed the threshold and queued a compaction."""
        ...

    def ended(self, outcome: Outcome, send: Send) -> None:
        """A compaction ended; the send is the first that saw it."""
        ...


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds the agent pauses at each send, where a real one waits for its model."""

    step: float
    in_flight: float


@dataclass(slots=True)
class Agent:
    """Runs the script's turns, and keeps what it pushed to compare with afterwards."""

    session: Session
    encode: Encode
    watch: Watcher
    pace: Pace
    until: float  # monotonic seconds
    pushed: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    outcomes: list[Outcome] = field(default_factory=list[Outcome])
    sends: list[Send] = field(default_factory=list[Send])
    faults: Counter[str] = field(default_factory=Counter[str])
    changed: int = 0
    ceiling: int = 0
    raw: int = 0
    tools: list[dict[str, Any]] = field(default_factory=schemas)
    _kept: set[bytes] = field(default_factory=set[bytes])
    _in_flight: bool = False
    _context: Context | None = None

    @property
    def applied(self) -> int:
        """Compactions that changed the history."""
        return sum(outcome.outcome is Code.APPLIED for outcome in self.outcomes)

    def work(self, goal: int) -> None:
        """Turn after turn until `goal` compactions were applied, then one that looks back."""
        self._push({"role": "system", "content": SYSTEM})
        for question, script in turns():
            if self.applied >= goal or self._must_stop():
                break
            self._turn(question, script)
        if shortened := self._first_shortened():
            self._turn(*look_back(*shortened))
        self._settle()

    def _must_stop(self) -> bool:
        hopeless = any(outcome.reason in _HOPELESS for outcome in self.outcomes)
        return hopeless or time.monotonic() > self.until

    def _turn(self, question: str, script: Script) -> None:
        self._push({"role": "user", "content": question})
        answer = "I stop here."
        try:
            step = next(script)
            while not self._must_stop():
                step = script.send(self._step(step))
        except StopIteration as end:
            answer = str(end.value)
        self._send("answers")
        self._push({"role": "assistant", "content": answer})

    def _step(self, step: Step) -> list[str]:
        self._send(", ".join(f"{name} {' '.join(map(str, arguments.values()))}" for name, arguments in step.calls))
        calls = [
            {
                "id": f"call_{len(self.pushed)}_{order}",
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for order, (name, arguments) in enumerate(step.calls)
        ]
        self._push({"role": "assistant", "content": step.thought, "tool_calls": calls})
        results: list[str] = []
        for call, (name, arguments) in zip(calls, step.calls, strict=True):
            results.append(self._tool(name, arguments))
            self._push({"role": "tool", "tool_call_id": call["id"], "content": results[-1]})
        return results

    def _tool(self, name: str, arguments: dict[str, Any]) -> str:
        if name == "recall":
            return text_of(self.session.recall(arguments["id"]))
        try:
            return TOOLS[name](**arguments)
        except OSError as error:
            return f"error: {type(error).__name__}"

    def _push(self, message: dict[str, Any]) -> None:
        self.session.push(message)
        self.pushed.append(message)
        self.raw += count_message(message, self.encode)
        if message["role"] in KEPT_ROLES:
            self._kept.add(write_json(message)[0])

    def _send(self, doing: str) -> None:
        """Prepares one send, judges the list, tells the watcher, and pauses as a model would."""
        context = self.session.prepare(tools=self.tools)
        seen = context.verdict
        beside = seen.tools + PER_REQUEST
        send = Send(
            number=len(self.sends) + 1,
            doing=doing,
            sent=seen.sent,
            stored=seen.expected,
            raw=self.raw + beside,
            limit=seen.limit,
            compaction=seen.compaction,
            fit=seen.fit,
            replaced=context.replaced,
        )
        self.ceiling = seen.ceiling
        self._judge(context)
        self._tell(send)
        self._context = context
        time.sleep(self.pace.in_flight if self._in_flight else self.pace.step)

    def _judge(self, context: Context) -> None:
        """Compares the prepared list with what was pushed."""
        self.faults += added_faults(self.pushed, context.messages)
        self.faults["over_ceiling"] += context.verdict.sent > context.verdict.ceiling
        shown = [message for message in context.messages if message["role"] in KEPT_ROLES]
        self.changed += sum(write_json(message)[0] not in self._kept for message in shown)

    def _tell(self, send: Send) -> None:
        was_in_flight, self._in_flight = self._in_flight, send.compaction in _IN_FLIGHT
        swapped = bool(self.sends) and send.replaced != self.sends[-1].replaced
        self.sends.append(send)
        if swapped or (was_in_flight and not self._in_flight):
            self._tell_outcomes(send)
        self.watch.sent(send)
        if self._in_flight and (swapped or not was_in_flight):
            self.watch.queued(send)

    def _tell_outcomes(self, send: Send) -> None:
        for outcome in self.session.compactions()[len(self.outcomes) :]:
            self.outcomes.append(outcome)
            self.watch.ended(outcome, send)

    def _first_shortened(self) -> tuple[str, str] | None:
        """The oldest output that the context holds in a shortened form: the call, and its recall id."""
        named: dict[str, str] = {}
        for message in self._context.messages if self._context else []:
            for call in message.get("tool_calls", []):
                named[call["id"]] = f"{call['function']['name']} {call['function']['arguments']}"
            found = re.match(r"\[.*: (m\d+)\]", str(message.get("content"))) if message["role"] == "tool" else None
            if found and message["tool_call_id"] in named:
                return named[message["tool_call_id"]], found[1]
        return None

    def _settle(self) -> None:
        """Lets a compaction end that still runs."""
        until = time.monotonic() + SETTLE
        while self.session.status().claim in _IN_FLIGHT and time.monotonic() < until:
            time.sleep(0.05)
        self._tell_outcomes(self.sends[-1])
