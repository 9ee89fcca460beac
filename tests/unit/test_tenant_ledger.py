"""A tenant's ceiling: what a push is asked, what it costs, and when sizes are set right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from compactor.commands import tenants
from compactor.commands.tenants import TOTAL, tenant_of
from compactor.effects import Flow, Run
from compactor.exceptions import MessageTooLargeError, StoreUnavailableError, TenantFullError
from compactor.models import SessionId, session_id
from compactor.settings import read_settings
from compactor.tenant_ledger import FRESH, REPORT_AGAIN, STEP, SWEEP_EVERY, TenantBook, TenantLedger, step_of
from tests.unit.flows import Clock

LIMIT = 10_000


class Server:
    """What the store answers of one tenant, and what it was asked: sizes by session, bytes by state."""

    def __init__(self, total: int = 0) -> None:
        self.total = total
        self.sizes: dict[str, int] = {}
        self.states: dict[str, int] = {}
        self.asked: list[str] = []
        self.away = False

    def answer(self, effect: Run) -> Any:
        command = effect.command
        kind = command.script or {TOTAL: "total", "cleared_bytes": "states"}.get(str(command.reads[0][-1]), "page")
        self.asked.append(kind)
        if self.away:
            raise StoreUnavailableError("away")
        if kind == "total":
            return command.parse([str(self.total).encode()])
        if kind == "page":
            stored = {name.encode(): str(size).encode() for name, size in self.sizes.items()}
            return command.parse([(0, {**stored, TOTAL.encode(): b"1"})])
        if kind == "states":
            names = [str(read[1]).partition(":")[2].partition("}")[0] for read in command.reads]
            return command.parse(
                [(str(self.states[name]).encode() if name in self.states else None, None) for name in names]
            )
        return command.parse([self._set(command.args)])

    def _set(self, args: tuple[Any, ...]) -> int:
        for session, seen, new in zip(args[2::3], args[3::3], args[4::3], strict=True):
            old = self.sizes.get(session, 0)
            assert seen in ("", old)
            self.total += new - old
            self.sizes[session] = new
            if not new:
                del self.sizes[session]
        return self.total


def drive(flow: Flow[None], server: Server) -> None:
    try:
        effect = next(flow)
        while True:
            assert isinstance(effect, Run)
            try:
                answer = server.answer(effect)
            except StoreUnavailableError as error:
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration:
        return


class Process:
    """One client and its sessions of one tenant."""

    def __init__(self, server: Server, limit: int | None = LIMIT) -> None:
        self.server, self.clock, self.book = server, Clock(), TenantBook()
        self._settings = read_settings(max_tenant_bytes=limit)

    def ledger(self, name: str = "t/a") -> TenantLedger:
        return TenantLedger(self._settings, session_id(name), self.book, self.clock)

    def admit(self, size: int, name: str = "t/a") -> None:
        drive(self.ledger(name).admit(size), self.server)

    def report(self, stored_bytes: int, name: str = "t/a") -> None:
        drive(self.ledger(name).report(stored_bytes), self.server)


@pytest.mark.parametrize(
    ("session", "tenant"),
    [("a/b", "a"), ("a/b/c", "a"), ("a", "default"), ("/a", "default"), ("default/a", "default"), ("a:b@c/d", "a:b@c")],
)
def test_the_tenant_is_what_stands_before_the_first_slash(session: str, tenant: str) -> None:
    assert tenant_of(session) == tenant


def test_tenants_whose_names_begin_alike_share_no_key() -> None:
    names = ["a", "ab", "a:b", "a@b", "a:tenant:b", "tenant:a", "default"]
    keys = {tenants.sizes_key(space, name) for space in ("n", "n.n") for name in names}
    assert len(keys) == 2 * len(names)


def test_without_a_ceiling_nothing_is_asked() -> None:
    process = Process(Server(), limit=None)
    process.admit(10**12)
    process.report(10**12)
    assert process.server.asked == []


def test_the_total_is_read_once_a_second() -> None:
    process = Process(Server())
    for _ in range(5):
        process.admit(10)
    process.clock.time += FRESH / 2
    process.admit(10, "t/other")
    assert process.server.asked == ["total"]
    process.clock.time += FRESH
    process.admit(10)
    assert process.server.asked == ["total", "total"]


def test_what_this_process_let_in_counts_before_the_total_is_read_again() -> None:
    process = Process(Server(total=LIMIT - 100))
    process.admit(60)
    process.server.total += 60
    with pytest.raises(TenantFullError):
        process.admit(60)


def test_what_was_let_in_and_never_stored_refuses_nobody() -> None:
    process = Process(Server(total=LIMIT - 100))
    process.admit(60)
    process.admit(60)
    assert process.server.asked == ["total", "total"]


def test_a_push_up_to_the_ceiling_goes_in_and_one_byte_more_does_not() -> None:
    process = Process(Server(total=LIMIT - 100))
    process.admit(100)
    with pytest.raises(TenantFullError, match=rf"would hold {LIMIT + 1} bytes, over the limit of {LIMIT}"):
        Process(Server(total=LIMIT - 100)).admit(101)


def test_the_refusal_is_a_size_error_and_names_no_session() -> None:
    with pytest.raises(MessageTooLargeError, match="COMPACTOR_MAX_TENANT_BYTES") as caught:
        Process(Server(total=LIMIT)).admit(1, "secret-name/chat")
    assert "secret" not in str(caught.value)


def test_before_a_refusal_sizes_of_sessions_that_are_gone_or_shrank_are_set_right() -> None:
    server = Server(total=LIMIT)
    server.sizes = {"t/gone": 4_000, "t/shrank": 5_000, "t/same": 1_000}
    server.states = {"t/shrank": 2_000, "t/same": 1_000}
    process = Process(server)
    process.admit(7_000)
    assert server.sizes == {"t/shrank": 2_000, "t/same": 1_000}
    assert server.total == 3_000


def test_a_tenant_that_stays_full_is_swept_once_a_minute() -> None:
    server = Server(total=LIMIT)
    server.sizes = server.states = {"t/full": LIMIT}
    process = Process(server)
    for _ in range(3):
        with pytest.raises(TenantFullError):
            process.admit(1)
    assert server.asked.count("page") == 1
    process.clock.time += SWEEP_EVERY
    with pytest.raises(TenantFullError):
        process.admit(1)
    assert server.asked.count("page") == 2


def test_a_tenant_is_swept_though_another_was_just_now() -> None:
    process = Process(Server(total=LIMIT))
    for name in ("t/a", "u/a"):
        with pytest.raises(TenantFullError):
            process.admit(1, name)
    assert process.server.asked.count("page") == 2


class Paged(Server):
    """A tenant with so many sessions that its sizes come page by page, each taking a while."""

    def __init__(self, clock: Clock, pages: Mapping[int, tuple[int, str]]) -> None:
        super().__init__(total=LIMIT)
        self.clock, self.pages = clock, pages
        self.read: list[int] = []

    def answer(self, effect: Run) -> Any:
        read = effect.command.reads[0] if effect.command.reads else ()
        if read and read[0] == "HSCAN":
            cursor = int(read[2])
            self.read.append(cursor)
            self.clock.time += 0.6
            after, name = self.pages[cursor]
            return effect.command.parse([(after, {name.encode(): b"10"})])
        return super().answer(effect)


def test_a_long_sweep_ends_after_a_second_and_goes_on_a_minute_later() -> None:
    process = Process(Server())
    pages = {0: (7, "t/0"), 7: (9, "t/1"), 9: (4, "t/2"), 4: (0, "t/3")}
    process.server = server = Paged(process.clock, pages)
    server.states = {f"t/{number}": 10 for number in range(4)}
    for expected in ([0, 7], [0, 7, 9, 4], [0, 7, 9, 4, 0, 7]):
        with pytest.raises(TenantFullError):
            process.admit(1)
        assert server.read == expected
        process.clock.time += SWEEP_EVERY


def test_a_sweep_ends_when_there_is_room() -> None:
    process = Process(Server())
    process.server = server = Paged(process.clock, {0: (7, "t/gone"), 7: (0, "t/never-read")})
    server.sizes = {"t/gone": 10}
    process.admit(5)
    assert server.read == [0]


# --- reports


def test_a_size_is_told_at_the_first_push_and_when_it_crosses_a_step() -> None:
    process = Process(Server())
    for size in (200, 500, 900, STEP, STEP + 1, 2 * STEP - 1, 2 * STEP, 0):
        process.report(size)
    assert process.server.asked == ["sizes"] * 4
    assert process.server.sizes == {}


def test_small_sessions_are_told_at_each_doubling_so_that_none_counts_for_less_than_half() -> None:
    process = Process(Server())
    for size in range(100, STEP, 100):
        process.report(size)
        assert process.server.sizes["t/a"] > size / 2 or size < 1_024
    assert len(process.server.asked) <= 8


def test_steps_only_go_up() -> None:
    steps = [step_of(size) for size in range(0, 4 * STEP, 64)]
    assert steps == sorted(steps)
    assert step_of(0) == 0 < step_of(1) < step_of(1_024) < step_of(STEP) < step_of(2 * STEP)
    assert step_of(STEP) == step_of(2 * STEP - 1) == step_of(2 * STEP) - 1


def test_a_size_is_told_again_after_a_while_since_it_may_have_been_dropped() -> None:
    process = Process(Server())
    process.report(300)
    process.clock.time += REPORT_AGAIN - 1
    process.report(301)
    assert len(process.server.asked) == 1
    process.clock.time += 1
    process.report(302)
    assert process.server.sizes == {"t/a": 302}


def test_a_report_that_does_not_arrive_fails_no_push_and_is_made_up_for() -> None:
    process = Process(Server())
    process.server.away = True
    process.report(300)
    process.server.away = False
    process.report(301)
    assert process.server.sizes == {"t/a": 301}


def test_a_total_that_cannot_be_read_lets_nothing_in() -> None:
    process = Process(Server())
    process.server.away = True
    with pytest.raises(StoreUnavailableError):
        process.admit(1)


def test_no_session_id_can_be_the_total() -> None:
    with pytest.raises(ValueError, match="session id"):
        session_id(TOTAL)
    page = tenants.read_sizes("n", "t", 0).parse([(3, {b"t/a": b"5", b"=total": b"9"})])
    assert (page.cursor, page.sizes) == (3, {SessionId("t/a"): 5})
