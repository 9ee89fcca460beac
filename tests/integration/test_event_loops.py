"""AsyncCompactor and event loops: many tasks on one loop, and one client over several loops."""

from __future__ import annotations

import asyncio
from typing import Any

from compactor import AsyncCompactor, Code, Fit, Outcome
from compactor.settings import Settings, read_settings
from compactor.store import Store
from tests.acceptance.waiting import wait_until
from tests.integration.bot_process import failure_of
from tests.integration.conversations import ROOMY, SMALL, conversation, step, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.lossy_proxy import LossyProxy
from tests.integration.stored import published


async def test_many_coroutines_push_to_many_sessions_at_once(settings: Settings) -> None:
    async with AsyncCompactor(settings=settings) as memory:

        async def talking(name: str) -> int:
            session = memory.session(f"loop/{name}", ROOMY)
            for order in range(10):
                await session.push(user(f"{name} {order}"))
                assert (await session.prepare()).messages[-1] == user(f"{name} {order}")
            return (await session.status()).length

        assert await asyncio.gather(*(talking(f"n{order}") for order in range(30))) == [10] * 30


async def test_a_long_text_is_counted_beside_the_loop(settings: Settings) -> None:
    async with AsyncCompactor(settings=settings) as memory:
        session = memory.session("loop/heavy", SMALL)
        await session.push(user("warm"))
        ticks = 0

        async def ticking() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0)
                ticks += 1

        ticker = asyncio.create_task(ticking())
        await asyncio.sleep(0)
        before = ticks
        await session.push([user("word " * 20_000) for _ in range(10)])
        assert ticks - before > 20, "the loop went on while the text was encoded"
        ticker.cancel()
        await asyncio.gather(ticker, return_exceptions=True)


async def test_a_send_given_up_on_leaves_the_session_usable(settings: Settings) -> None:
    async with AsyncCompactor(settings=settings) as memory:
        session = memory.session("loop/given-up", SMALL)
        await session.push([*conversation(9), user("And now?")])
        for order in range(20):
            sending = asyncio.create_task(session.prepare())
            await asyncio.sleep(order * 50e-6)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        context = await session.prepare()
        assert context.verdict.fit is Fit.SHORTENED
        assert context.messages[-1] == user("And now?")


async def test_a_send_given_up_on_while_it_publishes_never_lends_its_name_to_a_later_compaction(
    settings: Settings, proxy: LossyProxy, raw: Any
) -> None:
    far = read_settings(
        redis_url=settings.redis_url.get_secret_value(), broker_url=proxy.url, namespace=settings.namespace
    )
    async with AsyncCompactor(settings=far) as memory:
        session = memory.session("loop/publishing", SMALL)
        await session.push(conversation(8))
        proxy.stall(b"LPUSH")
        sending = asyncio.create_task(session.prepare())
        await asyncio.to_thread(wait_until, lambda: published(raw, settings), what="the task in the queue")
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        proxy.release()
        first = await asyncio.to_thread(run_once, settings, "loop/publishing")
        assert first.outcome is Code.APPLIED
        await session.push([message for order in range(20, 28) for message in step(order)])
        await session.push(user("And now?"))
        assert (await session.prepare()).verdict.compaction == "queued"
        second = await asyncio.to_thread(run_once, settings, "loop/publishing")
        assert second.id != first.id
        status = await session.status()
        assert (second.outcome, status.claim, status.archived) == (Code.APPLIED, "idle", first.items + second.items)
        assert len(await session.compactions()) == 2


def run_once(settings: Settings, session: str) -> Outcome:
    with Store(settings) as store:
        return InlineWorker(settings, store).work(session).outcome


SEVERAL_LOOPS = """
memory = AsyncCompactor.from_env()
async def pushing():
    return (await memory.session("loop/several", SMALL).push({"role": "user", "content": "hello"})).length
assert [asyncio.run(pushing()) for _ in range(3)] == [1, 2, 3]
"""


def test_one_client_serves_several_loops_one_after_the_other(settings: Settings) -> None:
    assert failure_of(SEVERAL_LOOPS, settings) == ""
