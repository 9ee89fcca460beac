"""Real tools for the demo's agent: they read the Python packages and standard library of this machine.

Nothing is written, nothing outside those two places is read, and every answer has a size limit, as
tools of real agents have.
"""

from __future__ import annotations

import json
import re
import sysconfig
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import Any, Final

STDLIB: Final = "stdlib"
MAX_LINES: Final = 45
MAX_LINE: Final = 160  # characters
MAX_CHARACTERS: Final = 3_600
_LARGEST_FILE: Final = 400_000  # bytes


def list_packages(first: int = 0, count: int = 20) -> str:
    """Installed packages by name, a page at a time."""
    found = sorted(_installed().items())
    page = [
        {"name": name, "version": package.version, "summary": _first(package, "Summary")}
        for name, package in found[first : first + count]
    ]
    return _limited(json.dumps({"total": len(found), "first": first, "packages": page}, ensure_ascii=False, indent=1))


def package_metadata(name: str) -> str:
    """What a package says about itself."""
    package = _installed().get(_plain(name))
    if package is None:
        return f"error: no package named {name} is installed"
    files = package.files or []
    entry_points = [f"{point.group}: {point.name} = {point.value}" for point in package.entry_points]
    described = {
        "name": _first(package, "Name"),
        "version": package.version,
        "summary": _first(package, "Summary"),
        "license": _first(package, "License-Expression") or _first(package, "License")[:80],
        "requires_python": _first(package, "Requires-Python"),
        "requires": package.requires or [],
        "project_urls": package.metadata.get_all("Project-URL") or [],
        "entry_points": entry_points,
        "files": len(files),
    }
    return _limited(json.dumps(described, ensure_ascii=False, indent=1))


def list_files(package: str) -> str:
    """The source files of a package or of the standard library, with their sizes in bytes."""
    lines = [f"{path.stat().st_size:>8} {name}" for name, path in _sources(package)]
    return _lines(lines, f"error: no source files of {package} were found")


def grep(pattern: str, package: str) -> str:
    """Lines of a package's source that match a regular expression."""
    wanted = re.compile(pattern)
    found: list[str] = []
    for name, path in _sources(package):
        for number, line in enumerate(_text(path).splitlines(), start=1):
            if wanted.search(line):
                found.append(f"{name}:{number}: {line.strip()[:MAX_LINE]}")
    return _lines(found, f"no line of {package} matches {pattern}")


def read_source(package: str, path: str, first: int = 1, count: int = MAX_LINES) -> str:
    """Numbered lines of one source file."""
    found = dict(_sources(package)).get(path)
    if found is None:
        return f"error: {package} has no source file {path}"
    lines = _text(found).splitlines()[max(0, first - 1) : first - 1 + count]
    return _lines(
        [f"{number:>5} {line[:MAX_LINE]}" for number, line in enumerate(lines, start=first)],
        f"error: {path} has no line {first}",
    )


TOOLS: Final[dict[str, Callable[..., str]]] = {
    tool.__name__: tool for tool in (list_packages, package_metadata, list_files, grep, read_source)
}
_PARAMETERS: Final[dict[str, dict[str, str]]] = {
    "list_packages": {"first": "integer", "count": "integer"},
    "package_metadata": {"name": "string"},
    "list_files": {"package": "string"},
    "grep": {"pattern": "string", "package": "string"},
    "read_source": {"package": "string", "path": "string", "first": "integer", "count": "integer"},
    "recall": {"id": "string"},
}


def schemas() -> list[dict[str, Any]]:
    """The tools as a model is told of them."""
    described = {name: (tool.__doc__ or "").strip() for name, tool in TOOLS.items()}
    described["recall"] = "The original of a shortened tool output, by the id in its header."
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": text,
                "parameters": {
                    "type": "object",
                    "properties": {key: {"type": kind} for key, kind in _PARAMETERS[name].items()},
                },
            },
        }
        for name, text in described.items()
    ]


def _installed() -> dict[str, metadata.Distribution]:
    found: dict[str, metadata.Distribution] = {}
    for package in metadata.distributions():
        if name := _first(package, "Name"):
            found.setdefault(_plain(name), package)
    return found


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _first(package: metadata.Distribution, key: str) -> str:
    values = package.metadata.get_all(key)
    return str(values[0]) if values else ""


def _sources(package: str) -> Iterator[tuple[str, Path]]:
    if package == STDLIB:
        root = Path(sysconfig.get_path("stdlib"))
        paths = [*root.glob("*.py"), *root.glob("asyncio/*.py"), *root.glob("concurrent/futures/*.py")]
        listed = [(path.relative_to(root).as_posix(), path) for path in paths]
    else:
        found = _installed().get(_plain(package))
        files = (found.files or []) if found is not None else []
        listed = [(PurePosixPath(file).as_posix(), Path(str(file.locate()))) for file in files if file.suffix == ".py"]
    for name, path in sorted(listed):
        if path.is_file() and path.stat().st_size <= _LARGEST_FILE:
            yield name, path


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _lines(lines: list[str], otherwise: str) -> str:
    if not lines:
        return otherwise
    more = len(lines) - MAX_LINES
    shown = lines[:MAX_LINES] if more > 0 else lines
    return _limited("\n".join(shown) + (f"\n({more} more lines)" if more > 0 else ""))


def _limited(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n(cut at {MAX_CHARACTERS} of {len(text)} characters)"
