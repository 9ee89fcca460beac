"""`compactor replay FILE...`: recorded sessions pushed as an agent would, with the promises checked."""

from __future__ import annotations

import re
import secrets
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from compactor.archive import decompress
from compactor.cli.app import app
from compactor.cli.backend import backend
from compactor.cli.console import Json, print_json, stderr, stdout
from compactor.cli.recordings import Recording, read_recordings
from compactor.client import Compactor, Session
from compactor.commands.command import session_keys
from compactor.commands.read import read_history
from compactor.model_config import ModelConfig
from compactor.models import Code, Context, Fit, session_id
from compactor.records import unpack, write_json
from compactor.settings import Settings
from compactor.store import Store
from compactor.validity import faults

KEPT_ROLES = ("system", "developer", "user")
FINAL_WAIT = 60.0  # seconds for the last compaction of a session
SESSION_TTL = 3_600.0  # seconds; a replay leaves nothing behind for longer


@dataclass(slots=True)
class Played:
    """What one session showed; `lost`, `invalid` and `changed` must be 0."""

    id: str
    messages: int = 0
    prepares: int = 0
    shortened: int = 0
    impossible: int = 0
    compactions: int = 0
    outcome: str = ""
    reason: str = ""
    max_estimate: int = 0
    final_tokens: int = 0
    threshold: int = 0
    tokens_saved: int = 0
    lost: int = 0
    invalid: int = 0
    changed: int = 0


@dataclass(slots=True)
class _Player:
    """Plays one recording against a session, and keeps what it pushed to compare with."""

    session: Session
    recording: Recording
    played: Played
    pushed: list[Any] = field(default_factory=list[Any])
    texts: list[bytes] = field(default_factory=list[bytes])
    kept: Counter[bytes] = field(default_factory=Counter[bytes])

    def play(self) -> None:
        """Pushes message by message, with a send before every assistant message and one at the end."""
        for message in self.recording.messages:
            if message.get("role") == "assistant" and self.pushed:
                self._check(self._send())
            self._push(message)
        outcome = self.session.compact(wait=FINAL_WAIT)
        self.played.outcome, self.played.reason = outcome.outcome.value, outcome.reason
        last = self.session.prepare(tools=self.recording.tools)
        self._check(last)
        self.played.final_tokens, self.played.threshold = last.verdict.expected, last.verdict.threshold
        applied = [run for run in self.session.compactions() if run.outcome is Code.APPLIED]
        self.played.compactions = len(applied)
        self.played.tokens_saved = sum(run.saved for run in applied)

    def _push(self, message: Any) -> None:
        self.session.push(message)
        self.pushed.append(message)
        self.texts.append(write_json(message)[0])
        if message.get("role") in KEPT_ROLES:
            self.kept[self.texts[-1]] += 1
        self.played.messages += 1

    def _send(self) -> Context:
        context = self.session.prepare(tools=self.recording.tools)
        self.played.prepares += 1
        self.played.shortened += context.verdict.fit in (Fit.SHORTENED, Fit.IMPOSSIBLE)
        self.played.impossible += context.verdict.fit is Fit.IMPOSSIBLE
        return context

    def _check(self, context: Context) -> None:
        """Compares a prepared list with what was pushed."""
        self.played.max_estimate = max(self.played.max_estimate, context.verdict.expected)
        found = faults(context.messages)
        added = bool(found) and bool(found - faults(self.pushed))
        self.played.invalid += added or context.messages[-1].get("role") != self.pushed[-1].get("role")
        shown = Counter(write_json(m)[0] for m in context.messages if m.get("role") in KEPT_ROLES)
        self.played.changed += sum(max(0, count - self.kept[text]) for text, count in shown.items())

    def check_store(self, store: Store, settings: Settings, name: str) -> None:
        """Compares what is stored, live and archived, with what was pushed, byte for byte."""
        stored = store.run(read_history(session_keys(settings.namespace, session_id(name)), archive=True))
        self.played.lost += abs(len(stored.records) - len(self.texts))
        rows = zip(stored.records, self.texts, self.pushed, strict=False)
        for position, (record, text, message) in enumerate(rows, start=stored.state.offset):
            blob = stored.archive.get(position)
            original = unpack(decompress(blob)).text if blob is not None and record.kind else record.text
            self.played.lost += original != text
            self.played.changed += message.get("role") in KEPT_ROLES and record.text != text


def play(memory: Compactor, store: Store, config: ModelConfig, recording: Recording) -> Played:
    """Plays one recording in a session of its own."""
    name = f"replay/{re.sub(r'[^A-Za-z0-9._-]', '_', recording.id)[:120]}-{secrets.token_hex(4)}"
    player = _Player(memory.session(name, config), recording, Played(recording.id))
    player.play()
    player.check_store(store, memory.settings, name)
    return player.played


@app.command()
def replay(
    files: Annotated[list[Path], typer.Argument(help="Recorded sessions: .jsonl, .jsonl.gz, or a JSON message list.")],
    limit: Annotated[int, typer.Option(help="Context limit in K tokens.")] = 16,
    strategy: Annotated[str, typer.Option(help="conservative, balanced or aggressive.")] = "balanced",
    concurrency: Annotated[int, typer.Option(min=1, help="Sessions played at the same time.")] = 4,
    model: Annotated[str, typer.Option(help="Model name; it decides the token encoding.")] = "gpt-4o",
    json: Json = False,
) -> None:
    """Replays recorded sessions, and checks that nothing is lost, invalid or changed.

    Runs on REDIS_URL and its worker when set, else on embedded ones. Exits with 1 when a promise broke.
    """
    config = ModelConfig(model, limit, strategy)
    recordings = list(read_recordings(files))
    with (
        backend() as settings,
        Store(settings) as store,
        Compactor(settings=settings.model_copy(update={"session_ttl": SESSION_TTL})) as memory,
    ):
        played: list[Played] = []
        with _progress(len(recordings), quiet=json) as progress, ThreadPoolExecutor(concurrency) as pool:
            for result in pool.map(partial(play, memory, store, config), recordings):
                played.append(result)
                progress()
                if json:
                    print_json(asdict(result))
    total = _total(played)
    print_json({"total": total}) if json else _table(played, total)
    raise typer.Exit(1 if total["lost"] or total["invalid"] or total["changed"] else 0)


@contextmanager
def _progress(count: int, *, quiet: bool) -> Generator[Any]:
    columns = (TextColumn("replaying"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=stderr, disable=quiet or not stderr.is_terminal) as bar:
        task = bar.add_task("sessions", total=count)
        yield lambda: bar.advance(task)


_SUMS = ("messages", "prepares", "shortened", "impossible", "compactions", "tokens_saved", "lost", "invalid", "changed")
_COLUMNS = (
    "session",
    "messages",
    "sends",
    "in the view",
    "compactions",
    "outcome",
    "saved",
    "lost",
    "invalid",
    "changed",
)


def _total(played: Sequence[Played]) -> dict[str, Any]:
    sums: dict[str, Any] = {name: sum(getattr(row, name) for row in played) for name in _SUMS}
    return {"sessions": len(played), **sums, "outcomes": dict(Counter(row.outcome for row in played).most_common())}


def _table(played: Sequence[Played], total: dict[str, Any]) -> None:
    table = Table(*_COLUMNS)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in played:
        table.add_row(
            row.id, f"{row.messages}", f"{row.prepares}", f"{row.shortened}", f"{row.compactions}", row.outcome,
            f"{row.tokens_saved:,}", f"{row.lost}", f"{row.invalid}", f"{row.changed}",
        )  # fmt: skip
    stdout.print(table)
    share = 100 * total["shortened"] / max(1, total["prepares"])
    stdout.print(
        f"{total['sessions']} sessions, {total['messages']:,} messages, {total['prepares']:,} sends, "
        f"{share:.0f} % in the view; {total['compactions']} compactions saved {total['tokens_saved']:,} tokens. "
        f"Lost {total['lost']}, invalid {total['invalid']}, changed {total['changed']}."
    )
