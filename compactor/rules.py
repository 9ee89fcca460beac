"""Rules: what compactions may do with the results of a tool, chosen by its name and its arguments.

`*` and `?` are the only signs with a meaning in a pattern, and case has none. Several rules may match
one call: each question (how it is shortened, how many stay, ...) is answered by the first that says
something about it, the operator's before the bot's, and ours last.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import orjson

from compactor.exceptions import ConfigurationError
from compactor.json_values import is_array, is_object

MOST_RULES: Final = 64
MOST_BYTES: Final = 8_192  # of all rules as JSON: they are stored with every session they judge
MOST_KEPT: Final = 1_000  # results
_LONGEST: Final = 200  # characters of a pattern
_MOST_ARGUMENTS: Final = 8  # patterns of one rule
_MOST_VALUES: Final = 2_000  # of one call that are looked at
_HOW: Final = ("never", "extract", "summarize")


class How(StrEnum):
    """How a result may be shortened; FREELY is every way there is."""

    FREELY = "freely"
    NEVER = "never"
    EXTRACT = "extract"
    SUMMARIZE = "summarize"


def _check_pattern(place: str, pattern: Any) -> None:
    text = pattern if isinstance(pattern, str) else ""
    if not 0 < len(text) <= _LONGEST or text.encode("utf-8", "replace").decode() != text:
        raise ConfigurationError(
            f"{place}: expected a pattern of 1-{_LONGEST} characters with * and ?, for example 'read_*'."
        )


@dataclass(frozen=True, slots=True)
class Rule:
    """What holds for the results of calls that match; a rule says at least one thing.

    `tool` and `arguments` (by argument name, at any depth; `*` is any name) are patterns, and all must
    match. `never`: no compaction replaces the result. `extract`: no model sees it. `summarize`: no
    condensed form; before a wider `never` or `extract` it makes the exception. `keep_errors`: its
    lines that tell of a failure stay whole. `keep_last`: the newest so many results of the tool stay.
    `repeatable`: an older answer to the same call is worth no more than a pointer to the newer one.
    Raises ConfigurationError.
    """

    tool: str = "*"
    arguments: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    never: bool = False
    extract: bool = False
    summarize: bool = False
    keep_errors: bool = False
    keep_last: int | None = None
    repeatable: bool = False

    def __post_init__(self) -> None:
        _check_pattern("tool", self.tool)
        if not is_object(self.arguments) or len(self.arguments) > _MOST_ARGUMENTS:
            raise ConfigurationError(
                f"arguments: expected at most {_MOST_ARGUMENTS} patterns by argument name, "
                'for example {"path": "*.md"}.'
            )
        for name, pattern in self.arguments.items():
            _check_pattern("arguments", name)
            _check_pattern("arguments", pattern)
        object.__setattr__(self, "arguments", dict(self.arguments))
        for name in (*_HOW, "keep_errors", "repeatable"):
            if not isinstance(getattr(self, name), bool):
                raise ConfigurationError(f"{name}: expected true or false.")
        self._check_what_it_says()

    def _check_what_it_says(self) -> None:
        kept = self.keep_last
        if kept is not None and (not isinstance(kept, int) or isinstance(kept, bool) or not 0 <= kept <= MOST_KEPT):
            raise ConfigurationError(f"keep_last: expected a whole number of results from 0 to {MOST_KEPT:,}.")
        if sum(getattr(self, name) for name in _HOW) > 1:
            raise ConfigurationError(f"{', '.join(_HOW)}: exclude each other; expected one of them.")
        if self.how is None and not self.keep_errors and kept is None and not self.repeatable:
            raise ConfigurationError(
                "says nothing; expected at least one of never, extract, summarize, keep_errors, keep_last, repeatable."
            )

    @property
    def how(self) -> How | None:
        """How results may be shortened; None when the rule says nothing about it."""
        return next((How(name) for name in _HOW if getattr(self, name)), None)

    def as_json(self) -> dict[str, Any]:
        """The rule without what is left at its default."""
        return {name: value for name, value in asdict(self).items() if value is not False and value not in (None, {})}


@dataclass(frozen=True, slots=True)
class Treatment:
    """What all matching rules say about one result; `keeper` is the order of the rule that keeps the newest."""

    how: How = How.FREELY
    keep_errors: bool = False
    keep_last: int = 0
    keeper: int = -1
    repeatable: bool = False


FREE: Final = Treatment()


def joined(treatments: Sequence[Treatment]) -> Treatment:
    """What holds for a text made from several results: no model sees it if none may see one of them."""
    how = How.EXTRACT if any(one.how is How.EXTRACT for one in treatments) else How.FREELY
    return Treatment(how, keep_errors=any(one.keep_errors for one in treatments))


# Instructions that an agent read, with whatever tool: without them it goes on as if it had never been told.
DEFAULT_RULES: Final = (
    *(Rule(arguments={"*": f"*{name}"}, never=True) for name in ("AGENTS.md", "CLAUDE.md", "SKILL.md")),
    *(Rule(tool, never=True) for tool in ("skill", "*load_skill*", "*loadskill*", "*read_skill*", "*use_skill*")),
)


class _Called:
    """A call; its arguments are read when the first rule asks for them."""

    def __init__(self, tool: str, arguments: str) -> None:
        self.tool, self._arguments = tool, arguments
        self._values: list[tuple[str, str]] | None = None

    @property
    def values(self) -> list[tuple[str, str]]:
        if self._values is None:
            try:
                whole: Any = orjson.loads(self._arguments)
            except ValueError:  # free text, as custom tools take it
                whole = self._arguments
            self._values = [value for value, _ in zip(_values(whole), range(_MOST_VALUES), strict=False)]
        return self._values


def _values(whole: Any) -> Iterator[tuple[str, str]]:
    """Every plain value with the name it stands under, the outer ones first."""
    level: list[tuple[str, Any]] = [("", whole)]
    while level:
        inner: list[tuple[str, Any]] = []
        for name, value in level:
            if is_object(value):
                inner += [(str(key), item) for key, item in value.items()]
            elif is_array(value):
                inner += [(name, item) for item in value]
            else:
                yield name, value if isinstance(value, str) else orjson.dumps(value).decode()
        level = inner


class _Matcher:
    """One rule's patterns, compiled."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self._tool = None if rule.tool == "*" else _compiled(rule.tool)
        self._arguments = [
            (None if name == "*" else _compiled(name), _compiled(text)) for name, text in rule.arguments.items()
        ]
        literals = [part for text in rule.arguments.values() for part in re.split(r"[^a-z0-9._]+", text.lower())]
        self._literal = max(literals, key=len, default="")

    def may_match(self, tool: str, low: str) -> bool:
        """Whether a call may match; for most calls no arguments need to be read to see that they do not."""
        return (self._literal in low or "\\u" in low) and (self._tool is None or self._tool.match(tool) is not None)

    def matches(self, call: _Called) -> bool:
        return all(
            any((name is None or name.match(given)) and pattern.match(value) for given, value in call.values)
            for name, pattern in self._arguments
        )


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern.replace("[", "[[]")), re.IGNORECASE)


class Rules:
    """Rules in the order they are asked; ours come last."""

    def __init__(self, rules: Sequence[Rule] = ()) -> None:
        self.given = tuple(rules)
        self._matchers = [_Matcher(rule) for rule in (*rules, *DEFAULT_RULES)]
        self.any_repeatable = any(rule.repeatable for rule in rules)
        self.any_keep_errors = any(rule.keep_errors for rule in rules)

    def treatment(self, tool: str, arguments: str) -> Treatment:
        """What holds for a result of this call; `arguments` is its JSON, or any text."""
        low = arguments.lower()
        call = _Called(tool, arguments)
        found = [
            (order, m.rule) for order, m in enumerate(self._matchers) if m.may_match(tool, low) and m.matches(call)
        ]
        if not found:
            return FREE
        keeper, kept = next(((order, rule.keep_last) for order, rule in found if rule.keep_last is not None), (-1, 0))
        return Treatment(
            how=next((rule.how for _, rule in found if rule.how is not None), How.FREELY),
            keep_errors=any(rule.keep_errors for _, rule in found),
            keep_last=kept,
            keeper=keeper,
            repeatable=any(rule.repeatable for _, rule in found),
        )


@lru_cache(maxsize=256)
def rules_of(rules: tuple[Rule, ...]) -> Rules:
    """The rules made ready; the same ones are made ready once."""
    return Rules(rules)


STANDARD: Final = Rules()


def check_rules(given: Any) -> tuple[Rule, ...]:
    """Rules out of `Rule`s or mappings of their fields. Raises ConfigurationError, which names the rule."""
    if not is_array(given) or len(given) > MOST_RULES:
        raise ConfigurationError(
            f"rules: expected a list of at most {MOST_RULES} rules, for example "
            '[{"tool": "read_file", "arguments": {"path": "*.md"}, "never": true}].'
        )
    rules = tuple(_checked(order, rule) for order, rule in enumerate(given))
    size = len(orjson.dumps([rule.as_json() for rule in rules]))
    if size > MOST_BYTES:
        raise ConfigurationError(f"rules: {size} bytes as JSON, expected at most {MOST_BYTES}. Use wider patterns.")
    return rules


def _checked(order: int, rule: Any) -> Rule:
    if isinstance(rule, Rule):
        return rule
    if not is_object(rule):
        raise ConfigurationError(f"rules[{order}]: expected a Rule, or an object with its fields.")
    if unknown := [name for name in rule if name not in _FIELDS]:
        shown = unknown[0] if isinstance(unknown[0], str) and unknown[0].isidentifier() else "(a field)"
        raise ConfigurationError(f"rules[{order}].{shown[:40]}: is no field of a rule; known are {', '.join(_FIELDS)}.")
    try:
        return Rule(**rule)
    except ConfigurationError as error:
        raise ConfigurationError(f"rules[{order}].{error}") from None


_FIELDS: Final = tuple(each.name for each in fields(Rule))


def stored_rules(kept: Any) -> tuple[Rule, ...]:
    """Rules as a session keeps them; what a newer release says beside them is not understood, and left out."""
    rules: list[Rule] = []
    for rule in kept if is_array(kept) else ():
        try:
            rules.append(Rule(**{name: rule[name] for name in _FIELDS if name in rule}))
        except (ConfigurationError, TypeError):  # says only what this release does not know
            continue
    return tuple(rules)
