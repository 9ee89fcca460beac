"""Redis away while bots bring lists of their own: they get their list, shortened by pure code, and nothing is lost."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Generator
from typing import Any

import pytest

from compactor import Fit, StoreUnavailableError
from compactor.embedded import EmbeddedServer
from compactor.settings import Settings, read_settings
from compactor.validity import added_faults
from tests.integration.clients import Client, Connect
from tests.integration.conversations import ROOMY, SMALL, SYSTEM, assistant, conversation, recount, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import bare, keys_of
from tests.integration.test_folds import TASK

TALK = conversation(2)[1:]
LONG = [*conversation(20)[1:], user("And?")]


@pytest.fixture
def far(connect: Connect, through_proxy: Settings) -> Client:
    """A client whose server is away while the proxy refuses; its broker is always there."""
    return connect(through_proxy)


def test_a_list_comes_back_as_it_is(far: Client, proxy: LossyProxy) -> None:
    session = far.session("degraded/new", ROOMY)
    proxy.refuse()
    context = session.prepare([SYSTEM, *TALK], system="You are kind.")
    assert context.messages == [{"role": "system", "content": "You are kind."}, SYSTEM, *TALK]
    assert context.verdict.fit is Fit.DEGRADED
    assert context.verdict.compaction == "held(store_unavailable)"
    assert context.verdict.total == recount(context.messages) + 3
    proxy.heal()
    assert session.prepare([SYSTEM, *TALK, user("And?")]).verdict.fit is Fit.FITS
    assert session.originals() == [*TALK, user("And?")]


def test_one_that_is_too_long_is_shortened_to_the_ceiling(far: Client, proxy: LossyProxy) -> None:
    session = far.session("degraded/long", SMALL)
    proxy.refuse()
    context = session.prepare([SYSTEM, *LONG])
    assert context.verdict.fit is Fit.DEGRADED
    assert context.verdict.sent == recount(context.messages) + 3 <= context.verdict.ceiling
    assert context.left_out
    assert not added_faults([SYSTEM, *LONG], context.messages)
    assert (context.messages[0], context.messages[-1]) == (SYSTEM, LONG[-1])


def test_replacements_that_this_process_knows_are_used(far: Client, proxy: LossyProxy, worker: InlineWorker) -> None:
    talk = conversation(9)[1:]
    session = far.session("degraded/known", SMALL)
    session.prepare(talk)
    worker.work("degraded/known")
    known = session.prepare(talk)
    proxy.refuse()
    context = session.prepare([*talk, assistant("Well."), user("So?")])
    assert context.messages == [*known.messages, assistant("Well."), user("So?")]
    assert context.replaced == known.replaced > 0


def test_a_bot_that_goes_on_through_an_outage_loses_nothing(far: Client, proxy: LossyProxy) -> None:
    session = far.session("degraded/on", SMALL)
    messages: list[Any] = session.prepare([SYSTEM, user("Find all of them.")]).messages
    said: list[Any] = [user("Find all of them.")]
    for order in range(24):
        if order == 4:
            proxy.refuse()
        if order == 18:
            proxy.heal()
        messages += step(order)
        said += step(order)
        context = session.prepare(messages)
        assert not added_faults(messages, context.messages)
        assert (context.verdict.fit is Fit.DEGRADED) == (4 <= order < 18)
        messages = context.messages
    assert session.originals() == said
    assert [session.recall(f"m{position}") for position in range(len(said))] == said
    assert session.status().archived == 0


def wide(first: int, steps: int) -> list[dict[str, Any]]:
    """Steps with two calls each, and results that do not fit together; of a step the last one is the largest."""
    talk: list[dict[str, Any]] = []
    for number in range(first, first + steps):
        ids = (f"w{number}a", f"w{number}b")
        calls = [{"id": name, "type": "function", "function": {"name": "grep", "arguments": "{}"}} for name in ids]
        talk.append({"role": "assistant", "content": None, "tool_calls": calls})
        talk += [
            {"role": "tool", "tool_call_id": name, "content": f"{name} " + "found it here. " * times}
            for name, times in zip(ids, (180, 220), strict=True)
        ]
    return talk


def test_a_view_whose_gap_begins_at_parallel_calls_hides_nothing_that_is_lost(far: Client, proxy: LossyProxy) -> None:
    session = far.session("degraded/parallel", SMALL)
    said = [user("Find them."), *wide(0, 8)]
    proxy.refuse()
    back = list(session.prepare(said).messages)
    assert len(back) < len(said), "a view"
    for number in range(8, 11):  # a view of a view, and so on
        new = [assistant(f"Done {number}."), user("More."), *wide(number, 1)]
        said, back = [*said, *new], list(session.prepare([*back, *new]).messages)
    proxy.heal()
    session.prepare([*back, assistant("Done.")])
    assert session.originals() == [*said, assistant("Done.")]


def test_a_result_that_a_view_had_cut_is_stored_whole(far: Client, proxy: LossyProxy) -> None:
    session = far.session("degraded/cut", SMALL)
    said = [user("Find them."), *wide(0, 1)]
    said[-1] = {**said[-1], "content": "found it here. " * 9_000}
    proxy.refuse()
    back = list(session.prepare(said).messages)
    assert len(back) == len(said)
    assert back[-1] != said[-1], "cut"
    proxy.heal()
    session.prepare([*back, assistant("Done.")])
    assert session.originals() == [*said, assistant("Done.")]


@pytest.mark.parametrize("way", ["stale", "headless", "stored in between"])
def test_a_list_of_its_own_between_two_views_costs_nothing_of_what_they_hide(
    far: Client, proxy: LossyProxy, way: str
) -> None:
    session = far.session("degraded/between", SMALL)
    said = [user("Find them."), *wide(0, 8), assistant("Done."), user("And now?")]
    proxy.refuse()
    back = list(session.prepare(said).messages)
    assert len(back) < len(said), "a view"
    if way == "stored in between":
        proxy.heal()
    session.prepare(said[-2:] if way == "headless" else said[:7])
    proxy.heal()
    session.prepare([*back, assistant("Still there.")])
    assert session.originals() == [*said, assistant("Still there.")]


def test_nothing_is_stored_twice_when_replies_are_lost_at_the_edge_of_an_outage(far: Client, proxy: LossyProxy) -> None:
    session = far.session("degraded/edge", ROOMY)
    session.prepare(TALK[:1])
    for end in range(2, len(TALK) + 1):
        proxy.lose("sync", replies=2)
        assert session.prepare(TALK[:end]).messages == TALK[:end]
        proxy.heal()
    assert session.prepare(TALK).verdict.fit is Fit.FITS
    assert session.originals() == TALK
    assert proxy.lost >= 2


def test_what_closed_calls_during_an_outage_is_not_stored(far: Client, proxy: LossyProxy) -> None:
    session = far.session("degraded/closed", ROOMY)
    said = [*TALK, step(90)[0], user("Never mind.")]
    proxy.refuse()
    answer = session.prepare([SYSTEM, *said], repair=True).messages
    assert len(answer) == len(said) + 2
    on = [*answer, assistant("Well."), user("So?")]
    for away in (True, False):
        assert not added_faults(on, session.prepare(on).messages), "the calls of a list that came in order stay closed"
        if away:
            proxy.heal()
    assert session.originals() == [*said, assistant("Well."), user("So?")]


def test_a_list_with_closed_calls_stays_one_that_providers_take_when_redis_goes_away(
    far: Client, proxy: LossyProxy
) -> None:
    session = far.session("degraded/closed-before", ROOMY)
    answer = session.prepare([SYSTEM, *TALK, step(90)[0], user("Never mind.")], repair=True).messages
    proxy.refuse()
    assert session.prepare(answer).messages == answer


def test_a_view_that_counted_from_another_beginning_hides_nothing_once_its_list_is_stored(
    connect: Connect, settings: Settings, far: Client, proxy: LossyProxy
) -> None:
    """A process that is new when Redis goes away does not know of what left the history before."""
    before = connect(settings).session("degraded/beginning", SMALL)
    before.sync([user("Hello."), assistant("Hello, what is it?")])
    before.sync(LONG[:-1])
    session = far.session("degraded/beginning", SMALL)
    proxy.refuse()
    view = session.prepare(LONG).messages
    proxy.heal()
    session.sync(view)
    session.prepare([*view, assistant("Well."), user("So?")])
    assert session.originals() == [*LONG, assistant("Well."), user("So?")]


def test_sync_raises_and_can_be_repeated(far: Client, proxy: LossyProxy) -> None:
    session = far.session("degraded/sync", ROOMY)
    session.sync(TALK)
    proxy.refuse()
    with pytest.raises(StoreUnavailableError):
        session.sync([*TALK, user("And?")])
    proxy.heal()
    proxy.lose("sync", replies=2)
    with pytest.raises(StoreUnavailableError):
        session.sync([*TALK, user("And?")])
    assert session.sync([*TALK, user("And?")]).length == len(TALK) + 1
    assert session.originals() == [*TALK, user("And?")]


@pytest.mark.parametrize("what", ["undo", "rewind", "fork", "release", "close_open_calls", "erase"])
def test_calls_on_the_past_raise_and_change_nothing(
    far: Client, proxy: LossyProxy, worker: InlineWorker, what: str
) -> None:
    name, talk = f"degraded/{what}", conversation(9)
    session = far.session(name, SMALL)
    session.push(talk)
    session.prepare()
    replaced = worker.work(name).outcome.items
    arguments = {"rewind": ("m1",), "fork": ("degraded/fork-copy",), "release": ("m3",)}.get(what, ())
    proxy.refuse()
    with pytest.raises(StoreUnavailableError):
        getattr(session, what)(*arguments)
    proxy.heal()
    assert session.originals() == talk
    assert session.prepare().replaced == replaced


def test_other_threads_may_have_gone_on_meanwhile(
    connect: Connect, settings: Settings, far: Client, proxy: LossyProxy
) -> None:
    session, other = far.session("degraded/other", ROOMY), connect(settings).session("degraded/other", ROOMY)
    session.prepare(TALK)
    proxy.refuse()
    other.prepare([*TALK, user("And?"), assistant("So.")])
    assert session.prepare([*TALK, user("And?")]).messages == [*TALK, user("And?")]
    proxy.heal()
    assert session.prepare([*TALK, user("And?")]).messages == [*TALK, user("And?")]
    assert other.originals() == [*TALK, user("And?"), assistant("So.")]


@contextlib.contextmanager
def hanging(server: EmbeddedServer) -> Generator[None]:
    """The server takes connections and answers nothing."""
    server.child.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.child.process.send_signal(signal.SIGCONT)


def test_a_server_that_hangs_costs_a_send_its_time_limits_and_no_more(
    connect: Connect, own_server: EmbeddedServer
) -> None:
    quick = read_settings(redis_url=own_server.url, namespace="own", read_timeout=0.2)
    session = connect(quick).session("degraded/hangs", SMALL)
    session.prepare(TALK)
    with hanging(own_server):
        started = time.monotonic()
        context = session.prepare(LONG)
        assert time.monotonic() - started < 2
        assert context.verdict.fit is Fit.DEGRADED
        assert context.verdict.sent <= context.verdict.ceiling
    assert session.prepare(LONG).verdict.fit is Fit.SHORTENED
    assert session.originals() == LONG


def test_a_server_that_refuses_to_write_gives_the_list_too(
    connect: Connect, own_server: EmbeddedServer, own_settings: Settings
) -> None:
    session = connect(own_settings).session("degraded/memory", ROOMY)
    session.prepare(TALK)
    with bare(own_server) as client:
        client.config_set("maxmemory", 1)
        context = session.prepare([*TALK, user("And?")])
        assert context.messages == [*TALK, user("And?")]
        assert context.verdict.fit is Fit.DEGRADED
        client.config_set("maxmemory", 0)
    assert session.prepare([*TALK, user("And?")]).verdict.fit is Fit.FITS
    assert session.originals() == [*TALK, user("And?")]


@pytest.mark.parametrize("end", ["clear", "erase"])
def test_what_could_not_be_stored_is_forgotten_with_the_conversation(
    far: Client, proxy: LossyProxy, settings: Settings, raw: Any, end: str
) -> None:
    secret = "xyzzy-plugh-0451"
    talk = [*LONG]
    talk[2] = {**talk[2], "content": f"{secret}\n{talk[2]['content']}"}
    session = far.session(f"degraded/{end}", SMALL)
    proxy.refuse()
    held = session.prepare(talk).messages
    assert secret not in str(held)
    proxy.heal()
    getattr(session, end)()
    session.prepare(held)
    stored = raw.lrange(keys_of(settings, f"degraded/{end}").messages, 0, -1)
    assert len(stored) == len(held)
    assert secret.encode() not in b"".join(stored)


def test_what_was_stored_with_its_question_in_other_words_is_remembered_no_longer(
    connect: Connect, settings: Settings, far: Client, proxy: LossyProxy
) -> None:
    """Else it would bring back what others cleared since, or tell of it as it stood before."""
    session = far.session("degraded/words", SMALL)
    proxy.refuse()
    view = session.prepare(LONG).messages
    proxy.heal()
    session.prepare([*view[:-1], user("And?\nFound: 3 files.")])
    assert session.originals() == [*LONG[:-1], user("And?\nFound: 3 files.")]
    connect(settings).session("degraded/words", SMALL).clear()
    session.prepare(view)
    assert session.originals() == view


@pytest.mark.parametrize("views", [1, 2, 3])
def test_views_of_an_outage_hide_nothing_of_what_folds_tell(
    far: Client, proxy: LossyProxy, worker: InlineWorker, views: int
) -> None:
    name = f"degraded/folds-{views}"
    session, said = far.session(name, SMALL), list(TASK)
    session.prepare(said)
    assert worker.work(name).outcome.by_fold > 0
    back = list(session.prepare(said).messages)
    assert len(back) < len(said), "folded"
    proxy.refuse()
    for number in range(views):
        new = [assistant(f"Done {number}."), user("More."), *wide(40 * (number + 1), 5)]
        said, context = [*said, *new], session.prepare([*back, *new])
        assert context.left_out
        assert not added_faults([*back, *new], context.messages)
        back = list(context.messages)
    proxy.heal()
    for number in range(3):
        new = [assistant("Done."), user(f"And {number}?")]
        said, context = [*said, *new], session.prepare([*back, *new])
        assert not added_faults([*back, *new], context.messages)
        assert session.originals() == said[1:]
        assert context.verdict.total == far.session(name, ROOMY).prepare().verdict.total + recount(TASK[:1])
        back = list(context.messages)
