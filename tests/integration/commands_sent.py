"""The very commands that clients and workers send, one for each script, caught before they leave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from compactor import ModelConfig
from compactor.commands import (
    api_keys,
    breaker,
    claim,
    configs,
    counters,
    dead,
    read,
    spending,
    summaries,
    tenants,
    turns,
)
from compactor.commands.command import Command
from compactor.embedded import free_port
from compactor.exceptions import SummarizerRateLimited
from compactor.models import CompactionId, Erased, SessionId
from tests.integration.conversations import OTHER_ENCODING, conversation, step, user
from tests.integration.stage import NAME, SESSION, Stage

WAITING = ModelConfig("gpt-4o", 12, compact_at=6, max_output_tokens=3_000, prefer_idle=True)


@dataclass(frozen=True, slots=True)
class Case:
    """How a command comes about; what of its answer is told, when carried out first and when repeated after that."""

    sent: Callable[[Stage], Command[Any]]
    told: Callable[[Any], object]
    first: object
    again: object
    reads: bool = False  # changes nothing
    counts: bool = False  # a statistic: a repeat counts once more


def _pushed(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda session: session.push(step(1)))


def _listed(stage: Stage) -> Command[Any]:
    stage.session.sync(conversation(1))
    return stage.by_client(lambda session: session.prepare(messages=[*conversation(1), *step(1)]))


def _reworded(stage: Stage) -> Command[Any]:
    stage.session.sync([*conversation(1), user("first words")])
    other = [*conversation(1), user("other words")]
    return stage.by_client(lambda session: session.prepare(messages=other), knows=True)


def _rewound(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda session: session.rewind("m1"))


def _prepared(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    return stage.by_client(lambda session: session.prepare())


def _recounted(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda session: session.estimate(), config=OTHER_ENCODING)


def _recalled(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda session: session.recall("m3"))


def _cleared(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda session: session.clear())


def _erased(stage: Stage) -> Command[Any]:
    stage.compact()
    return stage.by_client(lambda session: session.erase())


def _forked(stage: Stage) -> Command[Any]:
    stage.compact()
    return stage.by_client(lambda session: session.fork(f"{NAME}-copy"))


def _undone(stage: Stage) -> Command[Any]:
    stage.compact()
    return stage.by_client(lambda session: session.undo())


def _let_go(stage: Stage) -> Command[Any]:
    compaction = stage.compact()
    stage.session.undo()
    return stage.by_client(lambda session: session.release(compaction.id))


def _unqueued(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    nowhere = type(stage.settings.redis_url)(f"redis://127.0.0.1:{free_port()}/0")
    settings = stage.settings.model_copy(update={"broker_url": nowhere})
    return stage.by_client(lambda session: session.prepare(), settings)


def _worked(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    stage.session.prepare()
    return stage.by_worker()


def _released(stage: Stage) -> Command[Any]:
    stage.session.push([user("word " * 1_000) for _ in range(7)])
    stage.session.prepare()
    return stage.by_worker()


def _retried(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(7))
    stage.session.prepare()
    stage.worker.tools = replace(stage.worker.tools, summarize=rate_limited)
    return stage.by_worker()


def rate_limited(requests: Any, *, done: Callable[[int, Any], None], **_: Any) -> list[Any]:
    """A summarizer whose server asks for a pause."""
    answers = [SummarizerRateLimited(retry_after=7.5) for _ in requests]
    for order, answer in enumerate(answers):
        done(order, answer)
    return list(answers)


def _crashed(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    stage.session.prepare()
    owner = stage.worker.owner(NAME)
    stage.worker.begin(NAME, owner)
    return dead.crash(stage.keys, owner=owner, pause_ms=90_000, error="KeyError at here.py:1", max_attempts=3)


def _revived(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    stage.session.prepare()
    stage.worker.begin(NAME, stage.worker.owner(NAME), lease=0)
    return dead.revive(stage.keys)


def _listed_as_dead(stage: Stage) -> Command[Any]:
    return dead.add(stage.settings.namespace, SESSION, attempts=3)


def _forgotten(stage: Stage) -> Command[Any]:
    stage.store.run(_listed_as_dead(stage))
    entries = stage.store.run(dead.read_page(stage.settings.namespace, 0)).entries
    return dead.forget(stage.settings.namespace, entries)


def _counted(stage: Stage) -> Command[Any]:
    return counters.add(stage.settings.namespace, counters.EVICTED)


def _reported(stage: Stage) -> Command[Any]:
    return tenants.report(stage.settings.namespace, SESSION, 4_096, life_ms=90_000)


def _settled(stage: Stage) -> Command[Any]:
    return breaker.settle(_circuit(stage), answered=False, failures=5, pause_ms=90_000)


def _paused(stage: Stage) -> Command[Any]:
    return breaker.pause(_circuit(stage), pause_ms=90_000)


def _admitted(stage: Stage) -> Command[Any]:
    stage.store.run(breaker.settle(_circuit(stage), answered=False, failures=1, pause_ms=0))
    return breaker.admit(_circuit(stage), trial_ms=90_000)


def _joined(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    return stage.by_client(lambda session: session.prepare())


def _left(stage: Stage) -> Command[Any]:
    """The end of a task whose tenant may have one at a time, and has another session waiting."""
    line = turns.Line(stage.settings.namespace, most=1, kept_ms=90_000)
    stage.store.run(line.join(SESSION, CompactionId("owner"), operation="a"))
    stage.store.run(line.join(SessionId(f"{NAME}-2"), CompactionId("other"), operation="b"))
    return line.leave(SESSION, CompactionId("owner"), most=32, operation="c")


def _come(answer: Any) -> object:
    return answer.waiting, [turn.session for turn in answer.come]


def _turn_came(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    stage.session.prepare()
    owner = stage.worker.owner(NAME)
    stage.worker.begin(NAME, owner)
    stage.store.run(claim.retry(stage.keys, owner=owner, wait_ms=0, patience_ms=0))
    return claim.publishing(stage.keys, owner=owner, patience_ms=800_000)


def _crowded(stage: Stage) -> Command[Any]:
    return turns.enter_crowded(stage.settings.namespace, "cut")


def _circuit(stage: Stage) -> str:
    return breaker.breaker_key(stage.settings.namespace, "server", "model")


def _learned(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(1))
    return stage.by_client(lambda session: session.prepare().report_usage({"prompt_tokens": 2_000}))


_KEY = api_keys.ApiKey("00aa11bb22cc33dd", "ff" * 32, "cut")
_BODY = b'{"name":"main","provider":"openai","model":"gpt-4o","context_limit":128}'


def _issued(stage: Stage) -> Command[Any]:
    return api_keys.issue(stage.settings.namespace, _KEY)


def _revoked(stage: Stage) -> Command[Any]:
    stage.store.run(_issued(stage))
    return api_keys.revoke(stage.settings.namespace, _KEY.id)


def _place(stage: Stage) -> configs.Place:
    return configs.Place(stage.settings.namespace, "cut", "u1", "config-1")


def _config_made(stage: Stage) -> Command[Any]:
    written = configs.Written(_BODY, is_default=True, key="set", sealed=b"sealed")
    return configs.write(_place(stage), written, operation="made", expected=None, most=10)


def _config_changed(stage: Stage) -> Command[Any]:
    stage.store.run(_config_made(stage))
    written = configs.Written(_BODY, is_default=False, key="drop")
    return configs.write(_place(stage), written, operation="changed", expected=1, most=10)


def _config_deleted(stage: Stage) -> Command[Any]:
    stage.store.run(_config_made(stage))
    return configs.delete(_place(stage), operation="deleted", expected=1)


def _configs_listed(stage: Stage) -> Command[Any]:
    stage.store.run(_config_made(stage))
    return configs.read_all(stage.settings.namespace, "cut", "u1")


def _config_bound_to(stage: Stage) -> Command[Any]:
    stage.store.run(_config_made(stage))
    return configs.bind(stage.settings.namespace, "cut", "session", "u1", "config-1", life_ms=90_000)


def _config_looked_up(stage: Stage) -> Command[Any]:
    stage.store.run(_config_bound_to(stage))
    return configs.bound(stage.settings.namespace, "cut", "session", life_ms=90_000)


def _resealed(stage: Stage) -> Command[Any]:
    stage.store.run(_config_made(stage))
    return configs.reseal(stage.settings.namespace, "cut", "config-1", b"sealed", b"sealed anew")


def _remembered(stage: Stage) -> Command[Any]:
    stage.session.push(conversation(8))
    stage.session.prepare()
    named = summaries.conversation_of(stage.store.run(read.read_history(stage.keys)).raw)
    return summaries.remember(stage.keys, "name", b'{"text": "rows"}', conversation=named, spent=(100, 20))


def _whole(answer: Any) -> object:
    return answer


def _version(config: Any) -> object:
    return config.version, config.is_default


def _versions(found: Any) -> object:
    return [_version(config) for config in found]


_ORIGINAL = conversation(1)[3]
_ERASED = Erased(messages=19, archived=7, cleared=0, audit=1)


def _set_aside(stage: Stage) -> Command[Any]:
    caps = spending.Caps(micro=100)
    return spending.reserve(stage.settings.namespace, "acme", "run:1", micro=60, tokens=9, caps=caps)


def _spent(stage: Stage) -> Command[Any]:
    stage.store.run(_set_aside(stage))
    return spending.enter(stage.settings.namespace, "acme", "run:1", {"micro": 40, "tokens": 7})


def _drafted(stage: Stage) -> Command[Any]:
    session = stage.memory.session(NAME, WAITING)
    session.push(conversation(8))
    session.prepare()
    return stage.by_worker()


def _draft_taken(stage: Stage) -> Command[Any]:
    session = stage.memory.session(NAME, WAITING)
    session.push(conversation(8))
    session.prepare()
    stage.worker.work(NAME)
    return claim.swap_kept(stage.keys, is_cold=True, rules=())


CASES = {  # by script, and behind a colon what is special
    "push": Case(_pushed, lambda pushed: (pushed.first, pushed.length), (5, 7), (5, 7)),
    "sync": Case(_listed, lambda both: (both[0].status, both[1].length), ("ok", 6), ("ok", 6)),
    "sync:reworded": Case(_reworded, lambda both: both[0].status, "ok", "changed"),
    "sync:rewound": Case(_rewound, lambda synced: synced.status, "ok", "changed"),
    "prepare": Case(_prepared, lambda both: (both[1].claim, both[1].claimed), ("queued", True), ("queued", True)),
    "recount": Case(_recounted, _whole, True, True),
    "recall": Case(_recalled, lambda record: record.value(), _ORIGINAL, _ORIGINAL, reads=True),
    "clear": Case(_cleared, lambda ended: ended.messages, 5, 5),
    "clear:erased": Case(_erased, _whole, _ERASED, _ERASED),
    "fork": Case(_forked, _whole, True, True),
    "restore": Case(_undone, _whole, True, False),
    "unkeep": Case(_let_go, _whole, 7, 0),
    "unqueue": Case(_unqueued, _whole, True, False),
    "begin": Case(_worked, lambda begin: begin.begun.value, "running", "busy"),
    "archive": Case(_worked, _whole, "ok", "ok"),
    "swap": Case(_worked, _whole, "applied", "applied"),
    "swap:kept": Case(_draft_taken, lambda outcome: outcome and outcome.outcome.value, "applied", None),
    "keep": Case(_drafted, _whole, "kept", "kept"),
    "reserve": Case(_set_aside, _whole, True, True),
    "spend": Case(_spent, _whole, True, False),
    "release": Case(_released, _whole, True, True),
    "retry": Case(_retried, _whole, True, True),
    "crash": Case(_crashed, _whole, "released", "lost"),
    "revive": Case(_revived, _whole, "revived", "revived"),
    "dead": Case(_listed_as_dead, _whole, True, False),
    "forget": Case(_forgotten, _whole, 1, 0),
    "sizes": Case(_reported, _whole, 4_096, 4_096),
    "count": Case(_counted, _whole, 1, 2, counts=True),
    "anchor": Case(_learned, lambda stands: stands.split()[2], "2000", "2000"),
    "issue_key": Case(_issued, _whole, True, True),
    "revoke_key": Case(_revoked, _whole, True, True),
    "config_write": Case(_config_made, _version, (1, True), (1, True)),
    "config_write:changed": Case(_config_changed, _version, (2, False), (2, False)),
    "config_delete": Case(_config_deleted, _whole, None, None),
    "config_list": Case(_configs_listed, _versions, [(1, True)], [(1, True)], reads=True),
    "config_bind": Case(_config_bound_to, _version, (1, True), (1, True)),
    "config_bound": Case(_config_looked_up, _version, (1, True), (1, True), reads=True),
    "config_reseal": Case(_resealed, _whole, True, False),
    "remember": Case(_remembered, _whole, True, True),
    "settle": Case(_settled, _whole, False, False, counts=True),
    "turns": Case(_joined, _come, (0, [NAME]), (0, [NAME])),
    "turns:left": Case(_left, _come, (0, [f"{NAME}-2"]), (0, [f"{NAME}-2"])),
    "publishing": Case(_turn_came, _whole, True, True),
    "crowded": Case(_crowded, _whole, 1, 1),
    "pause": Case(_paused, _whole, True, True),
    "admit": Case(_admitted, lambda admission: admission.circuit.value, "trial", "tried"),
}


def script_of(case: str) -> str:
    """The script that a case is of."""
    return case.partition(":")[0]
