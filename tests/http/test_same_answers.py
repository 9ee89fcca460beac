"""Whatever is done to a session over HTTP: the same answers as from the library, and the same session behind them."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from typing import Any, Final

import pytest

from compactor import CompactorError, ModelConfig
from compactor.client import Session
from compactor.http.answers import shown, written
from compactor.http.problems import Problem, problem_of
from compactor.json_values import is_array, is_object
from tests.http.service import Answer, Bot, Service

CONFIG: Final[dict[str, Any]] = {"model": "gpt-4o", "context_limit_tokens": 400, "context_strategy": "aggressive"}
MOVING: Final = {"revision", "expires_in", "at", "id", "claim", "until", "compaction", "updated", "created"}
STEPS: Final = 40


class Both:
    """One session twice: over HTTP and in the library; every step is taken in both."""

    def __init__(self, service: Service, bot: Bot, tenant: str, seed: int) -> None:
        self.random, self.bot, self.service, self.tenant = random.Random(seed), bot, service, tenant
        self.name, self.pushed, self.forks = f"over-{uuid.uuid4().hex[:6]}", 0, 0
        self.session: Session = self._session(f"lib-{uuid.uuid4().hex[:6]}")

    def _session(self, name: str) -> Session:
        return self.service.memory.session(f"{self.tenant}/{name}", ModelConfig(**CONFIG))

    def same(self, method: str, path: str, body: Any, call: Callable[[], Any]) -> None:
        answer = self.bot.call(method, f"/v1/sessions/{self.name}{path}", body)
        alike(answer, 201 if path == "/fork" else 200, call)

    def message(self) -> Any:
        number, words = self.pushed, "word " * self.random.choice([1, 5, 60])
        call = {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": f'{{"n": {number}}}'}}
        self.pushed += 1
        return self.random.choice([
            {"role": "user", "content": f"{number} {words}"},
            {"role": "assistant", "content": f"{number} {words}"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number - 1}", "content": f"{number} {words}"},
            {"role": "user", "content": [{"type": "text", "text": f"{number} {words}"}]},
            {"role": "user"}, {"role": "nobody", "content": "x"}, {"role": "user", "content": 5}, {},
        ])  # fmt: skip

    def step(self) -> None:
        getattr(self, self.random.choice(STEP_NAMES))()

    def push(self) -> None:
        messages = [self.message() for _ in range(self.random.choice([1, 1, 3]))]
        cut, key = self.random.choice([None, 100, True]), self.random.choice([None, "again"])
        answer = self.bot.post(
            f"/v1/sessions/{self.name}/messages",
            {"messages": messages, "limit_result": cut, "config": CONFIG},
            **({"Idempotency-Key": key} if key else {}),
        )
        alike(answer, 200, lambda: shown(self.session.push(messages, key, cut)))

    def prepare(self) -> None:
        given: dict[str, Any] = {
            "system": self.random.choice([None, "Short.", "Now {{now}}"]),
            "repair": self.random.choice([None, True, False]),
            "tool_text": self.random.choice([False, False, True]),
        }
        self.same("POST", "/prepare", given | {"config": CONFIG}, lambda: sent(self.session.prepare(**given)))

    def own_list(self) -> None:
        rows = [message for message in (self.message() for _ in range(self.random.choice([1, 4]))) if message]
        kept = [] if self.random.random() < 0.3 else self.session.originals()
        body = {"messages": [*kept, *rows], "config": CONFIG}
        if self.random.random() < 0.5:
            self.same("POST", "/sync", body, lambda: shown(self.session.sync([*kept, *rows])))
        else:
            self.same("POST", "/prepare", body, lambda: sent(self.session.prepare([*kept, *rows])))

    def estimate(self) -> None:
        given: dict[str, Any] = {"system": "{{a}}!", "variables": {"a": self.random.choice(["x", 5, None, ["y"]])}}
        self.same("POST", "/estimate", given | {"config": CONFIG}, lambda: shown(self.session.estimate(**given)))

    def recall(self) -> None:
        name = f"m{self.random.randrange(self.pushed + 2)}"
        self.same("GET", f"/recall/{name}", None, lambda: {"message": self.session.recall(name)})

    def rewind(self) -> None:
        place = self.random.randrange(self.pushed + 2)
        self.same("POST", "/rewind", {"position": place}, lambda: {"left": self.session.rewind(place)})

    def fork(self) -> None:
        self.forks += 1
        new, place = f"fork-{self.forks}-{uuid.uuid4().hex[:4]}", self.random.choice([None, 0, self.pushed // 2])
        self.same(
            "POST", "/fork", {"new_name": new, "at": place},
            lambda: [self.session.fork(f"{self.tenant}/{new}-lib", place), {"name": new}][1],
        )  # fmt: skip

    def close(self) -> None:
        self.same("POST", "/close-open-calls", {"config": CONFIG}, lambda: shown(self.session.close_open_calls()))

    def undo(self) -> None:
        self.same("POST", "/undo", {}, lambda: shown(self.session.undo()))

    def pin(self) -> None:
        what: int | str = self.random.choice(["m0", "m1", "build", f"m{self.pushed + 9}"])
        self.same("POST", "/pins", {"what": what}, lambda: shown(self.session.pin(what)))
        self.same("GET", "/pins", None, lambda: shown(self.session.pins()))

    def release(self) -> None:
        self.same("POST", "/release", {"what": ["m0", "m1"]}, lambda: {"released": self.session.release(["m0", "m1"])})

    def clear(self) -> None:
        if self.random.random() < 0.3:
            self.same("POST", "/clear", None, lambda: {"messages": self.session.clear()})

    def erase(self) -> None:
        if self.random.random() < 0.2:
            self.same("DELETE", "", None, lambda: shown(self.session.erase()))

    def originals(self) -> None:
        self.same("GET", "/originals", None, lambda: {"messages": self.session.originals()})


STEP_NAMES: Final = (
    *("push",) * 4, "prepare", "prepare", "own_list", "own_list", "estimate", "recall", "rewind", "fork", "close",
    "undo", "release", "clear", "erase", "originals",
)  # fmt: skip


def alike(answer: Answer, status: int, call: Callable[[], Any]) -> None:
    """The answer is what the library answers, or the problem that tells of its error."""
    expected: Any
    try:
        expected = still(json.loads(written(call())))
    except CompactorError as error:
        expected = problem_of(error)
    if isinstance(expected, Problem):
        answer.problem(expected.status_code, expected.code)
    else:
        assert still(answer.good(status)) == expected


def sent(context: Any) -> Any:
    told = {name: getattr(context, name) for name in ("messages", "system", "replaced", "left_out")}
    return told | {"verdict": shown(context.verdict)}


def still(value: Any) -> Any:
    """An answer without times, names and the place in the queue."""
    if is_object(value):
        return {name: still(inner) for name, inner in value.items() if name not in MOVING}
    return [still(inner) for inner in value] if is_array(value) else value


@pytest.mark.parametrize("seed", range(6))
def test_the_same_steps_are_answered_alike(service: Service, bot: Bot, tenant: str, seed: int) -> None:
    both = Both(service, bot, tenant, seed)
    for _ in range(STEPS):
        both.step()
    both.originals()
