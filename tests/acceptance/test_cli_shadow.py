"""`compactor shadow` sums up a trial that a real worker ran: bots in shadow mode, a worker like any other."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from compactor import Code, Compactor
from compactor.bills import Bill
from compactor.cli.shadow import Trial
from compactor.models import Outcome
from compactor.settings import Settings
from tests.acceptance.cli_process import Ended, run
from tests.acceptance.conftest import Service
from tests.integration.conversations import SMALL, conversation


@pytest.fixture
def trying(modelless: Service) -> Iterator[Compactor]:
    settings = modelless.settings.model_copy(update={"shadow": "extracts"})
    with Compactor(settings=settings) as memory:
        yield memory


def told(settings: Settings, *options: str) -> Ended:
    env = {"REDIS_URL": settings.redis_url.get_secret_value(), "COMPACTOR_NAMESPACE": settings.namespace}
    return run("shadow", *options, env=env)


def test_a_trial_on_a_real_worker_is_told_in_figures(trying: Compactor, modelless: Service) -> None:
    tenant = f"trial-{uuid.uuid4().hex[:8]}"
    for number in range(2):
        session = trying.session(f"{tenant}/{number}", SMALL)
        session.push(conversation(9))
        assert session.compact(wait=20).outcome is Code.SHADOW
        assert session.originals() == session.prepare().messages == conversation(9)
    trying.session(f"{tenant}/short", SMALL).push(conversation(1))
    figures = told(modelless.settings, "--tenant", tenant, "--json").rows[0]
    assert (figures["sessions"], figures["compacted_sessions"], figures["compactions"]) == (3, 2, 2)
    assert figures["freed"] > 6_000
    assert 40 < figures["freed_percent"] < 100
    assert figures["replaced"]["extract"] + figures["replaced"]["condensed"] >= 8
    assert figures["values_used"] == 0
    assert figures["kept_percent"] is None
    shown = told(modelless.settings, "--tenant", tenant).out
    assert "3, of which 2 would have been compacted" in shown
    assert f"{figures['freed']:,} of {figures['before']:,} would have left" in " ".join(shown.split())


def test_the_doctor_says_that_a_trial_is_on(modelless: Service) -> None:
    env = {
        "REDIS_URL": modelless.settings.redis_url.get_secret_value(),
        "COMPACTOR_NAMESPACE": modelless.settings.namespace,
        "COMPACTOR_SHADOW": "extracts",
    }
    checks = {check["check"]: check for check in run("doctor", "--json", env=env).row["checks"]}
    assert checks["shadow mode"]["level"] == "ok"
    assert "replace nothing" in checks["shadow mode"]["text"]


def test_before_a_trial_it_says_how_to_begin_one(settings: Settings) -> None:
    assert "COMPACTOR_SHADOW=extracts" in " ".join(told(settings).out.split())


def test_real_compactions_and_unknown_prices_are_no_part_of_the_sums() -> None:
    trial = Trial()
    priced = Bill(spent=5, rewrite=10, step_before=100, step_after=40, steps=3)
    trial.add([
        Outcome(Code.SHADOW, before=100, after=40, values_used=4, values_kept=3, bill=priced),
        Outcome(Code.SHADOW, before=100, after=60, bill=Bill()),
        Outcome(Code.APPLIED, before=900, after=1),
        Outcome(Code.NO_GAIN, before=100, after=100),
    ])  # fmt: skip
    assert (trial.compactions, trial.freed, trial.freed_percent, trial.kept_percent) == (2, 100, 50.0, 75.0)
    assert (trial.spent, trial.net, trial.unpriced) == (5, priced.net, 1)
    assert trial.without_gain == {"no_gain": 1}
