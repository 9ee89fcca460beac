"""What an operator sees in Flower: codes and numbers, live; and never a word of a conversation, nor a secret."""

from __future__ import annotations

import ast
import itertools
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import psutil
import pytest
import redis

from compactor.client import Compactor, Session
from compactor.commands.command import session_keys
from compactor.dispatch import TASK, Dispatcher
from compactor.embedded import Child, EmbeddedServer, start_flower, start_worker
from compactor.exceptions import ConfigurationError
from compactor.models import CompactionId, SessionId
from compactor.settings import Settings, read_settings
from compactor.testing import Answer, ModelServer, summary
from tests.acceptance.browser import Browser
from tests.acceptance.watched import FLOWER_PASSWORD, PATIENCE, TEXT, Flower, converse, eventually, has_ended, watch

pytest.importorskip("flower", reason="Flower is not installed: pip install 'compactor[worker]'")

API_KEY: Final = "sk-keyfalcon7731"
URL_PASSWORD: Final = "urlfalcon7731"
REDIS_PASSWORD: Final = "redisfalcon7731"
SECRETS: Final = (TEXT, API_KEY, URL_PASSWORD, REDIS_PASSWORD, FLOWER_PASSWORD)
OPEN: Final = {"/metrics", "/healthcheck", "/static/css/flower.css", "/logout", "/login", "/nowhere"}
CLIENTS: Final[Any] = redis.Redis  # its own types are partially unknown


@dataclass
class Office:
    """A bot, a model, a worker and the Flower that watches it."""

    memory: Compactor
    model: ModelServer
    worker: Child
    flower: Flower
    folder: Path
    ended: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])

    def session(self, name: str, results: int) -> Session:
        return converse(self.memory, name, results)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("flower")
    with EmbeddedServer() as server, ModelServer() as model:
        CLIENTS.from_url(server.url).config_set("requirepass", REDIS_PASSWORD)
        url = server.url.replace("redis://", f"redis://:{REDIS_PASSWORD}@")
        env = {
            "REDIS_URL": url,
            "OPENAI_API_KEY": API_KEY,
            "OPENAI_BASE_URL": model.url.replace("http://", f"http://user:{URL_PASSWORD}@"),
            "COMPACTOR_SUMMARIZER_MODEL": "cheap-model",
            "COMPACTOR_MAX_ATTEMPTS": "2",
            "COMPACTOR_BREAKER_FAILURES": "1000",  # the server's own failure is to be seen here
            "COMPACTOR_CALL_TIMEOUT": "100",
            "COMPACTOR_COMPACTION_DEADLINE": "110",
            "COMPACTOR_CLAIM_LEASE": "120",
            "COMPACTOR_STOP_GRACE": "120",
        }
        worker = start_worker(env=env, log=folder / "worker.log", options=["-l", "DEBUG"])
        flower = watch(env, folder)
        try:
            eventually(lambda: any(flower.json("/api/workers?status=1").values()), "the worker in Flower")
            with Compactor(settings=read_settings(redis_url=url)) as memory:
                yield Office(memory, model, worker, flower, folder)
        finally:
            flower.child.stop()
            worker.stop()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser(user="flower", password=FLOWER_PASSWORD) as opened:
        yield opened


@pytest.fixture
def ended(office: Office) -> dict[str, dict[str, Any]]:
    """One task each that ended well, that failed after a retry, that crashed; made at first use."""
    if not office.ended:
        office.model.answer = lambda _: summary(f"Rows about {TEXT}.")
        office.session("acme/applied", 14).prepare()
        office.ended["applied"] = office.flower.task("acme/applied", has_ended)
        office.model.answer = lambda _: Answer({"error": {"message": f"no room for {TEXT}"}}, status=500)
        office.session("acme/failed", 8).prepare()
        crash(office, "acme/crashed")
        office.ended["crashed"] = office.flower.task("acme/crashed", has_ended)
        office.ended["failed"] = office.flower.task("acme/failed", has_ended)
    return office.ended


def crash(office: Office, name: str) -> None:
    """Queues a session whose state no worker can read, and which quotes the conversation."""
    settings: Settings = office.memory.settings
    office.session(name, 1)
    state = session_keys(settings.namespace, SessionId(name)).state
    with closing(CLIENTS.from_url(settings.redis_url.get_secret_value())) as client:
        client.hset(state, mapping={"claim": "queued", "owner": f"owner-{name}", "until": 1 << 50, "claimed": TEXT})
    dispatcher = Dispatcher(settings)
    dispatcher.publish(SessionId(name), CompactionId(f"owner-{name}"))
    dispatcher.close()


def test_an_operator_watches_a_compaction_live_and_reads_its_outcome(office: Office, browser: Browser) -> None:
    gate, asked = threading.Event(), itertools.count(1)

    def answer(_: dict[str, Any]) -> Answer:
        if next(asked) > 3:
            gate.wait(PATIENCE)
        return summary()

    office.model.answer = answer
    office.session("acme/live", 12).prepare()
    phase = office.flower.task("acme/live", lambda task: str(task["result"]).startswith("3 of "))
    browser.open(office.flower.url("/tasks"))
    shown = browser.wait_for_text(phase["result"])
    assert re.fullmatch(r"3 of \d+ results, [1-9]\d* tokens saved", phase["result"])
    assert "SUMMARIZING" in shown

    gate.set()
    task = office.flower.task("acme/live", has_ended)
    browser.open(office.flower.url("/tasks"))
    browser.wait_for(lambda: browser.text().count("acme/live") and "SUMMARIZING" not in browser.text())
    browser.open(office.flower.url(f"/task/{task['uuid']}"))
    shown = browser.wait_for_text("acme/live")
    for expected in (TASK, "SUCCESS", "'outcome': 'applied'", "'model': 'cheap-model'", "'left': 0"):
        assert expected in shown


def test_the_result_is_flat_codes_and_numbers(ended: dict[str, dict[str, Any]]) -> None:
    result: dict[str, Any] = ast.literal_eval(ended["applied"]["result"])
    assert result["outcome"] == "applied"
    assert result["before"] - result["after"] == result["saved"] > 0
    by = ("by_model", "by_extract", "by_condensed", "by_fold", "by_pointer")
    assert sum(result[name] for name in by) == result["items"] > 0
    assert min(result["by_model"], result["by_fold"]) > 0, "Flower is to be seen with both"
    assert (result["micro_spent"], result["micro_net"]) == ("price_unknown", "price_unknown")
    assert result["micro_step_before"] > result["micro_step_after"] > 0
    assert {type(value) for value in result.values()} <= {int, str}
    assert all(re.fullmatch(r"[\w.-]*", value) for value in result.values() if isinstance(value, str))


def test_the_session_id_is_the_only_argument_even_after_a_retry(ended: dict[str, dict[str, Any]]) -> None:
    for name, task in ended.items():
        assert list(ast.literal_eval(task["args"])) == [f"acme/{name}"]
        assert task["kwargs"] == "{}"
        assert task["name"] == TASK
    assert ended["failed"]["retries"] == 1


def test_a_failure_shows_a_class_and_a_code(office: Office, ended: dict[str, dict[str, Any]], browser: Browser) -> None:
    failed, crashed = ended["failed"], ended["crashed"]
    assert ast.literal_eval(failed["result"])["reason"] == "server_error"
    assert "SummarizerServerError('server_error')" in failed["exception"]
    assert crashed["state"] == "FAILURE"
    assert re.fullmatch(r"CompactionCrashed\('JSONDecodeError[\w .:]*'\)", crashed["exception"])
    for task in (failed, crashed):
        browser.open(office.flower.url(f"/task/{task['uuid']}"))
        assert TEXT not in browser.wait_for_text(task["exception"])


def test_no_page_no_api_and_no_file_of_flower_holds_content_or_a_secret(
    office: Office, ended: dict[str, dict[str, Any]], browser: Browser
) -> None:
    seen = everything_shown(office.flower, ended, worker_name(office.flower))
    seen |= everything_rendered(office.flower, seen, browser)
    seen |= {f"file {path.name}": path.read_bytes().decode("latin-1") for path in office.folder.glob("flower.*")}

    found = partial(places_with, seen)
    uuid = quote(ended["applied"]["uuid"])
    places = {f"/task/{uuid}", f"browser /task/{uuid}", "browser /tasks", "/api/tasks", f"/api/task/info/{uuid}"}
    assert found("acme/applied") >= {*places, "/tasks/datatable"}
    assert "/broker" in found("redis://:**@127.0.0.1")
    assert {secret: found(secret) for secret in SECRETS} == {secret: set() for secret in SECRETS}


def everything_shown(flower: Flower, ended: Mapping[str, Mapping[str, Any]], worker: str) -> dict[str, str]:
    """The answer to a GET of every address that Flower serves, for every task and the worker."""
    tasks = [str(task["uuid"]) for task in ended.values()]
    seen = {path: flower.ask(path)[1] for path in addresses(tasks, worker)}
    query = "draw=1&start=0&length=100&order[0][column]=0&columns[0][data]=name"
    seen["/tasks/datatable"] = flower.ask(f"/tasks/datatable?{query}")[1]
    seen["/workers json"] = flower.ask("/workers?json=1&refresh=1")[1]
    seen["/api/workers"] = flower.ask("/api/workers?refresh=1")[1]
    seen["/api/workers of one"] = flower.ask(f"/api/workers?refresh=1&workername={quote(worker)}")[1]
    return seen


def everything_rendered(flower: Flower, seen: Mapping[str, str], browser: Browser) -> dict[str, str]:
    """Each web page as the browser holds it once its scripts have run."""
    rendered: dict[str, str] = {}
    for path, body in seen.items():
        if "<html" in body and "?" not in path:
            browser.open(flower.url(path))
            if path == "/tasks":
                browser.wait_for_text("acme/applied")
            rendered[f"browser {path}"] = browser.source()
    return rendered


def addresses(tasks: list[str], worker: str) -> list[str]:
    """Every address that this release of Flower serves, taken from its own table."""
    from flower.urls import handlers  # type: ignore[import-untyped] # why: Flower ships no types

    subjects = {"/static/": ["css/flower.css"], "worker/": [worker], "apply/": [TASK], "send-task/": [TASK]}
    paths: list[str] = []
    table: list[Any] = handlers
    for handler in table:
        pattern = str((getattr(handler, "regex", None) and handler.regex.pattern) or handler[0]).rstrip("$?")
        path = "/nowhere" if pattern == ".*" else pattern.rstrip("/") or "/"
        names = next((names for part, names in subjects.items() if part in path), tasks)
        filled = [re.sub(r"\(\.[+*]\)", quote(name), path) for name in names]
        paths += filled if "(" in path else [path]
    assert len(paths) > 30
    return paths


def places_with(seen: Mapping[str, str], text: str) -> set[str]:
    return {place for place, body in seen.items() if text.lower() in body.lower()}


def worker_name(flower: Flower) -> str:
    workers: dict[str, bool] = flower.json("/api/workers?status=1")
    return next(iter(workers))


def test_every_address_wants_the_password_except_health_and_metrics(
    office: Office, ended: dict[str, dict[str, Any]]
) -> None:
    for path in addresses([str(ended["applied"]["uuid"])], worker_name(office.flower)):
        for method in ("GET", "POST"):
            for password in (None, "wrong"):
                status, body = office.flower.ask(path, method=method, password=password)
                refused = status in (401, 405)
                assert refused or path in OPEN, (method, path, status)
                assert "acme/" not in body


def test_metrics_count_phases_without_naming_a_session(office: Office, ended: dict[str, dict[str, Any]]) -> None:
    _, metrics = office.flower.ask("/metrics", password=None)
    for phase in ("task-snapshot", "task-summarizing", "task-swapping", "task-retried", "task-failed"):
        assert re.search(rf'flower_events_total{{task="{TASK}",type="{phase}",worker="[^"]*"}} [1-9]', metrics)
    assert not [secret for secret in (*SECRETS, *(f"acme/{name}" for name in ended)) if secret in metrics]


def test_flower_can_only_be_read(office: Office, ended: dict[str, dict[str, Any]]) -> None:
    worker, task = worker_name(office.flower), str(ended["applied"]["uuid"])
    orders = [path for path in addresses([task], worker) if is_an_order(path)]
    assert f"/api/task/send-task/{TASK}" in orders
    assert f"/api/worker/shutdown/{quote(worker)}" in orders
    before = len(office.flower.json("/api/tasks"))
    assert {path: office.flower.ask(path, method="POST")[0] for path in orders} == dict.fromkeys(orders, 403)
    assert len(office.flower.json("/api/tasks")) == before
    assert office.worker.process.poll() is None


def is_an_order(path: str) -> bool:
    reads = ("/api/workers", "/api/tasks", "/api/task/types", "/api/queues", "/api/task/info", "/api/task/result")
    return path.startswith("/api/") and not path.startswith(reads)


def test_flower_listens_on_loopback_only(office: Office) -> None:
    sockets = psutil.Process(office.flower.child.process.pid).net_connections("inet")
    listening = [socket.laddr for socket in sockets if socket.status == psutil.CONN_LISTEN]
    assert [(address.ip, address.port) for address in listening] == [("127.0.0.1", office.flower.port)]


def test_the_queue_shows_its_length_and_flower_remembers_through_a_kill(tmp_path: Path, browser: Browser) -> None:
    with EmbeddedServer() as server:
        env = {"REDIS_URL": server.url, "COMPACTOR_NAMESPACE": "staging"}
        flower = watch(env, tmp_path)
        client = CLIENTS.from_url(server.url)
        eventually(lambda: client.pubsub_numpat() + len(client.pubsub_channels()), "Flower's subscription to events")
        names = [f"acme/waiting-{number}" for number in range(3)]
        with Compactor(settings=read_settings(redis_url=server.url, namespace="staging")) as memory:
            for name in names:
                converse(memory, name, 8).prepare()
        browser.open(flower.url("/broker"))
        assert re.search(r"compaction\.staging\s+3\b", browser.wait_for_text("compaction.staging"))
        assert flower.json("/api/queues/length")["active_queues"] == [{"name": "compaction.staging", "messages": 3}]

        eventually(lambda: all(name in saved(tmp_path) for name in names), "the tasks in Flower's file")
        flower.child.kill()
        again = watch(env, tmp_path, flower.port)
        remembered = again.json("/api/tasks")
        again.child.stop()
    assert sorted(ast.literal_eval(task["args"])[0] for task in remembered.values()) == names


def saved(folder: Path) -> str:
    """What Flower's file holds; nothing while a new one is being written."""
    files = list(folder.glob("flower.db*"))
    being_written = any(".tmp" in path.name for path in files)
    return "" if being_written else "".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.mark.parametrize("password", ["", "two words", "one,two", "schlüssel"])
def test_a_password_that_flower_would_misread_is_refused(password: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="password"):
        start_flower(env={}, log=tmp_path / "log", port=1, password=password, db=tmp_path / "db")


def test_the_worker_logs_no_secret_and_no_content(office: Office, ended: dict[str, dict[str, Any]]) -> None:
    log = office.worker.log.read_text(encoding="utf-8")
    assert ended["applied"]["uuid"] in log
    assert not [secret for secret in SECRETS if secret in log]
