"""`compactor bench peers`: what others' packages cost for the same work, each in an environment of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Final

import typer

from compactor.cli.bench import bench_app
from compactor.cli.bench_ground import ENCODING, Ground, ground, texts
from compactor.cli.bench_ratio import Ratio, at_least, show, timed
from compactor.cli.console import Json, print_json, stderr
from compactor.encodings import vocabulary
from compactor.exceptions import ConfigurationError

PACKAGES: Final = ("tiktoken", "langchain-core", "langchain-redis", "litellm", "openai-agents[redis]")
_CACHED: Final = "fb374d419588a4632f3f557e76b4b70aebbca790"  # sha1 of the address from which tiktoken loads o200k_base
_MESSAGES: Final = 1_000
_MOST: Final = 60_000  # tokens that trim_messages has to come down to
_NEW: Final = 5


@dataclass(frozen=True, slots=True)
class Rival:
    """A task of the other process, what of ours does the same, and how many times cheaper ours is to be.

    `least` 0: a figure without a goal.
    """

    task: str
    name: str
    least: float


_RIVALS: Final = (
    Rival("tiktoken_recount", "tiktoken recount / estimate", 200),
    Rival("trim_messages", "LangChain trim_messages over budget, tiktoken counter / estimate", 1_000),
    Rival("count_tokens_approximately", "LangChain count_tokens_approximately / estimate", 0),
    Rival("litellm_token_counter", "litellm token_counter / estimate", 0),
    Rival("agents_push", "openai-agents RedisSession, 2 KB added / push", 3),
    Rival("langchain_redis_push", "langchain-redis, 2 KB added (uncounted) / push", 1),
    Rival("langchain_redis_messages", "langchain-redis .messages / prepare with 5 new messages", 100),
)


@bench_app.command()
def peers(
    folder: Annotated[
        Path | None, typer.Option(help="Where their environment is made, or stands already; a temporary one else.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=3, help="Interleaved rounds of each pair.")] = 15,
    json: Json = False,
) -> None:
    """Installs the peers' packages into an environment of their own and measures them and us by turns.

    1,000 messages of 120K tokens. Needs a package index; takes a few minutes the first time. Exits
    with 1 when a goal is missed; a peer that does not run on this server is told and left out.
    """
    with tempfile.TemporaryDirectory(prefix="compactor-peers-") as made:
        python = _environment(folder or Path(made) / "venv")
        vocabularies = Path(made) / "vocabularies"
        vocabularies.mkdir()
        (vocabularies / _CACHED).write_bytes(vocabulary(ENCODING))
        with ground(rounds) as stage:
            found = _measured(stage, python, {**os.environ, "TIKTOKEN_CACHE_DIR": str(vocabularies)})
    if json:
        for ratio in found:
            print_json(asdict(ratio))
    else:
        show(found)
    raise typer.Exit(0 if all(ratio.met for ratio in found) else 1)


def _environment(folder: Path) -> Path:
    """The Python of an environment with the peers in it, made when there is none. Raises ConfigurationError."""
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    if not python.exists():
        stderr.print(f"installing {', '.join(PACKAGES)}")
        venv.create(folder, with_pip=True)
        done = subprocess.run(
            [python, "-m", "pip", "install", "--quiet", *PACKAGES], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise ConfigurationError(f"peers: cannot be installed. pip says: {done.stderr.strip()[-500:]}")
    return python


def _measured(ground: Ground, python: Path, env: Mapping[str, str]) -> list[Ratio]:
    messages = texts(_MESSAGES, tokens=120)
    ours = _ours(ground, messages)
    large = str(texts(1, tokens=450)[0]["content"])
    given = {
        "redis_url": ground.settings.redis_url.get_secret_value(), "namespace": ground.settings.namespace,
        "messages": messages, "large": large, "most": _MOST,
    }  # fmt: skip
    found: list[Ratio] = []
    with _process(python, given, env) as ask:
        for rival in _RIVALS:
            pairs = [(ours[rival.task](), ask(rival.task)) for _ in range(ground.rounds + 1)][1:]
            errors = {str(theirs["error"]) for _, theirs in pairs if "error" in theirs}
            if errors:
                stderr.print(f"{rival.name}: does not run here ({errors.pop()})", markup=False)
                continue
            timings = [(own, float(theirs["seconds"])) for own, theirs in pairs]
            found.append(at_least(rival.name, timings, rival.least))
    return found


def _ours(ground: Ground, messages: Sequence[dict[str, Any]]) -> dict[str, Callable[[], float]]:
    """For each task of theirs what of ours does the same work, in seconds."""
    session = ground.session(messages)
    session.prepare()
    pushed = iter(texts(10_000, tokens=450))

    def estimate() -> float:
        return median(timed(session.estimate) for _ in range(9))

    def push() -> float:
        message = next(pushed)
        return timed(lambda: session.push(message))

    def prepare() -> float:
        session.push([{"role": "user", "content": f"And number {order}?"} for order in range(_NEW)])
        return timed(session.prepare)

    special = {"agents_push": push, "langchain_redis_push": push, "langchain_redis_messages": prepare}
    return {rival.task: special.get(rival.task, estimate) for rival in _RIVALS}


@contextmanager
def _process(python: Path, given: dict[str, Any], env: Mapping[str, str]) -> Generator[Callable[[str], dict[str, Any]]]:
    """The other process; asked for a task it answers how long that took."""
    script = files("compactor.cli").joinpath("bench_peer_process.py").read_text(encoding="utf-8")
    with subprocess.Popen(
        [python, "-I", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def tell(line: str) -> None:
            stdin.write(f"{line}\n")
            stdin.flush()

        def ask(task: str) -> dict[str, Any]:
            tell(task)
            return dict(json.loads(stdout.readline()))

        tell(json.dumps(given))
        yield ask
        stdin.close()
