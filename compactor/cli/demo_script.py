"""What the demo's agent does: turns of a user's question, tool calls that follow from results, an answer.

A script yields steps, gets the texts of their results back, and returns the answer. No model is
asked: the decisions are written here, everything they are made from is real.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from compactor.cli.demo_tools import STDLIB

SYSTEM: Final = (
    "You audit the Python installation of this machine. Look before you answer: use the tools, quote names, versions "
    "and line numbers exactly, and say what you did not find."
)
_SIZE_AND_NAME: Final = re.compile(r"^\s*(\d+) (\S+)$", re.MULTILINE)
_HIT: Final = re.compile(r"^(\S+?):(\d+): ", re.MULTILINE)
_VARIABLE: Final = re.compile(r"environ(?:\.get\(|\[|\.setdefault\()\s*['\"](\w+)")


@dataclass(frozen=True, slots=True)
class Step:
    """One assistant message: what it says, and its tool calls."""

    thought: str
    calls: tuple[tuple[str, dict[str, Any]], ...]


Script = Generator[Step, list[str], str]


def turns() -> Iterator[tuple[str, Script]]:
    """Questions and scripts, more than any context holds; the last kind repeats without end."""
    yield (
        "Which packages are installed, and under which licences do celery and what it needs come?",
        _licences("celery"),
    )
    for package in ("celery", "kombu", "redis"):
        yield f"Which environment variables does {package} read, and where?", _variables(package)
    yield "Where does the standard library start processes, and what are its own timeouts?", _processes()
    for number in range(10_000):
        yield "Go on with the standard library: what does the next large module define?", _module(number)


def look_back(question_about: str, recall_id: str) -> tuple[str, Script]:
    """The closing turn: the exact words of an output that the context no longer holds."""
    return f"Early on you called {question_about}. What exactly did it say? Quote it, do not guess.", _recall(recall_id)


def _licences(name: str) -> Script:
    (listed,) = yield Step("I begin with the list of packages.", (("list_packages", {"first": 0, "count": 20}),))
    (described,) = yield Step(f"Now {name} itself.", (("package_metadata", {"name": name}),))
    needed = _names(described)
    licences = {name: _licence(described)}
    while batch := needed[:2]:
        needed = needed[2:]
        results = yield Step(
            f"{' and '.join(batch)}: needed by {name}.", tuple(("package_metadata", {"name": each}) for each in batch)
        )
        licences |= dict(zip(batch, map(_licence, results), strict=True))
    total = re.search(r'"total": (\d+)', listed)
    told = ", ".join(f"{each}: {licence}" for each, licence in licences.items())
    return f"{total[1] if total else 'Some'} packages are installed. Licences: {told}."


def _names(described: str) -> list[str]:
    """Names in a package's `requires` that need no extra, at most eight."""
    try:
        requires: list[str] = json.loads(described)["requires"]
    except (ValueError, KeyError):
        return []
    plain = [match[0] for line in requires if "extra ==" not in line and (match := re.match(r"[\w.-]+", line))]
    return plain[:8]


def _licence(described: str) -> str:
    found = re.search(r'"license": "([^"]*)"', described)
    return (found[1] if found else "") or "none stated"


def _variables(package: str) -> Script:
    search = ("grep", {"pattern": r"environ\b", "package": package})
    (hits,) = yield Step(f"I search {package} for environ.", (search,))
    for path, line in islice(_places(hits), 3):
        first = max(1, int(line) - 15)
        yield Step(
            f"Line {line} of {path}, with what stands around it.",
            (("read_source", {"package": package, "path": path, "first": first, "count": 40}),),
        )
    (again,) = yield Step("Once more, to quote the lines exactly.", (search,))
    names = sorted(set(_VARIABLE.findall(again)))
    lines = len(_HIT.findall(again))
    return f"{package} mentions environ on {lines} lines shown; by name it reads {', '.join(names) or 'none'}."


def _places(hits: str) -> Iterator[tuple[str, str]]:
    """The first hit of each file."""
    seen: set[str] = set()
    for path, line in _HIT.findall(hits):
        if path not in seen:
            seen.add(path)
            yield path, line


def _processes() -> Script:
    (starts,) = yield Step(
        "First the calls that start something.",
        (("grep", {"pattern": r"\bPopen\(|fork_exec\(|os\.fork\(", "package": STDLIB}),),
    )
    (limits,) = yield Step("Then the timeouts.", (("grep", {"pattern": r"timeout\s*=\s*[\d_]", "package": STDLIB}),))
    for path, line in islice(_places(starts), 4):
        yield Step(
            f"{path} starts one at line {line}.",
            (("read_source", {"package": STDLIB, "path": path, "first": max(1, int(line) - 20), "count": 45}),),
        )
    files = ", ".join(sorted({path for path, _ in _places(starts)}))
    return f"Processes are started in {files or 'no file'}; {len(_HIT.findall(limits))} default timeouts are set."


def _module(number: int) -> Script:
    (listed,) = yield Step("Which modules are there, and how large?", (("list_files", {"package": STDLIB}),))
    found = sorted(((int(size), name) for size, name in _SIZE_AND_NAME.findall(listed)), reverse=True)
    if not found:
        return "The standard library has no source files here."
    size, path = found[number % len(found)]
    defined = 0
    for first in range(1, 200, 40):
        (text,) = yield Step(
            f"{path} from line {first} on.",
            (("read_source", {"package": STDLIB, "path": path, "first": first, "count": 40}),),
        )
        defined += len(re.findall(r"^\s*\d+ (?:class|def) ", text, re.MULTILINE))
    return f"{path} has {size} bytes; its first 200 lines define {defined} classes and functions."


def _recall(recall_id: str) -> Script:
    (text,) = yield Step(
        f"My context holds a shortened form of it; the original is {recall_id}.", (("recall", {"id": recall_id}),)
    )
    return f"The original has {len(text.splitlines())} lines and {len(text)} characters; it ends: {text[-60:].strip()}"
