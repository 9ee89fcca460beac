"""One user message and 200 tool steps behind it: the example's loop, with a worker, a cheap model and the SDK."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openai import OpenAI

from compactor import Code, ModelConfig
from compactor.agent_loop import LoopGuard, Stop, StopReason
from compactor.testing import ModelServer
from compactor.validity import faults
from tests.acceptance.conftest import Service
from tests.integration.conversations import recount

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "agent_loop.py"
WINDOW = ModelConfig("gpt-4o", context_limit=16)
QUESTION = "Are all hosts all right? 主机都正常吗？"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agent_loop_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def agent() -> Iterator[ModelServer]:
    """The agent's model; what it answers is the test's."""
    with ModelServer() as running:
        yield running


@pytest.fixture
def client(agent: ModelServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=agent.url, api_key="none", max_retries=0) as opened:
        yield opened


def test_a_turn_of_200_tool_steps_is_compacted_while_it_runs(
    example: ModuleType, agent: ModelServer, client: OpenAI, modelled: Service
) -> None:
    session = modelled.session("loop/long", WINDOW)
    agent.answer = example.diligent()
    guard, sent = LoopGuard(max_iterations=200), list[int]()
    assert example.run_agent(client, session, QUESTION, guard, sent) == "All hosts look healthy."
    assert guard.steps == 200
    ceiling = session.estimate().ceiling
    assert len(agent.requests) == len(sent) == 201
    for request, counted in zip(agent.requests, sent, strict=True):
        messages: list[Any] = request["messages"]
        assert messages[1] == {"role": "user", "content": QUESTION}, "the user's words go out as they were pushed"
        assert counted <= ceiling
        assert recount(messages) <= counted
        assert not faults(messages)
    applied = [run for run in session.compactions() if run.outcome is Code.APPLIED]
    assert len(applied) >= 3
    assert all(run.by_model + run.by_fold == run.items > 0 for run in applied)
    originals = session.originals()
    assert json.dumps(originals[0]) == json.dumps({"role": "user", "content": QUESTION})
    assert originals[2::2][:200] == [
        {"role": "tool", "tool_call_id": f"call_{host}", "content": example.read_log(host)} for host in range(200)
    ]
    replaced = {position for run in applied for position in run.positions}
    assert named(live(modelled, session)) >= replaced, "each original is named where it stood, or by the fold it is in"


def named(messages: list[Any]) -> set[int]:
    """The positions whose originals the messages name."""
    found: set[int] = set()
    for message in messages:
        for first, last in re.findall(r"originals?: m(\d+)(?:-(\d+))?", str(message["content"])):
            found |= set(range(int(first), int(last or first) + 1))
    return found


def live(service: Service, session: Any) -> list[Any]:
    """The stored history whole, whatever its window."""
    wide = ModelConfig("gpt-4o", context_limit=2_000)
    name = session._flows._reader.session
    return list(service.memory.session(name, wide).prepare().messages)


def test_a_runaway_model_is_stopped_and_its_history_stays_valid(
    example: ModuleType, agent: ModelServer, client: OpenAI, modelless: Service
) -> None:
    session = modelless.session("loop/runaway", WINDOW)
    agent.answer = example.runaway()
    stop = example.run_agent(client, session, "Is host-7 all right?", LoopGuard(), [])
    assert isinstance(stop, Stop)
    assert (stop.reason, stop.steps) == (StopReason.REPEATED_CALL, 4)
    assert len(agent.requests) == 5
    context = session.prepare()
    assert not context.verdict.problems
    assert not faults(context.messages)
    assert context.messages[-2:] == list(stop.messages)
