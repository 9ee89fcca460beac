"""Section H: deliveries, crashes, queues and defaults of Celery on Redis."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from compactor import Code, Compactor, ConfigurationError, Outcome, Session, SummarizerError
from compactor.dispatch import TASK, Dispatcher, queue_name
from compactor.drafts import unheard
from compactor.embedded import EmbeddedServer
from compactor.encodings import encoder
from compactor.models import CompactionId, SessionId
from compactor.prompts import Summary, SummaryRequest
from compactor.settings import Settings, read_settings
from compactor.summarizer import ModelSummarizer
from compactor.testing import ModelServer
from compactor.tokens import Encode
from tests.acceptance.conftest import Service
from tests.acceptance.scripted_model import long_talk, requests_with
from tests.acceptance.waiting import wait_until
from tests.acceptance.worker_process import running_worker, short_settings
from tests.integration.bot_process import failure_of
from tests.integration.conversations import SMALL, conversation, user
from tests.integration.inline_worker import InlineWorker
from tests.integration.stored import bare, published
from workers.app import make_app

ROOT: Final = Path(__file__).resolve().parents[2]


def test_h01_a_task_delivered_again_while_it_runs_calls_the_model_once(modelled: Service, model: ModelServer) -> None:
    name, mark = f"h01-{uuid4().hex[:8]}", f"mark-h01-{uuid4().hex[:8]}"
    session = modelled.memory.session(name, SMALL)
    pushed = long_talk(9, "slow-but-fine", mark)
    session.push(pushed)
    queued = session.compact()
    wait_until(lambda: requests_with(model, mark), what="the model call")
    dispatcher = Dispatcher(modelled.settings)
    dispatcher.publish(SessionId(name), CompactionId(queued.id))
    dispatcher.close()
    again = f"compact_session[{queued.id}] retry"
    wait_until(lambda: again in modelled.worker.tail(1_000_000), what="the second delivery")
    outcome = wait_until(lambda: session.status().last, what="the outcome")
    assert (outcome.outcome, len(requests_with(model, mark))) == (Code.APPLIED, outcome.items)
    assert session.compactions() == [outcome]
    assert session.originals() == pushed


def test_h02_a_task_lost_with_its_worker_is_queued_again_by_the_next_send(
    memory: Compactor, worker: InlineWorker, settings: Settings, raw: Any
) -> None:
    session = memory.session("h02", SMALL)
    session.push(conversation(9))
    session.prepare()
    worker.begin("h02", worker.owner("h02"), lease=0.2)
    raw.delete(f"{settings.namespace}:{queue_name(settings.namespace)}")

    def queued_again() -> bool:
        session.prepare()
        return published(raw, settings) == 1

    wait_until(queued_again, seconds=5, what="the task queued again, without a broker that restores it")
    assert worker.work("h02").outcome.outcome is Code.APPLIED


def test_h03_a_session_whose_worker_dies_each_time_is_left_alone(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("h03", SMALL)
    session.push(conversation(9))
    for _ in range(3):
        wait_until(lambda: session.prepare().verdict.compaction == "queued", what="the lease to run out")
        assert worker.begin("h03", worker.owner("h03"), lease=0.05).stored is not None
    wait_until(lambda: session.prepare().verdict.compaction == "held(dead)", what="its attempts to be used up")
    assert session.push(user("on")).length == 22
    assert session.prepare().verdict.sent <= 7_000
    assert session.compact().outcome is Code.QUEUED
    assert worker.work("h03").outcome.outcome is Code.APPLIED


def outcome_of(session: Session) -> Outcome:
    return wait_until(lambda: session.status().last, seconds=30, what="the outcome")


def test_h04_a_worker_cut_off_from_redis_goes_on_taking_tasks(
    own_server: EmbeddedServer, model: ModelServer, tmp_path: Path
) -> None:
    settings = short_settings(own_server.url, "h04")
    with (
        running_worker(settings, tmp_path / "worker.log", model=model) as child,
        Compactor(settings=settings) as memory,
        bare(own_server) as server,
    ):
        for round_ in range(3):
            session = memory.session(f"h04/{round_}", SMALL)
            session.push(long_talk(9, "unhurried", f"mark-h04-{round_}"))
            session.prepare()
            server.client_kill_filter(_type="normal", skipme=True)
            server.client_kill_filter(_type="pubsub", skipme=True)
            assert outcome_of(session).outcome is Code.APPLIED
        assert child.process.poll() is None


def test_h05_a_task_waits_in_the_queue_until_a_thread_is_free(settings: Settings) -> None:
    conf = make_app(settings).conf
    assert (conf.worker_prefetch_multiplier, conf.task_acks_late) == (1, True)
    assert (conf.task_reject_on_worker_lost, conf.worker_pool) == (True, "threads")
    assert conf.worker_cancel_long_running_tasks_on_connection_loss is False


def test_h06_no_program_with_celerys_default_queue_gets_our_tasks(
    own_server: EmbeddedServer, own_settings: Settings
) -> None:
    with Compactor(settings=own_settings) as memory, bare(own_server) as server:
        session = memory.session("h06", SMALL)
        session.push(conversation(9))
        assert session.prepare().verdict.compaction == "queued"
        keys = {key.decode() for key in server.scan_iter()}
        assert server.llen("own:compaction.own") == 1
    assert "celery" not in keys
    assert all(key.startswith(("own:", "{own:")) for key in keys)


def bodies(raw: Any, settings: Settings) -> list[tuple[Any, int]]:
    """Arguments and size of each waiting task."""
    rows = raw.lrange(f"{settings.namespace}:{queue_name(settings.namespace)}", 0, -1)
    return [(json.loads(base64.b64decode(json.loads(row)["body"])), len(row)) for row in rows]


@pytest.mark.parametrize("steps", [9, 200])
def test_h07_a_task_carries_the_session_id_and_nothing_else(
    steps: int, memory: Compactor, settings: Settings, raw: Any
) -> None:
    session = memory.session("tenant/h07", SMALL)
    session.push(conversation(steps))
    session.prepare()
    (((args, kwargs, _), size),) = bodies(raw, settings)
    assert (args, kwargs) == (["tenant/h07"], {})
    assert size < 2_000


WRONG_ORDER: Final = (
    {"call_timeout": 60.0}, {"compaction_deadline": 90.0}, {"claim_lease": 180.0}, {"visibility_timeout": 80.0},
    {"call_connect_timeout": 31.0}, {"stop_grace": 60.0},
)  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG_ORDER, ids=lambda wrong: next(iter(wrong)))
def test_h08_limits_in_the_wrong_order_are_refused_at_the_start(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        read_settings(**wrong)


def test_h08_a_model_that_never_answers_holds_a_worker_no_longer_than_allowed() -> None:
    pytest.importorskip("openai", reason="the OpenAI SDK is not installed: pip install 'compactor[worker]'")
    with ModelServer(delay=8.0) as server:
        chosen = read_settings(
            openai_base_url=server.url, summarizer_model="cheap", call_connect_timeout=0.2, call_timeout=0.6
        )
        request = SummaryRequest("ls", "{}", "row\n" * 900, "", 900, 100)
        started = time.monotonic()
        ended: list[int] = []
        answers = ModelSummarizer(chosen)(
            [request] * 3,
            encode=encoder("o200k_base"),
            deadline=started + 2.0,
            done=lambda index, _: ended.append(index),
        )
        assert sorted(ended) == [0, 1, 2]
        assert time.monotonic() - started < 4.0
        assert {answer.code for answer in answers if isinstance(answer, SummarizerError)} == {"timeout"}
        assert len(server.requests) == 3, "the SDK retries nothing by itself"


class LimitReached:
    """A summarizer in which Celery's soft time limit strikes."""

    def __call__(
        self,
        requests: Sequence[SummaryRequest],
        *,
        encode: Encode,
        deadline: float,
        done: Callable[[int, Summary | SummarizerError], None],
        arrived: Callable[[int, Summary | SummarizerError], None] = unheard,
    ) -> list[Summary | SummarizerError]:
        raise SoftTimeLimitExceeded


def test_h09_a_time_limit_is_not_taken_for_a_failed_summary(memory: Compactor, worker: InlineWorker) -> None:
    session = memory.session("h09", SMALL)
    session.push(conversation(9))
    session.prepare()
    worker.tools = replace(worker.tools, summarize=LimitReached(), lease=0.1)
    with pytest.raises(SoftTimeLimitExceeded):
        worker.work("h09")
    assert session.prepare().messages[-1] == conversation(9)[-1]
    assert session.originals() == conversation(9)
    assert session.status().last is None
    wait_until(lambda: session.prepare().verdict.compaction == "queued", what="the lease to run out")


LOOPS: Final = """
memory = AsyncCompactor.from_env()
session = memory.session("h10", SMALL)
async def turn():
    receipt = await session.push({"role": "user", "content": "hello"})
    assert len((await session.prepare()).messages) == receipt.length
    return receipt.length
assert [asyncio.run(turn()) for _ in range(4)] == [1, 2, 3, 4]
"""


def test_h10_one_client_serves_one_event_loop_after_another(settings: Settings) -> None:
    assert failure_of(LOOPS, settings) == ""


def test_h10_no_task_of_ours_runs_in_an_event_loop() -> None:
    for module in (
        "workers/tasks.py",
        "compactor/compaction.py",
        "compactor/summarizer.py",
        "compactor/completions.py",
        "compactor/breaker.py",
    ):
        assert not re.search(r"\basyncio\b|\bAsyncOpenAI\b", (ROOT / module).read_text(encoding="utf-8"))


FORKING: Final = """
import os, sys
from compactor import Compactor, ModelConfig
memory = Compactor(redis_url=sys.argv[1])
session = memory.session("h11/fork", ModelConfig("gpt-4o", 8))
session.push({"role": "user", "content": "before"})
child = os.fork()
for _ in range(50):
    session.push({"role": "user", "content": "child" if child == 0 else "parent"})
    session.prepare()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(sorted(m["content"] for m in session.originals()).count("child"), session.estimate().length)
"""


def test_h11_a_client_made_before_a_fork_works_on_both_sides(own_server: EmbeddedServer, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, own_server.url],
        capture_output=True, text=True, timeout=60, check=False, env={**PATHS, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert (done.stdout.split(), done.stderr) == (["50", "101"], "")


PATHS: Final = {"PYTHONPATH": str(ROOT), "PATH": ""}
LAZY: Final = """
import sys
from workers.tasks import settings, tools
print(tools.cache_info().currsize, settings.cache_info().currsize, "openai" in sys.modules)
"""


def test_h11_a_worker_makes_its_clients_at_the_first_task() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LAZY], capture_output=True, text=True, timeout=60, check=True, env=PATHS
    )
    assert done.stdout.split() == ["0", "0", "False"]


def test_h12_a_worker_of_threads_keeps_nothing_of_a_task(settings: Settings, modelless: Service) -> None:
    conf = make_app(settings).conf
    assert conf.worker_max_tasks_per_child is None, "there are no children that could be replaced"
    assert conf.worker_max_memory_per_child is None
    import psutil

    def resident() -> float:
        return psutil.Process(modelless.worker.process.pid).memory_info().rss / 1e6

    def compact_several(part: int) -> None:
        for number in range(6):
            session = modelless.session(f"h12/{part}-{number}", SMALL)
            session.push(conversation(60))
            assert session.compact(wait=20).outcome is Code.APPLIED

    compact_several(0)
    before = resident()
    compact_several(1)
    assert resident() - before < 40, "MB; a session of 60 steps weighs about 0.3 MB in Redis"


def test_h13_no_result_of_a_task_is_kept_in_redis(modelless: Service, raw: Any) -> None:
    session = modelless.session("h13", SMALL)
    session.push(conversation(9))
    assert session.compact(wait=20).outcome is Code.APPLIED
    keys = [key.decode() for key in raw.scan_iter(f"*{modelless.settings.namespace}*")]
    assert keys
    assert not [key for key in keys if "celery-task-meta" in key or "result" in key]
    assert make_app(modelless.settings).conf.task_ignore_result is True


def test_h14_one_install_brings_everything_that_the_transport_imports() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    celery = next(each for each in project["dependencies"] if each.startswith("celery"))
    redis = next(each for each in project["dependencies"] if each.startswith("redis"))
    assert celery.startswith("celery[redis]")
    assert "!=5.7.0" in celery
    assert re.search(r"<9\b", redis)


def test_h15_events_are_on_and_no_default_waits_for_ever(settings: Settings) -> None:
    conf = make_app(settings).conf
    assert (conf.worker_send_task_events, conf.task_send_sent_event, conf.task_track_started) == (True, True, True)
    assert (conf.broker_connection_max_retries, conf.broker_channel_error_retry) == (None, True)
    options = conf.broker_transport_options
    assert options["socket_keepalive"] is True
    assert 0 < options["socket_connect_timeout"] < 5
    assert options["health_check_interval"] < settings.visibility_timeout
    assert list(conf.task_routes) == [TASK]
    assert settings.read_timeout > 0


def test_h15_a_broker_that_accepts_and_never_answers_holds_a_send_for_its_timeouts(settings: Settings) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        held = read_settings(
            redis_url=settings.redis_url.get_secret_value(), broker_url=broker, namespace=settings.namespace,
            connect_timeout=0.3, read_timeout=0.3,
        )  # fmt: skip
        with Compactor(settings=held) as memory:
            session = memory.session("h15", SMALL)
            session.push(conversation(9))
            started = time.monotonic()
            verdict = session.prepare().verdict
            assert time.monotonic() - started < 3
            assert verdict.compaction == "held(broker_down)"
            assert session.prepare().verdict.compaction == "held(broker_down)"
