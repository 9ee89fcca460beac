"""How far compactions of recorded sessions get, how soon the next one comes, and what fills a list that stayed long.

Each session is played as an agent would, with a worker that is there at once and has no model.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final

import pytest
from pydantic import SecretStr

from compactor import Code, Compactor, ModelConfig
from compactor.cli.player import Played, Player, early, levels_of
from compactor.cli.recordings import Recording
from compactor.cli.simulated_worker import Pace, Play, SimulatedWorker
from compactor.commands.command import session_keys
from compactor.commands.read import read_history
from compactor.encodings import encoder
from compactor.models import Kind, Outcome, session_id
from compactor.settings import Settings
from compactor.store import Store
from compactor.tokens import count_message
from tests.conftest import recorded

pytestmark = pytest.mark.benchmark

SOURCES: Final = (
    "openhands_claude35_swe", "miniswe_deepseek", "claudecode_cua", "livemcp_claude4", "deerflow_threads",
    "deerflow_replays", "msagent_finance_zh", "taubench_airline_gpt4o", "tau2_gpt41", "tau2_gpt5_parallel",
    "tau2_gptoss_loops", "tau2_sft_openai_format",
)  # fmt: skip
WINDOWS: Final = (16, 32)  # K tokens
ENCODE: Final = encoder("o200k_base")
# What a list holds when a compaction is done, in the order in which it is less and less to be touched.
PARTS: Final = ("system, users, unread", "last message", "answers", "replaced", "newest steps", "older steps")
NEWEST: Final = 3  # results that stay while older ones can be had


@dataclass(frozen=True, slots=True)
class Run:
    """A compaction, and the tokens of each part of what it left."""

    outcome: Outcome
    parts: tuple[int, ...]


class Watched(SimulatedWorker):
    """A worker beside which somebody reads what each compaction left."""

    def __init__(self, settings: Settings, store: Store, name: str) -> None:
        super().__init__(settings, store, name, Pace(5.0, 0.0))
        self.runs: list[Run] = []
        self._read = read_history(session_keys(settings.namespace, session_id(name)))
        self._everything = store

    def work(self, play: Play) -> Outcome:
        outcome = super().work(play)
        if outcome.outcome is Code.APPLIED:
            self.runs.append(Run(outcome, self._parts()))
        return outcome

    def _parts(self) -> tuple[int, ...]:
        found = [r for r in self._everything.run(self._read).records if r.kind not in (Kind.TOMBSTONE, Kind.FOLDED)]
        values = [json.loads(record.text) for record in found]
        roles = [value["role"] for value in values]
        said = [i for i, role in enumerate(roles) if role == "assistant"]
        last = max(said, default=-1)
        results = [i for i, role in enumerate(roles) if role == "tool" and i < last]
        newest = min([*results[-NEWEST:], *[i for i in said if values[i].get("tool_calls")][-2:]], default=0)
        parts = [0] * len(PARTS)
        for index, record in enumerate(found):
            behind = found[index + 1].kind if index + 1 < len(found) else Kind.ORIGINAL
            if roles[index] in ("system", "developer", "user") or index > last:
                part = 0
            elif index == last:
                part = 1
            elif roles[index] == "assistant" and not values[index].get("tool_calls"):
                part = 2
            elif record.kind is not Kind.ORIGINAL or (roles[index] == "assistant" and behind is not Kind.ORIGINAL):
                part = 3  # what a replacement answers stays, too
            else:
                part = 4 if index >= newest else 5
            parts[part] += count_message(values[index], ENCODE)
        return tuple(parts)


class Watching(Player):
    """Forgets the compaction that it asks for itself, at the end."""

    own: tuple[Run, ...] = ()

    def _last_compaction(self) -> Outcome:
        assert isinstance(self.worker, Watched)
        self.own = tuple(self.worker.runs)
        return super()._last_compaction()


def filled_by(run: Run, target: int, fixed: int) -> str:
    """The part with which what is less to be touched than it is above the target already."""
    used = fixed
    for part, tokens in zip(PARTS, run.parts, strict=True):
        used += tokens
        if used > target:
            return part
    return PARTS[-1]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("window", WINDOWS)
def test_a_compaction_that_reached_its_target_is_followed_after_as_many_tokens(settings: Settings, window: int) -> None:
    nowhere = settings.model_copy(update={"broker_url": SecretStr("memory://")})
    runs, missed = Counter[str](), defaultdict[str, Counter[str]](Counter)
    pairs, sooner = Counter[str](), Counter[str]()
    with Store(nowhere) as store, Compactor(settings=nowhere) as memory:
        for source in SOURCES:
            for number, chat in enumerate(recorded(source)):
                recording = Recording(chat["id"], chat["messages"], chat.get("tools"), source)
                name = f"rhythm/{source}-{number}"
                worker = Watched(nowhere, store, name)
                session = memory.session(name, ModelConfig("gpt-4o", window))
                player = Watching(session, recording, Played(recording.id, source, window), worker)
                player.play()
                budget = levels_of(session.prepare(tools=recording.tools).verdict)
                request = budget.fixed - lead_tokens(recording)
                runs[source] += len(player.own)
                for run in player.own:
                    if not run.outcome.reached:
                        missed[source][filled_by(run, budget.target, request)] += 1
                pairs[source] += max(0, len(player.own) - 1)
                for run, later in zip(player.own, player.own[1:], strict=False):
                    if early([run.outcome, later.outcome], budget):
                        sooner[source] += 1
                        assert not run.outcome.reached
    show(window, runs, missed, pairs, sooner)
    assert pairs.total() > 10


def lead_tokens(recording: Recording) -> int:
    """Tokens of the system text that leads the list: part of what is fixed, and of the list."""
    lead = 0
    for message in recording.messages:
        if message["role"] not in ("system", "developer"):
            break
        lead += count_message(message, ENCODE)
    return lead


def show(
    window: int, runs: Counter[str], missed: dict[str, Counter[str]], pairs: Counter[str], sooner: Counter[str]
) -> None:
    print(f"\n{window}K: {runs.total()} compactions, {pairs.total()} pairs in a row, {sooner.total()} of them early")
    print(f"{'source':24}{'all':>5}{'reached':>9}{'pairs':>7}{'early':>7}  what fills what stayed above the target")
    for source in runs:
        why = ", ".join(f"{part} {missed[source][part]}" for part in PARTS if missed[source][part])
        left = runs[source] - missed[source].total()
        print(f"{source:24}{runs[source]:5}{left:9}{pairs[source]:7}{sooner[source]:7}  {why}")
    every = sum(missed.values(), Counter[str]())
    reached = runs.total() - every.total()
    print(f"{'all':24}{runs.total():5}{reached:9}{pairs.total():7}{sooner.total():7}  {dict(every)}")
