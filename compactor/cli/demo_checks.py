"""What must be true at the end of the demo, checked against the store and against what was pushed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from compactor.cli.demo_agent import KEPT_ROLES, Agent
from compactor.cli.reading import stored_session
from compactor.client import Compactor
from compactor.commands.read import Stored
from compactor.formats.openai import text_of
from compactor.models import Code, Fit, Kind, recall_id
from compactor.records import write_json
from compactor.tokens import PER_REQUEST, count_message
from compactor.validity import added_faults


@dataclass(frozen=True, slots=True)
class Check:
    """One promise: what was found, and whether it holds."""

    name: str
    title: str
    found: str
    ok: bool


@dataclass(frozen=True, slots=True)
class Sample:
    """One result in its shortened form, with its tokens before and after."""

    recall_id: str
    before: int
    after: int
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """The end of the demo; `before` and `after` are the tokens of the next send without and with Compactor."""

    checks: tuple[Check, ...]
    figures: dict[str, Any]
    sample: Sample | None = None

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)


def verify(memory: Compactor, name: str, agent: Agent, *, goal: int) -> Report:
    """Reads the session back and compares it, byte for byte, with what the agent pushed."""
    stored = stored_session(memory, name)
    faults = agent.faults + added_faults(
        agent.pushed, [record.value() for record in stored.records if record.kind is not Kind.FOLDED]
    )
    replaced = [position for position, record in enumerate(stored.records) if record.kind]
    same = sum(agent.session.recall(recall_id(position)) == agent.pushed[position] for position in replaced)
    kept, unchanged = _kept(stored, agent.pushed)
    results = sum(message["role"] == "tool" for message in agent.pushed)
    now = agent.session.estimate(tools=agent.tools)
    originals = agent.session.originals()
    figures = {
        "messages": len(agent.pushed),
        "sends": len(agent.sends),
        "shortened": sum(send.fit is not Fit.FITS for send in agent.sends),
        "compactions": agent.applied,
        "before": agent.raw + now.tools + PER_REQUEST,
        "after": now.total,
        "results": results,
        "replaced": len(replaced),
        "by_model": sum(outcome.by_model for outcome in agent.outcomes),
        "by_extract": sum(outcome.by_extract for outcome in agent.outcomes),
        "by_condensed": sum(outcome.by_condensed for outcome in agent.outcomes),
        "by_arguments": sum(outcome.by_arguments for outcome in agent.outcomes),
        "by_pointer": sum(outcome.by_pointer for outcome in agent.outcomes),
        "by_fold": sum(outcome.by_fold for outcome in agent.outcomes),
        "failures": sorted({run.reason for run in agent.outcomes if run.outcome is Code.SUMMARIZER_FAILED}),
        "kept_messages": kept,
        "kept_unchanged": unchanged,
        "recalled": len(replaced),
        "recalled_same": same,
        "lost": sum(message not in originals for message in agent.pushed),
        "faults": dict(+faults),
        "largest_send": max(send.sent for send in agent.sends),
        "ceiling": agent.ceiling,
        "sent_in_all": sum(send.sent for send in agent.sends),
        "outgrown": next((send.number for send in agent.sends if send.raw > send.limit), 0),
        "sent_without": sum(send.raw for send in agent.sends),
    }
    checked = checks(figures, goal=goal, changed=agent.changed, in_order=originals == agent.pushed)
    return Report(checked, figures, _sample(stored, agent, replaced))


def _sample(stored: Stored, agent: Agent, replaced: list[int]) -> Sample | None:
    """The replacement that saved most."""
    rows = [
        (count_message(agent.pushed[at], agent.encode), count_message(stored.records[at].value(), agent.encode), at)
        for at in replaced
    ]
    if not rows:
        return None
    before, after, at = max(rows, key=lambda row: row[0] - row[1])
    return Sample(recall_id(at), before, after, text_of(stored.records[at].value()))


def _kept(stored: Stored, pushed: list[dict[str, Any]]) -> tuple[int, int]:
    """How many system and user messages there are, and how many of them are byte-identical."""
    pairs = [
        (record.text, write_json(message)[0])
        for record, message in zip(stored.records, pushed, strict=False)
        if message["role"] in KEPT_ROLES
    ]
    return sum(message["role"] in KEPT_ROLES for message in pushed), sum(text == own for text, own in pairs)


def checks(seen: dict[str, Any], *, goal: int, changed: int, in_order: bool) -> tuple[Check, ...]:
    """Judges the figures; `changed` counts altered messages in lists sent, `in_order` says all originals match."""
    faults = ", ".join(f"{count} {code}" for code, count in seen["faults"].items())
    return (
        Check(
            "compacted",
            "compacted while the agent went on",
            f"{seen['compactions']} times",
            seen["compactions"] >= goal,
        ),
        Check(
            "smaller",
            "tokens of the next send, before and after",
            f"{seen['before']:,} -> {seen['after']:,}",
            0 < seen["after"] < seen["before"],
        ),
        Check(
            "replaced",
            "tool results replaced",
            f"{seen['replaced']} of {seen['results']}",
            0 < seen["replaced"] <= seen["results"],
        ),
        Check(
            "unchanged",
            "system and user messages unchanged",
            f"{seen['kept_unchanged']} of {seen['kept_messages']}",
            changed == 0 and seen["kept_unchanged"] == seen["kept_messages"],
        ),
        Check(
            "recalled",
            "originals recalled and compared",
            f"{seen['recalled_same']} of {seen['recalled']} the same",
            0 < seen["recalled"] == seen["recalled_same"],
        ),
        Check("nothing_lost", "messages lost", f"{seen['lost']} of {seen['messages']}", in_order and seen["lost"] == 0),
        Check("valid", "faults in the lists sent", faults or f"none in {seen['sends']} sends", not faults),
        Check(
            "within_ceiling",
            "largest send, ceiling",
            f"{seen['largest_send']:,}, {seen['ceiling']:,}",
            seen["largest_send"] <= seen["ceiling"],
        ),
    )
