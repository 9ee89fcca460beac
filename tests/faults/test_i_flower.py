"""Section I: what Flower shows, to whom, and what of it is the record."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import psutil
import pytest

from compactor import Code, Outcome, Session
from compactor.embedded import FLOWER_OPTIONS
from tests.acceptance.conftest import Service
from tests.acceptance.scripted_model import long_talk
from tests.acceptance.watched import Flower, eventually, has_ended, watch
from tests.integration.conversations import SMALL, user
from tests.unit.chat import long_text

pytest.importorskip("flower", reason="Flower is not installed: pip install 'compactor[worker]'")

ROOT: Final = Path(__file__).resolve().parents[2]
SECRET: Final = "falconsecret8846"  # letters and digits only, so that no escaping can hide it
PAGES: Final = (
    "/",
    "/workers",
    "/tasks",
    "/broker",
    "/tasks/datatable?draw=1&start=0&length=9&order[0][column]=0&columns[0][data]=name",
    "/api/tasks",
)


@dataclass
class Watched:
    """One session of each way to end, and the Flower that saw its task."""

    flower: Flower
    folder: Path
    env: Mapping[str, str]
    sessions: dict[str, Session]
    outcomes: dict[str, Outcome]
    tasks: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def watched(modelled: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    folder = tmp_path_factory.mktemp("flower")
    env = {
        "REDIS_URL": modelled.settings.redis_url.get_secret_value(),
        "COMPACTOR_NAMESPACE": modelled.settings.namespace,
        "OPENAI_API_KEY": SECRET,
    }
    flower = watch(env, folder)
    try:
        eventually(lambda: any(flower.json("/api/workers?status=1").values()), "the worker in Flower")
        run = uuid4().hex[:8]
        seen = Watched(flower, folder, env, {}, {}, {})
        for name, (pushed, _) in ENDS.items():
            session = modelled.memory.session(f"i/{run}-{name}", SMALL)
            session.push(pushed)
            seen.sessions[name], seen.outcomes[name] = session, session.compact(wait=20)
            seen.tasks[name] = flower.task(f"i/{run}-{name}", has_ended)
        yield seen
    finally:
        flower.child.stop()


ENDS: Final[dict[str, tuple[list[dict[str, Any]], Code]]] = {
    "applied": (long_talk(9, "well", SECRET), Code.APPLIED),
    "failed": (long_talk(7, "unauthorized", SECRET), Code.SUMMARIZER_FAILED),
    "exhausted": ([user(f"{SECRET} {long_text(6_300)}")], Code.EXHAUSTED),
}


def test_i01_nothing_is_shown_without_the_password_and_nobody_else_can_connect(watched: Watched) -> None:
    for page in PAGES:
        assert watched.flower.ask(page, password=None)[0] == 401, page
        assert watched.flower.ask(page, password="wrong")[0] == 401, page
        assert watched.flower.ask(page)[0] == 200, page
    listening = psutil.Process(watched.flower.child.process.pid).net_connections("tcp")
    assert {each.laddr.ip for each in listening if each.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


@pytest.mark.parametrize("file", ["Procfile", "docker-compose.yml"])
def test_i01_every_way_to_start_it_wants_a_password_and_stays_local(file: str) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    assert re.search(r"FLOWER_BASIC_AUTH:\?", text), "the start fails without one"
    assert "--read_only=True" in text
    assert "--address=127.0.0.1" in text or '"127.0.0.1:${FLOWER_PORT:-5555}:5555"' in text
    assert "FLOWER_UNAUTHENTICATED_API" not in text


def test_i02_arguments_results_and_errors_are_ids_codes_and_numbers(watched: Watched) -> None:
    for name, task in watched.tasks.items():
        assert re.fullmatch(rf"\['i/[0-9a-f]+-{name}'\]", task["args"].replace("(", "[").replace(",)", "]"))
        assert task["kwargs"] == "{}"
        assert not task["exception"]
    pages = [watched.flower.ask(page)[1] for page in PAGES]
    pages += [watched.flower.ask(f"/task/{task['uuid']}")[1] for task in watched.tasks.values()]
    pages += [watched.flower.ask(f"/api/task/info/{task['uuid']}")[1] for task in watched.tasks.values()]
    assert not [page for page in pages if SECRET in page]


def test_i03_what_flower_forgets_is_still_on_record(watched: Watched) -> None:
    assert "--persistent=True" in FLOWER_OPTIONS
    before = {name: session.compactions() for name, session in watched.sessions.items()}
    for name, outcome in watched.outcomes.items():
        assert before[name][-1] == outcome
        assert watched.sessions[name].status().last == outcome
    folder = watched.folder / "forgetful"
    folder.mkdir()
    again = watch(watched.env, folder)
    try:
        assert again.json("/api/tasks") == {}
        assert {name: session.compactions() for name, session in watched.sessions.items()} == before
    finally:
        again.child.stop()


def test_i04_each_way_to_end_has_a_word_of_its_own(watched: Watched) -> None:
    for name, (_, code) in ENDS.items():
        task = watched.tasks[name]
        result = ast.literal_eval(task["result"])
        assert (task["state"], result["outcome"]) == ("SUCCESS", code.value)
        assert watched.outcomes[name].outcome is code
        assert json.dumps(result).count("{") == 1, "flat"
    assert ast.literal_eval(watched.tasks["failed"]["result"])["reason"] == "unauthorized"
    assert ast.literal_eval(watched.tasks["exhausted"]["result"])["reason"] == "user_and_assistant_text"
    told = {code.value for code in Code}
    for word in ("applied", "below_threshold", "nothing_to_do", "no_gain", "busy", "stale", "summarizer_failed"):
        assert word in told
