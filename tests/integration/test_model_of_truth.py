"""The real store, driven by two bots at random, holds after every step what the pure reference says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as examples
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from compactor import Code
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings
from compactor.wording import ENGLISH
from tests.integration.clients import open_client, open_store
from tests.integration.conversations import user
from tests.integration.driven import Bench, Driven, tokens
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import bare, keys_of
from tests.integration.truth import RESULTS, SYSTEM, Truth, mended, open_calls

OLD = 12  # steps that a conversation lives at least
bots = st.integers(0, 1)
places = st.integers(0, 1 << 16)


class Machine(Driven):
    """What bots, workers and operators may do at any time."""

    kinds = st.sampled_from(["user", "reply", "call", "two", "small", "repeat", "large", "large", "large", "large"])

    # Pushes.

    @initialize(steps=st.sampled_from([0, 4, 6, 7]), lead=st.booleans())
    def begin(self, steps: int, lead: bool) -> None:
        first = [*(self.messages("system") if lead else []), *self.messages("user")]
        self.stored(0, [*first, *(message for _ in range(steps) for message in self.messages("large"))])

    @rule(bot=bots, kinds=st.lists(kinds, min_size=1, max_size=3))
    def push(self, bot: int, kinds: list[str]) -> None:
        self.stored(bot, [message for kind in kinds for message in self.messages(kind)])

    @rule(bot=bots, steps=st.integers(3, 5))
    def push_much_and_prepare(self, bot: int, steps: int) -> None:
        self.stored(bot, [message for _ in range(steps) for message in self.messages("large")])
        self.prepare(bot)

    @rule(bot=bots)
    def push_system(self, bot: int) -> None:
        self.stored(bot, self.messages("system"))

    @precondition(lambda self: bool(open_calls(self.truth.originals)))
    @rule(bot=bots)
    def push_late_answer(self, bot: int) -> None:
        name = open_calls(self.truth.originals)[0]
        self.stored(bot, [{"role": "tool", "tool_call_id": name, "content": self.word()}])

    @rule(bot=bots, key=st.sampled_from("ab"))
    def push_with_key(self, bot: int, key: str) -> None:
        """The first time it is stored; a redelivery gets the same positions and stores nothing."""
        if key not in self.keys:
            message = self.messages("user")
            self.keys[key] = message, self.truth.push(message)
        message, positions = self.keys[key]
        assert self.sessions[bot].push(message, key).positions == positions

    # Sends of what was pushed.

    @rule(bot=bots)
    def prepare(self, bot: int) -> None:
        before = self.marks()
        context = self.sessions[bot].prepare()
        self.check(context, mended(self.truth.shown, ENGLISH.interrupted), bot)
        self.stays = before

    # Callers' own lists.

    @rule(bot=bots, kinds=st.lists(kinds, max_size=3), lead=st.booleans())
    def list_of_the_whole(self, bot: int, kinds: list[str], lead: bool) -> None:
        new = [message for kind in kinds for message in self.messages(kind)]
        meant = [*self.meant(), *new]
        self.send(bot, meant, meant, quiet=not new, lead=lead)

    @rule(bot=bots, steps=st.integers(3, 5))
    def list_that_grew_much(self, bot: int, steps: int) -> None:
        self.list_of_the_whole(bot, ["large"] * steps, lead=False)

    @rule(bot=bots, kinds=st.lists(kinds, min_size=1, max_size=3), lead=st.booleans())
    def list_that_came_back(self, bot: int, kinds: list[str], lead: bool) -> None:
        chat = self.chats[bot]
        new = [message for kind in kinds for message in self.messages(kind)]
        if (chat.is_view or chat.is_folded) and chat.meant != self.meant():
            chat = replace(chat, held=chat.meant)
        self.send(bot, [*chat.meant, *new], [*chat.held, *new], quiet=chat.meant == self.meant(), lead=lead)

    @rule(bot=bots, cut=places)
    def list_that_is_stale(self, bot: int, cut: int) -> None:
        meant = self.meant()[: cut % (len(self.meant()) + 1)]
        self.send(bot, meant, meant, quiet=True)

    @rule(bot=bots, cut=places, kinds=st.lists(kinds, max_size=2))
    def list_that_lost_its_head(self, bot: int, cut: int, kinds: list[str]) -> None:
        meant = self.meant()
        starts = [i for i, message in enumerate(meant) if message["role"] == "user"]
        if starts:
            new = [message for kind in kinds for message in self.messages(kind)]
            trimmed = [*meant[starts[cut % len(starts)] :], *new]
            self.send(bot, trimmed, trimmed, quiet=True)

    @rule(bot=bots, cut=places, kinds=st.lists(kinds, min_size=1, max_size=2))
    def list_that_went_another_way(self, bot: int, cut: int, kinds: list[str]) -> None:
        new = [message for kind in kinds for message in self.messages(kind)]
        meant = [*self.meant()[: cut % (len(self.meant()) + 1)], *new]
        self.send(bot, meant, meant)

    @rule(bot=bots, at=places)
    def list_with_an_edit(self, bot: int, at: int) -> None:
        meant = self.meant()
        texts = [i for i, message in enumerate(meant) if message["role"] not in (*RESULTS, *SYSTEM)]
        if texts:
            edited = texts[at % len(texts)]
            kind = "user" if meant[edited]["role"] == "user" else "reply"
            meant[edited : edited + 1] = self.messages(kind)
            self.send(bot, meant, meant)

    @rule(bot=bots, kinds=st.lists(kinds, max_size=1))
    def list_with_other_words_around_the_question(self, bot: int, kinds: list[str]) -> None:
        meant = self.meant()
        users = [i for i, message in enumerate(meant) if message["role"] == "user"]
        if users:
            question = str(meant[users[-1]]["content"]).splitlines()[-1]
            meant[users[-1]] = user(f"Found: {self.word()}\n{question}")
            meant += [message for kind in kinds for message in self.messages(kind)]
            soft = next(e.soft for e in reversed(self.truth.live) if e.pushed["role"] == "user")
            self.send(bot, meant, meant, quiet=soft)

    @precondition(lambda self: self.earlier)
    @rule(bot=bots, which=places, kinds=st.lists(kinds, max_size=1))
    def list_of_earlier(self, bot: int, which: int, kinds: list[str]) -> None:
        """Also one that was left for another way: what had been replaced in it is so again."""
        chat = self.earlier[which % len(self.earlier)]
        new = [message for kind in kinds for message in self.messages(kind)]
        held = chat.meant if chat.is_view or chat.is_folded else chat.held
        self.send(bot, [*chat.meant, *new], [*held, *new])

    # Compactions.

    @rule(bot=bots)
    def compact(self, bot: int) -> None:
        if self.truth.live:
            self.sessions[bot].prepare()
        assert self.sessions[bot].compact().outcome in (Code.QUEUED, Code.RUNNING, Code.BELOW_THRESHOLD)

    @precondition(Driven.claimed)
    @rule()
    def work(self) -> None:
        self.worked()

    @precondition(Driven.claimed)
    @rule(bot=bots, at=st.sampled_from(["snapshot", "swapping"]))
    def work_during_a_push(self, bot: int, at: str) -> None:
        """A push never makes a compaction fail."""
        assert self.worked(at, lambda: self.stored(bot, self.messages("user"))) is not Code.STALE

    @precondition(Driven.claimed)
    @rule(bot=bots, at=st.sampled_from(["snapshot", "swapping"]), cut=places)
    def work_while_the_list_goes_another_way(self, bot: int, at: str, cut: int) -> None:
        self.worked(at, lambda: self.list_that_went_another_way(bot, cut, ["user"]))

    @precondition(lambda self: self.age > OLD and self.claimed())
    @rule(bot=bots, at=st.sampled_from(["snapshot", "swapping"]), end=st.sampled_from(["clear", "erase", "expire"]))
    def work_while_the_conversation_ends(self, bot: int, at: str, end: str) -> None:
        ends: dict[str, Callable[[], object]] = {
            "clear": lambda: self.clear(bot), "erase": lambda: self.erase(bot), "expire": self.expire
        }  # fmt: skip
        ended: list[bool] = []
        code = self.worked(at, lambda: ended.append(bool(ends[end]()) or True))
        assert not ended or code in (Code.STALE, Code.GONE, Code.BELOW_THRESHOLD, Code.NO_GAIN, Code.EXHAUSTED)

    @precondition(lambda self: self.compactions)
    @rule(bot=bots, which=places)
    def undo(self, bot: int, which: int) -> None:
        name = self.compactions[which % len(self.compactions)]
        expected = self.truth.replaced_by(name)
        undone = self.sessions[bot].undo(name)
        assert (undone.outcome, undone.positions, undone.items) == (Code.UNDONE, expected, len(expected))
        self.truth.undo(name)

    @rule(bot=bots, which=places)
    def release(self, bot: int, which: int) -> None:
        positions = [entry.position for entry in self.truth.live if entry.kept]
        if positions:
            self.sessions[bot].release([f"m{position}" for position in positions])
            assert self.truth.release(positions) == len(positions)

    # Going back, and ending.

    @precondition(lambda self: self.truth.conversation)
    @rule(bot=bots, which=places)
    def rewind(self, bot: int, which: int) -> None:
        index = self.truth.lead + which % len(self.truth.conversation)
        left = self.sessions[bot].rewind(f"m{self.truth.live[index].position}")
        assert left == self.truth.leave(index + 1) or (bot == 1 and left == 0)

    @precondition(lambda self: self.truth.live)
    @rule(bot=bots, which=places)
    def fork(self, bot: int, which: int) -> None:
        """The copy holds the same up to its end, and neither changes the other."""
        position = self.truth.live[which % len(self.truth.live)].position
        copy = f"truth/{next(self.bench.names)}"
        forked, expected = self.sessions[bot].fork(copy, at=f"m{position}"), self.truth.fork(position)
        assert forked.originals() == expected.originals
        for place, value in [*expected.recallable().items()][-3:]:
            assert forked.recall(f"m{place}") == value
        assert forked.push(user(copy)).positions == expected.push([user(copy)])
        status = forked.status()
        assert status.length == len(expected.live)
        assert dict(status.totals) == {name: tokens(expected.shown, name) for name in status.totals}

    @rule(bot=bots)
    def close_open_calls(self, bot: int) -> None:
        waiting = open_calls(self.truth.originals)
        self.sessions[bot].close_open_calls()
        if waiting:
            closing = [{"role": "tool", "tool_call_id": name, "content": ENGLISH.interrupted} for name in waiting]
            self.truth.push(closing)

    @precondition(lambda self: self.age > OLD)
    @rule(bot=bots)
    def clear(self, bot: int) -> None:
        assert self.sessions[bot].clear() == self.truth.clear()
        self.start_anew()

    @precondition(lambda self: self.age > OLD)
    @rule(bot=bots)
    def erase(self, bot: int) -> None:
        assert self.sessions[bot].erase().messages == self.truth.erase()
        self.start_anew()

    @precondition(lambda self: self.age > OLD)
    @rule()
    def expire(self) -> None:
        self.bench.raw.delete(*keys_of(self.bench.settings, self.name).all)
        self.truth, self.keys, self.compactions = Truth(), {}, []
        self.start_anew()

    # What goes wrong around it.

    @rule()
    def forget_scripts(self) -> None:
        self.bench.raw.script_flush()

    @rule()
    def lose_a_reply(self) -> None:
        self.bench.proxy.lose()


@pytest.fixture
def bench(
    kind: str, settings: Settings, server: EmbeddedServer, through_proxy: Settings, proxy: LossyProxy
) -> Iterator[Bench]:
    with closing(open_store(kind, settings)) as store, bare(server) as raw:
        clients = [open_client(kind, settings), open_client(kind, through_proxy)]
        yield Bench(clients, store, InlineWorker(settings, store), proxy, raw, settings)
        for client in clients:
            client.close()


def run(bench: Bench, most: int, steps: int) -> None:
    machine = type("Driven", (Machine,), {"bench": bench})
    checks = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
    run_state_machine_as_test(
        machine,
        settings=examples(
            max_examples=most,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=checks,
            phases=[Phase.generate],
            database=None,
        ),
    )


def test_the_store_holds_the_truth_whatever_the_bots_do(bench: Bench) -> None:
    run(bench, 60, 25)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_the_store_holds_the_truth_for_long(bench: Bench) -> None:
    run(bench, 3_000, 60)
