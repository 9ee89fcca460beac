"""`compactor show`, `status` and `recall` tell of a session what is true of it."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import Any

import pytest

from compactor import Code, Compactor, ModelConfig, Outcome, Session, __version__
from compactor.embedded import free_port
from compactor.price_table import PriceTable
from compactor.pricing import dollars
from compactor.settings import read_settings
from tests.acceptance.cli_process import SCRIPT, run
from tests.acceptance.conftest import Service
from tests.integration.conversations import recount

CONFIG = ModelConfig("gpt-4o", 4)
ESCAPES = "\x1b[31mred\x1b[0m \u202egnp.exe"


@dataclass(frozen=True, slots=True)
class Compacted:
    """A session that was compacted once, what was pushed to it, and where the commands find it."""

    name: str
    session: Session
    pushed: list[dict[str, Any]]
    outcome: Outcome
    env: dict[str, str]


def reading() -> list[dict[str, Any]]:
    """Eight steps of one turn, more than a window of 4K holds."""
    pushed: list[dict[str, Any]] = [
        {"role": "system", "content": "You read files."},
        {"role": "user", "content": f"读取所有文件 {ESCAPES}"},
    ]
    for number in range(8):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n": {number}}}'}}
        pushed.append({"role": "assistant", "content": None, "tool_calls": [call]})
        text = "\n".join(f"row {row} of {number}: value {row * number}" for row in range(60))
        pushed.append({"role": "tool", "tool_call_id": f"c{number}", "content": text})
    return pushed


def once_compacted(service: Service, name: str, *, folds: bool) -> Compacted:
    pushed = reading()
    session = service.memory.session(name, CONFIG)
    session.push(pushed)
    session.prepare(keep_rows=not folds, wait=30, wait_for="swap")
    (outcome,) = session.compactions()
    assert outcome.outcome is Code.APPLIED
    assert bool(outcome.by_fold) is folds
    settings = service.settings
    env = {"REDIS_URL": settings.redis_url.get_secret_value(), "COMPACTOR_NAMESPACE": settings.namespace}
    return Compacted(name, session, pushed, outcome, env)


@pytest.fixture(scope="module")
def compacted(modelless: Service) -> Compacted:
    return once_compacted(modelless, "cli/compacted", folds=False)


@pytest.fixture(scope="module")
def folded(modelless: Service) -> Compacted:
    return once_compacted(modelless, "cli/folded", folds=True)


def test_show_lists_every_live_message_with_what_it_shows(compacted: Compacted) -> None:
    rows = run("show", compacted.name, "--json", env=compacted.env).rows
    assert [row["position"] for row in rows] == list(range(len(compacted.pushed)))
    assert [row["role"] for row in rows] == [message["role"] for message in compacted.pushed]
    assert tuple(row["position"] for row in rows if row["replaced"]) == compacted.outcome.positions
    for row, original in zip(rows, compacted.pushed, strict=True):
        assert (row["message"] == original) is not row["replaced"]
        assert row["kind"] == ("extract" if row["replaced"] else "original")
    assert sum(row["tokens"] for row in rows) == compacted.session.status().totals["o200k_base"]


def test_show_as_a_table_is_safe_on_a_terminal(compacted: Compacted) -> None:
    ended = run("show", compacted.name, env=compacted.env | {"COLUMNS": "120"})
    lines = ended.out.splitlines()
    assert len(lines) == len(compacted.pushed) + 2
    assert sum(" extract " in line for line in lines) == compacted.outcome.items
    assert "读取所有文件" in ended.out
    assert not set(ended.out) & set("\x1b\u202e")
    assert f"{compacted.outcome.items} replaced" in lines[-1]


def test_show_lists_a_fold_and_every_message_that_it_tells_of(folded: Compacted) -> None:
    rows = run("show", folded.name, "--json", env=folded.env).rows
    assert [row["position"] for row in rows] == list(range(len(folded.pushed)))
    assert [row["role"] for row in rows] == [message["role"] for message in folded.pushed]
    assert tuple(row["position"] for row in rows if row["replaced"]) == folded.outcome.positions
    for row, original in zip(rows, folded.pushed, strict=True):
        assert (row["message"] == original) is not row["replaced"]
        assert (row["kind"] == "original") is not row["replaced"]
    kinds = [row["kind"] for row in rows]
    assert kinds.count("fold") + kinds.count("folded") == folded.outcome.by_fold
    assert kinds.count("extract") == folded.outcome.by_extract == folded.outcome.items - folded.outcome.by_fold
    sent = folded.session.prepare().messages
    assert [row["message"] for row in rows if row["kind"] != "folded"] == sent
    assert sum(row["tokens"] for row in rows) == folded.session.status().totals["o200k_base"] == recount(sent)
    table = run("show", folded.name, env=folded.env | {"COLUMNS": "120"}).out.splitlines()
    assert len(table) == len(folded.pushed) + 2
    for kind in ("fold", "folded", "extract"):
        assert sum(f" {kind} " in line for line in table[1:-1]) == kinds.count(kind)
    assert f"{folded.outcome.items} replaced" in table[-1]


def test_a_terminal_that_knows_only_ascii_gets_question_marks(compacted: Compacted) -> None:
    ended = run("show", compacted.name, env=compacted.env | {"PYTHONIOENCODING": "ascii"})
    assert ended.code == 0, ended.err
    assert "??????" in ended.out
    rows = run("show", compacted.name, "--json", env=compacted.env | {"PYTHONIOENCODING": "ascii"}).rows
    assert rows[1]["message"] == compacted.pushed[1]


def test_recall_prints_the_original_of_a_replaced_message(compacted: Compacted) -> None:
    for position in (compacted.outcome.positions[0], 0):
        ended = run("recall", compacted.name, f"m{position}", "--json", env=compacted.env)
        assert ended.row == compacted.pushed[position]
    plain = run("recall", compacted.name, f"m{compacted.outcome.positions[0]}", env=compacted.env)
    assert plain.out == compacted.pushed[compacted.outcome.positions[0]]["content"] + "\n"


def test_status_of_a_session(compacted: Compacted) -> None:
    row = run("status", compacted.name, "--json", env=compacted.env).row
    assert row["length"] == len(compacted.pushed)
    assert row["archived"] == compacted.outcome.items
    assert row["claim"] == "idle"
    assert row["last"]["outcome"] == "applied"
    assert row["audit"][0]["saved"] == compacted.outcome.saved
    table = run("status", compacted.name, env=compacted.env).out
    assert f"{compacted.outcome.items:,} originals" in table
    assert f"{compacted.outcome.saved:,}" in table


def test_status_tells_what_a_compaction_cost_and_saves(compacted: Compacted) -> None:
    bill = compacted.outcome.bill
    assert bill is not None
    assert bill.net is not None
    row = run("status", compacted.name, "--json", env=compacted.env).row
    assert row["audit"][0]["bill"] == {**asdict(bill), "saved": bill.saved, "net": bill.net}
    listed = PriceTable(read_settings())(CONFIG.model)
    assert listed is not None
    assert bill.step_before == pytest.approx(float(listed.cache_read) * compacted.outcome.before, abs=1)
    assert bill.spent == 0, "extracts"
    table = run("status", compacted.name, env=compacted.env | {"COLUMNS": "140"}).out
    assert f"{dollars(bill.rewrite)} " in table
    assert f" {bill.payback:g} steps " in table
    assert f" {dollars(bill.net)}" in table


def test_status_of_the_server_names_queue_and_workers(compacted: Compacted) -> None:
    row = run("status", "--json", env=compacted.env).row
    assert (row["redis"], row["broker"], row["queue_length"]) == (True, True, 0)
    assert row["queue"] == "compaction.modelless"
    assert len(row["workers"]) == 1


def test_status_counts_tasks_that_no_worker_takes(modelless: Service) -> None:
    settings = modelless.settings.model_copy(update={"namespace": "unserved"})
    with Compactor(settings=settings) as memory:
        session = memory.session("cli/waiting", CONFIG)
        session.push([{"role": "user", "content": "word " * 5_000}])
        assert session.prepare().verdict.compaction == "queued"
    env = {"REDIS_URL": settings.redis_url.get_secret_value(), "COMPACTOR_NAMESPACE": "unserved"}
    row = run("status", "--json", env=env).row
    assert (row["queue_length"], row["workers"]) == (1, [])


def test_status_names_the_tenants_whose_sessions_wait_for_their_turn(modelless: Service) -> None:
    settings = modelless.settings.model_copy(update={"namespace": "crowded", "tenant_published": 1})
    with Compactor(settings=settings) as memory:
        for name in ("crowd/1", "crowd/2", "crowd/3", "alone/1"):
            session = memory.session(name, CONFIG)
            session.push([{"role": "user", "content": "word " * 5_000}])
            assert session.prepare().verdict.compaction == "queued"
    env = {"REDIS_URL": settings.redis_url.get_secret_value(), "COMPACTOR_NAMESPACE": "crowded"}
    row = run("status", "--json", env=env).row
    assert (row["queue_length"], row["tenants"]) == (2, {"crowd": {"published": 1, "waiting": 2}})
    assert "1 published, 2 waiting for their turn" in run("status", env=env).out


def test_status_without_a_server_exits_with_1() -> None:
    ended = run("status", "--json", env={"REDIS_URL": f"redis://127.0.0.1:{free_port()}/0"})
    assert ended.code == 1
    assert (ended.row["redis"], ended.row["broker"]) == (False, False)


@pytest.mark.parametrize("command", [("show", "cli/none"), ("status", "cli/none"), ("recall", "cli/none", "m0")])
def test_an_unknown_session_is_an_error(compacted: Compacted, command: tuple[str, ...]) -> None:
    ended = run(*command, env=compacted.env)
    assert ended.code == 2
    assert ended.err.startswith("error session: not found.")
    assert ended.out == ""


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("recall", "cli/compacted", "12"), "recall id: expected the letter m and a position"),
        (("recall", "cli/compacted", "m999"), "this session holds no such message"),
        (("show", "with {braces}"), "session id: expected 1-200 characters"),
        (("status", "--tenant", "acme/chat"), "--tenant: expected what stands before the first slash"),
        (("status", "cli/compacted", "--tenant", "acme"), "expected a session or --tenant, not both"),
    ],
)
def test_a_wrong_argument_is_told_what_was_expected(compacted: Compacted, command: tuple[str, ...], said: str) -> None:
    ended = run(*command, env=compacted.env)
    assert ended.code == 2
    assert said in ended.err


def test_an_error_keeps_what_stands_in_brackets() -> None:
    """The advice of an error is text, not markup of the terminal library."""
    raising = (
        "import compactor.cli.app as app; from compactor import EmbeddedServerError\n"
        "app.COMMANDS = ()\n"
        "@app.app.command()\n"
        "def fail() -> None: raise EmbeddedServerError('pip install compactor[embedded]')\n"
        "app.main()"
    )
    ended = run("fail", program=(sys.executable, "-c", raising))
    assert (ended.code, ended.out, ended.err) == (2, "", "error pip install compactor[embedded]\n")


@pytest.mark.parametrize(
    "program", [SCRIPT, (sys.executable, "-m", "compactor"), (sys.executable, "-m", "compactor.cli")]
)
def test_the_script_and_both_modules_are_the_same_program(program: tuple[str, ...]) -> None:
    assert run("--version", program=program).out.strip() == __version__
