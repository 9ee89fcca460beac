"""A replay on a simulated clock: swaps land as late as a model would make them, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from compactor import Code, Compactor, ModelConfig
from compactor.budget import Budget
from compactor.cli.player import Played, early, play
from compactor.cli.recordings import Recording, joined
from compactor.cli.replay_tables import broken, total_of
from compactor.cli.simulated_worker import Pace
from compactor.models import Outcome
from compactor.settings import Settings
from compactor.store import Store

WINDOW = ModelConfig("gpt-4o", 8, "balanced")


def searches(steps: int) -> dict[str, Any]:
    """One task of many searches, about 450 tokens each."""
    messages: list[Any] = [{"role": "user", "content": "Where are the values defined?"}]
    for order in range(steps):
        function = {"name": "grep", "arguments": json.dumps({"query": f"value_{order}"})}
        call = {"id": f"call_{order}", "type": "function", "function": function}
        found = "\n".join(f"src/file{order}_{line}.py:{line * 7}: value_{line} = {order * 1000}" for line in range(25))
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{order}", "content": found})
    return {"id": f"searches-{steps}", "messages": [*messages, {"role": "assistant", "content": "In src."}]}


@contextmanager
def stage(settings: Settings) -> Generator[tuple[Compactor, Store]]:
    nowhere = settings.model_copy(update={"broker_url": SecretStr("memory://")})
    with Store(nowhere) as store, Compactor(settings=nowhere) as memory:
        yield memory, store


def played(settings: Settings, *, step: float = 5.0, model: float = 0.0) -> Played:
    chat = searches(30)
    with stage(settings) as (memory, store):
        return play(memory, store, WINDOW, Pace(step, model), Recording(chat["id"], chat["messages"], None, "searches"))


def test_a_swap_lands_as_many_steps_later_as_the_model_takes(settings: Settings) -> None:
    at_once, soon, late, never = (played(settings, model=seconds) for seconds in (0.0, 4.0, 21.0, 100_000.0))
    assert at_once.shortened == soon.shortened == 0 < at_once.compactions
    assert 0 < late.shortened < never.shortened
    assert late.sudden == never.sudden == 0
    assert at_once.compactions > never.compactions >= 1
    assert not any(broken(total_of([each])) for each in (at_once, soon, late, never))


def test_a_compaction_of_nothing_but_images_needs_no_model(settings: Settings) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,xxxx"}}
    chat = searches(30)["messages"]
    screens = [{**message, "content": [image]} if message["role"] == "tool" else message for message in chat]
    with stage(settings) as (memory, store):
        found = play(memory, store, WINDOW, Pace(5.0, 4.0), Recording("screens", screens, None, "screens"))
    assert found.compactions > 1
    assert not broken(total_of([found]))


def test_a_compaction_that_reached_its_target_is_followed_no_sooner_than_after_as_many_tokens(
    settings: Settings,
) -> None:
    found = played(settings)
    assert (found.halved, found.pairs, found.early) == (found.started, found.started - 1, 0)
    assert found.pairs > 0


def test_compactions_that_come_early_are_counted() -> None:
    budget = Budget(16_000, 12_000, 14_000, fixed=2_000)  # target 7,000
    runs = [Outcome(Code.APPLIED, before=before, after=after) for before, after in
            ((12_000, 7_000), (12_000, 7_001), (12_000, 6_000), (12_400, 9_000), (14_500, 13_000))]  # fmt: skip
    assert [early(runs[:count], budget) for count in range(6)] == [0, 0, 0, 1, 1, 1]


def test_the_same_ratio_of_bot_and_model_gives_the_same_figures(settings: Settings) -> None:
    one, other = played(settings, step=5.0, model=21.0), played(settings, step=10.0, model=42.0)
    assert (one.shortened, one.compactions, one.tokens_saved) == (
        other.shortened,
        other.compactions,
        other.tokens_saved,
    )


@pytest.mark.parametrize(("before", "moves"), [(None, True), (5.1, True), (5.0, False), (1.0, False)])
def test_a_step_that_would_end_after_the_swap_waits_for_it(before: float | None, moves: bool) -> None:
    pace = Pace(5.0, 4.0)
    assert pace.take_step(before) is moves
    assert pace.now == (5.0 if moves else 0.0)


def test_the_sessions_of_a_file_are_joined_under_the_first_system_text() -> None:
    system = {"role": "system", "content": "Be brief."}
    chats = [
        Recording(name, [system, {"role": "user", "content": name}], [], source) for name, source in ("ax", "bx", "cy")
    ]
    found = joined(chats)
    assert [(each.id, [m["content"] for m in each.messages]) for each in found] == [
        ("x", ["Be brief.", "a", "b"]),
        ("y", ["Be brief.", "c"]),
    ]
    assert len(chats[0].messages) == 2
