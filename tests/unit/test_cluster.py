"""The way of a command through a cluster: where it is sent, and what becomes of redirects and silence."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot
from redis.exceptions import AskError, ClusterDownError, ClusterError, MovedError, ResponseError, TryAgainError
from redis.exceptions import ConnectionError as NoConnection

from compactor.cluster import PAUSES, AskSlots, Attempt, Cluster, NotACluster, Step, read_slots
from compactor.commands.command import Command
from compactor.effects import Pause

A, B, C = ("10.0.0.1", 7000), ("10.0.0.2", 7000), ("10.0.0.3", 7000)
NEW = ("10.0.0.9", 7000)
KEY = "{n:t/1}:state"
SLOT = key_slot(KEY.encode())
SCRIPT = Command(lambda replies: replies, "push", (KEY, "{n:t/1}:messages"), ("x",))


def row(first: int, last: int, node: tuple[str, int]) -> list[Any]:
    return [first, last, [node[0].encode(), node[1], b"id", []], [b"10.0.1.1", 7001, b"replica", []]]


THREE = [row(5_461, 10_922, B), row(0, 5_460, A), row(10_923, 16_383, C)]


class Nodes:
    """Answers steps as nodes would; `answers` holds what the next attempts meet."""

    def __init__(self, slots: Any = THREE, answers: Iterable[Any] = ()) -> None:
        self.slots, self.answers = slots, list(answers)
        self.steps: list[Step] = []
        self.down: set[tuple[str, int]] = set()

    def meet(self, step: Step) -> Any:
        self.steps.append(step)
        if isinstance(step, Pause):
            return None
        if step.node in self.down:
            raise NoConnection
        if isinstance(step, AskSlots):
            return self.slots() if callable(self.slots) else self.slots
        answer: Any = self.answers.pop(0) if self.answers else [("done", step.node)] * max(1, len(step.command.reads))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def drive(self, way: Any) -> Any:
        try:
            step = next(way)
            while True:
                try:
                    answer = self.meet(step)
                except Exception as error:  # noqa: BLE001 # why: the way decides what an error means
                    step = way.throw(error)
                else:
                    step = way.send(answer)
        except StopIteration as stop:
            return stop.value

    @property
    def asked(self) -> list[tuple[str, int]]:
        return [step.node for step in self.steps if isinstance(step, Attempt)]


def run(nodes: Nodes, cluster: Cluster, command: Command[Any] = SCRIPT) -> Any:
    return nodes.drive(cluster.replies(command))


def owner(slot: int) -> tuple[str, int]:
    return A if slot < 5_461 else B if slot < 10_923 else C


def test_a_command_goes_to_the_primary_of_its_slot_and_the_slots_are_asked_once() -> None:
    nodes, cluster = Nodes(), Cluster([A])
    for _ in range(3):
        assert run(nodes, cluster) == [("done", owner(SLOT))]
    assert [step for step in nodes.steps if isinstance(step, AskSlots)] == [AskSlots(A)]


@given(st.lists(st.integers(1, 16_383), max_size=20, unique=True), st.integers(0, 16_383))
def test_every_slot_has_the_owner_that_the_reply_names(cuts: list[int], slot: int) -> None:
    edges = [0, *sorted(cuts), 16_384]
    rows = [row(first, after - 1, (f"h{first}", 1)) for first, after in pairwise(edges)]
    covering = [first for first, after in pairwise(edges) if first <= slot < after]
    assert read_slots(rows, A).owner(slot) == (f"h{covering[0]}", 1)


def test_a_gap_is_nobodys() -> None:
    slots = read_slots([row(0, 99, A), row(200, 299, B)], A)
    assert (slots.owner(99), slots.owner(200)) == (A, B)
    for slot in (100, 199, 300, 16_383):
        with pytest.raises(ClusterDownError):
            slots.owner(slot)
    with pytest.raises(ClusterDownError):
        read_slots([], A).owner(0)


@pytest.mark.parametrize("host", [b"", None, b"?"])
def test_a_node_that_does_not_know_its_name_is_where_it_was_asked(host: Any) -> None:
    assert read_slots([[0, 16_383, [host, 7_005, b"id"]]], A).owner(1) == (A[0], 7_005)


@pytest.mark.parametrize("reply", [None, b"x", [1], [[0]], [[0, 5, None]], [[b"a", b"b", [b"h", 1]]], [[0, 1, [b"h"]]]])
def test_an_answer_that_is_none_is_an_error(reply: Any) -> None:
    with pytest.raises(ClusterError):
        read_slots(reply, A)


def test_a_moved_session_is_found_again_by_asking_who_sent_it_away() -> None:
    moved = [row(0, 16_383, NEW)]
    nodes, cluster = Nodes(iter([THREE, moved]).__next__, [MovedError(f"{SLOT} 10.0.0.9:7000")]), Cluster([A])
    assert run(nodes, cluster) == [("done", NEW)]
    assert nodes.steps[-2] == AskSlots(owner(SLOT))
    assert run(nodes, cluster) == [("done", NEW)]


def test_an_ask_is_followed_for_one_call_and_the_slot_stays_where_it_is() -> None:
    nodes, cluster = Nodes(answers=[AskError(f"{SLOT} 10.0.0.9:7000")]), Cluster([A])
    assert run(nodes, cluster) == [("done", NEW)]
    assert nodes.steps[-1] == Attempt(NEW, SCRIPT, asking=True)
    assert run(nodes, cluster) == [("done", owner(SLOT))]


@pytest.mark.parametrize(
    "error",
    [
        lambda: TryAgainError("TRYAGAIN"),
        lambda: ClusterDownError("CLUSTERDOWN"),
        lambda: MovedError(f"{SLOT} 10.0.0.2:7000"),
        lambda: AskError(f"{SLOT} 10.0.0.2:7000"),
    ],
    ids=["tryagain", "clusterdown", "moved", "ask"],
)
def test_a_cluster_that_never_agrees_is_given_up_after_a_second(error: Callable[[], Exception]) -> None:
    nodes, cluster = Nodes(answers=[error() for _ in range(50)]), Cluster([A])
    with pytest.raises(ResponseError):
        run(nodes, cluster)
    assert len(nodes.asked) == len(PAUSES) + 1
    assert sum(step.seconds for step in nodes.steps if isinstance(step, Pause)) < 1


def test_a_gap_that_closes_in_time_is_waited_for() -> None:
    nodes = Nodes(iter([[], [], THREE]).__next__)
    assert run(nodes, Cluster([A])) == [("done", owner(SLOT))]


def test_a_node_that_was_reset_is_passed_over_for_one_that_knows_the_slots() -> None:
    nodes = Nodes(iter([[], THREE]).__next__)
    assert run(nodes, Cluster([NEW, A])) == [("done", owner(SLOT))]
    assert nodes.steps[:2] == [AskSlots(NEW), AskSlots(A)]
    assert not any(isinstance(step, Pause) for step in nodes.steps)


def test_reads_of_several_slots_where_nobody_has_any_say_so() -> None:
    reads = (("TIME",), ("GET", "{a}"), ("GET", "{b}"))
    with pytest.raises(ClusterDownError):
        run(Nodes([]), Cluster([A]), Command(list, reads=reads))


def test_a_dead_node_is_asked_last_and_its_successor_gets_the_call() -> None:
    nodes, cluster = Nodes(), Cluster([A, B, C])
    run(nodes, cluster)
    dead = owner(SLOT)
    nodes.down.add(dead)
    nodes.slots = [row(0, 16_383, NEW)]
    nodes.steps.clear()
    assert run(nodes, cluster) == [("done", NEW)]
    assert nodes.asked == [dead, NEW]
    assert AskSlots(dead) not in nodes.steps


def test_a_dead_node_without_a_successor_costs_two_attempts() -> None:
    nodes, cluster = Nodes(), Cluster([A, B, C])
    nodes.down.add(owner(SLOT))
    with pytest.raises(NoConnection):
        run(nodes, cluster)
    assert nodes.asked == [owner(SLOT)] * 2


def test_a_dead_cluster_costs_three_questions() -> None:
    nodes = Nodes()
    nodes.down |= {("10.0.0.1", port) for port in range(7_000, 7_010)}
    with pytest.raises(NoConnection):
        run(nodes, Cluster([("10.0.0.1", port) for port in range(7_000, 7_010)]))
    assert len(nodes.steps) == 3


def test_a_server_on_its_own_is_told_apart() -> None:
    def alone() -> Any:
        raise ResponseError("This instance has cluster support disabled")

    with pytest.raises(NotACluster):
        run(Nodes(alone), Cluster([A]))


def test_the_place_of_a_key_is_asked_anew_after_some_seconds() -> None:
    now = [0.0]
    nodes, cluster = Nodes(), Cluster([A], lambda: now[0])
    for now[0] in (0.0, 9.0):
        assert nodes.drive(cluster.primary_of(KEY)) == owner(SLOT)
    nodes.slots = [row(0, 16_383, NEW)]
    now[0] = 11.0
    assert nodes.drive(cluster.primary_of(KEY)) == NEW
    assert len(nodes.steps) == 2


def reads(*keys: str) -> Command[Any]:
    return Command(lambda replies: replies, reads=(("TIME",), *(("HGET", key, "f") for key in keys)))


def test_reads_of_several_slots_are_one_call_to_each_node_and_come_back_in_order() -> None:
    keys = [f"{{n:t/{order}}}:state" for order in range(40)]
    nodes = Nodes()
    answers = run(nodes, Cluster([A]), reads(*keys))
    assert [answer[1] for answer in answers[1:]] == [owner(key_slot(key.encode())) for key in keys]
    assert sorted(nodes.asked) == [A, B, C]
    assert all(not step.whole for step in nodes.steps if isinstance(step, Attempt))


def test_reads_of_a_slot_that_moved_are_repeated_one_by_one() -> None:
    keys = [f"{{n:t/{order}}}:state" for order in range(10)]
    nodes = Nodes(answers=[MovedError("1 10.0.0.2:7000")])
    answers = run(nodes, Cluster([A]), reads(*keys))
    assert [answer[1] for answer in answers[1:]] == [owner(key_slot(key.encode())) for key in keys]


def test_after_a_listing_met_a_dead_node_the_next_one_asks_where_everything_is() -> None:
    nodes, cluster = Nodes(), Cluster([A])
    run(nodes, cluster)
    nodes.down.add(B)
    with pytest.raises(NoConnection):
        run(nodes, cluster, reads(*(f"{{n:t/{order}}}:state" for order in range(40))))
    nodes.slots = [row(0, 16_383, A)]
    assert len(run(nodes, cluster, reads(*(f"{{n:t/{order}}}:state" for order in range(40))))) == 41


def test_reads_of_nothing_are_nothing() -> None:
    assert len(run(Nodes(), Cluster([A]), reads())) == 1


def scan(cursor: int) -> Command[Any]:
    return Command(lambda replies: replies, reads=(("SCAN", cursor, "MATCH", "*"),))


def test_a_scan_goes_through_every_primary_and_ends() -> None:
    nodes = Nodes(answers=[[(b"17", [b"a"])], [(b"0", [b"b"])], [(b"0", [])], [(b"5", [b"c"])], [(b"0", [b"d"])]])
    cluster, cursor, found = Cluster([A]), 0, list[bytes]()
    while True:
        ((cursor, keys),) = run(nodes, cluster, scan(cursor))
        found += keys
        if not cursor:
            break
    assert found == [b"a", b"b", b"c", b"d"]
    assert nodes.asked == [A, A, B, C, C]
    sent = [step.command.reads[0][1] for step in nodes.steps if isinstance(step, Attempt)]
    assert sent == [0, 17, 0, 0, 5]


def test_a_scan_ends_when_its_node_left() -> None:
    assert run(Nodes(), Cluster([A]), scan(7)) == [(0, [])]


@given(st.integers(1, 2**48), st.integers(0, 2))
def test_a_cursor_goes_on_at_the_node_and_the_place_where_it_stood(inner: int, node: int) -> None:
    nodes, cluster = Nodes(answers=[[(str(inner).encode(), [])], [(b"0", [])]]), Cluster([A])
    ((cursor, _),) = run(nodes, cluster, scan(node))  # the beginning of this node
    run(nodes, cluster, scan(cursor))
    assert nodes.asked == [(A, B, C)[node]] * 2
    last = nodes.steps[-1]
    assert isinstance(last, Attempt)
    assert last.command.reads[0][1] == inner
