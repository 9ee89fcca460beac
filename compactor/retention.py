"""How much of what later turns need a way of shortening old tool results keeps, and at how many tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from compactor.extract import Source, extracts
from compactor.formats.openai import calls, text_of
from compactor.needles import Case, holds, is_labelled, plain, said
from compactor.tokens import Encode, count_text
from compactor.wording import wording_for
from compactor.words import known_values

CLEARED: Final = "[Old tool result content cleared]"
Shorten = Callable[[Case], Sequence[str]]  # the new texts of the old results, in order


@dataclass(frozen=True, slots=True)
class Figures:
    """Shares in percent; None where there was nothing of the kind."""

    left: float
    values: float | None
    labelled: float | None
    lines: float | None
    failures: float | None
    cases: int
    needles: int


def measure(found: Sequence[Case], shorten: Shorten, encode: Encode) -> Figures:
    """The figures of one way over all cases."""
    had, kept = Counter[str](), Counter[str]()
    before = after = 0
    for case in found:
        texts = shorten(case)
        before += sum(count_text(text_of(case.messages[index]), encode) for index in case.old)
        after += sum(count_text(text, encode) for text in texts)
        _look(case, plain(_rendered(case, texts)), had, kept)

    def share(name: str) -> float | None:
        return round(100 * kept[name] / had[name], 1) if had[name] else None

    left = round(100 * after / max(1, before), 1)
    return Figures(
        left, share("values"), share("labelled"), share("lines"), share("failures"), len(found), had["values"]
    )


def kept_of(case: Case, texts: Sequence[str]) -> tuple[int, int]:
    """How many values of a case the later turns used, and how many of them stand with these texts somewhere still."""
    had, kept = Counter[str](), Counter[str]()
    _look(case, plain(_rendered(case, texts)), had, kept)
    return had["values"], kept["values"]


def _look(case: Case, text: str, had: Counter[str], kept: Counter[str]) -> None:
    for value, needle in case.needles.items():
        if needle.restated:
            continue
        name = "lines" if needle.is_line else "values"
        is_kept = holds(text, value)
        had[name] += 1
        kept[name] += is_kept
        labels = case.labels.get(value)
        if labels:
            had["labelled"] += 1
            kept["labelled"] += is_kept and is_labelled(text, value, labels)
    for line in case.failures:
        had["failures"] += 1
        kept["failures"] += " ".join(line.split()) in " ".join(text.split())


def _rendered(case: Case, texts: Sequence[str]) -> str:
    new = dict(zip(case.old, texts, strict=True))
    return "\n".join(
        said(message) if index not in new else f"{new[index]}\n" for index, message in enumerate(case.messages)
    )


def old_texts(case: Case) -> list[str]:
    """The old results of a case."""
    return [text_of(case.messages[index]) for index in case.old]


def kept_values(case: Case) -> frozenset[str]:
    """The values of what stays."""
    old = set(case.old)
    staying: Iterable[Mapping[str, Any]] = (m for i, m in enumerate(case.messages) if i not in old)
    return known_values(
        text for message in staying for text in (text_of(message), *(call.arguments for call in calls(message)))
    )


def by_extracts(share: float, encode: Encode) -> Shorten:
    """Our extracts at a share of the tokens, bodies alone; the results of a case share them."""

    def shorten(case: Case) -> Sequence[str]:
        texts = old_texts(case)
        total = int(share * sum(count_text(text, encode) for text in texts))
        sources = [Source(text, max(1, total), wording_for(text)) for text in texts]
        return extracts(sources, total=total, encode=encode, known=kept_values(case))

    return shorten


def by_placeholder(case: Case) -> Sequence[str]:
    """Every old result cleared."""
    return [CLEARED] * len(case.old)


def by_last(count: int, keep_recent: int = 1) -> Shorten:
    """The last results kept whole, the newest ones that are no part of the old included."""

    def shorten(case: Case) -> Sequence[str]:
        texts = old_texts(case)
        first = max(0, len(texts) - max(0, count - keep_recent))
        return [CLEARED] * first + texts[first:]

    return shorten


def by_head_and_tail(tokens: int, encode: Encode) -> Shorten:
    """The first and last characters of each result, about so many tokens."""

    def cut(text: str) -> str:
        whole = count_text(text, encode)
        if whole <= tokens:
            return text
        half = len(text) * tokens // whole // 2
        return f"{text[:half]}\n...[{whole - tokens} tokens omitted]...\n{text[len(text) - half :]}"

    return lambda case: [cut(text) for text in old_texts(case)]


def by_oracle(case: Case) -> Sequence[str]:
    """What nobody can do: the needles themselves, and nothing else, in the newest result that holds them."""
    texts = [plain(text) for text in old_texts(case)]
    told: list[list[str]] = [[] for _ in texts]
    for value in case.needles:
        for place in reversed(range(len(texts))):
            if holds(texts[place], value):
                told[place].append(value)
                break
    return [" ".join(values) or "-" for values in told]
