"""What the other calls on a session do, effect by effect, without a server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from compactor.archive import compress
from compactor.commands.read import Rows
from compactor.effects import Effect, Flow, Publish
from compactor.exceptions import ConfigurationError, DispatchError, StoreUnavailableError
from compactor.judging import Fixed, Request, judge
from compactor.models import Code, Erased, Kind, Outcome
from compactor.outcomes import to_json
from tests.unit.chat import calling, result, user
from tests.unit.flows import CONFIG, OVER, Bot, Script, prepared, pushed, record, state, stored


def compact(bot: Bot, script: Script, wait: float = 0.0) -> Outcome:
    return bot.run(lambda flows: flows.compact(wait), script)


class Worker(Script):
    """Answers reads of the state as a worker makes it: the claim of whoever published, done after `rounds` looks."""

    rounds = 2

    def answer(self, effect: Effect) -> Any:
        given = super().answer(effect)
        if not self.published or self.ran[-1] != "state":
            return given
        self.rounds -= 1
        owner = self.published[0]
        if self.rounds > 0:
            return state(claim="running", owner=owner)
        return state(owner=owner, last=to_json(Outcome(Code.APPLIED, id=owner, items=3)))


def worker(bot: Bot) -> Worker:
    return Worker({"state": state(), "prepare": prepared(OVER, claim="queued", claimed=True)}, bot.clock)


def test_a_compaction_asked_for_is_forced_published_and_told_as_it_stands() -> None:
    bot = Bot()
    script = worker(bot)
    outcome = compact(bot, script)
    assert "force" in script.commands[1].args
    assert script.published == [script.commands[1].args[0]] == [outcome.id]
    assert outcome.outcome is Code.RUNNING


def test_a_compaction_waited_for_gives_its_outcome() -> None:
    bot = Bot()
    script = worker(bot)
    outcome = compact(bot, script, wait=5.0)
    assert (outcome.outcome, outcome.items) == (Code.APPLIED, 3)
    assert len(script.pauses) == 1


def test_a_compaction_that_another_took_over_is_stale_and_one_of_a_cleared_session_gone() -> None:
    for after, code in ((state(owner="other"), Code.STALE), (state(revision=0), Code.GONE)):
        bot = Bot()
        script = bot.script(state=[state(), after], prepare=prepared(OVER, claim="queued", claimed=True))
        assert compact(bot, script).outcome is code


def test_below_the_threshold_nothing_is_queued() -> None:
    bot = Bot()
    script = bot.script(state=state(), prepare=prepared([user("a")]))
    assert compact(bot, script).outcome is Code.BELOW_THRESHOLD
    assert script.published == []


def test_a_compaction_that_runs_already_is_told() -> None:
    bot = Bot()
    script = bot.script(state=state(), prepare=prepared(OVER, claim="running", owner="other"))
    outcome = compact(bot, script)
    assert (outcome.outcome, outcome.id) == (Code.RUNNING, "other")


def test_a_broker_that_is_down_is_raised_when_a_compaction_was_asked_for() -> None:
    bot = Bot()
    script = bot.script(
        state=state(), prepare=prepared(OVER, claim="queued", claimed=True), publish=DispatchError("no"), unqueue=True
    )
    with pytest.raises(DispatchError):
        compact(bot, script)
    assert script.ran[-2:] == ["unqueue", "turns"]


def test_a_recall_id_is_checked_before_anything_is_asked() -> None:
    bot = Bot()
    script = bot.script()
    with pytest.raises(ConfigurationError, match="m12"):
        bot.run(lambda flows: flows.recall("12"), script)
    assert script.ran == []


def test_a_recall_gives_the_original() -> None:
    bot = Bot()
    script = bot.script(recall=record(result("a", "long")))
    assert bot.run(lambda flows: flows.recall("m2"), script) == result("a", "long")
    assert script.commands[0].args == (2,)


def test_originals_undo_every_replacement() -> None:
    bot = Bot()
    chat = [user("a"), calling("c"), result("c", "short")]
    held = stored(chat)
    rows = (*held.records[:2], replace(held.records[2], kind=Kind.SUMMARY))
    whole = Rows(0, [row.pack() for row in rows], {2: compress(record(result("c", "long")).pack())})
    originals = bot.run(lambda flows: flows.originals(), bot.script(rows=whole))
    assert originals == [user("a"), calling("c"), result("c", "long")]


def test_the_audit_is_read_as_outcomes() -> None:
    bot = Bot()
    rows = [to_json(Outcome(Code.APPLIED, id="a")), to_json(Outcome(Code.NO_GAIN, id="b"))]
    assert [outcome.id for outcome in bot.run(lambda flows: flows.compactions(), bot.script(audit=[rows]))] == [
        "a",
        "b",
    ]


def test_a_clear_has_a_name_of_its_own() -> None:
    bot = Bot()
    scripts = [bot.script(clear=Erased(7)), bot.script(clear=Erased())]
    assert [bot.run(lambda flows: flows.clear(), script) for script in scripts] == [7, 0]
    assert scripts[0].commands[0].args[0] != scripts[1].commands[0].args[0]


def test_a_clear_whose_answer_was_lost_is_repeated_under_its_name() -> None:
    bot = Bot()
    scripts = [bot.script(clear=StoreUnavailableError("no answer")), bot.script(clear=Erased(7))]
    with pytest.raises(StoreUnavailableError):
        bot.run(lambda flows: flows.clear(), scripts[0])
    assert bot.run(lambda flows: flows.clear(), scripts[1]) == 7
    assert scripts[0].commands[0].args[0] == scripts[1].commands[0].args[0]


def test_a_clear_after_new_messages_is_a_new_clear() -> None:
    bot = Bot()
    first, second = bot.script(clear=StoreUnavailableError("no answer")), bot.script(clear=Erased(1))
    with pytest.raises(StoreUnavailableError):
        bot.run(lambda flows: flows.clear(), first)
    bot.run(lambda flows: flows.push(user("new")), bot.script(push=pushed()))
    bot.run(lambda flows: flows.clear(), second)
    assert first.commands[0].args[0] != second.commands[0].args[0]


def test_the_same_words_in_a_new_conversation_are_a_new_message() -> None:
    bot = Bot()
    first, second = bot.script(push=StoreUnavailableError("no answer")), bot.script(push=pushed())
    with pytest.raises(StoreUnavailableError):
        bot.run(lambda flows: flows.push(user("hi")), first)
    bot.run(lambda flows: flows.clear(), bot.script(clear=Erased(1)))
    bot.run(lambda flows: flows.push(user("hi")), second)
    assert first.commands[0].args[0] != second.commands[0].args[0]


def test_a_compaction_asked_for_by_another_model_is_judged_in_its_own_encoding() -> None:
    bot = Bot()
    other = judge(CONFIG, Request(), Fixed(3, 0), "cl100k_base")
    script = bot.script(state=state(judged=other.json), prepare=prepared([user("a")]))
    compact(bot, script)
    assert script.commands[1].args[2] == "o200k_base"


def test_a_compaction_waits_for_the_one_that_runs_and_then_takes_its_turn() -> None:
    bot = Bot()
    script = bot.script(
        state=state(),
        prepare=[prepared(OVER, claim="running"), prepared([], length=len(OVER))],
    )
    assert compact(bot, script, wait=5.0).outcome is Code.BELOW_THRESHOLD
    assert len(script.pauses) == 1


def test_a_claim_that_could_not_be_given_back_is_taken_up_by_the_next_call() -> None:
    bot = Bot()
    script = bot.script(
        state=state(), prepare=prepared(OVER, claim="queued", claimed=True), publish=DispatchError("no"),
        unqueue=StoreUnavailableError("no answer"),
    )  # fmt: skip
    with pytest.raises(DispatchError):
        compact(bot, script)
    owner = script.published[0]
    again = bot.script(state=state(), prepare=prepared([], length=len(OVER)))
    compact(bot, again)
    assert owner in again.commands[1].args


def test_a_call_cancelled_while_it_published_leaves_its_claim_to_the_next() -> None:
    for start in ("prepare", "compact"):
        bot = Bot()
        script = bot.script(state=state(), prepare=prepared(OVER, claim="queued", claimed=True))
        flow: Flow[Any] = bot.flows.prepare(Request()) if start == "prepare" else bot.flows.compact()
        effect = next(flow)
        while not isinstance(effect, Publish):
            effect = flow.send(script.answer(effect))
        flow.close()
        again = bot.script(prepare=prepared([], length=len(OVER)))
        bot.run(lambda flows: flows.prepare(Request()), again)
        assert effect.owner in again.commands[0].args


def test_a_config_must_be_one() -> None:
    config: Any = {"model": "gpt-4o"}
    with pytest.raises(ConfigurationError, match="ModelConfig"):
        Bot(config)
